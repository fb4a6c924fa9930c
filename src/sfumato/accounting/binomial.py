"""The optimal composition of equal pure losses: a binomial sum, bounded from above [KOV15, Thm 3.3]."""

from fractions import Fraction
from functools import lru_cache
from math import ceil, factorial, floor, fsum, sqrt

from sfumato.certified.enclosure import Enclosure, enclose, float_above, pi, refine, upper
from sfumato.errors import BadParameter

MAX_EVENT_REPEATS = 10**10
_ROUNDING_ERROR = Fraction(1, 2**52)
_UNDERFLOW_PROBABILITY = Fraction(1, 10**290)  # what may have vanished among fewer than 10^8 masses
_MAX_EXACT_REPEATS = 3000
_MAX_GAP_EPSILON = 1e200  # 1 - e^-gap is 1 for such gaps, and a hundred million of them do not overflow
_STIRLING = ((1, 12, 1), (-1, 360, 3), (1, 1260, 5), (-1, 1680, 7), (1, 1188, 9))


def binomial_delta(epsilon: Fraction, times: int, target: Fraction) -> Fraction:
    """Return δ, rounded up, of `times` releases that are each epsilon-DP, at ε = target.

    δ = Σ_l p_l·(1 - e^(target - (2l - times)·epsilon))₊ with p_l = C(times, l) e^(l·epsilon) / (1 + e^epsilon)^times.
    All terms are positive, so floats lose a known number of last places; proofs/composition.md, Lemma 3.
    """
    if times > MAX_EVENT_REPEATS:
        raise BadParameter(f"times = {times} is above {MAX_EVENT_REPEATS}.", "The sum is too long.", "Use `sharper`.")
    first = max(0, floor((target / epsilon + times) / 2) + 1)  # the least l whose loss exceeds the target
    if first > times:
        return Fraction(0)
    shrink = _shrink(epsilon)
    anchor = max(first, min(times, floor((times + 1) / (1 + shrink))))
    reach = ceil(14 * sqrt(times * shrink) / (1 + shrink)) + 400
    mass = Fraction(upper(refine(lambda digits: _log_mass(times, anchor, epsilon, digits).exp())))
    shape = Fraction(_relative_sum((times, epsilon, target), (first, anchor), reach)) + _UNDERFLOW_PROBABILITY
    return min(Fraction(1), mass * shape * (1 + (16 * reach + 64) * _ROUNDING_ERROR))


def _relative_sum(loss: tuple[int, Fraction, Fraction], ends: tuple[int, int], reach: int) -> float:
    """Return Σ_{l ≥ first} p_l/p_anchor·(1 - e^(target - loss_l)); beyond the reach of the anchor a bound of it."""
    import numpy as np

    (times, epsilon, target), (first, anchor) = loss, ends
    shrink = _shrink(epsilon)
    low, high = max(first, anchor - reach), min(times, anchor + reach)
    up, down = np.arange(anchor, high, dtype=np.float64), np.arange(anchor, low, -1, dtype=np.float64)
    with np.errstate(under="ignore"):
        rising = np.cumprod((times - up) / (up + 1) / shrink)
        falling = np.cumprod(down / (times - down + 1) * shrink)
        mass = np.concatenate([falling[::-1], [1.0], rising])
        # the first gap is exact and the others add positive numbers to it, so no difference is ever cancelled
        gap = float_above((2 * low - times) * epsilon - target) + 2 * min(
            float_above(epsilon), _MAX_GAP_EPSILON
        ) * np.arange(high - low + 1)
        total = fsum((mass * -np.expm1(-gap)).tolist())
    if high < times:
        total += _remainder_bound(float(mass[-1]), (times - high) / (high + 1) / shrink)
    if low > first:
        total += _remainder_bound(float(mass[0]), low / (times - low + 1) * shrink)
    return total


def _remainder_bound(last: float, ratio: float) -> float:
    """Bound what follows a term: away from the mode the ratios of neighbours only fall."""
    return 1.0001 * (last + 1e-300) * ratio / (1 - ratio)


@lru_cache(maxsize=256)
def _shrink(epsilon: Fraction) -> float:
    """Return e^-epsilon, right to the last place, and never 0."""
    return float_above(upper(refine(lambda digits: (-enclose(epsilon, digits)).exp())))


def _log_mass(times: int, successes: int, epsilon: Fraction, digits: int) -> Enclosure:
    failures = times - successes
    choices = log_factorial(times, digits) - log_factorial(successes, digits) - log_factorial(failures, digits)
    return choices - epsilon * failures - ((-enclose(epsilon, digits)).exp() + 1).ln() * times


@lru_cache(maxsize=4096)
def log_factorial(number: int, digits: int) -> Enclosure:
    """Enclose ln(number!); beyond 3000 by Stirling's series, whose neighbouring partial sums lie on either side."""
    if number < _MAX_EXACT_REPEATS:
        return enclose(factorial(number), digits).ln()
    exact = enclose(number, digits)
    base = exact.ln() * (number + Fraction(1, 2)) - number + (pi(digits) * 2).ln() / 2
    partial = sum((Fraction(a, b * number**power) for a, b, power in _STIRLING), Fraction(0))
    following = Fraction(691, 360360 * number**11)  # the first term left out bounds the error
    return Enclosure((base + (partial - following)).low, (base + (partial + following)).high, digits)
