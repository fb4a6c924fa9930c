"""NearestCentroid: a noisy mean for each class; good where there are few rows."""

import numpy as np

from sfumato.learn.calibration import Stage
from sfumato.learn.classifier import Classifier
from sfumato.learn.first_stage import centre_stage, measure_centre, measure_radius, radius_stage, shrink_towards
from sfumato.learn.model import FitState, StageNoise, parse_share, to_json_numbers
from sfumato.learn.rows import UNIT_STEPS, Ball, Sums
from sfumato.learn.sensitivities import in_ball
from sfumato.learn.table_metadata import Floats, TableMetadata, inverse

_COUNT_WEIGHT = UNIT_STEPS // 2


class NearestCentroid(Classifier):
    """The class whose centre is nearest, in halves of the columns' ranges.

    Theorem: for every class the number of rows and Σx of rows shrunk to a released radius, one vector with Gaussian
    noise, and all that follows from it is (epsilon, delta)-DP.  Proof: proofs/learn_moments.md
    """

    centroids_: Floats
    class_count_: Floats

    def _stages(self, metadata: TableMetadata) -> tuple[Stage, ...]:
        return (
            centre_stage(metadata, parse_share("0.1")),
            radius_stage(metadata, parse_share("0.05")),
            Stage(parse_share("0.85"), in_ball(metadata, _COUNT_WEIGHT, len(metadata.classes))),
        )

    def _measure(self, sums: Sums, metadata: TableMetadata, noise: StageNoise) -> FitState:
        centre, _ = measure_centre(sums, metadata, noise, 0)
        ball = Ball(centre, measure_radius(sums, metadata, centre, noise, 1, measured=True))
        exact = sums.shrunk(ball)
        exact[:, 0] *= _COUNT_WEIGHT
        noisy = noise.add(2, exact)
        counts = np.maximum(noisy[:, 0] / _COUNT_WEIGHT, 1.0)
        means = noisy[:, 1:] / counts[:, None] / UNIT_STEPS
        grand = (means * counts[:, None]).sum(axis=0) / counts.sum()
        shrunk = shrink_towards(means, grand, (noise.deviation(2) / UNIT_STEPS / counts) ** 2)
        places = (np.array(centre) + shrunk * ball.radius) / UNIT_STEPS
        return {
            "centroids": to_json_numbers(metadata.middle + metadata.half * np.clip(places, -1, 1)),
            "counts": to_json_numbers(counts),
            "spread": (ball.radius / UNIT_STEPS) ** 2 / metadata.width,
        }

    def _set_state(self, state: FitState, metadata: TableMetadata) -> None:
        self._keep_classes(metadata)
        self.centroids_ = np.array(state["centroids"])
        self.class_count_ = np.array(state["counts"])
        self._spread = float(state["spread"])

    def _scores(self, X: object) -> Floats:  # noqa: N803
        table = self._table(X)  # first: it refuses a model that is not fitted
        scale = inverse(self._metadata.half)
        rows = (table - self._metadata.middle) * scale
        centroids = (self.centroids_ - self._metadata.middle) * scale
        return np.asarray((rows @ centroids.T - (centroids**2).sum(axis=1) / 2) / self._spread)
