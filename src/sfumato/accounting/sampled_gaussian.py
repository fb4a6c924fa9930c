"""The Rényi loss of Gaussian noise on a Poisson sample [MTZ19], enclosed.

E = E_Q[((1-q) + q·P/Q)^α] for P, Q normal laws a distance √v apart in units of their deviation; D_α = ln E / (α-1).
Proof: proofs/rdp.md, Lemmas 2 and 3.
"""

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor

from sfumato.accounting.normal import upper_tail
from sfumato.certified.enclosure import Enclosure, enclose, refine, upper

MAX_SAMPLED_ORDER = 4096
"""Beyond this order the sums are long and the sample hardly helps: the loss without sampling is used instead."""
_MAX_SERIES_ORDER = 128  # beyond, the chord between integer orders is close, and much faster
_MAX_USEFUL_LOSS = 100_000  # a loss that no budget allows, sampled or not: not worth digits
# below, the series would need hundreds of digits; the chord between integers is enough
_MIN_SERIES_RATIO = Fraction(1, 10**40)


def sampled_gaussian_loss(rate: Fraction, ratio: Fraction, order: Fraction, integer_noise: bool) -> Fraction:
    """Return the loss at `order`, rounded up, for a rate q < 1 and `ratio` = Δ²/σ² summed over the inner releases."""
    unsampled = order * ratio / 2  # sampling is a mixture of the pair with (Q, Q): it never costs more
    if order > MAX_SAMPLED_ORDER or unsampled > _MAX_USEFUL_LOSS or ratio < _MIN_SERIES_RATIO:
        return unsampled
    if order.denominator == 1:
        found = upper(refine(lambda digits: _log_moment(rate, ratio, int(order), digits) / (order - 1)))
    elif integer_noise or order > _MAX_SERIES_ORDER or rate * rate * ratio < _MIN_SERIES_RATIO:
        found = upper(refine(lambda digits: _interpolate_order(rate, ratio, order, digits) / (order - 1)))
    else:
        found = upper(refine(lambda digits: _fractional_moment(rate, ratio, order, digits).ln() / (order - 1)))
    return Fraction(min(unsampled, found))


def _log_moment(rate: Fraction, ratio: Fraction, order: int, digits: int) -> Enclosure:
    """Enclose ln Σ_j C(α,j)(1-q)^(α-j) q^j e^((j²-j)v/2): real noise, and integer noise with integer shifts."""
    if order == 1:
        return enclose(0, digits)
    growth = enclose(ratio, digits).exp()
    odds = enclose(rate / (1 - rate), digits)
    term = total = power = enclose(1, digits)
    for j in range(order):
        term = term * odds * power * Fraction(order - j, j + 1)
        power = power * growth
        total = total + term
    return total.ln() + enclose(1 - rate, digits).ln() * order


def _interpolate_order(rate: Fraction, ratio: Fraction, order: Fraction, digits: int) -> Enclosure:
    """Bound ln E between two integer orders by the chord: the log moment is convex in the order."""
    below = floor(order)
    share = order - below
    return _log_moment(rate, ratio, below, digits) * (1 - share) + _log_moment(rate, ratio, below + 1, digits) * share


def _fractional_moment(rate: Fraction, ratio: Fraction, order: Fraction, digits: int) -> Enclosure:
    """Enclose E for real noise by the two series of [MTZ19, §3.3], one on each side of the point where both halves
    of the mixture are equal.
    """
    root = enclose(ratio, digits).sqrt()
    log_odds = enclose(rate / (1 - rate), digits).ln()
    half_step = enclose(ratio / 2, digits)
    middle = -log_odds / ratio + Fraction(1, 2)

    def _left(k: int) -> Enclosure:
        return (log_odds * k + half_step * (k * k - k)).exp() * upper_tail((-middle + k) * root)

    def _right(k: int) -> Enclosure:
        m = order - k
        return (log_odds * m + half_step * (m * m - m)).exp() * upper_tail((middle - m) * root)

    scale = (enclose(1 - rate, digits).ln() * order).exp()
    return scale * _binomial_series(order, lambda k: _left(k) + _right(k), digits)


def _binomial_series(order: Fraction, moment: Callable[[int], Enclosure], digits: int) -> Enclosure:
    """Enclose Σ_k C(α,k)·moment(k) where moment(k) = ∫ u^k dν with 0 ≤ u ≤ 1.

    Up to ⌈α⌉ the sum is plain. From there C(α,k) alternates and |C(α,k)|·moment(k) is again such a sequence of
    moments, so the rule of Cohen, Rodríguez Villegas and Zagier (Experimental Mathematics 9, 2000, Alg. 1) applies:
    n terms leave at most (first term)/d, d = ((3+√8)^n + (3-√8)^n)/2 > 5.8^n / 2.
    """
    start = ceil(order)
    total = enclose(0, digits)
    binomial = Fraction(1)
    for k in range(start):
        total = total + moment(k) * binomial
        binomial = binomial * (order - k) / (k + 1)
    terms = ceil(1.32 * digits)
    weights, divisor = _alternating_weights(terms)
    size = enclose(binomial, digits)  # positive: every factor up to ⌈α⌉ - 1 is
    first = size * moment(start)
    tail = first * weights[0]
    for step in range(1, terms):
        k = start + step
        size = size * ((k - 1 - order) / k)
        tail = tail + size * moment(k) * weights[step]
    error = first / divisor
    tail = tail / divisor
    return total + Enclosure((tail - error).low, (tail + error).high, digits)


def _alternating_weights(terms: int) -> tuple[list[int], int]:
    """Return the integer weights c_k and d with Σ (-1)^k a_k ≈ Σ c_k a_k / d."""
    previous, divisor = 1, 3  # d_n = T_n(3), Chebyshev: d_0 = 1, d_1 = 3, d_{n+1} = 6 d_n - d_{n-1}
    for _ in range(terms - 1):
        previous, divisor = divisor, 6 * divisor - previous
    weights = []
    b, c = -1, -divisor
    for k in range(terms):
        c = b - c
        weights.append(c)
        b = b * (k + terms) * (k - terms) * 2 // ((2 * k + 1) * (k + 1))
    return weights, divisor
