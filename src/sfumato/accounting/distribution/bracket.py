"""A flat composition becomes a curve: the engine is chosen here, on each side of the truth."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from sfumato.accounting.distribution import contour, grid, lattice
from sfumato.accounting.distribution.closed_form import gaussian_delta, laplace_delta
from sfumato.accounting.distribution.mixture import mixture, tail
from sfumato.accounting.distribution.reduction import View, above, below
from sfumato.accounting.distribution.tilted_fft import ROUNDOFF
from sfumato.accounting.event import Composed, Event, Parallel, PoissonSampled, RealLaplaceNoise
from sfumato.errors import UnsupportedEvent


class Curve(Protocol):
    """A composition, ready to be asked for delta at any epsilon."""

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return lower and upper bound on delta at epsilon >= 0."""
        ...


@dataclass(frozen=True, slots=True)
class Bracket:
    """A curve below the truth and curves above it, each with its slack (proofs/pld_integer_gaussian.md)."""

    lower: Curve
    lower_slack: float
    uppers: tuple[tuple[Curve, float], ...]

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return lower and upper bound on delta at epsilon."""
        if self.uppers == ((self.lower, self.lower_slack),) and not self.lower_slack:
            return self.lower.delta(epsilon)
        return self._low(epsilon), min(_high(curve, slack, epsilon) for curve, slack in self.uppers)

    def _low(self, epsilon: float) -> float:
        if not self.lower_slack:
            return self.lower.delta(epsilon)[0]
        low = self.lower.delta((epsilon + 2 * self.lower_slack) * (1 + 4 * ROUNDOFF))[0]
        return low * math.exp(-min(self.lower_slack, 700.0)) * (1 - 4 * ROUNDOFF)


def _high(curve: Curve, slack: float, epsilon: float) -> float:
    if not slack:
        return curve.delta(epsilon)[1]
    high = _reflected(curve, epsilon - 2 * slack * (1 + 4 * ROUNDOFF))
    return min(1.0, high * math.exp(min(slack, 700.0)) * (1 + 4 * ROUNDOFF))


def _reflected(curve: Curve, epsilon: float) -> float:
    """Return an upper bound on delta; at epsilon < 0 a symmetric pair has 1 - delta(e) = e^e (1 - delta(-e))."""
    if epsilon >= 0:
        return curve.delta(math.nextafter(epsilon, 0.0))[1]
    if epsilon < -700:
        return 1.0
    return min(1.0, (1 - math.exp(epsilon) * (1 - curve.delta(-epsilon)[1])) * (1 + 8 * ROUNDOFF))


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
        return gaussian_delta(self.mu_squared, epsilon)


@dataclass(frozen=True, slots=True)
class OneLaplace:
    """One release with real Laplace noise."""

    loss: float

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return bounds from the closed form."""
        return laplace_delta(self.loss, epsilon)


@dataclass(frozen=True, slots=True)
class Gridded:
    """A composition with sampled or parallel events, convolved on a grid of losses."""

    prepared: grid.Prepared

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return bounds from the circumscribed and the inscribed polygon."""
        return self.prepared.delta_bounds(epsilon)


def at_delta(parts: Mapping[Event, int], delta: float) -> Bracket:
    """Return curves that are sharp where delta(epsilon) is about `delta`."""
    return _bracket(parts, delta, None)


def at_epsilon(parts: Mapping[Event, int], epsilon: float) -> Bracket:
    """Return curves that are sharp at this epsilon."""
    return _bracket(parts, 1e-6, epsilon)


def _bracket(parts: Mapping[Event, int], delta: float, epsilon: float | None) -> Bracket:
    if any(isinstance(event, PoissonSampled | Parallel) for event in parts):
        gridded = Gridded(grid.prepare(tuple(parts.items()), delta, epsilon))
        return Bracket(gridded, 0.0, ((gridded, 0.0),))
    lower = below(parts)
    low = _curve(lower, delta, epsilon)
    uppers = [(low if upper == lower else _curve(upper, delta, epsilon), upper.slack) for upper in above(parts)]
    return Bracket(low, lower.slack, tuple(uppers))


def _curve(view: View, delta: float, epsilon: float | None) -> Curve:
    losses = mixture(view.parts)
    if losses is None:
        raise UnsupportedEvent(Composed(tuple(view.parts)), "privacy loss distribution")
    if view.by_moments:
        return tail(losses)
    if not losses.families:
        return Gaussians(losses.mu_squared) if losses.mu_squared else Nothing()
    if list(view.parts.values()) == [1] and isinstance(next(iter(view.parts)), RealLaplaceNoise):
        return OneLaplace(losses.largest())
    exact = lattice.convolved(view.parts, delta, epsilon) or lattice.enumerated(view.parts)
    if exact is not None:
        return exact
    return contour.for_delta(losses, delta) if epsilon is None else contour.for_epsilon(losses, epsilon)
