"""NaiveBayes: for each class a noisy count, mean and variance of every column."""

import numpy as np

from sfumato.learn.calibration import Stage
from sfumato.learn.classifier import Classifier
from sfumato.learn.first_stage import towards
from sfumato.learn.model import FitState, StageNoise, parse_share, to_json_numbers
from sfumato.learn.rows import UNIT_STEPS, Sums
from sfumato.learn.scaler import count_weight, moments
from sfumato.learn.sensitivities import in_box
from sfumato.learn.table_metadata import Floats, TableMetadata

_MIN_VARIANCE_SHARE = 1e-3
"""Of the squared range: no variance is below."""


class NaiveBayes(Classifier):
    """Columns that are normal and independent within each class.

    Theorem: for every class the number of rows, Σx and Σx² of every column, one vector with Gaussian noise, and all
    that follows from it is (epsilon, delta)-DP.  Proof: proofs/learn_moments.md
    """

    theta_: Floats
    var_: Floats
    class_count_: Floats

    def _stages(self, outline: TableMetadata) -> tuple[Stage, ...]:
        return (Stage(parse_share("1"), in_box(outline, count_weight(outline), squares=True)),)

    def _learn(self, sums: Sums, outline: TableMetadata, noise: StageNoise) -> FitState:
        exact = sums.clipped_sums(squares=True)
        exact[:, 0] *= count_weight(outline)
        noisy = noise.add(0, exact)
        counts = np.maximum(noisy[:, 0] / count_weight(outline), 1.0)
        sums_of, squares_of = noisy[:, 1 : 1 + outline.width], noisy[:, 1 + outline.width :]
        # few rows of a class say little: they are drawn to what is true of all classes
        variance = (noise.deviation(0) / UNIT_STEPS / counts) ** 2
        both = np.concatenate([sums_of, squares_of], axis=1) / (counts[:, None] * UNIT_STEPS)
        grand = (both * counts[:, None]).sum(axis=0) / counts.sum()
        drawn = towards(both, grand, variance) * UNIT_STEPS * counts[:, None]
        found = [
            moments(count, line[: outline.width], line[outline.width :], _MIN_VARIANCE_SHARE)
            for count, line in zip(counts, drawn, strict=True)
        ]
        return {
            "counts": to_json_numbers(counts),
            "theta": to_json_numbers(np.array([outline.middle + outline.half * mean for mean, _ in found])),
            "var": to_json_numbers(
                np.array([np.maximum(spread * outline.half**2, np.finfo(float).tiny) for _, spread in found])
            ),
        }

    def _keep(self, state: FitState, outline: TableMetadata) -> None:
        self._keep_classes(outline)
        self.class_count_ = np.array(state["counts"])
        self.theta_ = np.array(state["theta"])
        self.var_ = np.array(state["var"])

    def _scores(self, X: object) -> Floats:  # noqa: N803
        rows = np.clip(self._table(X), self._outline.low, self._outline.high)
        apart = (rows[:, None, :] - self.theta_[None]) ** 2 / self.var_[None]
        prior = np.log(self.class_count_ / self.class_count_.sum())
        return np.asarray(prior - 0.5 * (apart + np.log(self.var_)[None]).sum(axis=2))
