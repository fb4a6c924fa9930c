"""Curves are composed: each becomes laws on one lattice, the laws are convolved above and below, and delta is read off.

The lattice is chosen by a pilot on a coarse logarithmic scale of losses. It decides only how far apart the two sides
are, never on which side of the truth they lie. Theorem: proofs/pld_grid.md
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.accounting.distribution.convolved import Convolved, sum_from_above
from sfumato.accounting.distribution.curves import (
    ROUNDOFF,
    Anchors,
    Floats,
    Line,
    PairCurve,
    folded_above,
    folded_below,
)
from sfumato.accounting.distribution.discretise import Cut, LatticeLaw, law_above, law_below
from sfumato.accounting.distribution.tilted_fft import RepeatedLaw, TiltedLaw, minimise, tilted_law
from sfumato.errors import UnsupportedEvent

Curves = Sequence[tuple[PairCurve, int]]

USUAL_WIDENING, COARSE_WIDENING, FINE_WIDENING = 1.5e-5, 6e-5, 3e-6
"""Shares of epsilon that the lattice may add."""

_UNIT_PER_EPSILON = 2e-5  # unit relative to epsilon, where memory allows
_MIN_UNIT_PER_EPSILON = 1e-5  # and no finer than this, divided by the root of the number of steps
_USUAL_POINTS = 1 << 17
_MAX_LAW_POINTS = 1 << 20  # points of one law
_MAX_POINTS = {COARSE_WIDENING: 1 << 18, USUAL_WIDENING: 1 << 19, FINE_WIDENING: 1 << 20}
_SCALE = np.geomspace(1e-10, 1e8, 1500)


@dataclass(frozen=True, slots=True)
class Composition:
    """One direction of a composition, convolved: a law above the truth and one below it."""

    upper: Convolved
    lower: Convolved

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return lower <= delta(epsilon) <= upper."""
        high = float(self.upper.above(np.array([epsilon]))[0])
        return min(self.lower.least(epsilon), high), high


