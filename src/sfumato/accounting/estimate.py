"""Rényi losses as plain floats, to find a good order quickly. They decide nothing: what is reported is certified."""

from collections.abc import Callable
from fractions import Fraction
from math import exp, expm1, inf, log, log1p

from sfumato.accounting.enclosure import float_above
from sfumato.accounting.event import (
    BoundedRange,
    Composed,
    Concentrated,
    Event,
    GaussianNoise,
    LaplaceNoise,
    Parallel,
    Pure,
    RandomizedResponse,
    RealGaussianNoise,
    RealLaplaceNoise,
    Repeated,
)

Estimate = Callable[[float], float]


def estimated_loss(event: Event, otherwise: Callable[[Event, float], float]) -> Estimate:
    """Return order → loss, with the event's parameters read once; `otherwise` serves events without a short formula."""
    match event:
        case Repeated(inner, times):
            once, count = estimated_loss(inner, otherwise), float_above(Fraction(times))
            return lambda order: count * once(order)
        case Composed(events):
            parts = [estimated_loss(part, otherwise) for part in events]
            return lambda order: sum(part(order) for part in parts)
        case Parallel(events):
            sides = [estimated_loss(part, otherwise) for part in events]
            return lambda order: max((side(order) for side in sides), default=0.0)
        case GaussianNoise(squared, variance, _) | RealGaussianNoise(squared, variance, _):
            rho = float_above(squared / (2 * variance))
            return lambda order: rho * order
        case Concentrated(exact, _):
            slope = float_above(exact)
            return lambda order: slope * order
        case BoundedRange(bound, _):
            width = float_above(bound)
            return lambda order: min(order * width * width / 8, width)
        case Pure(bound, _):
            return _response(float_above(bound), 0.0)
        case RandomizedResponse(bound, categories, _):
            return _response(float_above(bound), float_above(Fraction(categories - 2)))
        case RealLaplaceNoise(sensitivity, scale, _):
            return _real_laplace(float_above(sensitivity / scale))
        case LaplaceNoise(steps, scale, _):
            return _laplace(float_above(steps / scale), float_above(1 / scale), float_above(Fraction(steps)))
        case _:
            return lambda order: otherwise(event, order)


def _response(loss: float, others: float) -> Estimate:
    total = log1p((others + 1) * exp(-loss))

    def at(order: float) -> float:
        rest = exp(-loss * (2 * order - 1)) + others * exp(-loss * order)
        return loss + (log1p(rest) - total) / (order - 1)

    return at


def _real_laplace(loss: float) -> Estimate:
    def at(order: float) -> float:
        return loss + log1p((order - 1) * expm1(-loss * (2 * order - 1)) / (2 * order - 1)) / (order - 1)

    return at


def _laplace(loss: float, rate: float, steps: float) -> Estimate:
    if steps == 1:
        return _response(loss, 0.0)  # one step of integer noise is a binary response

    def at(order: float) -> float:
        width = rate * (2 * order - 1)
        between = exp(-width) * expm1(-width * (steps - 1)) / expm1(-width) if width else steps - 1.0
        mean = 1 + exp(-loss * (2 * order - 1)) - expm1(-rate) * between
        return loss + (log(mean) - log1p(exp(-rate))) / (order - 1) if mean < inf else inf

    return at
