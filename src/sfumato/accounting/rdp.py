"""Rényi differential privacy: a loss for each order, which adds up at each order.

D_α(P‖Q) = ln E_P[(P/Q)^(α-1)] / (α-1), the larger of both directions [M17]. Every number returned is rounded up.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import exp, inf, log

from sfumato.accounting import first_order
from sfumato.accounting.approximate import core_target, nonprivate, separate
from sfumato.accounting.best_of import negative_binomial_loss, poisson_loss
from sfumato.accounting.conversion import epsilon_at, least_delta, least_epsilon
from sfumato.accounting.estimate import Estimate, estimated_loss, pure_estimate, sampled_gaussian_estimate
from sfumato.accounting.event import (
    BestOfNegativeBinomial,
    BestOfPoisson,
    BoundedRange,
    Composed,
    Concentrated,
    Event,
    GaussianMixture,
    GaussianNoise,
    LaplaceBounded,
    LaplaceNoise,
    LaplaceRefinement,
    Neighbours,
    NonPrivate,
    Parallel,
    PoissonSampled,
    Pure,
    RandomizedResponse,
    RealGaussianNoise,
    RealLaplaceNoise,
    RenyiBounded,
    Repeated,
    TreeAggregation,
    TruncatedPoissonSampled,
)
from sfumato.accounting.group import group_event
from sfumato.accounting.loss import multiply_loss, not_negative, one_relation, sum_losses
from sfumato.accounting.pure import enclosed_amplified, epsilon_or_infinity
from sfumato.accounting.sampled_gaussian import MAX_SAMPLED_ORDER, sampled_gaussian_loss
from sfumato.accounting.truncated_sampling import truncation
from sfumato.caches import remembered
from sfumato.certified.enclosure import Enclosure, enclose, float_above, refine, upper
from sfumato.errors import BadParameter, UnsupportedEvent, quote_value
from sfumato.exact import decimal_rational, probability

_AFTER_FIRST = Fraction(1_000_001, 1_000_000)
"""An order near 1, for sampled releases whose divergence at order 1 has no short formula."""


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
        left = core_target(probability(delta, "delta"), self.delta)
        if self.loss == 0 and left >= 0:
            return 0.0
        return float_above(epsilon_at(self.order, self.loss, left)) if left > 0 else inf


def loss(event: Event, order: object) -> float:
    """Return the Rényi loss of the event's core at an order of at least 1; the delta of `Approximate` stands beside it.

    Order 1 is the limit, the Kullback-Leibler divergence; there `BoundedRange(1)` has 0.1233.

    >>> from sfumato.accounting.event import Neighbours
    >>> round(loss(Pure(Fraction(1), Neighbours.ADD_REMOVE), 8), 12)
    0.955248374055
    """
    core, _ = separate(event, "Rényi")
    exact = decimal_rational(order, "order")
    return float_above(core_loss(core, exact if exact == 1 else _checked_order(exact)))


def epsilon(event: Event, delta: object) -> float:
    """Return an epsilon such that the event is (epsilon, delta)-DP: the least over all orders, rounded up.

    Proof: proofs/rdp.md. The order may be infinite, where the loss is the pure one.
    """
    core, beside = separate(event, "Rényi")
    left = core_target(probability(delta, "delta"), beside)
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
    return min(1.0, float_above(beside + max(1 - beside, Fraction(0)) * Fraction(found)))


def _estimate_sampled(event: Event) -> Estimate:
    """Return an estimate for a sampled event; the search for an order asks many, and only the last is certified."""
    match event:
        case PoissonSampled(1, inner):
            return estimated_loss(inner, _estimate_sampled)
        case PoissonSampled(rate, PoissonSampled(again, inner)):
            return _estimate_sampled(PoissonSampled(rate * again, inner))
        case PoissonSampled(rate, inner) if (bound := epsilon_or_infinity(event)) < inf:
            return pure_estimate(float_above(bound))
        case TruncatedPoissonSampled() if not nonprivate(event):
            return _estimate_truncated(event)
        case GaussianMixture() if 0 < event.moved < 1:
            ratio = float_above(event.largest**2 / event.sigma_squared)
            return sampled_gaussian_estimate(float(event.moved), ratio, MAX_SAMPLED_ORDER, integer_noise=False)
        case PoissonSampled(rate, inner) if (gaussian := _gaussian_ratio(inner)) is not None:
            rise, integers = gaussian
            return sampled_gaussian_estimate(float(rate), float_above(rise), MAX_SAMPLED_ORDER, integer_noise=integers)
        case _:
            return lambda order: float_above(leaf_loss(event, Fraction(f"{order:.12g}")))


def _estimate_truncated(event: TruncatedPoissonSampled) -> Estimate:
    cut = truncation(event)
    whole = _estimate_sampled(PoissonSampled(event.rate, event.event))
    if cut.most == 0:
        return whole
    swapped = _estimate_sampled(PoissonSampled(cut.most_rate, group_event(event.event, 2)))
    share = float(cut.most)

    def at(order: float) -> float:
        above = order - 1
        first, second = above * whole(order), above * swapped(order)
        top = max(first, second)
        return (top + log((1 - share) * exp(first - top) + share * exp(second - top))) / above

    return at


def _samples(event: Event) -> bool:
    match event:
        case PoissonSampled() | TruncatedPoissonSampled() | GaussianMixture():
            return True
        case Repeated(inner, _) | TreeAggregation(inner, _):
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
        case TreeAggregation():
            return core_loss(event.path, order)
        case Composed(events):
            return sum_losses(core_loss(part, order) for part in events)
        case Parallel(events):
            return max((core_loss(part, order) for part in events), default=Fraction(0))
        case _:
            return leaf_loss(event, order)


@remembered(1 << 15)
def leaf_loss(event: Event, order: Fraction) -> Fraction | float:
    """Return the loss of one release, rounded up at the 30th digit or exact. The table of proofs/rdp.md, row by row."""
    if order == 1 and (found := _first_order(event)) is not None:
        return found
    match event:
        case GaussianNoise(squared, sigma_squared, _) | RealGaussianNoise(squared, sigma_squared, _):
            return order * squared / (2 * sigma_squared)  # [M17, Prop. 7]; integer noise: [CKS20, Prop. 5]
        case Concentrated(rho, _):
            return order * rho  # [BS16, Def. 1.1]
        case RenyiBounded(bound, _, _, neighbours):
            return min(event.loss_at(order), leaf_loss(Pure(bound, neighbours), order))
        case BoundedRange(bound, _):
            if bound == 0:
                return Fraction(0)
            known = min(order * bound * bound / 8, bound)  # [CR21]
            return min(known, upper(refine(lambda digits: _bounded_range(bound, order, digits))))
        case LaplaceNoise(steps, scale, _):
            return min(steps / scale, upper(refine(lambda digits: _laplace(steps, scale, order, digits))))
        case LaplaceBounded(bound, neighbours):
            return leaf_loss(RealLaplaceNoise(bound, Fraction(1), neighbours), order)
        case GaussianMixture():
            return _mixture_loss(event, order)
        case TruncatedPoissonSampled():
            return _truncated_loss(event, order)
        case BestOfPoisson(_, inner) | BestOfNegativeBinomial(_, _, inner):
            return inf if nonprivate(inner) else _best_of_loss(event, inner, order)
        case RealLaplaceNoise(sensitivity, scale, _):
            bound = sensitivity / scale
            return min(bound, upper(refine(lambda digits: _real_laplace(bound, order, digits))))
        case Pure(bound, _):
            return min(bound, upper(refine(lambda digits: _pure_loss(enclose(bound, digits), order))))
        case RandomizedResponse(bound, categories, _):
            return min(bound, upper(refine(lambda digits: _response_loss(bound, categories, order, digits))))
        case LaplaceRefinement(neighbours=relation):
            return leaf_loss(Pure(event.conditional_loss, relation), order)  # [proofs/refinement.md, 3]
        case NonPrivate():
            return inf
        case PoissonSampled(rate, inner):
            return _sampled_loss(event, rate, inner, order)
        case _:
            raise UnsupportedEvent(event, accountant="Rényi")


def _first_order(event: Event) -> Fraction | float | None:
    """Return the loss at order 1, or None where the general rule serves that order, too."""
    match event:
        case BoundedRange(bound, _):
            return upper(refine(lambda digits: first_order.bounded_range(bound, digits)))
        case LaplaceNoise(steps, scale, _):
            return upper(refine(lambda digits: first_order.integer_laplace(steps, scale, digits)))
        case RealLaplaceNoise(sensitivity, scale, _):
            return upper(refine(lambda digits: first_order.real_laplace(sensitivity / scale, digits)))
        case Pure(bound, _):
            return upper(refine(lambda digits: first_order.response(enclose(bound, digits), 2)))
        case RandomizedResponse(bound, categories, _):
            return upper(refine(lambda digits: first_order.response(enclose(bound, digits), categories)))
        case PoissonSampled(rate, inner) if rate < 1 and not nonprivate(inner):
            return leaf_loss(event, _AFTER_FIRST)  # losses do not fall with the order
        case GaussianMixture() if event.moved < 1:
            return leaf_loss(event, _AFTER_FIRST)
        case TruncatedPoissonSampled() if not nonprivate(event):
            return leaf_loss(event, _AFTER_FIRST)
        case _:
            return None


def _mixture_loss(event: GaussianMixture, order: Fraction) -> Fraction:
    """Return the loss of a Poisson sample with the largest of the lengths: proofs/gaussian_mixture.md, (2)."""
    ratio = event.largest**2 / event.sigma_squared
    if event.moved == 1 or ratio == 0:
        return order * ratio / 2
    return sampled_gaussian_loss(event.moved, ratio, order, integer_noise=False)


def _truncated_loss(event: TruncatedPoissonSampled, order: Fraction) -> Fraction | float:
    """Return ln((1-τ)e^((α-1)D) + τe^((α-1)D'))/(α-1): proofs/truncated_sampling.md, (2)."""
    cut = truncation(event)
    if nonprivate(event):
        return inf
    whole = leaf_loss(PoissonSampled(event.rate, event.event), order) if cut.least < 1 else Fraction(0)
    if cut.most == 0:
        return whole
    swapped = leaf_loss(PoissonSampled(cut.most_rate, group_event(event.event, 2)), order)
    if inf in (whole, swapped):
        return inf
    above, shares = order - 1, (1 - cut.least, cut.most)

    def _log_moment(digits: int) -> Enclosure:
        first, second = (
            (enclose(Fraction(loss), digits) * above).exp() * share
            for loss, share in zip((whole, swapped), shares, strict=True)
        )
        return (first + second).ln() / above

    return min(max(whole, swapped), upper(refine(_log_moment)))


def _pure_delta(bound: Fraction | float, epsilon: Fraction) -> float:
    """Return (1 - e^(epsilon - bound))/(1 + e^-bound), rounded up: what any release of this pure loss has at most."""
    if bound == inf or epsilon >= bound:
        return 1.0 if bound == inf else 0.0
    exact = Fraction(bound)

    def _height(digits: int) -> Enclosure:
        return (-enclose(epsilon - exact, digits).exp() + 1) / ((-enclose(exact, digits)).exp() + 1)

    return float_above(upper(refine(_height)))


def _best_of_loss(event: BestOfPoisson | BestOfNegativeBinomial, inner: Event, order: Fraction) -> Fraction | float:
    pure_loss = epsilon_or_infinity(inner)
    if pure_loss == 0:
        return Fraction(0)
    rough = estimated_loss(inner, _estimate_sampled)
    if isinstance(event, BestOfPoisson):
        found = poisson_loss(
            event.mean,
            lambda at: core_loss(inner, at),
            rough,
            lambda at: min(delta(inner, at), _pure_delta(pure_loss, at)),
            order,
        )
        return min(found, epsilon_or_infinity(event))
    if event.stopping == 1:
        return core_loss(inner, order)
    return negative_binomial_loss(event, lambda at: core_loss(inner, at), rough, pure_loss, order)


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
    if isinstance(inner, GaussianMixture):
        return leaf_loss(_sampled_mixture(rate, inner), order)
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


def _sampled_mixture(rate: Fraction, event: GaussianMixture) -> GaussianMixture:
    """Return the same release on a sample: a unit outside moves the sum by 0."""
    shares = (1 - rate, *(rate * share for share in event.probabilities))
    return GaussianMixture(event.sigma_squared, (Fraction(0), *event.sensitivities), shares, event.neighbours)


def _gaussian_ratio(event: Event) -> tuple[Fraction, bool] | None:
    """Return Σ Δ²/σ² of a composition of Gaussian noise, and whether some of it is integer noise; None if other."""
    match event:
        case GaussianNoise(squared, sigma_squared, _):
            return squared / sigma_squared, True
        case RealGaussianNoise(squared, sigma_squared, _):
            return squared / sigma_squared, False
        case TreeAggregation():
            return _gaussian_ratio(event.path)
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
