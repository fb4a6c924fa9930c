"""Rényi differential privacy: a loss for each order, which adds up at each order.

D_α(P‖Q) = ln E_P[(P/Q)^(α-1)] / (α-1), the larger of both directions [M17]. Every number returned is rounded up.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf

from sfumato.accounting.approximate import nonprivate, separate
from sfumato.accounting.conversion import epsilon_at, least_delta, least_epsilon
from sfumato.accounting.estimate import Estimate, estimated_loss, pure_estimate, sampled_gaussian_estimate
from sfumato.accounting.event import (
    BoundedRange,
    Composed,
    Concentrated,
    Event,
    GaussianNoise,
    LaplaceNoise,
    Neighbours,
    NonPrivate,
    Parallel,
    PoissonSampled,
    Pure,
    RandomizedResponse,
    RealGaussianNoise,
    RealLaplaceNoise,
    Repeated,
)
from sfumato.accounting.loss import multiply_loss, not_negative, one_relation, sum_losses
from sfumato.accounting.pure import enclosed_amplified, epsilon_or_infinity
from sfumato.accounting.sampled_gaussian import MAX_SAMPLED_ORDER, sampled_gaussian_loss
from sfumato.certified.enclosure import Enclosure, enclose, float_above, refine, upper
from sfumato.errors import BadParameter, UnsupportedEvent, quote_value
from sfumato.exact import decimal_rational, probability


@dataclass(frozen=True, slots=True)
class Rdp:
    """Accountant for Rényi DP at one order, with exact sums; composing returns a new value."""

    order: Fraction
    loss: Fraction | float = Fraction(0)
    delta: Fraction = Fraction(0)
    neighbours: Neighbours | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", _checked_order(self.order))

    def compose(self, event: Event) -> "Rdp":
        core, delta = separate(event, "Rényi")
        more = core_loss(core, self.order)
        return Rdp(self.order, sum_losses((self.loss, more)), self.delta + delta, one_relation(self.neighbours, event))

    def epsilon(self, delta: object) -> float:
        """Return an epsilon such that everything composed so far is (epsilon, delta)-DP, from this order alone."""
        left = probability(delta, "delta") - self.delta
        if self.loss == 0 and left >= 0:
            return 0.0
        return float_above(epsilon_at(self.order, self.loss, left)) if left > 0 else inf


def loss(event: Event, order: object) -> float:
    """Return the Rényi loss of the event's core at an order above 1; the delta of `Approximate` stands beside it.

    >>> from sfumato.accounting.event import Neighbours
    >>> round(loss(Pure(Fraction(1), Neighbours.ADD_REMOVE), 8), 12)
    0.955248374055
    """
    return float_above(Rdp(_checked_order(order)).compose(event).loss)


def epsilon(event: Event, delta: object) -> float:
    """Return an epsilon such that the event is (epsilon, delta)-DP: the least over all orders, rounded up.

    Proof: proofs/rdp.md. The order may be infinite, where the loss is the pure one.
    """
    core, beside = separate(event, "Rényi")
    left = probability(delta, "delta") - beside
    probe = core_loss(core, Fraction(2))
    if probe == 0 and left >= 0:
        return 0.0
    if left <= 0 or probe == inf:
        return inf
    rough = estimated_loss(core, _estimate_sampled)
    found = least_epsilon(lambda order: core_loss(core, order), rough, left, lattice=_samples(core))
    return min(found, float_above(epsilon_or_infinity(core)))


def delta(event: Event, epsilon: object) -> float:
    """Return a delta such that the event is (epsilon, delta)-DP: the least over all orders, rounded up.

    Proof: proofs/rdp.md, Lemma 4.
    """
    core, beside = separate(event, "Rényi")
    target = not_negative(decimal_rational(epsilon, "epsilon"), "epsilon")
    if epsilon_or_infinity(core) <= target:
        return min(1.0, float_above(beside))
    rough = estimated_loss(core, _estimate_sampled)
    found = least_delta(lambda order: core_loss(core, order), rough, target, lattice=_samples(core))
    return min(1.0, float_above(beside + Fraction(found)))


def _estimate_sampled(event: Event) -> Estimate:
    """Return an estimate for a sampled event; the search for an order asks many, and only the last is certified."""
    match event:
        case PoissonSampled(1, inner):
            return estimated_loss(inner, _estimate_sampled)
        case PoissonSampled(rate, PoissonSampled(again, inner)):
            return _estimate_sampled(PoissonSampled(rate * again, inner))
        case PoissonSampled(rate, inner) if (bound := epsilon_or_infinity(event)) < inf:
            return pure_estimate(float_above(bound))
        case PoissonSampled(rate, inner) if (gaussian := _gaussian_ratio(inner)) is not None:
            ratio, integers = gaussian
            return sampled_gaussian_estimate(float(rate), float_above(ratio), MAX_SAMPLED_ORDER, integer_noise=integers)
        case _:
            return lambda order: float_above(leaf_loss(event, Fraction(f"{order:.12g}")))


def _samples(event: Event) -> bool:
    match event:
        case PoissonSampled():
            return True
        case Repeated(inner, _):
            return _samples(inner)
        case Composed(events) | Parallel(events):
            return any(_samples(part) for part in events)
        case _:
            return False


def core_loss(event: Event, order: Fraction) -> Fraction | float:
    """Return the loss of an event without `Approximate`, as an exact number that is not below it."""
    match event:
        case Repeated(inner, times):
            return multiply_loss(times, core_loss(inner, order))
        case Composed(events):
            return sum_losses(core_loss(part, order) for part in events)
        case Parallel(events):
            return max((core_loss(part, order) for part in events), default=Fraction(0))
        case _:
            return leaf_loss(event, order)


@lru_cache(maxsize=1 << 15)
def leaf_loss(event: Event, order: Fraction) -> Fraction | float:
    """Return the loss of one release, rounded up at the 30th digit or exact. The table of proofs/rdp.md, row by row."""
    match event:
        case GaussianNoise(squared, sigma_squared, _) | RealGaussianNoise(squared, sigma_squared, _):
            return order * squared / (2 * sigma_squared)  # [M17, Prop. 7]; integer noise: [CKS20, Prop. 5]
        case Concentrated(rho, _):
            return order * rho  # [BS16, Def. 1.1]
        case BoundedRange(bound, _):
            if bound == 0:
                return Fraction(0)
            known = min(order * bound * bound / 8, bound)  # [CR21]
            return min(known, upper(refine(lambda digits: _bounded_range(bound, order, digits))))
        case LaplaceNoise(steps, scale, _):
            return min(steps / scale, upper(refine(lambda digits: _laplace(steps, scale, order, digits))))
        case RealLaplaceNoise(sensitivity, scale, _):
            bound = sensitivity / scale
            return min(bound, upper(refine(lambda digits: _real_laplace(bound, order, digits))))
        case Pure(bound, _):
            return min(bound, upper(refine(lambda digits: _pure_loss(enclose(bound, digits), order))))
        case RandomizedResponse(bound, categories, _):
            return min(bound, upper(refine(lambda digits: _response_loss(bound, categories, order, digits))))
        case NonPrivate():
            return inf
        case PoissonSampled(rate, inner):
            return _sampled_loss(event, rate, inner, order)
        case _:
            raise UnsupportedEvent(event, accountant="Rényi")


def _checked_order(value: object) -> Fraction:
    order = decimal_rational(value, "order")
    if order > 1:
        return order
    raise BadParameter(
        f"order = {quote_value(value)} is not above 1.", "Rényi orders are above 1.", "Give for example 2."
    )


def _pure_loss(bound: Enclosure, order: Fraction) -> Enclosure:
    """Enclose ln(cosh((α-½)ε)/cosh(ε/2))/(α-1), with e^((α-1)ε) factored out against overflow."""
    numerator = (-bound * (2 * order - 1)).exp() + 1
    denominator = (-bound).exp() + 1
    return bound + (numerator / denominator).ln() / (order - 1)


def _bounded_range(bound: Fraction, order: Fraction, digits: int) -> Enclosure:
    """Enclose the largest loss of a release whose log-ratios span ε: that of a pair of two outcomes.

    With a = α - 1, F = e^-ε, A = 1 - F^α, B = 1 - F^a: ε + ln(aA/(αB)) + ln(A/(α(1 - F)))/a.
    Proof: proofs/rdp.md, Lemma 5
    """
    epsilon, above = enclose(bound, digits), order - 1
    far, near = -(-epsilon * order).exp() + 1, -(-epsilon * above).exp() + 1
    widest = far * above / (near * order)
    mean = far / ((-(-epsilon).exp() + 1) * order)
    return epsilon + widest.ln() + mean.ln() / above


def _response_loss(bound: Fraction, categories: int, order: Fraction, digits: int) -> Enclosure:
    epsilon = enclose(bound, digits)
    others = (-epsilon * order).exp() * (categories - 2)
    numerator = (-epsilon * (2 * order - 1)).exp() + others + 1
    denominator = (-epsilon).exp() * (categories - 1) + 1
    return epsilon + (numerator / denominator).ln() / (order - 1)


def _real_laplace(bound: Fraction, order: Fraction, digits: int) -> Enclosure:
    epsilon = enclose(bound, digits)
    mean = ((-epsilon * (2 * order - 1)).exp() * (order - 1) + order) / (2 * order - 1)
    return epsilon + mean.ln() / (order - 1)


def _laplace(sensitivity: int, scale: Fraction, order: Fraction, digits: int) -> Enclosure:
    epsilon = enclose(sensitivity / scale, digits)
    x = (-enclose(1 / scale, digits)).exp()
    far = (-epsilon * (2 * order - 1)).exp()  # y^D
    mean = far + 1
    if sensitivity > 1:
        y = (-enclose((2 * order - 1) / scale, digits)).exp()
        mean = mean - (x - 1) * (y - far) / (-y + 1)
    return epsilon + (mean / (x + 1)).ln() / (order - 1)


def _sampled_loss(event: Event, rate: Fraction, inner: Event, order: Fraction) -> Fraction | float:
    if rate == 1:
        return core_loss(inner, order)
    if isinstance(inner, PoissonSampled):
        return leaf_loss(PoissonSampled(rate * inner.rate, inner.event), order)  # a sample of a sample is a sample
    if nonprivate(inner):
        return inf
    bound = epsilon_or_infinity(inner)
    if bound == 0:
        return Fraction(0)
    if bound < inf:
        exact = Fraction(bound)
        return upper(refine(lambda digits: _pure_loss(enclosed_amplified(rate, exact, digits), order)))
    gaussian = _gaussian_ratio(inner)
    if gaussian is None:
        raise UnsupportedEvent(
            event,
            accountant="Rényi",
            why="A Poisson sample is bounded for pure events and for compositions of Gaussian noise alone.",
            remedy="Sample each kind of release separately, or use the PLD accountant.",
        )
    return sampled_gaussian_loss(rate, gaussian[0], order, integer_noise=gaussian[1])


def _gaussian_ratio(event: Event) -> tuple[Fraction, bool] | None:
    """Return Σ Δ²/σ² of a composition of Gaussian noise, and whether some of it is integer noise; None if other."""
    match event:
        case GaussianNoise(squared, sigma_squared, _):
            return squared / sigma_squared, True
        case RealGaussianNoise(squared, sigma_squared, _):
            return squared / sigma_squared, False
        case Repeated(inner, times):
            found = _gaussian_ratio(inner)
            return found and (times * found[0], found[1])
        case Composed(events) | Parallel(events):
            parts = [_gaussian_ratio(part) for part in events]
            known = [part for part in parts if part is not None]
            if len(known) < len(parts):
                return None
            ratios = [ratio for ratio, _ in known]
            together = max(ratios, default=Fraction(0)) if isinstance(event, Parallel) else sum(ratios, Fraction(0))
            return together, any(integers for _, integers in known)
        case _:
            return None
