"""Interval arithmetic on decimals of any size, in which a bound of a privacy loss is certain.

Every operation rounds its lower end down and its upper end up, so an `Enclosure` contains the exact result for any
number of digits; too few digits make it wide, never wrong. Exponents reach 10^18, so nothing here overflows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import inf, nextafter

from sfumato.certified.binary import pi_bounds

_INFINITY = Decimal("Infinity")
_ZERO = Decimal(0)
_UNIT = Decimal(1)
_MAX_RELATIVE_WIDTH = Decimal("1e-24")  # a loss is wanted to this relative width before the digits stop growing
_DIGITS = (40, 80, 160, 320, 640)
# exponents of ten beyond which an exact fraction is not worth its length
_MIN_DECIMAL_EXPONENT, _MAX_DECIMAL_EXPONENT = -1000, 20_000
_THIRTY_DIGITS_UP = Context(prec=30, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)


@lru_cache
def _contexts(digits: int) -> tuple[Context, Context]:
    down, up = (
        Context(prec=digits, rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
        for rounding in (ROUND_FLOOR, ROUND_CEILING)
    )
    return down, up


@dataclass(frozen=True, slots=True)
class Enclosure:
    """An exact real number that lies in [low, high]; computed with `digits` significant digits."""

    low: Decimal
    high: Decimal
    digits: int

    def __add__(self, other: "Enclosure | Fraction | int") -> "Enclosure":
        that = self._of(other)
        down, up = _contexts(self.digits)
        return _enclose(down.add(self.low, that.low), up.add(self.high, that.high), self.digits)

    def __neg__(self) -> "Enclosure":
        return Enclosure(self.high.copy_negate(), self.low.copy_negate(), self.digits)

    def __sub__(self, other: "Enclosure | Fraction | int") -> "Enclosure":
        return self + -self._of(other)

    def __mul__(self, other: "Enclosure | Fraction | int") -> "Enclosure":
        that = self._of(other)
        down, up = _contexts(self.digits)
        if self.low >= 0 and that.low >= 0:
            return _enclose(down.multiply(self.low, that.low), up.multiply(self.high, that.high), self.digits)
        if self.high <= 0 <= that.low and self.low.is_finite() and that.high.is_finite():
            return Enclosure(down.multiply(self.low, that.high), up.multiply(self.high, that.low), self.digits)
        if that.high <= 0 <= self.low and that.low.is_finite() and self.high.is_finite():
            return Enclosure(down.multiply(self.high, that.low), up.multiply(self.low, that.high), self.digits)
        corners = [(a, b) for a in (self.low, self.high) for b in (that.low, that.high)]
        lows = [down.multiply(a, b) for a, b in corners]
        highs = [up.multiply(a, b) for a, b in corners]
        if any(corner.is_nan() for corner in lows + highs):
            return Enclosure(-_INFINITY, _INFINITY, self.digits)
        return Enclosure(min(lows), max(highs), self.digits)

    def __truediv__(self, other: "Enclosure | Fraction | int") -> "Enclosure":
        that = self._of(other)
        if that.low <= 0 <= that.high:
            return Enclosure(-_INFINITY, _INFINITY, self.digits)
        down, up = _contexts(self.digits)
        return self * Enclosure(down.divide(_UNIT, that.high), up.divide(_UNIT, that.low), self.digits)

    def exp(self) -> "Enclosure":
        down, up = _contexts(self.digits)  # Decimal.exp and .ln are correctly rounded to nearest: one step out encloses
        return _enclose(max(_ZERO, down.next_minus(down.exp(self.low))), up.next_plus(up.exp(self.high)), self.digits)

    def ln(self) -> "Enclosure":
        down, up = _contexts(self.digits)
        low = down.next_minus(down.ln(self.low)) if self.low > 0 else -_INFINITY
        return _enclose(low, up.next_plus(up.ln(self.high)), self.digits)

    def sqrt(self) -> "Enclosure":
        down, up = _contexts(self.digits)
        low = down.next_minus(down.sqrt(max(_ZERO, self.low)))
        return _enclose(max(_ZERO, low), up.next_plus(up.sqrt(self.high)), self.digits)

    def _of(self, value: "Enclosure | Fraction | int") -> "Enclosure":
        return value if isinstance(value, Enclosure) else enclose(value, self.digits)


def enclose(value: Fraction | int, digits: int) -> Enclosure:
    """Enclose an exact number."""
    down, up = _contexts(digits)
    numerator, denominator = Decimal(value.numerator), Decimal(value.denominator)
    return Enclosure(down.divide(numerator, denominator), up.divide(numerator, denominator), digits)


@lru_cache
def pi(digits: int) -> Enclosure:
    """Enclose π."""
    bits = 4 * digits + 32  # a digit has fewer than four bits
    low, high = pi_bounds(bits)
    return Enclosure(
        enclose(Fraction(low, 1 << bits), digits).low, enclose(Fraction(high, 1 << bits), digits).high, digits
    )


def refine(compute: Callable[[int], Enclosure]) -> Enclosure:
    """Compute with more and more digits until the enclosure is narrow; the widest that remains is still an enclosure.

    >>> refine(lambda digits: enclose(2, digits).sqrt()).high > refine(lambda digits: enclose(2, digits).sqrt()).low
    True
    """
    for digits in _DIGITS:
        found = compute(digits)
        _, up = _contexts(digits)
        if up.subtract(found.high, found.low) <= up.multiply(found.high.copy_abs(), _MAX_RELATIVE_WIDTH) < _INFINITY:
            break
    return found


def upper(value: Enclosure) -> Fraction | float:
    """Return an exact number at or above the enclosed one, of at most 30 digits; infinity when there is none.

    Positive numbers below 10^-1000 become 10^-1000, so that no fraction grows to millions of digits.
    """
    high = value.high
    if not high.is_finite() or high.adjusted() > _MAX_DECIMAL_EXPONENT:
        return inf if high > 0 else -(Fraction(10) ** _MAX_DECIMAL_EXPONENT)
    if high and high.adjusted() < _MIN_DECIMAL_EXPONENT:
        return Fraction(10) ** _MIN_DECIMAL_EXPONENT if high > 0 else Fraction(0)
    return Fraction(_THIRTY_DIGITS_UP.plus(high))


def lower(value: Enclosure) -> Fraction | float:
    """Return an exact number at or below the enclosed one, of at most 30 digits."""
    return -upper(-value)


def float_above(value: Fraction | float) -> float:
    """Return the least float that is not below `value`.

    >>> float_above(Fraction(1, 10)) >= Fraction(1, 10)
    True
    """
    try:
        nearest = float(value)
    except OverflowError:
        return inf if value > 0 else -nextafter(inf, 0)
    return nearest if nearest >= value else nextafter(nearest, inf)


def _enclose(low: Decimal, high: Decimal, digits: int) -> Enclosure:
    # infinity minus infinity: nothing is known on that side, which is what an infinite end says
    return Enclosure(-_INFINITY if low.is_nan() else low, _INFINITY if high.is_nan() else high, digits)
