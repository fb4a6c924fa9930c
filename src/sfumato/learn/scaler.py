"""StandardScaler: mean and deviation of each column, from one noisy vector."""

from math import isqrt

import numpy as np

from sfumato.learn.calibration import Stage
from sfumato.learn.model import FitState, Model, StageNoise, parse_share, to_json_numbers
from sfumato.learn.rows import UNIT_STEPS, Sums
from sfumato.learn.sensitivities import in_box
from sfumato.learn.table_metadata import Floats, TableMetadata

_MIN_VARIANCE_SHARE = 1e-6
"""Smallest variance, as a share of the squared range."""


class StandardScaler(Model):
    """Subtract a noisy mean, divide by a noisy deviation.

    Theorem: the number of rows, Σx and Σx² of every column, one vector with Gaussian noise, and all that follows from
    it is (epsilon, delta)-DP.  Proof: proofs/learn_moments.md
    """

    mean_: Floats
    var_: Floats
    scale_: Floats

    def _stages(self, metadata: TableMetadata) -> tuple[Stage, ...]:
        return (Stage(parse_share("1"), in_box(metadata, count_weight(metadata), squares=True)),)

    def _measure(self, sums: Sums, metadata: TableMetadata, noise: StageNoise) -> FitState:
        exact = sums.clipped_sums(squares=True)[0]
        exact[0] *= count_weight(metadata)
        noisy = noise.add(0, exact)
        mean, variance = moments(
            noisy[0] / count_weight(metadata),
            noisy[1 : 1 + metadata.width],
            noisy[1 + metadata.width :],
            _MIN_VARIANCE_SHARE,
        )
        return {
            "mean": to_json_numbers(metadata.middle + metadata.half * mean),
            "var": to_json_numbers(np.maximum(variance * metadata.half**2, np.finfo(float).tiny)),
        }

    def _set_state(self, state: FitState, metadata: TableMetadata) -> None:
        self.mean_ = np.array(state["mean"])
        self.var_ = np.array(state["var"])
        self.scale_ = np.sqrt(self.var_)

    def transform(self, X: object) -> Floats:  # noqa: N803
        """Return the rows in deviations from the mean; free."""
        return np.asarray((self._table(X) - self.mean_) / self.scale_)

    def inverse_transform(self, X: object) -> Floats:  # noqa: N803
        """Return transformed rows in their own units; free."""
        return np.asarray(self._columns(X, lambda: self.n_features_in_) * self.scale_ + self.mean_)

    def fit_transform(self, X: object, y: object = None, groups: object = None) -> Floats:  # noqa: N803
        """Fit arrays and return your rows transformed: not private."""
        return self.fit(X, None, groups).transform(X)


def count_weight(metadata: TableMetadata) -> int:
    """Return what a row adds to the count: as much as all its columns, so that a count is as precise as a mean."""
    return UNIT_STEPS * isqrt(metadata.width)


def moments(count: float, total: Floats, squares: Floats, least: float) -> tuple[Floats, Floats]:
    """Return mean and variance in halves of the range, from noisy sums: inside what the bounds allow."""
    rows = max(count, 1.0)
    mean = np.clip(total / (rows * UNIT_STEPS), -1, 1)
    variance = squares / (rows * UNIT_STEPS) - mean**2
    return mean, np.clip(variance, 4 * least, 1.0)
