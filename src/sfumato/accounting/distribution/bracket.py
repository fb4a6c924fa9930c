"""A flat composition becomes a curve: the engine is chosen here, on each side of the truth."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import Protocol

import numpy as np

from sfumato.accounting.distribution import contour, curves, grid, lattice
from sfumato.accounting.distribution.cells import Cover, LossCell
from sfumato.accounting.distribution.closed_form import (
    gaussian_delta_bounds,
    integer_laplace_delta,
    laplace_delta,
    range_delta,
)
from sfumato.accounting.distribution.curves import MAX_LOG_RATIO
from sfumato.accounting.distribution.inversion import solve
from sfumato.accounting.distribution.mixture import mixture, moment_tail
from sfumato.accounting.distribution.reduction import (
    View,
    all_vectors_listed,
    allowed_parts,
    elementary,
    every_vector,
    lattice_view,
    repeated_vectors,
    smoothed_view,
    view_below,
    views_above,
    without_tiny,
)
from sfumato.accounting.distribution.tilted_fft import ROUNDOFF
from sfumato.accounting.event import (
    BoundedRange,
    Composed,
    Event,
    GaussianMixture,
    LaplaceNoise,
    Parallel,
    PoissonSampled,
    RealLaplaceNoise,
    TruncatedPoissonSampled,
)
from sfumato.errors import UnsupportedEvent

FLOAT_RANGE_ERRORS = (ArithmeticError, ValueError, IndexError, MemoryError)
"""Errors of an engine when parameters lie near the limits of floats; the engine is left out then."""

_GridEvent = PoissonSampled | TruncatedPoissonSampled | GaussianMixture | Parallel  # known by their curves alone
_MAX_EXACT_FLOAT_STEPS = 2**40  # steps up to which a float tells one from the next


class Curve(Protocol):
    """A composition, ready to be asked for delta at any epsilon."""

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return lower and upper bound on delta at epsilon >= 0."""
        ...


