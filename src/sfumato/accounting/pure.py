"""Pure differential privacy: losses are exact fractions and add up, whatever is asked next."""

from dataclasses import dataclass
from fractions import Fraction
from math import inf

from sfumato.accounting.event import (
    BestOfNegativeBinomial,
    BestOfPoisson,
    BoundedRange,
    Composed,
    Event,
    GaussianMixture,
    LaplaceBounded,
    LaplaceNoise,
    LaplaceRefinement,
    Neighbours,
    NonPrivate,
    Parallel,
    PoissonSampled,
    Pure,
    RandomizedResponse,
    RealLaplaceNoise,
    RenyiBounded,
    Repeated,
    TreeAggregation,
    TruncatedPoissonSampled,
)
from sfumato.accounting.loss import multiply_loss, one_relation, sum_losses
from sfumato.accounting.truncated_sampling import truncation
from sfumato.caches import remembered
from sfumato.certified.enclosure import Enclosure, enclose, refine, upper
from sfumato.errors import UnsupportedEvent


@dataclass(frozen=True, slots=True)
class PureLoss:
    """The accountant of pure losses: a value; composing gives a new one."""

    epsilon: Fraction | float = Fraction(0)
    neighbours: Neighbours | None = None

    def compose(self, event: Event) -> "PureLoss":
        more = epsilon(event)
        return PureLoss(sum_losses((self.epsilon, more)), one_relation(self.neighbours, event))


def epsilon(event: Event) -> Fraction | float:
    """Return the epsilon of a pure event: exact, except that a sampled one is rounded up at the 30th digit.

    `NonPrivate` costs `math.inf`. An event that is not pure for any finite epsilon (Gaussian noise, `Approximate`) is
    refused: the question has no answer. Proof: proofs/composition.md, Lemma 2.

    >>> from sfumato.accounting.event import Neighbours
    >>> epsilon(Repeated(LaplaceNoise(3, Fraction(10), Neighbours.ADD_REMOVE), 4))
    Fraction(6, 5)
    """
    match event:
        case LaplaceNoise(sensitivity, scale, _) | RealLaplaceNoise(sensitivity, scale, _):
            return Fraction(sensitivity) / scale  # [GRS12]
        case Pure(bound, _) | RandomizedResponse(bound, _, _):
            return bound
        case LaplaceBounded(bound, _) | RenyiBounded(bound, _, _, _):
            return bound
        case LaplaceRefinement():
            return event.added_loss  # [proofs/refinement.md, 2]
        case GaussianMixture() if event.largest == 0:
            return Fraction(0)
        case BoundedRange(bound, _):
            return bound  # log-ratios span at most epsilon, and they have both signs [CR21]
        case NonPrivate():
            return inf
        case PoissonSampled(rate, inner):
            return amplify_by_sampling(rate, epsilon(inner))
        case TruncatedPoissonSampled(rate, _, _, inner):
            once, cut = epsilon(inner), truncation(event)
            # a cut sample swaps one unit for another: two steps [proofs/truncated_sampling.md]
            swapped = amplify_by_sampling(cut.most_rate, multiply_loss(2, once)) if cut.most else Fraction(0)
            return max(swapped, amplify_by_sampling(rate, once)) if cut.least < 1 else swapped
        case TreeAggregation():
            return epsilon(event.path)
        case BestOfNegativeBinomial(stopping, shape, inner):
            return epsilon(inner) if stopping == 1 else epsilon(inner) * (2 + shape)  # [PS22, Cor. 3]
        case BestOfPoisson(mean, inner):
            return _best_of_poisson(mean, epsilon(inner))
        case Repeated(inner, times):
            return multiply_loss(times, epsilon(inner))
        case Composed(events):
            return sum_losses(epsilon(part) for part in events)
        case Parallel(events):
            return max((epsilon(part) for part in events), default=Fraction(0))
        case _:
            raise UnsupportedEvent(
                event,
                accountant="pure",
                why="It is not epsilon-DP for any finite epsilon, or no theorem says for which.",
                remedy="Use the zCDP, Rényi or PLD accountant, which state an epsilon at a delta.",
            )


@remembered(1024)
def _best_of_poisson(mean: Fraction, bound: Fraction | float) -> Fraction | float:
    """Return ε + μ·tanh(ε/2), rounded up: proofs/best_of_runs.md, (3)."""
    if bound in (0, inf):
        return bound
    exact = Fraction(bound)

    def _sum(digits: int) -> Enclosure:
        falling = (-enclose(exact, digits)).exp()
        return (-falling + 1) / (falling + 1) * mean + exact

    return upper(refine(_sum))


def epsilon_or_infinity(event: Event) -> Fraction | float:
    """Return the pure epsilon, or infinity for an event that has none."""
    try:
        return epsilon(event)
    except UnsupportedEvent:
        return inf


@remembered(4096)
def amplify_by_sampling(rate: Fraction, bound: Fraction | float) -> Fraction | float:
    """Return the epsilon of an epsilon-DP event on a Poisson sample: ln(1 + q(e^ε - 1)), rounded up."""
    if bound in (0, inf) or rate == 1:
        return bound
    return min(bound, upper(refine(lambda digits: enclosed_amplified(rate, Fraction(bound), digits))))


def enclosed_amplified(rate: Fraction, bound: Fraction, digits: int) -> Enclosure:
    """Enclose ln(1 + q(e^ε - 1)), written so that e^ε is never formed. [Balle, Barthe, Gaboardi 2018, Thm 8]"""
    loss = enclose(bound, digits)
    return loss + ((-loss).exp() * (1 - rate) + rate).ln()
