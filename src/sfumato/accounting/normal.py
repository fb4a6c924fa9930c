"""The upper tail of the normal law, enclosed: what Gaussian calibration and sampled Gaussian noise are decided by."""

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil

from sfumato.certified.enclosure import Enclosure, enclose, pi

_GUARD_DIGITS = 20
_SERIES_BELOW = 6


def upper_tail(point: Enclosure) -> Enclosure:
    """Enclose P[N > point] for a standard normal N; proofs/calibrate.md, Lemma 1."""
    digits = point.digits
    if not (point.low.is_finite() and point.high.is_finite()):
        return Enclosure(Decimal(0), Decimal(1), digits)
    tail, steepest = _tail(point.low, digits)
    fall = (Enclosure(point.high, point.high, digits) - Enclosure(point.low, point.low, digits)) * steepest
    return Enclosure(max(Decimal(0), (tail - fall).low), tail.high, digits)


def gaussian_delta(epsilon: Fraction, mu_squared: Fraction, digits: int) -> Enclosure:
    """Enclose the delta(epsilon) of real Gaussian noise with (sensitivity / sigma)² = mu_squared [BW18, Thm 8]."""
    mu = enclose(mu_squared, digits).sqrt()
    loss = enclose(epsilon, digits)
    return upper_tail(loss / mu - mu / 2) - loss.exp() * upper_tail(loss / mu + mu / 2)


def _tail(point: Decimal, digits: int) -> tuple[Enclosure, Enclosure]:
    """Enclose the tail beyond one number, and a bound of the density beyond it."""
    if point < 0:
        tail, _ = _positive_tail(point.copy_negate(), digits)  # a bare minus would round to 28 digits
        return -(tail - 1), enclose(Fraction(2, 5), digits)
    return _positive_tail(point, digits)


def _positive_tail(point: Decimal, digits: int) -> tuple[Enclosure, Enclosure]:
    more = digits + _GUARD_DIGITS
    exact = Enclosure(point, point, more)
    density = (-(exact * exact) / 2).exp() / _root_of_two_pi(more)
    if point < _SERIES_BELOW:
        tail = -(density * _series(point, more) - Fraction(1, 2))
    else:
        tail = density * _mills(point, digits, more)
    return Enclosure(max(Decimal(0), tail.low), tail.high, digits), Enclosure(density.low, density.high, digits)


@lru_cache
def _root_of_two_pi(digits: int) -> Enclosure:
    return (pi(digits) * 2).sqrt()


def _series(point: Decimal, digits: int) -> Enclosure:
    """Enclose Σ point^(2n+1)/(2n+1)!!, whose product with the density is P[0 < N < point]."""
    context = Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX)
    square = context.multiply(point, point)
    term = total = point
    count = 0
    while count < 50 or term > total.scaleb(-digits, context):
        count += 1
        term = context.divide(context.multiply(term, square), Decimal(2 * count + 1))
        total = context.add(total, term)
    # All terms are positive: term n carries 3n roundings, each sum one more; after 50 terms the ratio is below
    # 36/103, so what is left out is below the last term. Together less than 5·count + 5 units in the last place.
    return _widen(total, 5 * count + 5, digits)


def _mills(point: Decimal, wanted: int, digits: int) -> Enclosure:
    """Enclose Mills' ratio by two neighbouring convergents of 1/(t + 1/(t + 2/(t + 3/(t + …)))) [Laplace]."""
    depth = 10 + wanted // 2 + ceil((2.4 * wanted / min(float(point), 1e6)) ** 2 / 2)  # leaves about e^(-t·√(2·depth))
    first, second = _convergent(point, depth, digits), _convergent(point, depth + 1, digits)
    # Every element is positive, so neighbouring convergents lie on either side of the limit; each level rounds twice
    # and never magnifies the relative error it inherits.
    return Enclosure(
        _widen(min(first, second), 2 * depth + 4, digits).low,
        _widen(max(first, second), 2 * depth + 4, digits).high,
        digits,
    )


def _convergent(point: Decimal, depth: int, digits: int) -> Decimal:
    context = Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX)
    value = point
    for level in range(depth, 0, -1):
        value = context.add(point, context.divide(Decimal(level), value))
    return context.divide(Decimal(1), value)


def _widen(value: Decimal, units: int, digits: int) -> Enclosure:
    error = Fraction(units, 10 ** (digits - 1))
    around = Enclosure(value, value, digits)
    return Enclosure((around * (1 - error)).low, (around * (1 + error)).high, digits)