@dataclass(frozen=True, slots=True)
class Cutting:
    """How fine each curve is cut, from where to where, and which loss of each must be met."""

    unit: float
    ranges: tuple[tuple[float, float], ...]
    met: tuple[float, ...]

    def cuts(self, wider: int) -> list[Cut]:
        """Return how each curve is cut, on a lattice that is `wider` times as coarse."""
        unit = self.unit * wider
        offsets = [math.fmod(loss, unit) for loss in self.met]
        return [
            Cut(unit, offset, math.floor((low - offset) / unit) - 1, math.ceil((high - offset) / unit) + 1)
            for offset, (low, high) in zip(offsets, self.ranges, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class SummedLosses:
    """A composition used as one event: several tilts of both directions, each sharp in its own part of the curve."""

    forward: tuple[Composition, ...]
    backward: tuple[Composition, ...]
    anchors: Anchors | None = None

    @property
    def infinite(self) -> float:
        """Return the probability of an infinite loss, at least."""
        return self.forward[0].lower.infinite

    def above(self, t: Floats) -> Floats:
        """Return upper bounds on g(e^t)."""
        return folded_above(t, self._unfolded_height(t))

    def below(self, t: Floats) -> Line:
        """Return the best line of all tilts."""
        ahead = _best_below(self.forward, t)
        if self.forward is self.backward:
            return folded_below(t, ahead, self._unfolded_height(t))
        behind = _best_below(self.backward, t)
        value, least, most = (np.where(t < 0, b, a) for a, b in zip(ahead, behind, strict=True))
        return folded_below(t, (value, least, most), self._unfolded_height(t))

    def _unfolded_height(self, t: Floats) -> Floats:
        ahead = _least_above(self.forward, t)
        return ahead if self.forward is self.backward else np.where(t < 0, _least_above(self.backward, t), ahead)


def _least_above(compositions: Sequence[Composition], t: Floats) -> Floats:
    return np.asarray(np.min([composed.upper.above(np.abs(t)) for composed in compositions], axis=0))


def _best_below(compositions: Sequence[Composition], t: Floats) -> Line:
    lines = np.array([composed.lower.below(np.abs(t)) for composed in compositions])
    best = np.argmax(lines[:, 0], axis=0)
    value, least, most = np.take_along_axis(lines, best[None, None], 0)[0]
    useful = value > 0  # otherwise the empty set
    return np.where(useful, value, 0.0), np.where(useful, least, 0.0), np.where(useful, most, 0.0)


def composition(
    curves: Curves, delta: float, epsilon: float | None = None, widening: float = USUAL_WIDENING
) -> Composition:
    """Convolve curves, sharpest where delta(epsilon) is about `delta`, or at `epsilon` if it is given."""
    lattice, target = _choose(curves, delta, epsilon, widening)
    for attempt in range(16):
        composed = _convolve_bounds(curves, lattice.cuts(1 << attempt), target)
        if composed is not None:
            return composed
    raise UnsupportedEvent(
        f"a composition of {len(curves)} kinds of events",
        "privacy loss distribution",
        "Its losses span too many scales.",
    )


def _convolve_bounds(curves: Curves, cuts: Sequence[Cut], target: float) -> Composition | None:
    """Return both convolutions, or None if they do not fit into memory at any tilt."""
    if max(cut.last - cut.first for cut in cuts) > _MAX_LAW_POINTS:
        return None
    above = [law_above(curve, cut) for (curve, _), cut in zip(curves, cuts, strict=True)]
    below = [law_below(curve, cut) for (curve, _), cut in zip(curves, cuts, strict=True)]
    upper, lower = (_fit_tilt(_as_laws(laws, curves), cuts[0].unit, target) for laws in (above, below))
    if upper is None or lower is None:
        return None
    return Composition(
        sum_from_above(upper, _offset(above, curves, 1), _infinite_above(above, curves)),
        sum_from_above(lower, _offset(below, curves, -1), _infinite_below(below, curves)),
    )


def _offset(laws: Sequence[LatticeLaw], curves: Curves, direction: int) -> float:
    """Return the sum of all offsets, rounded by more than its own error: higher losses for an upper bound."""
    pairs = list(zip(laws, curves, strict=True))
    total = math.fsum(times * law.offset for law, (_, times) in pairs)
    return total + direction * 4 * ROUNDOFF * math.fsum(times * abs(law.offset) for law, (_, times) in pairs)


def _fit_tilt(laws: list[RepeatedLaw], unit: float, target: float) -> TiltedLaw | None:
    # A lighter tilt than the best costs a few digits of sixteen and keeps heavy tails out of the window.
    for lighter in (1e2, 1e4, 1e6):
        try:
            return tilted_law(laws, unit, min(0.1, lighter * target), mass_error=4 * ROUNDOFF)
        except UnsupportedEvent:  # more points than memory allows
            continue
    return None


def _as_laws(laws: Sequence[LatticeLaw], curves: Curves) -> list[RepeatedLaw]:
    return [(law.masses, law.first, times) for law, (_, times) in zip(laws, curves, strict=True)]


def _infinite_above(laws: Sequence[LatticeLaw], curves: Curves) -> float:
    """Return an upper bound on the probability of any infinite loss, for laws that may exceed 1 in total."""
    excess = math.fsum(times * law.excess for law, (_, times) in zip(laws, curves, strict=True))
    return min(1.0, _any_infinite(laws, curves) * math.exp(min(excess, 700.0)) * (1 + 2.0**-40))


def _infinite_below(laws: Sequence[LatticeLaw], curves: Curves) -> float:
    """Return a lower bound on the probability of any infinite loss."""
    return max(0.0, _any_infinite(laws, curves) * (1 - 2.0**-40))


def _any_infinite(laws: Sequence[LatticeLaw], curves: Curves) -> float:
    return -math.expm1(
        math.fsum(
            times * (math.log1p(-law.infinite) if law.infinite < 1 else -math.inf)
            for law, (_, times) in zip(laws, curves, strict=True)
        )
    )


def _choose(curves: Curves, delta: float, epsilon: float | None, widening: float) -> tuple[Cutting, float]:
    """Choose unit and ranges from a pilot: losses on a logarithmic scale, cumulants under the tilt; and guess delta."""
    total = sum(times for _, times in curves)
    if epsilon is not None:  # the tail that may be cut off depends on delta, so that is guessed first
        delta = 0.01 * _saddle(_pilots(curves, 1e-200), delta, epsilon)[3]
    pilots = _pilots(curves, 1e-6 * delta / total)
    theta, variance, guess, delta = _saddle(pilots, delta, epsilon)
    pilots = [_without_low(losses, masses, theta, 1e-8 / total, times) for losses, masses, times in pilots]
    widest = max(float(losses[-1] - losses[0]) for losses, _, _ in pilots)
    whole = sum(times * float(losses[-1] - losses[0]) for losses, _, times in pilots)
    span = max(widest, min(whole, 18 * math.sqrt(variance) + 40 / (1 + theta)))
    scale = max(abs(guess), math.sqrt(variance))  # near epsilon = 0 it is delta that must be sharp
    # a step of unit h adds a variance of at most h²/6, hence h² theta (theta + 1)/12 to ln E e^(theta L)
    unit = math.sqrt(12 * widening * scale / (total * (theta + 1)))
    unit = min(unit, max(_UNIT_PER_EPSILON * scale, span / _USUAL_POINTS))
    unit = max(unit, _MIN_UNIT_PER_EPSILON * scale / math.sqrt(total), span / _MAX_POINTS[widening], 1e-14)
    unit, met = _align_unit(unit, curves)
    return Cutting(unit, tuple((float(losses[0]), float(losses[-1])) for losses, _, _ in pilots), met), delta


def _align_unit(unit: float, curves: Curves) -> tuple[float, tuple[float, ...]]:
    """Return a unit, not greater, that meets both extreme losses of the curves that have them, and these losses.

    The lattice stays inside the extremes by a hair, so that rounding cannot put them outside.
    """
    anchored = [(times, *curve.anchors) for curve, times in curves if curve.anchors is not None]
    anchored = [(times, low, high, steps) for times, low, high, steps in anchored if high - low > unit * 4]
    if anchored:
        _, low, high, steps = max(anchored)
        steps = steps if steps * unit <= 4 * (high - low) else 1  # all of them would be more than the lattice holds
        fewest = math.ceil((high - low) / (unit * steps))
        counts = steps * np.arange(fewest, min(2 * fewest, fewest + 20_000) + 1, dtype=np.float64)
        units = (high - low - 2 * _hair(low, high, unit)) / counts
        missed = np.zeros_like(units)
        for times, other_low, other_high, _ in anchored:
            ratio = (other_high - other_low - 2 * _hair(other_low, other_high, unit)) / units
            missed += times * np.abs(ratio - np.rint(ratio)) * units
        unit = float(units[int(np.argmin(missed * (1 + counts / counts[0])))])
    met = [0.0 if a is None else a[1] - _hair(a[0], a[1], unit) for a in (curve.anchors for curve, _ in curves)]
    return unit, tuple(met)


def _hair(low: float, high: float, unit: float) -> float:
    return 2.0**-40 * unit + 2.0**-44 * max(abs(low), abs(high)) + min(2.0**-42, 2.0**-24 * unit)


def _pilots(curves: Curves, tail: float) -> list[tuple[Floats, Floats, int]]:
    total = sum(times for _, times in curves)
    return [(*_pilot(curve, tail, max(1e-8 / total, 1e-15)), times) for curve, times in curves]


def _pilot(curve: PairCurve, tail: float, gap: float) -> tuple[Floats, Floats]:
    """Interpolate on a logarithmic scale, over the range that holds nearly all of the mass."""
    right = np.minimum(curve.above(_SCALE), 1.0)
    left = (np.minimum(curve.above(-_SCALE), 1.0) + curve.below(-_SCALE)[0]) / 2
    beyond = np.flatnonzero(right <= curve.infinite * (1 + 1e-6) + tail)
    before = np.flatnonzero(left + np.expm1(-_SCALE) <= gap * right[0])
    top = int(beyond[0]) if len(beyond) else len(_SCALE) - 1
    bottom = int(before[0]) if len(before) else len(_SCALE) - 1
    losses = np.concatenate([-_SCALE[bottom::-1], _SCALE[: top + 1]])
    values = np.concatenate([left[bottom::-1], right[: top + 1]])
    survival = values[1:] + np.maximum(values[:-1] - values[1:], 0.0) / -np.expm1(-np.diff(losses))
    survival = np.maximum.accumulate(np.concatenate([[1.0], survival, [values[-1]]])[::-1])[::-1]
    return losses, np.maximum(survival[:-1] - survival[1:], 0.0)


def _without_low(losses: Floats, masses: Floats, theta: float, share: float, times: int) -> tuple[Floats, Floats, int]:
    """Raise the lowest losses to a cut where, under the tilt, the effect is negligible."""
    if not masses.any():
        return losses, masses, times
    with np.errstate(divide="ignore"):
        tilted = theta * losses + np.log(masses)
        raised = theta * losses + np.log(np.cumsum(masses))
    weight = np.exp(np.minimum(raised - tilted.max(), 700.0)) / np.exp(tilted - tilted.max()).sum()
    kept = max(0, int(np.flatnonzero((weight > share) | (losses > 0))[0]) - 1)
    return losses[kept:], masses[kept:], times


def _saddle(
    pilots: Sequence[tuple[Floats, Floats, int]], delta: float, epsilon: float | None
) -> tuple[float, float, float, float]:
    """Return the tilt that bounds epsilon best at `delta` (or delta at `epsilon`), a variance, epsilon and delta.

    The variance is the least under three lighter tilts: under the full one a heavy tail may make up most of it.
    The bound is the Rényi one [CKS20, §2.3]; here it is only a guess.
    """

    def bound(log_theta: float) -> float:
        theta = math.exp(log_theta)
        best = theta * math.log(theta / (theta + 1)) - math.log(theta + 1)
        value = _cumulants(pilots, theta)[0] + best
        return (value - math.log(delta)) / theta if epsilon is None else value - theta * epsilon

    log_theta = minimise(bound, math.log(1e-4), math.log(1e7))
    theta, least = math.exp(log_theta), bound(log_theta)
    variance = max(min(_cumulants(pilots, theta * share)[1] for share in (0.0, 0.5, 1.0)), 1e-30)
    if epsilon is None:
        return theta, variance, least, delta
    return theta, variance, epsilon, min(0.5, math.exp(max(least, -600.0)))


def _cumulants(pilots: Sequence[tuple[Floats, Floats, int]], theta: float) -> tuple[float, float]:
    value = variance = 0.0
    for losses, masses, times in pilots:
        if not masses.any():  # all of it lies at infinity
            continue
        with np.errstate(divide="ignore"):
            exponents = theta * losses + np.log(masses)
        top = float(exponents.max())
        weights = np.exp(exponents - top)
        size = float(weights.sum())
        mean = float(weights @ losses) / size
        value += times * (top + math.log(size))
        variance += times * float(weights @ (losses - mean) ** 2) / size
    return value, variance
