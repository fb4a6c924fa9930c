"""PCA: the directions of largest variance, from a noisy matrix of products."""

import numpy as np

from sfumato.errors import BadParameter
from sfumato.exact import integer
from sfumato.learn.calibration import Stage
from sfumato.learn.first_stage import centre_stage, measure_centre, measure_radius, radius_stage
from sfumato.learn.model import FitState, Model, StageNoise, parse_share, to_json_numbers
from sfumato.learn.rows import UNIT_STEPS, Ball, Sums
from sfumato.learn.sensitivities import of_products
from sfumato.learn.table_metadata import Floats, TableMetadata


class PCA(Model):
    """Eigenvectors of Σ(x-c)(x-c)', the rows shrunk to a released radius around a released centre.

    Theorem: every entry (i, j) and (j, i) with a noise of its own, their mean, and all that follows from it is
    (epsilon, delta)-DP.  Proof: proofs/learn_linear.md
    """

    components_: Floats
    mean_: Floats
    explained_variance_: Floats

    def __init__(
        self,
        n_components: object,
        *,
        epsilon: object,
        delta: object,
        bounds: object = None,
        neighbours: object = "add-remove",
        rows_per_person: object = 1,
    ) -> None:
        super().__init__(
            epsilon=epsilon, delta=delta, bounds=bounds, neighbours=neighbours, rows_per_person=rows_per_person
        )
        self.n_components = n_components

    def _parameters(self) -> dict[str, object]:
        return {"n_components": integer(self.n_components, "n_components", 1)}

    def _stages(self, metadata: TableMetadata) -> tuple[Stage, ...]:
        if integer(self.n_components, "n_components", 1) > metadata.width:
            raise BadParameter(
                f"n_components = {self.n_components} is more than there are columns.",
                f"There are {metadata.width}.",
                "Give fewer components.",
            )
        return (
            centre_stage(metadata, parse_share("0.1")),
            radius_stage(metadata, parse_share("0.1")),
            Stage(parse_share("0.8"), of_products(metadata, 0)),
        )

    def _measure(self, sums: Sums, metadata: TableMetadata, noise: StageNoise) -> FitState:
        centre, count = measure_centre(sums, metadata, noise, 0)
        ball = Ball(centre, measure_radius(sums, metadata, centre, noise, 1, measured=True))
        noisy = noise.add(2, sums.products(ball, 0)[:-1, :-1])
        half = metadata.half
        # from shrunk rows back to the units of the columns
        scaled = (noisy + noisy.T) / 2 * (ball.radius / UNIT_STEPS / UNIT_STEPS) ** 2 / count
        values, vectors = np.linalg.eigh(scaled * half[:, None] * half[None, :])
        kept = int(integer(self.n_components, "n_components", 1))
        components = vectors[:, ::-1][:, :kept].T
        signs = np.sign(components[np.arange(kept), np.abs(components).argmax(axis=1)])
        return {
            "components": to_json_numbers(components * signs[:, None]),
            "mean": to_json_numbers(metadata.middle + half * np.array(centre) / UNIT_STEPS),
            "variance": to_json_numbers(np.maximum(values[::-1][:kept], 0.0)),
        }

    def _set_state(self, state: FitState, metadata: TableMetadata) -> None:
        self.components_ = np.array(state["components"])
        self.mean_ = np.array(state["mean"])
        self.explained_variance_ = np.array(state["variance"])

    def transform(self, X: object) -> Floats:  # noqa: N803
        """Return the rows along the components; free."""
        return np.asarray((self._table(X) - self.mean_) @ self.components_.T)

    def inverse_transform(self, X: object) -> Floats:  # noqa: N803
        """Return rows that have only these components; free."""
        return np.asarray(self._columns(X, lambda: len(self.components_)) @ self.components_ + self.mean_)

    def fit_transform(self, X: object, y: object = None, groups: object = None) -> Floats:  # noqa: N803
        """Fit arrays and return your rows transformed: not private."""
        return self.fit(X, None, groups).transform(X)
