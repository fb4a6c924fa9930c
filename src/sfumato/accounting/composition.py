"""Composition of (epsilon, delta) losses whose parameters were fixed in advance; the questions may be adaptive.

Each function takes (loss, times) pairs and returns a loss that holds for all of them together, rounded up.
Proof: proofs/composition.md
"""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, inf

from sfumato.accounting.binomial import binomial_delta
from sfumato.accounting.lattice_sum import common_unit, lattice_delta
from sfumato.accounting.loss import PrivacyLoss, not_negative
from sfumato.certified.enclosure import Enclosure, enclose, float_above, refine, upper
from sfumato.errors import BadParameter
from sfumato.exact import decimal_rational, integer, probability

Losses = Sequence[tuple[PrivacyLoss, int]]
_BISECTIONS = 60


def basic(losses: Losses) -> PrivacyLoss:
    """Return the sums.

    >>> basic([(PrivacyLoss(Fraction(1, 10), Fraction(1, 10**9)), 10)])
    PrivacyLoss(epsilon=Fraction(1, 1), delta=Fraction(1, 100000000))
    """
    return PrivacyLoss(
        sum((loss.epsilon * times for loss, times in _checked_losses(losses)), Fraction(0)), _deltas(losses)
    )


def advanced(loss: PrivacyLoss, times: int, slack: object) -> PrivacyLoss:
    """Return (ε√(2k ln(1/δ')) + kε(e^ε - 1), kδ + δ') [DRV10, Thm III.3]."""
    count, beside = integer(times, "times", 1), probability(slack, "slack")
    _checked_loss(loss)

    def _sum(digits: int) -> Enclosure:
        epsilon = enclose(loss.epsilon, digits)
        return (enclose(1 / beside, digits).ln() * (2 * count)).sqrt() * epsilon + epsilon * count * (epsilon.exp() - 1)

    return _loss(upper(refine(_sum)) if loss.epsilon else Fraction(0), count * loss.delta + beside)


def sharper(losses: Losses, slack: object) -> PrivacyLoss:
    """Return Σ εᵢ·tanh(εᵢ/2) + √(2 ln(1/δ') Σ εᵢ²) with 1 - (1-δ')Π(1-δᵢ) [KOV15, Thm 3.5]."""
    pairs, beside = _checked_losses(losses), probability(slack, "slack")
    squares = sum((times * loss.epsilon**2 for loss, times in pairs), Fraction(0))

    def _sum(digits: int) -> Enclosure:
        total = (enclose(1 / beside, digits).ln() * (2 * squares)).sqrt()
        for loss, times in pairs:
            falling = (-enclose(loss.epsilon, digits)).exp()
            total = total + -(falling - 1) / (falling + 1) * (loss.epsilon * times)
        return total

    return _loss(upper(refine(_sum)) if squares else Fraction(0), _overall_delta(pairs, beside))


def optimal_delta(losses: Losses, epsilon: object) -> Fraction:
    """Return the least delta, rounded up, at which all of this is (epsilon, delta)-DP [KOV15, MV16].

    Equal epsilons are a binomial sum. Different ones are convolved on the lattice of their common unit, which must
    not be too fine; otherwise the question is #P-hard [MV16] and is refused.
    """
    pairs = _checked_losses(losses)
    target = not_negative(decimal_rational(epsilon, "epsilon"), "epsilon")
    return _overall_delta(pairs, _core_delta(pairs, target))


def optimal(losses: Losses, delta: object) -> PrivacyLoss:
    """Return the least epsilon, rounded up, at which all of this is (epsilon, delta)-DP [KOV15, MV16]."""
    pairs = _checked_losses(losses)
    target = decimal_rational(delta, "delta")
    high = basic(losses).epsilon
    if not _overall_delta(pairs, Fraction(0)) <= target <= 1:
        raise _too_small(target, pairs)
    low = Fraction(0)
    if _overall_delta(pairs, _core_delta(pairs, low)) <= target:
        return PrivacyLoss(low, target)
    for _ in range(_BISECTIONS):
        near = float_above((low + high) / 2)
        middle = Fraction(f"{near:.15g}") if near < inf else (low + high) / 2
        if not low < middle < high:
            break
        if _overall_delta(pairs, _core_delta(pairs, middle)) <= target:
            high = middle
        else:
            low = middle
    return PrivacyLoss(high, target)


