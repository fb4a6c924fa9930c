"""LogisticRegression: full-batch descent by noisy sums of clipped gradients, all of them integers."""

from functools import cache

import numpy as np

from sfumato.learn.calibration import Stage
from sfumato.learn.classifier import Classifier
from sfumato.learn.first_stage import centre_stage, measure_centre, measure_radius, radius_stage
from sfumato.learn.model import FitState, StageNoise, parse_share, to_json_numbers
from sfumato.learn.rows import (
    UNIT_STEPS,
    Ball,
    Integers,
    Rows,
    blocks,
    exact_product,
    lengths_above,
    shrink,
    squared_norms,
)
from sfumato.learn.sensitivities import of_gradients
from sfumato.learn.table_metadata import Floats, TableMetadata, inverse

_STEPS = 60
_MOMENTUM = 0.9
_CONSTANT_VALUE = UNIT_STEPS // 2
_RESIDUAL_UNIT = 1 << 12
"""Residuals are integers in units of one over this number."""
_WEIGHT_UNIT = 1 << 12
"""Weights are rounded to multiples of one over this number before rows are multiplied."""
_MAX_WEIGHT = 64
"""Weights are clipped to plus or minus this."""
_LOGIT_UNIT = 1 << 8
"""Logits are truncated to multiples of one over this number; their exponentials come from a table."""
_GRADIENT_UNIT = UNIT_STEPS * _RESIDUAL_UNIT // 2
"""The length of one row's gradient: one half, in units of its two factors."""


class LogisticRegression(Classifier):
    """Softmax regression on rows shrunk to a released radius.

    Theorem: a released centre and radius, then sums of gradients of length at most one half with Gaussian noise, at
    weights that each step computes from released values, and all that follows is (epsilon, delta)-DP.
    Proof: proofs/learn_logistic.md
    """

    _iterative = True
    coef_: Floats
    intercept_: Floats

    def _stages(self, metadata: TableMetadata) -> tuple[Stage, ...]:
        return (
            centre_stage(metadata, parse_share("0.1")),
            radius_stage(metadata, parse_share("0.05")),
            Stage(parse_share("0.85"), of_gradients(metadata, _GRADIENT_UNIT), _STEPS),
        )

    def _measure(self, sums: Rows, metadata: TableMetadata, noise: StageNoise) -> FitState:
        centre, count = measure_centre(sums, metadata, noise, 0)
        ball = Ball(centre, measure_radius(sums, metadata, centre, noise, 1, measured=True))
        descent = Descent(shrink(sums.values, ball), sums.labels, len(metadata.classes))
        weights = np.zeros((metadata.width + 1, len(metadata.classes)))
        speed, total, averaged = np.zeros_like(weights), np.zeros_like(weights), 0
        for step in range(_STEPS):
            gradient = noise.add(2, descent.gradient(on_weight_grid(weights))) / (UNIT_STEPS * _RESIDUAL_UNIT)
            speed = _MOMENTUM * speed + gradient / count
            weights = np.clip(weights - speed, -_MAX_WEIGHT, _MAX_WEIGHT)
            if step >= _STEPS // 2:
                total, averaged = total + weights, averaged + 1
        mean = total / averaged
        # from shrunk rows back to the units of the columns
        slopes = mean[:-1] * (UNIT_STEPS / ball.radius) * inverse(metadata.half)[:, None]
        centre_point = metadata.middle + metadata.half * np.array(centre) / UNIT_STEPS
        return {
            "coef": to_json_numbers(slopes.T),
            "intercept": to_json_numbers(mean[-1] * _CONSTANT_VALUE / UNIT_STEPS - centre_point @ slopes),
        }

    def _set_state(self, state: FitState, metadata: TableMetadata) -> None:
        self._keep_classes(metadata)
        self._slopes, self._offsets = np.array(state["coef"]), np.array(state["intercept"])
        binary = len(metadata.classes) == 2
        self.coef_ = self._slopes[1:] - self._slopes[:1] if binary else self._slopes
        self.intercept_ = self._offsets[1:] - self._offsets[:1] if binary else self._offsets

    def _scores(self, X: object) -> Floats:  # noqa: N803
        return np.asarray(self._table(X) @ self._slopes.T + self._offsets)


class Descent:
    """Exact sums of clipped gradients of rows of length at most UNIT, with the constant as one column more.

    Theorem: one row's gradient is a function of that row and the weights, and has length at most `_GRADIENT_UNIT`.
    Proof: proofs/learn_logistic.md
    """

    def __init__(self, rows: Floats, labels: Integers, classes: int) -> None:
        self._rows = np.full((len(rows), rows.shape[1] + 1), float(_CONSTANT_VALUE), order="F")
        self._rows[:, :-1] = rows
        self._lengths = lengths_above(squared_norms(self._rows))
        self._own = (np.arange(classes)[:, None] == labels) * float(_RESIDUAL_UNIT)

    def gradient(self, weights: Floats) -> Integers:
        """Return the sum of the clipped gradients at weights on their grid."""
        total = np.zeros(weights.shape, dtype=np.int64)
        for part in blocks(len(self._rows)):
            rows = self._rows[part]
            # integers below 2^53, so exact in doubles in whatever order they are added; one line per class
            residuals = (
                softmax_shares(np.floor(weights.T @ rows.T * (_LOGIT_UNIT / (UNIT_STEPS * _WEIGHT_UNIT))))
                - self._own[:, part]
            )
            reach = self._lengths[part] * lengths_above(squared_norms(residuals.T))
            residuals *= _GRADIENT_UNIT
            residuals /= np.maximum(reach, _GRADIENT_UNIT)
            total += exact_product(rows, np.trunc(residuals).T)
        return total


def on_weight_grid(weights: Floats) -> Floats:
    """Return weights rounded to their public grid."""
    return np.asarray(np.rint(weights * _WEIGHT_UNIT))


def softmax_shares(logits: Floats) -> Floats:
    """Return softmax of integer logits, one line per class, in whole parts of `_RESIDUAL_UNIT`: by a public table."""
    table = _exponentials()
    below = np.minimum(logits.max(axis=0) - logits, len(table) - 1)
    weights = table[below.astype(np.int64)]
    total = weights[0].copy()
    for line in weights[1:]:  # integers below 2^53: exact
        total += line
    weights *= _RESIDUAL_UNIT
    weights /= total
    return np.asarray(np.floor(weights, out=weights))


@cache
def _exponentials() -> Floats:
    return np.asarray(np.floor(np.exp(-np.arange(20 * _LOGIT_UNIT) / _LOGIT_UNIT) * (1 << 30)))