Slacked = list[tuple[Curve, float]]
Whole = Callable[[tuple[float, float]], tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Bracket:
    """Curves below the truth and curves above it, each with its slack (proofs/pld_integer_gaussian.md)."""

    lowers: tuple[tuple[Curve, float], ...]
    uppers: tuple[tuple[Curve, float], ...]
    largest: float = math.inf  # no loss exceeds the sum of the events' pure losses, where all have one

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return lower and upper bound on delta at epsilon."""
        return self.least(epsilon), self.most(epsilon)

    def least(self, epsilon: float) -> float:
        """Return a lower bound on delta at epsilon."""
        if epsilon >= self.largest:
            return 0.0
        return max(_low(curve, slack, epsilon)[0] for curve, slack in self.lowers)

    def most(self, epsilon: float) -> float:
        """Return an upper bound on delta at epsilon."""
        if epsilon >= self.largest:
            return 0.0
        return min((_high(curve, slack, epsilon)[1] for curve, slack in self.uppers), default=1.0)

    def solved(self, target: Fraction, whole: Whole) -> tuple[float, float]:
        """Return bounds on the epsilon at which delta is `target`; `whole` adds to delta what may fail beside it.

        Each curve is solved separately: their crossings of the target are unrelated.
        """
        lower, upper = 0.0, self.largest if whole((0.0, 0.0))[1] <= target else math.inf
        for curve, slack in dict.fromkeys((*self.lowers, *self.uppers)):
            if (curve, slack) in self.lowers:
                low, high = solve(partial(_through, whole, _low, curve, slack), target, 1.0)
                lower = max(lower, low)
                upper = min(upper, high) if not slack and (curve, slack) in self.uppers else upper
            else:
                upper = min(upper, solve(partial(_through, whole, _high, curve, slack), target, 1.0)[1])
        return lower, upper


def exact_bracket(curve: Curve) -> Bracket:
    """Return the bracket of a curve that bounds the truth on both sides."""
    return Bracket(((curve, 0.0),), ((curve, 0.0),))


Side = Callable[[Curve, float, float], tuple[float, float]]


def _through(whole: Whole, side: Side, curve: Curve, slack: float, epsilon: float) -> tuple[float, float]:
    return whole(side(curve, slack, epsilon))


def _low(curve: Curve, slack: float, epsilon: float) -> tuple[float, float]:
    """Return a lower bound on delta, and what bounds the curve itself from above."""
    if not slack:
        return curve.delta(epsilon)
    low, high = curve.delta((epsilon + 2 * slack) * (1 + 4 * ROUNDOFF))
    shrink = math.exp(-min(slack, 700.0))
    return low * shrink * (1 - 4 * ROUNDOFF), high * shrink


def _high(curve: Curve, slack: float, epsilon: float) -> tuple[float, float]:
    """Return what bounds the curve itself from below, and an upper bound on delta."""
    if not slack:
        return curve.delta(epsilon)
    low, high = _reflect(curve, epsilon - 2 * slack * (1 + 4 * ROUNDOFF))
    grow = math.exp(min(slack, 700.0))
    return min(1.0, low * grow), min(1.0, high * grow * (1 + 4 * ROUNDOFF))


def _reflect(curve: Curve, epsilon: float) -> tuple[float, float]:
    """Return bounds on delta; at epsilon < 0 a symmetric pair has 1 - delta(e) = e^e (1 - delta(-e))."""
    if epsilon >= 0:
        return curve.delta(math.nextafter(epsilon, 0.0))
    if epsilon < -700:
        return 1.0, 1.0
    low, high = (1 - math.exp(epsilon) * (1 - delta) for delta in curve.delta(-epsilon))
    return low, min(1.0, high * (1 + 8 * ROUNDOFF))


@dataclass(frozen=True, slots=True)
class Nothing:
    """No event at all."""

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return zero."""
        return 0.0, 0.0


@dataclass(frozen=True, slots=True)
class Gaussians:
    """Real Gaussian noise only."""

    mu_squared: float

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return bounds from the closed form."""
        return gaussian_delta_bounds(self.mu_squared, epsilon)


@dataclass(frozen=True, slots=True)
class OneLaplace:
    """One release with real Laplace noise."""

    loss: float

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return bounds from the closed form."""
        return laplace_delta(self.loss, epsilon)


@dataclass(frozen=True, slots=True)
class OneIntegerLaplace:
    """One release with integer Laplace noise."""

    sensitivity: int
    rate: float  # 1 / scale

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return bounds from the closed form."""
        return integer_laplace_delta(self.sensitivity, self.rate, epsilon)


@dataclass(frozen=True, slots=True)
class OneRange:
    """One release of bounded range."""

    loss: float

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return bounds from the closed form."""
        return range_delta(self.loss, epsilon)


@dataclass(frozen=True, slots=True)
class Greatest:
    """One release, of several that are allowed, whichever loses most at each epsilon."""

    curves: tuple[Curve, ...]

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return the greatest lower and the greatest upper bound."""
        pairs = [curve.delta(epsilon) for curve in self.curves]
        return max(low for low, _ in pairs), max(high for _, high in pairs)


@dataclass(frozen=True, slots=True)
class Gridded:
    """A composition with sampled or parallel events, convolved on a grid of losses."""

    prepared: grid.PreparedGrid

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return bounds from the circumscribed and the inscribed polygon."""
        return self.prepared.delta_bounds(epsilon)


@dataclass(frozen=True, slots=True)
class Drawn:
    """One release without composition, with its curves for a removed and for an added unit."""

    directions: grid.Directions

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return the greater lower and the greater upper bound of both directions."""
        # delta only falls from there on, though not below what is infinite
        at = np.array([min(epsilon, MAX_LOG_RATIO)])
        low = max(max(curve.infinite, self._search_epsilon(curve, epsilon)) for curve in self.directions)
        return low, max(float(curve.above(at)[0]) for curve in self.directions)

    def _search_epsilon(self, curve: curves.PairCurve, epsilon: float) -> float:
        return float(curve.below(np.array([epsilon]))[0][0]) if epsilon <= MAX_LOG_RATIO else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Later:
    """A curve that is composed when it is first asked, which a question about one side may never do."""

    compose: Callable[[], Curve]

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return the curve's bounds."""
        return self.compose().delta(epsilon)


@dataclass(frozen=True, slots=True, eq=False)
class Guarded:
    """A curve with trivial bounds where its floats overflow."""

    curve: Curve

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return the curve's bounds, or 0 and 1."""
        try:
            with np.errstate(all="ignore"):
                low, high = self.curve.delta(epsilon)
        except FLOAT_RANGE_ERRORS:
            return 0.0, 1.0
        return low if 0 <= low <= 1 else 0.0, high if 0 <= high <= 1 else 1.0


def at_delta(parts: Mapping[Event, int], delta: float) -> Bracket:
    """Return curves that are sharp where delta(epsilon) is about `delta`."""
    return _bracket(parts, delta, None)


def at_epsilon(parts: Mapping[Event, int], epsilon: float) -> Bracket:
    """Return curves that are sharp at this epsilon."""
    return _bracket(parts, 1e-6, epsilon)


def _bracket(parts: Mapping[Event, int], delta: float, epsilon: float | None) -> Bracket:
    largest = elementary(parts)
    if epsilon is not None and epsilon >= largest:
        return exact_bracket(Nothing())
    parts, blur = without_tiny(parts)
    try:
        with np.errstate(all="ignore"):
            sides = _lower_and_upper_curves(parts, delta, epsilon)
    except FLOAT_RANGE_ERRORS:
        sides = [(Nothing(), 0.0)], []
    sides = sides[0], [(curve, slack + blur) for curve, slack in sides[1]]
    guarded = {id(curve): Guarded(curve) for side in sides for curve, _ in side}
    lowers, uppers = (tuple((guarded[id(curve)], slack) for curve, slack in side) for side in sides)
    return Bracket(lowers, uppers, largest)


def _lower_and_upper_curves(parts: Mapping[Event, int], delta: float, epsilon: float | None) -> tuple[Slacked, Slacked]:
    """Return curves below and above the truth."""
    if any(isinstance(event, _GridEvent) for event in parts):
        if sum(parts.values()) == 1:
            drawn: Slacked = [(Drawn(grid.directions(next(iter(parts)), alone=True)), 0.0)]
            return drawn, drawn
        least = allowed_parts(parts)
        gridded: Slacked = [(_grid_curve(parts, delta, epsilon, refined=least == parts), 0.0)]
        if least == parts:
            return gridded, gridded
        return [(Later(cache(partial(_grid_curve, least, delta, epsilon))), 0.0)], gridded
    if all_vectors_listed(parts) and len(parts) == 1:
        each = [_on_lattice(view, delta, epsilon) for view in every_vector(parts)]
        if each and None not in each:
            greatest: Slacked = [(Greatest(tuple(curve for curve in each if curve)), 0.0)]
            return greatest, greatest
    lower = view_below(parts)
    low = Later(cache(partial(_curve, lower, delta, epsilon)))
    lowers: Slacked = [(low, lower.slack)]
    uppers: Slacked = [
        (low if upper == lower else _curve(upper, delta, epsilon), upper.slack) for upper in views_above(parts)
    ]
    if lower.parts == parts:  # each law is known exactly, but perhaps too fine for the engines
        for direction, curves_there in ((1, lowers), (-1, uppers)):
            if (view := smoothed_view(parts, direction)) is not None:
                curves_there.append((_curve(view, delta, epsilon), view.slack))
    if all_vectors_listed(parts):
        uppers.append((_on_lattice(lattice_view(parts), delta, epsilon) or _grid_curve(parts, delta, epsilon), 0.0))
        same = [_on_lattice(view, delta, epsilon) for view in repeated_vectors(parts)]
        lowers += [(curve, 0.0) for curve in same if curve]
    return lowers, uppers


def _grid_curve(parts: Mapping[Event, int], delta: float, epsilon: float | None, *, refined: bool = True) -> Gridded:
    return Gridded(grid.prepared_grid(tuple(parts.items()), delta, epsilon, refined=refined))


def _on_lattice(view: View, delta: float, epsilon: float | None) -> Curve | None:
    return lattice.exact_lattice(view.parts, delta, epsilon)


def _curve(view: View, delta: float, epsilon: float | None) -> Curve:
    losses = mixture(view.parts)
    if losses is None:
        events = tuple(part for part in view.parts if not isinstance(part, LossCell | Cover))
        raise UnsupportedEvent(Composed(events), "privacy loss distribution")
    if view.by_moments:
        return moment_tail(losses)
    if not losses.families:
        return Gaussians(losses.mu_squared) if losses.mu_squared else Nothing()
    match list(view.parts.items()):
        case [(RealLaplaceNoise(), 1)]:
            return OneLaplace(losses.largest())
        case [(BoundedRange(), 1)]:
            return OneRange(losses.largest())
        case [(LaplaceNoise(steps, scale, _), 1)] if (
            steps < _MAX_EXACT_FLOAT_STEPS and _MAX_EXACT_FLOAT_STEPS > scale > 1 / _MAX_EXACT_FLOAT_STEPS
        ):
            return OneIntegerLaplace(steps, float(1 / scale))
    exact = lattice.exact_lattice(view.parts, delta, epsilon) or lattice.enumerate_losses(view.parts)
    if exact is not None:
        return exact
    return contour.for_delta(losses, delta) if epsilon is None else contour.for_epsilon(losses, epsilon)
