"""Curves of mixtures: of Gaussian laws with several shifts, and of releases between which a public draw decides.

Theorems: proofs/gaussian_mixture.md, proofs/truncated_sampling.md
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from sfumato.accounting.distribution.curves import (
    MAX_LOG_RATIO,
    ROUNDOFF,
    SPECIAL_FUNCTION_ERROR,
    Anchors,
    Floats,
    Line,
    PairCurve,
)

_NEWTON_STEPS = 8
_TABLE_POINTS = 4001
_MAX_RATIO_DROP = 40.0  # how far, in units of 1/shift, the ratio falls before only unmoved outcomes are left


@dataclass(frozen=True, slots=True)
class ShiftedGaussians:
    """Σ pᵢ N(cᵢ, 1) against N(0, 1), or (`backward`) N(0, 1) against it, for cᵢ ≥ 0, not all of them 0.

    The likelihood ratio rises with the outcome, so the best set is {x > threshold}, or {x < threshold} backwards. A
    threshold near the best one is found by floats; how near is measured, and enters the error.
    Theorem: proofs/gaussian_mixture.md, (1)
    """

    shifts: Floats
    shares: Floats
    backward: bool
    anchors: Anchors | None = None
    infinite: float = 0.0

    def above(self, t: Floats) -> Floats:
        """Return upper bounds on g(e^t): the height at the threshold, and what the best one may add."""
        height, error, _, _, gain = self._heights(np.clip(t, -MAX_LOG_RATIO, MAX_LOG_RATIO))
        upper = np.where(t < -MAX_LOG_RATIO, 1.0, np.minimum(height + error + gain, 1.0))
        return np.asarray(np.maximum(upper, 0.0) * (1 + 4 * SPECIAL_FUNCTION_ERROR))

    def below(self, t: Floats) -> Line:
        """Return the line of the set that the threshold names."""
        height, error, mass, relative, _ = self._heights(np.clip(t, -MAX_LOG_RATIO, MAX_LOG_RATIO))
        far, every = np.abs(t) > MAX_LOG_RATIO, np.where(t < 0, 1.0, 0.0)
        value = np.where(far, -np.expm1(np.minimum(t, 0.0)) * (1 - 8 * ROUNDOFF), height - error)
        useful = far | (value > 0)  # otherwise the empty set
        least, most = np.where(far, every, mass * (1 - relative)), np.where(far, every, mass * (1 + relative))
        return (
            np.where(useful, np.maximum(value, 0.0), 0.0),
            np.where(useful, np.clip(least, 0.0, 1.0), 0.0),
            np.where(useful, np.minimum(most, 1.0), 0.0),
        )

    def _heights(self, t: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Return P(E) - e^t Q(E), its error, Q(E), its relative error, and what a better threshold could gain."""
        slope = -t if self.backward else t
        at, derivative = self._threshold(slope)
        off = np.abs(self._log_ratio(at) - slope) + self._doubt(at)
        # the best threshold lies no farther than this, if the ratio has moved past the slope there
        step = (-1.0 if not self.backward else 1.0) * 4 * off / derivative
        beyond = self._log_ratio(at + step) - slope
        passed = beyond > self._doubt(at + step) if self.backward else beyond < -self._doubt(at + step)
        log_p, log_q = self._log_masses(at)
        _, log_outer = self._log_masses(at + np.where(np.isfinite(step), step, 0.0))
        outer = np.where(passed, np.exp(log_outer), 1.0)
        gain = np.expm1(np.minimum(2 * off, 1.0)) * np.exp(t) * outer
        p, x_q = np.exp(log_p), np.exp(t + log_q)
        relative = SPECIAL_FUNCTION_ERROR * (1 + at * at + float(self.shifts.max()) ** 2)
        error = relative * (p + x_q) + 1e-290
        all_or_none = slope <= self._floor  # no outcome has so small a ratio: everything forwards, nothing backwards
        kept = 0.0 if self.backward else 1.0
        return (
            np.where(all_or_none, kept * -np.expm1(t), p - x_q),
            np.where(all_or_none, 4 * SPECIAL_FUNCTION_ERROR * np.abs(kept * np.expm1(t)), error),
            np.where(all_or_none, kept, np.exp(log_q)),
            np.where(all_or_none, 0.0, relative),
            np.where(all_or_none, 0.0, gain),
        )

    def _threshold(self, slope: Floats) -> tuple[Floats, Floats]:
        """Return about where the logarithm of the ratio is `slope`, and its derivative there: Newton's method."""
        positive = self.shifts[self.shifts > 0]
        least, most = float(positive.min()), float(self.shifts.max())
        bottom = -(_MAX_RATIO_DROP if self.shifts.min() == 0 else MAX_LOG_RATIO) / least - most
        top = MAX_LOG_RATIO / most + most - float(np.log(self.shares[np.argmax(self.shifts)])) / most
        table = np.linspace(bottom, top, _TABLE_POINTS)
        at = np.interp(slope, self._log_ratio(table), table)
        for _ in range(_NEWTON_STEPS):
            moved = at - (self._log_ratio(at) - slope) / self._derivative(at)
            at = np.clip(np.where(np.isfinite(moved), moved, at), bottom - 1, top + 1)
        return at, self._derivative(at)

    @property
    def _floor(self) -> float:
        """Return a number below which the logarithm of the ratio never lies: that of the unmoved share."""
        unmoved = float(self.shares[self.shifts == 0].sum())
        return math.log(unmoved) * (1 + 4 * ROUNDOFF) - 8 * ROUNDOFF if unmoved else -math.inf

    def _log_masses(self, at: Floats) -> tuple[Floats, Floats]:
        """Return the logarithms of P(E) and Q(E) for the set with this threshold."""
        sign = -1.0 if self.backward else 1.0
        plain = special.log_ndtr(-sign * at)
        mixed = _log_sum(special.log_ndtr(sign * (self.shifts[:, None] - at)), self.shares)
        return (plain, mixed) if self.backward else (mixed, plain)

    def _exponents(self, at: Floats) -> Floats:
        return np.asarray(at * self.shifts[:, None] - self.shifts[:, None] ** 2 / 2)

    def _log_ratio(self, at: Floats) -> Floats:
        """Return ln Σ pᵢ e^(cᵢ x - cᵢ²/2)."""
        return _log_sum(self._exponents(at), self.shares)

    def _derivative(self, at: Floats) -> Floats:
        exponents = self._exponents(at)
        weights = self.shares[:, None] * np.exp(exponents - exponents.max(axis=0))
        return np.asarray((weights * self.shifts[:, None]).sum(axis=0) / weights.sum(axis=0))

    def _doubt(self, at: Floats) -> Floats:
        """Bound the rounding of the logarithm of the ratio."""
        most = float(self.shifts.max())
        return np.asarray(SPECIAL_FUNCTION_ERROR * (1 + most * np.abs(at) + most * most))


