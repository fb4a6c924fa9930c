"""Estimate Rényi losses in floats to find a good order quickly; reported losses are certified elsewhere."""

from collections.abc import Callable
from fractions import Fraction
from math import ceil, exp, expm1, floor, inf, lgamma, log, log1p, pi, sqrt

from sfumato.accounting.event import (
    BoundedRange,
    Composed,
    Concentrated,
    Event,
    GaussianNoise,
    LaplaceBounded,
    LaplaceNoise,
    LaplaceRefinement,
    Parallel,
    Pure,
    RandomizedResponse,
    RealGaussianNoise,
    RealLaplaceNoise,
    RenyiBounded,
    Repeated,
    TreeAggregation,
)
from sfumato.certified.enclosure import float_above

Estimate = Callable[[float], float]


_INTEGRAL_DEVIATIONS = 9.0  # standard deviations that an integral reaches
_MAX_POINTS = 20_000
_MIN_SAMPLED_SIGNAL = 1e-6  # below, the integral of a sampled loss is lost in its rounding


def estimated_loss(event: Event, otherwise: Callable[[Event], Estimate]) -> Estimate:
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
        case RenyiBounded(bound, _, _, _):
            known, response = event.loss_at, pure_estimate(float_above(bound))
            return lambda order: min(float_above(known(Fraction(order))), response(order))
        case BoundedRange(bound, _):
            width = float_above(bound)
            return _bounded_range(width)
        case Pure(bound, _):
            return pure_estimate(float_above(bound))
        case RandomizedResponse(bound, categories, _):
            return _estimate_response(float_above(bound), float_above(Fraction(categories - 2)))
        case TreeAggregation():
            return estimated_loss(event.path, otherwise)
        case LaplaceRefinement():
            return pure_estimate(float_above(event.conditional_loss))
        case LaplaceBounded(bound, _):
            return _real_laplace(float_above(bound))
        case RealLaplaceNoise(sensitivity, scale, _):
            return _real_laplace(float_above(sensitivity / scale))
        case LaplaceNoise(steps, scale, _):
            return _laplace(float_above(steps / scale), float_above(1 / scale), float_above(Fraction(steps)))
        case _:
            return otherwise(event)


def pure_estimate(loss: float) -> Estimate:
    """Return order → loss of a release known by its pure loss."""
    return _estimate_response(loss, 0.0)


def sampled_gaussian_estimate(rate: float, ratio: float, largest_order: int, *, integer_noise: bool) -> Estimate:
    """Return order → loss of Gaussian noise with Δ²/σ² = ratio on a Poisson sample: by the binomial sum [MTZ19].

    Between integer orders it goes along the chord, or for real noise by the trapezoidal rule, which for a function
    with so thin tails is exact to all digits.
    """
    root = sqrt(ratio)

    def at(order: float) -> float:
        unsampled = order * ratio / 2
        if order > largest_order or unsampled > 1e5:
            return unsampled
        step = 0.1 / (1 + root)
        reach = 2 * _INTEGRAL_DEVIATIONS + order * root
        if integer_noise or rate * root < _MIN_SAMPLED_SIGNAL or reach / step > _MAX_POINTS or order == floor(order):
            below, above = floor(order), ceil(order)
            low = _log_moment(rate, ratio, below)
            log_moment = low + (order - below) * (_log_moment(rate, ratio, above) - low) if above > below else low
        else:
            log_moment = _integrate_moment(rate, root, order, step)
        return min(unsampled, log_moment / (order - 1))

    return at


def _log_moment(rate: float, ratio: float, order: int) -> float:
    """Return ln(1 + Σ_{j≥2} C(α,j)(1-q)^(α-j) q^j (e^((j²-j)v/2) - 1)): all terms are positive."""
    if order < 2:
        return 0.0
    import numpy as np

    j = np.arange(2, order + 1, dtype=np.float64)
    chosen = lgamma(order + 1) - np.array([lgamma(k + 1) + lgamma(order - k + 1) for k in range(2, order + 1)])
    growth = (j * j - j) * (ratio / 2)
    with np.errstate(divide="ignore"):
        logs = chosen + (order - j) * log1p(-rate) + j * log(rate) + growth + np.log(-np.expm1(-growth))
    return float(np.logaddexp(0.0, np.logaddexp.reduce(logs)))


def _integrate_moment(rate: float, root: float, order: float, step: float) -> float:
    """Return ln(1 + E[f^α - 1 - α(f - 1)]) for f = 1 + q(e^(√v z - v/2) - 1), whose mean is 1."""
    import numpy as np

    z = np.arange(-_INTEGRAL_DEVIATIONS, order * root + _INTEGRAL_DEVIATIONS, step)
    with np.errstate(over="ignore"):
        excess = rate * np.expm1(root * z - root * root / 2)
    power = order * np.log1p(excess)
    top = max(float((power - z * z / 2).max()), 0.0)
    linear = (1 + order * excess) * np.exp(-z * z / 2 - top)
    total = float((np.exp(power - z * z / 2 - top) - linear).sum()) * step / sqrt(2 * pi)
    return top + log(exp(-top) + max(total, 0.0))


def _estimate_response(loss: float, others: float) -> Estimate:
    total = log1p((others + 1) * exp(-loss))

    def at(order: float) -> float:
        rest = exp(-loss * (2 * order - 1)) + others * exp(-loss * order)
        return loss + (log1p(rest) - total) / (order - 1)

    return at


def _bounded_range(width: float) -> Estimate:
    def at(order: float) -> float:
        known = min(order * width * width / 8, width)
        if (order - 1) * width < 1e-3:  # there the two hardly differ, and floats cancel
            return known
        far, near = -expm1(-width * order), -expm1(-width * (order - 1))
        mean = log(far / (-expm1(-width) * order)) / (order - 1)
        return min(known, width + log(far * (order - 1) / (near * order)) + mean)

    return at


def _real_laplace(loss: float) -> Estimate:
    def at(order: float) -> float:
        return loss + log1p((order - 1) * expm1(-loss * (2 * order - 1)) / (2 * order - 1)) / (order - 1)

    return at


def _laplace(loss: float, rate: float, steps: float) -> Estimate:
    if steps == 1:
        return _estimate_response(loss, 0.0)  # one step of integer noise is a binary response

    def at(order: float) -> float:
        width = rate * (2 * order - 1)
        between = exp(-width) * expm1(-width * (steps - 1)) / expm1(-width) if width else steps - 1.0
        mean = 1 + exp(-loss * (2 * order - 1)) - expm1(-rate) * between
        return loss + (log(mean) - log1p(exp(-rate))) / (order - 1) if mean < inf else inf

    return at
