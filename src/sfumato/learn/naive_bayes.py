"""NaiveBayes: for each class a noisy count, mean and variance of every column."""

import numpy as np

from sfumato.learn.calibration import Stage
from sfumato.learn.classifier import Classifier
from sfumato.learn.first_stage import shrink_towards
from sfumato.learn.model import FitState, StageNoise, parse_share, to_json_numbers
from sfumato.learn.rows import UNIT_STEPS, Sums
from sfumato.learn.scaler import count_weight, moments
from sfumato.learn.sensitivities import in_box
from sfumato.learn.table_metadata import Floats, TableMetadata

_MIN_VARIANCE_SHARE = 1e-3
"""Smallest variance, as a share of the squared range."""


class NaiveBayes(Classifier):
    """Columns that are normal and independent within each class.

    Theorem: for every class the number of rows, Σx and Σx² of every column, one vector with Gaussian noise, and all
    that follows from it is (epsilon, delta)-DP.  Proof: proofs/learn_moments.md
    """

    theta_: Floats
    var_: Floats
    class_count_: Floats

    def _stages(self, metadata: TableMetadata) -> tuple[Stage, ...]:
        return (Stage(parse_share("1"), in_box(metadata, count_weight(metadata), squares=True)),)

    def _measure(self, sums: Sums, metadata: TableMetadata, noise: StageNoise) -> FitState:
        exact = sums.clipped_sums(squares=True)
        exact[:, 0] *= count_weight(metadata)
        noisy = noise.add(0, exact)
        counts = np.maximum(noisy[:, 0] / count_weight(metadata), 1.0)
        sums_of, squares_of = noisy[:, 1 : 1 + metadata.width], noisy[:, 1 + metadata.width :]
        # classes with few rows are shrunk towards the mean of all classes
        variance = (noise.deviation(0) / UNIT_STEPS / counts) ** 2
        means = np.concatenate([sums_of, squares_of], axis=1) / (counts[:, None] * UNIT_STEPS)
        grand = (means * counts[:, None]).sum(axis=0) / counts.sum()
        shrunk_sums = shrink_towards(means, grand, variance) * UNIT_STEPS * counts[:, None]
        class_moments = [
            moments(count, line[: metadata.width], line[metadata.width :], _MIN_VARIANCE_SHARE)
            for count, line in zip(counts, shrunk_sums, strict=True)
        ]
        return {
            "counts": to_json_numbers(counts),
            "theta": to_json_numbers(np.array([metadata.middle + metadata.half * mean for mean, _ in class_moments])),
            "var": to_json_numbers(
                np.array([np.maximum(spread * metadata.half**2, np.finfo(float).tiny) for _, spread in class_moments])
            ),
        }

    def _set_state(self, state: FitState, metadata: TableMetadata) -> None:
        self._keep_classes(metadata)
        self.class_count_ = np.array(state["counts"])
        self.theta_ = np.array(state["theta"])
        self.var_ = np.array(state["var"])

    def _scores(self, X: object) -> Floats:  # noqa: N803
        rows = np.clip(self._table(X), self._metadata.low, self._metadata.high)
        apart = (rows[:, None, :] - self.theta_[None]) ** 2 / self.var_[None]
        prior = np.log(self.class_count_ / self.class_count_.sum())
        return np.asarray(prior - 0.5 * (apart + np.log(self.var_)[None]).sum(axis=2))
