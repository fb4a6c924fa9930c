"""LogisticRegression: full-batch descent by noisy sums of clipped gradients, all of them integers."""

from functools import cache

import numpy as np

from sfumato.learn.calibration import Stage
from sfumato.learn.classifier import Classifier
from sfumato.learn.first_stage import centre_stage, measure_centre, measure_radius, radius_stage
from sfumato.learn.model import StageNoise, State, listed, share
from sfumato.learn.outline import Floats, Outline, inverse
from sfumato.learn.rows import UNIT, Ball, Integers, Rows, exact_product, shrink, squared_norms
from sfumato.learn.sensitivities import of_gradients

_STEPS = 60
_MOMENTUM = 0.9
_CONSTANT = UNIT // 2
_FINE = 1 << 12
"""Residuals are counted in these parts of one."""
_GRID = 1 << 12
"""Weights are rounded to these parts of one before any row sees them."""
_FARTHEST = 64
"""No weight goes further."""
_LOGIT = 1 << 8
"""Logits are cut to these parts of one, and their exponentials are looked up."""
_CLIP = UNIT * _FINE // 2
"""The length of one row's gradient: one half, in units of its two factors."""


class LogisticRegression(Classifier):
    """Softmax regression on rows shrunk to a released radius.

    Theorem: a released centre and radius, then sums of gradients of length at most one half with Gaussian noise, at
    weights that each step computes from what was released, and all that follows is (epsilon, delta)-DP.
    Proof: proofs/learn_logistic.md
    """

    _iterative = True
    coef_: Floats
    intercept_: Floats

    def __init__(
        self,
        *,
        epsilon: object,
        delta: object,
        bounds: object = None,
        classes: object = None,
        neighbours: object = "add-remove",
        rows_per_person: object = 1,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.classes = classes
        self.neighbours = neighbours
        self.rows_per_person = rows_per_person

    def _stages(self, outline: Outline) -> tuple[Stage, ...]:
        return (
            centre_stage(outline, share("0.1")),
            radius_stage(outline, share("0.05")),
            Stage(share("0.85"), of_gradients(outline, _CLIP), _STEPS),
        )

    def _learn(self, sums: Rows, outline: Outline, noise: StageNoise) -> State:
        centre, count = measure_centre(sums, outline, noise, 0)
        ball = Ball(centre, measure_radius(sums, outline, centre, noise, 1, measured=True))
        descent = Descent(shrink(sums.values, ball), sums.labels, len(outline.classes))
        weights = np.zeros((outline.width + 1, len(outline.classes)))
        speed, total, kept = np.zeros_like(weights), np.zeros_like(weights), 0
        for step in range(_STEPS):
            gradient = noise.add(2, descent.gradient(on_grid(weights))) / (UNIT * _FINE)
            speed = _MOMENTUM * speed + gradient / count
            weights = np.clip(weights - speed, -_FARTHEST, _FARTHEST)
            if step >= _STEPS // 2:
                total, kept = total + weights, kept + 1
        mean = total / kept
        # from shrunk rows back to the units of the columns
        slopes = mean[:-1] * (UNIT / ball.radius) * inverse(outline.half)[:, None]
        at = outline.middle + outline.half * np.array(centre) / UNIT
        return {"coef": listed(slopes.T), "intercept": listed(mean[-1] * _CONSTANT / UNIT - at @ slopes)}

    def _keep(self, state: State, outline: Outline) -> None:
        self._keep_classes(outline)
        self._slopes, self._offsets = np.array(state["coef"]), np.array(state["intercept"])
        binary = len(outline.classes) == 2
        self.coef_ = self._slopes[1:] - self._slopes[:1] if binary else self._slopes
        self.intercept_ = self._offsets[1:] - self._offsets[:1] if binary else self._offsets

    def _scores(self, X: object) -> Floats:  # noqa: N803
        return np.asarray(self._table(X) @ self._slopes.T + self._offsets)


class Descent:
    """Exact sums of clipped gradients of rows of length at most UNIT, with the constant as one column more.

    Theorem: one row's gradient is a function of that row and the weights, and has length at most `_CLIP`.
    Proof: proofs/learn_logistic.md
    """

    def __init__(self, rows: Integers, labels: Integers, classes: int) -> None:
        self._rows = np.empty((len(rows), rows.shape[1] + 1))
        self._rows[:, :-1] = rows
        self._rows[:, -1] = _CONSTANT
        self._lengths = lengths_above(squared_norms(rows) + _CONSTANT**2)
        self._own = np.zeros((len(rows), classes), dtype=np.int64)
        self._own[np.arange(len(rows)), labels] = _FINE

    def gradient(self, weights: Integers) -> Integers:
        """Return the sum of the clipped gradients at weights on their grid."""
        # integers below 2^53, so exact in doubles in whatever order they are added
        logits = (self._rows @ weights.astype(np.float64)) // (UNIT * _GRID // _LOGIT)
        residuals = shares(logits.astype(np.int64)) - self._own
        reach = self._lengths * lengths_above(squared_norms(residuals))
        clipped = np.trunc(residuals * float(_CLIP) / np.maximum(reach, _CLIP)[:, None])
        return exact_product(self._rows, clipped)


def on_grid(weights: Floats) -> Integers:
    """Return weights rounded to their public grid."""
    return np.rint(weights * _GRID).astype(np.int64)


def lengths_above(squares: Integers) -> Integers:
    """Return integers not below the roots of integers below 2^52."""
    return np.rint(np.sqrt(squares.astype(np.float64))).astype(np.int64) + 1


def shares(logits: Integers) -> Integers:
    """Return softmax of integer logits, in parts of `_FINE`, by a public table of exponentials and integer division."""
    table = _exponentials()
    below = np.minimum(logits.max(axis=1, keepdims=True) - logits, len(table) - 1)
    weights = table[below]
    return np.asarray(weights * _FINE // weights.sum(axis=1, keepdims=True))


@cache
def _exponentials() -> Integers:
    return np.array([int(np.exp(-at / _LOGIT) * (1 << 30)) for at in range(20 * _LOGIT)], dtype=np.int64)