def _log_sum(logs: Floats, shares: Floats) -> Floats:
    """Return ln Σ sharesᵢ e^logsᵢ for each column."""
    top = logs.max(axis=0)
    return np.asarray(top + np.log((shares[:, None] * np.exp(logs - top)).sum(axis=0)))


@dataclass(frozen=True, slots=True)
class Labelled:
    """One of two releases, drawn with a probability that everybody may know, and which one: P and Q are sums of parts.

    The probability of the second lies between `least` and `most`. It bounds from above only.
    """

    first: PairCurve
    second: PairCurve
    least: float
    most: float

    @property
    def infinite(self) -> float:
        """Return nothing: below, other curves speak."""
        return 0.0

    @property
    def anchors(self) -> Anchors | None:
        """Return none."""
        return None

    def above(self, t: Floats) -> Floats:
        """Return (1 - least) g + most g'."""
        total = (1 - self.least) * self.first.above(t) + self.most * self.second.above(t)
        return np.asarray(np.minimum(total * (1 + 8 * ROUNDOFF), 1.0))

    def below(self, t: Floats) -> Line:
        """Return the empty set."""
        return np.zeros_like(t), np.zeros_like(t), np.zeros_like(t)


def shifted_gaussians(shifts: Floats, shares: Floats) -> tuple[PairCurve, PairCurve]:
    """Return the curves of both directions."""
    return ShiftedGaussians(shifts, shares, backward=False), ShiftedGaussians(shifts, shares, backward=True)
