"""Real numbers as integer enclosures: low <= value * 2**bits <= high, proved, at any precision.

These are the only real numbers that decide an outcome. A float never does.
Proof: proofs/bernoulli.md
"""

from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, DivisionByZero, InvalidOperation
from decimal import Overflow as DecimalOverflow
from fractions import Fraction
from functools import lru_cache
from math import isqrt


def scaled_floor(value: Fraction, bits: int) -> int:
    """Return floor(value * 2**bits)."""
    return (value.numerator << bits) // value.denominator


def scaled_ceiling(value: Fraction, bits: int) -> int:
    """Return ceil(value * 2**bits)."""
    return -((-value.numerator << bits) // value.denominator)


@lru_cache(maxsize=4096)
def exp_minus_bounds(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Enclose e^-exponent * 2**bits, for exponent >= 0, between integers that differ by at most 1."""
    if exponent == 0:
        return (1 << bits, 1 << bits)
    if exponent > bits + 1:
        return (0, 1)  # e^-y < 2^-y
    digits = bits * 302 // 1000 + 12
    while True:
        low, high = _exp_minus_once(exponent, bits, digits)
        if high - low <= 1:
            return (low, high)
        digits *= 2  # ends: e^-y * 2^bits is no integer for rational y > 0 (Lindemann)


def _exp_minus_once(exponent: Fraction, bits: int, digits: int) -> tuple[int, int]:
    down, up = _contexts(digits)
    numerator, denominator = Decimal(exponent.numerator), Decimal(exponent.denominator)
    # libmpdec documents exp as correctly rounded, so one neighbouring decimal further out encloses it
    low = down.next_minus(down.exp(down.minus(up.divide(numerator, denominator))))
    high = up.next_plus(up.exp(up.minus(down.divide(numerator, denominator))))
    return (scaled_floor(Fraction(low), bits), scaled_ceiling(Fraction(high), bits))


def _contexts(digits: int) -> tuple[Context, Context]:
    # private contexts: a caller may have changed the precision of the thread's own
    traps = [InvalidOperation, DivisionByZero, DecimalOverflow]
    down = Context(prec=digits, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=traps)
    up = Context(prec=digits, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=traps)
    return (down, up)


@lru_cache(maxsize=64)
def pi_bounds(bits: int) -> tuple[int, int]:
    """Enclose pi * 2**bits, by Machin: pi = 16 arctan(1/5) - 4 arctan(1/239)."""
    guard = bits + 32
    five_low, five_high = _arctan_inverse(5, guard)
    other_low, other_high = _arctan_inverse(239, guard)
    return ((16 * five_low - 4 * other_high) >> 32, -((4 * other_low - 16 * five_high) >> 32))


def _arctan_inverse(denominator: int, bits: int) -> tuple[int, int]:
    """Enclose arctan(1/denominator) * 2**bits by the alternating series, each term rounded to within 1."""
    power, total, terms = (1 << bits) // denominator, 0, 0
    while power:
        total += (-1) ** terms * (power // (2 * terms + 1))
        power //= denominator * denominator
        terms += 1
    slack = 2 * terms + 2  # each term is off by less than 2; the rest is below the first term left out
    return (total - slack, total + slack)


def square_root_bounds(low: int, high: int, bits: int) -> tuple[int, int]:
    """Enclose sqrt(value) * 2**bits from low <= value * 2**bits <= high."""
    return (isqrt(low << bits), isqrt(high << bits) + 1)
