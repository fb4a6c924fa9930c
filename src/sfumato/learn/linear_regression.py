"""Linear regression by noisy sums of products, with confidence intervals for the noise."""

import numpy as np

from sfumato.learn.calibration import Stage
from sfumato.learn.first_stage import centre_stage, measure_centre, measure_radius, radius_stage
from sfumato.learn.model import FitState, Model, StageNoise, Target, parse_share, to_json_numbers
from sfumato.learn.normals import normals
from sfumato.learn.rows import UNIT_STEPS, Ball, Sums
from sfumato.learn.sensitivities import of_products
from sfumato.learn.table_metadata import Floats, TableMetadata, inverse

_CONSTANT_VALUE = UNIT_STEPS // 2
_REDRAWN_FITS, _MAX_DRAWN_NUMBERS = 200, 1 << 20
"""Number of redrawn fits, fewer if they would need more random numbers than this."""
_NORMAL_95 = 1.959964


class LinearRegression(Model):
    """Least squares on Σzz', z = (x, constant, y) shrunk together to a released radius.

    Theorem: every entry (i, j) and (j, i) of Σzz' with a noise of its own, their mean, and all that follows from it is
    (epsilon, delta)-DP.  Proof: proofs/learn_linear.md
    """

    _target = Target.NUMBER
    _estimator_type = "regressor"  # what scikit-learn before 1.6 looks at
    coef_: Floats
    intercept_: float
    coef_intervals_: Floats

    def __init__(
        self,
        *,
        epsilon: object,
        delta: object,
        bounds: object = None,
        bounds_y: object = None,
        neighbours: object = "add-remove",
        rows_per_person: object = 1,
    ) -> None:
        super().__init__(
            epsilon=epsilon, delta=delta, bounds=bounds, neighbours=neighbours, rows_per_person=rows_per_person
        )
        self.bounds_y = bounds_y

    def _stages(self, metadata: TableMetadata) -> tuple[Stage, ...]:
        return (
            centre_stage(metadata, parse_share("0.1")),
            radius_stage(metadata, parse_share("0.05")),
            Stage(parse_share("0.85"), of_products(metadata, _CONSTANT_VALUE)),
        )

    def _measure(self, sums: Sums, metadata: TableMetadata, noise: StageNoise) -> FitState:
        centre, _ = measure_centre(sums, metadata, noise, 0)
        radius = measure_radius(sums, metadata, centre, noise, 1, measured=True)
        noisy = noise.add(2, sums.products(Ball(centre, radius), _CONSTANT_VALUE))
        matrix, deviation = (noisy + noisy.T) / 2, noise.deviation(2) / 2**0.5
        solved = _solve_ridge(matrix, deviation)
        size = len(matrix)
        times = max(_REDRAWN_FITS // 10, min(_REDRAWN_FITS, _MAX_DRAWN_NUMBERS // size**2))
        drawn = normals(times * size * size, noise.source).reshape(times, size, size) * noise.deviation(2)
        redrawn_fits = np.array(
            [_solve_ridge(matrix + (redrawn_noise + redrawn_noise.T) / 2, deviation) for redrawn_noise in drawn]
        )
        middle, half = metadata.middle, metadata.half
        scale = half[-1] * inverse(half[:-1])
        reach = _NORMAL_95 * redrawn_fits.std(axis=0)[:-1] * scale
        coef = solved[:-1] * scale
        target = middle[-1] + (centre[-1] + solved[-1] * _CONSTANT_VALUE / UNIT_STEPS * radius) / UNIT_STEPS * half[-1]
        centre_point = middle[:-1] + np.array(centre[:-1]) / UNIT_STEPS * half[:-1]
        return {
            "coef": to_json_numbers(coef),
            "intercept": float(target - coef @ centre_point),
            "intervals": to_json_numbers(np.stack([coef - reach, coef + reach], axis=1)),
        }

    def _set_state(self, state: FitState, metadata: TableMetadata) -> None:
        self.coef_ = np.array(state["coef"])
        self.intercept_ = float(state["intercept"])
        self.coef_intervals_ = np.array(state["intervals"]).reshape(-1, 2)

    def predict(self, X: object) -> Floats:  # noqa: N803
        """Return the expected target of each row; free."""
        return np.asarray(self._table(X) @ self.coef_ + self.intercept_)

    def score(self, X: object, y: object) -> float:  # noqa: N803
        """Return R² on your own rows: exact, not private."""
        predicted = self.predict(X)
        target = self._read_targets(y, predicted)
        residual_squares = float(((target - predicted) ** 2).sum())
        total_squares = float(((target - target.mean()) ** 2).sum())
        return 1 - residual_squares / total_squares if total_squares > 0 else 0.0


def _solve_ridge(matrix: Floats, deviation: float) -> Floats:
    """Return the weights of the columns and of the constant, by ridge regression; λ follows the noise."""
    order = [*range(len(matrix) - 2), len(matrix) - 1]  # (x, y, constant): the target is the last but one
    block, right = matrix[np.ix_(order, order)], matrix[order, len(matrix) - 2]
    values, vectors = np.linalg.eigh(block)
    ridge = deviation * len(order) ** 0.5
    return np.asarray(vectors @ ((vectors.T @ right) / (np.maximum(values, 0.0) + ridge)))