def best(losses: Losses, delta: object) -> PrivacyLoss:
    """Return the least epsilon at this delta that any of the bounds above gives."""
    pairs = _checked_losses(losses)
    target = decimal_rational(delta, "delta")
    left = target - _deltas(losses)
    if left < 0 or target > 1:
        raise _too_small(target, pairs)
    losses_found = [basic(losses)]
    if left > 0:
        losses_found.append(sharper(losses, left))
        if len({loss for loss, _ in pairs}) == 1:
            losses_found.append(advanced(pairs[0][0], sum(times for _, times in pairs), left))
    if _is_tractable(pairs):
        losses_found.append(optimal(losses, target))
    return PrivacyLoss(min(loss.epsilon for loss in losses_found), target)


def _checked_losses(losses: Losses) -> list[tuple[PrivacyLoss, int]]:
    try:
        pairs = [(_checked_loss(loss), times) for loss, times in losses]
    except (TypeError, ValueError):
        pairs = [(_checked_loss(losses), 0)]  # refused there
    return [(loss, integer(times, "times", 1)) for loss, times in pairs]


def _checked_loss(loss: object) -> PrivacyLoss:
    if isinstance(loss, PrivacyLoss):
        return loss
    raise BadParameter(
        "The losses are not pairs of a PrivacyLoss and a number of times.",
        "Composition adds up what is known of each release.",
        "Write for example [(PrivacyLoss(Fraction(1, 10)), 100)].",
    )


def _loss(epsilon: Fraction | float, delta: Fraction) -> PrivacyLoss:
    if epsilon == inf:
        raise BadParameter(
            "This epsilon is too large to compose.",
            "e^epsilon cannot be computed for so large an epsilon.",
            "Use `basic`.",
        )
    return PrivacyLoss(Fraction(epsilon), min(Fraction(1), delta))


def _deltas(losses: Losses) -> Fraction:
    return min(Fraction(1), sum((loss.delta * times for loss, times in _checked_losses(losses)), Fraction(0)))


def _overall_delta(pairs: Losses, core: Fraction) -> Fraction:
    """Return 1 - (1 - core)·Π(1-δᵢ), rounded up."""
    failing = [(loss.delta, times) for loss, times in pairs if loss.delta]
    if not failing or core >= 1:
        return min(Fraction(1), core)
    if any(delta == 1 for delta, _ in failing):
        return Fraction(1)

    def _failure(digits: int) -> Enclosure:
        logs = enclose(0, digits)
        for delta, times in failing:
            logs = logs + enclose(1 - delta, digits).ln() * times
        return -(logs.exp() * (1 - core) - 1)

    return min(Fraction(1), Fraction(upper(refine(_failure))))


def _core_delta(pairs: Losses, epsilon: Fraction) -> Fraction:
    counts = _count_losses(pairs)
    if not counts:
        return Fraction(0)
    if len(counts) == 1:
        ((single, times),) = counts.items()
        return binomial_delta(single, times, epsilon)
    return lattice_delta(counts, epsilon)


def _count_losses(pairs: Losses) -> dict[Fraction, int]:
    counts: dict[Fraction, int] = {}
    for loss, times in pairs:
        if loss.epsilon:
            counts[loss.epsilon] = counts.get(loss.epsilon, 0) + times
    return counts


def _is_tractable(pairs: Losses) -> bool:
    counts = _count_losses(pairs)
    return len(counts) <= 1 or common_unit(counts) is not None


def _too_small(target: Fraction, pairs: Losses) -> BadParameter:
    least = _overall_delta(pairs, Fraction(0))
    return BadParameter(
        f"delta = {target} does not fit.",
        "The deltas of the parts already come to more, or it is not a probability.",
        f"Give a delta between {ceil(least * 10**15) / 10**15:g} and 1.",
    )
