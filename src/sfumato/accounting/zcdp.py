"""Zero-concentrated differential privacy: one number, rho, that adds up.

rho-zCDP: the Rényi divergence of every order α > 1, in both directions, is at most rho·α [BS16].
"""

from dataclasses import dataclass
from fractions import Fraction
from math import inf

from sfumato.accounting.approximate import core_target, nonprivate, separate
from sfumato.accounting.conversion import least_epsilon
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
from sfumato.accounting.loss import multiply_loss, not_negative, one_relation, sum_losses
from sfumato.accounting.pure import epsilon_or_infinity
from sfumato.caches import remembered
from sfumato.certified.enclosure import Enclosure, enclose, float_above, refine, upper
from sfumato.errors import UnsupportedEvent
from sfumato.exact import decimal_rational, probability


@dataclass(frozen=True, slots=True)
class Zcdp:
    """The accountant: delta-approximate rho-zCDP, as a value; composing gives a new one.

    Sums are of exact fractions, so the order of events does not matter.
    """

    rho: Fraction | float = Fraction(0)
    delta: Fraction = Fraction(0)
    neighbours: Neighbours | None = None

    def compose(self, event: Event) -> "Zcdp":
        core, delta = separate(event, "zCDP")
        return Zcdp(sum_losses((self.rho, _rho(core))), self.delta + delta, one_relation(self.neighbours, event))

    def epsilon(self, delta: object) -> float:
        """Return an epsilon such that everything composed so far is (epsilon, delta)-DP, rounded up [CKS20, §2.3]."""
        left = core_target(probability(delta, "delta"), self.delta)
        if self.rho == inf or left <= 0:
            return inf if self.rho > 0 or left < 0 else 0.0
        if self.rho == 0:
            return 0.0
        slope = float_above(self.rho)
        return least_epsilon(lambda order: order * self.rho, lambda order: order * slope, left)


def rho(event: Event) -> float:
    """Return a rho, rounded up, for which the event's core is rho-zCDP; the delta of `Approximate` stands beside it.

    Proof: proofs/zcdp.md.
    """
    return float_above(Zcdp().compose(event).rho)


def epsilon(event: Event, delta: object) -> float:
    """Return an epsilon such that the event is (epsilon, delta)-DP, rounded up.

    >>> from sfumato.accounting.event import Neighbours
    >>> round(epsilon(GaussianNoise(1, Fraction(1), Neighbours.ADD_REMOVE), 1e-6), 7)
    5.2215344
    """
    return Zcdp().compose(event).epsilon(delta)


def classic_epsilon(rho: object, delta: object) -> float:
    """Return ρ + 2√(ρ ln(1/δ)), rounded up: the older, simpler and larger conversion [BS16, Prop. 1.3]."""
    total = not_negative(decimal_rational(rho, "rho"), "rho")
    target = probability(delta, "delta")
    if total == 0:
        return 0.0

    def _sum(digits: int) -> Enclosure:
        return (enclose(1 / target, digits).ln() * total).sqrt() * 2 + total

    return float_above(upper(refine(_sum)))


def _rho(event: Event) -> Fraction | float:
    match event:
        case GaussianNoise(squared, sigma_squared, _) | RealGaussianNoise(squared, sigma_squared, _):
            return squared / (2 * sigma_squared)  # [BS16, Prop. 1.6]; integer noise: [CKS20, Thm 4]
        case Concentrated(bound, _):
            return bound
        case BoundedRange(bound, _):
            return min(bound * bound / 8, _of_pure(bound))  # [CR21]; also epsilon-DP, which is less beyond 8
        case GaussianMixture(sigma_squared=variance):
            return event.largest**2 / (2 * variance)  # a mixture is no farther than its farthest part [vEH14, Thm 13]
        case LaplaceRefinement():
            return _of_pure(event.conditional_loss)
        case LaplaceBounded() | LaplaceNoise() | RealLaplaceNoise() | Pure() | RandomizedResponse() | NonPrivate():
            return _of_pure(epsilon_or_infinity(event))
        case RenyiBounded():  # its losses are known at a few orders, and zCDP asks for all of them
            return _of_pure(epsilon_or_infinity(event))
        case PoissonSampled(1, inner):
            return _rho(inner)  # every unit is sampled
        case PoissonSampled(_, inner) if (sampled := epsilon_or_infinity(event)) < inf or nonprivate(inner):
            return _of_pure(sampled)
        case TruncatedPoissonSampled() | BestOfPoisson() | BestOfNegativeBinomial() if (
            pure_loss := epsilon_or_infinity(event)
        ) < inf or nonprivate(event):
            return _of_pure(pure_loss)
        case TreeAggregation():
            return _rho(event.path)
        case Repeated(inner, times):
            return multiply_loss(times, _rho(inner))
        case Composed(events):
            return sum_losses(_rho(part) for part in events)
        case Parallel(events):
            return max((_rho(part) for part in events), default=Fraction(0))
        case _:
            raise UnsupportedEvent(event, accountant="zCDP")


@remembered(4096)
def _of_pure(bound: Fraction | float) -> Fraction | float:
    """Return ε·tanh(ε/2), rounded up: an epsilon-DP event is so concentrated. Proof: proofs/zcdp.md."""
    if bound in (0, inf):
        return bound
    exact = Fraction(bound)

    def _product(digits: int) -> Enclosure:
        falling = (-enclose(exact, digits)).exp()
        return -(falling - 1) / (falling + 1) * exact

    return upper(refine(_product))
