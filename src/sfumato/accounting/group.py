"""Privacy loss of a group of units: neighbours that differ in k units instead of one.

Proof: proofs/group.md
"""

from fractions import Fraction
from math import inf

from sfumato.accounting.approximate import separate
from sfumato.accounting.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    Event,
    GaussianNoise,
    LaplaceBounded,
    LaplaceNoise,
    LaplaceRefinement,
    Neighbours,
    NonPrivate,
    Pure,
    RealGaussianNoise,
    RealLaplaceNoise,
    Repeated,
)
from sfumato.accounting.loss import PrivacyLoss, not_negative
from sfumato.accounting.pure import epsilon_or_infinity
from sfumato.certified.enclosure import Enclosure, enclose, refine, upper
from sfumato.errors import UnsupportedEvent
from sfumato.exact import decimal_rational, integer


def group_loss(loss: PrivacyLoss, units: int) -> PrivacyLoss:
    """Return (kε, δ(e^(kε) - 1)/(e^ε - 1)) for k units, the delta rounded up and at most 1.

    >>> print(f"{group_loss(PrivacyLoss(Fraction(1), Fraction(1, 10**6)), 3):6}")
    ε = 3, δ = 0.0000111074
    """
    size = integer(units, "units", 1)
    if loss.delta == 0 or size == 1:
        return PrivacyLoss(size * loss.epsilon, loss.delta)
    if loss.epsilon == 0:
        return PrivacyLoss(Fraction(0), min(Fraction(1), size * loss.delta))

    def _delta(digits: int) -> Enclosure:
        step = enclose(loss.epsilon, digits)
        return ((step * size).exp() - 1) / (step.exp() - 1) * loss.delta

    return PrivacyLoss(size * loss.epsilon, Fraction(min(Fraction(1), upper(refine(_delta)))))


def group_rho(rho: object, units: int) -> Fraction:
    """Return k²ρ: the zCDP of k units [BS16, Prop. 1.9]."""
    return integer(units, "units", 1) ** 2 * not_negative(decimal_rational(rho, "rho"), "rho")


def group_event(event: Event, units: int) -> Event:
    """Return an event that bounds, for one unit, what `event` reveals about a group of `units` units.

    >>> group_event(GaussianNoise(1, Fraction(100), Neighbours.ADD_REMOVE), 3).sensitivity_squared
    9
    """
    size = integer(units, "units", 1)
    return event if size == 1 else _group_of_size(event, size)


def _group_of_size(event: Event, size: int) -> Event:
    match event:
        case LaplaceNoise(sensitivity, scale, neighbours):
            return LaplaceNoise(size * sensitivity, scale, neighbours)
        case RealLaplaceNoise(moved, scale, neighbours):
            return RealLaplaceNoise(size * moved, scale, neighbours)
        case GaussianNoise(squared, sigma_squared, neighbours):
            return GaussianNoise(size * size * squared, sigma_squared, neighbours)
        case RealGaussianNoise(length, sigma_squared, neighbours):
            return RealGaussianNoise(size * size * length, sigma_squared, neighbours)
        case Pure(epsilon, neighbours):
            return Pure(size * epsilon, neighbours)
        case LaplaceBounded(epsilon, neighbours):
            return LaplaceBounded(size * epsilon, neighbours)
        case BoundedRange(epsilon, neighbours):
            return BoundedRange(size * epsilon, neighbours)
        case Concentrated(rho, neighbours):
            return Concentrated(size * size * rho, neighbours)
        case LaplaceRefinement(moved, before, scale, neighbours):
            return LaplaceRefinement(size * moved, before, scale, neighbours)
        case NonPrivate():
            return event
        case Repeated(inner, times):
            return Repeated(_group_of_size(inner, size), times)
        case Composed(events):
            return Composed(tuple(_group_of_size(part, size) for part in events))
        case _:
            return _of_bound(event, size)


def _of_bound(event: Event, size: int) -> Event:
    """Group events known by (epsilon, delta) only: sampled, parallel, approximate and local releases."""
    core, delta = separate(event, "group")
    epsilon = epsilon_or_infinity(core)
    neighbours = getattr(event, "neighbours", None)
    if epsilon == inf or delta >= 1:
        raise UnsupportedEvent(
            event,
            accountant="group",
            why="A group's loss is known for noise, pure and concentrated releases, and for their compositions.",
            remedy="Account the group through the (epsilon, delta) of the whole: group_loss.",
        )
    if epsilon == 0 == delta:
        return Composed(())
    return _with_delta(group_loss(PrivacyLoss(Fraction(epsilon), delta), size), neighbours)


def _with_delta(loss: PrivacyLoss, neighbours: Neighbours | None) -> Event:
    if loss.delta >= 1:
        return NonPrivate(neighbours or Neighbours.ADD_REMOVE)  # without a relation it was a failure and nothing else
    core: Event = Pure(loss.epsilon, neighbours) if loss.epsilon and neighbours else Composed(())
    return Approximate(core, loss.delta) if loss.delta else core  # such a decomposition exists [KOV15]
