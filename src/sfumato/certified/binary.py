"""Real numbers between two integers: low <= value * 2**bits <= high, proved, at any precision.

These are the only real numbers that decide a draw. A float never does, nor any library's exp: integers alone.
Proof: proofs/bernoulli.md
"""

from fractions import Fraction
from functools import lru_cache
from math import isqrt

Between = tuple[int, int]
"""Integers low and high with low <= value * 2**bits <= high."""
_PRECISION_BITS = 192


def scaled_floor(value: Fraction, bits: int) -> int:
    """Return floor(value * 2**bits)."""
    return (value.numerator << bits) // value.denominator


def scaled_ceiling(value: Fraction, bits: int) -> int:
    """Return ceil(value * 2**bits)."""
    return -((-value.numerator << bits) // value.denominator)


@lru_cache(maxsize=4096)
def exp_minus_bounds(exponent: Fraction, bits: int) -> Between:
    """Return `exp_minus_enclosure`, remembered: for public exponents only, because a cache outlives the question."""
    return exp_minus_enclosure(exponent, bits)


def exp_minus_enclosure(exponent: Fraction, bits: int) -> Between:
    """Enclose e^-exponent * 2**bits, for exponent >= 0, between integers that differ by at most 1."""
    above, below = exponent.numerator, exponent.denominator
    if above == 0:
        return (1 << bits, 1 << bits)
    if above > (bits + 1) * below:
        return (0, 1)  # e^-y < 2^-y
    guard = 32
    while True:
        low, high = _exp_minus_once(above, below, bits + guard)
        low, high = low >> guard, -(-high >> guard)
        if high - low <= 1:
            return (low, high)
        guard *= 2  # ends: e^-y * 2^bits is no integer for rational y > 0 (Lindemann)


def _exp_minus_once(above: int, below: int, bits: int) -> Between:
    """Enclose e^-(above / below) * 2**bits: the series at that over 2^halvings <= 1/2, squared `halvings` times."""
    halvings = (-(-above // below)).bit_length() + 1 + isqrt(bits) // 2
    precision = bits + halvings + 8  # a squaring at most doubles the width
    step = (above << precision) // (below << halvings)
    low, high = _exp_minus_series(step, step + 1, precision)
    for _ in range(halvings):
        low, high = (low * low) >> precision, -((-high * high) >> precision)
    spare = precision - bits
    return (low >> spare, -(-high >> spare))


def _exp_minus_series(step_low: int, step_high: int, bits: int) -> Between:
    """Enclose e^-small * 2**bits for step_low <= small * 2**bits <= step_high, where 0 < small <= 1/2.

    By the alternating series with both ends rounded outwards.
    """
    term_low = term_high = low = high = 1 << bits  # the terms enclose small^n / n!
    order = 0
    while term_high > 1:
        order += 1
        term_low = ((term_low * step_low) >> bits) // order
        term_high = -(((-term_high * step_high) >> bits) // order)
        low, high = (low - term_high, high - term_low) if order % 2 else (low + term_low, high + term_high)
    # the omitted terms alternate and fall, so they are at most the last term, which is at most 1
    return (low - 1, min(high + 1, 1 << bits))


@lru_cache(maxsize=64)
def pi_bounds(bits: int) -> Between:
    """Enclose pi * 2**bits, by Machin: pi = 16 arctan(1/5) - 4 arctan(1/239)."""
    guard = bits + 32
    five_low, five_high = _arctan_inverse(5, guard)
    other_low, other_high = _arctan_inverse(239, guard)
    return ((16 * five_low - 4 * other_high) >> 32, -((4 * other_low - 16 * five_high) >> 32))


def _arctan_inverse(denominator: int, bits: int) -> Between:
    """Enclose arctan(1/denominator) * 2**bits by the alternating series, each term rounded to within 1."""
    power, total, terms = (1 << bits) // denominator, 0, 0
    while power:
        total += (-1) ** terms * (power // (2 * terms + 1))
        power //= denominator * denominator
        terms += 1
    slack = 2 * terms + 2  # each term is off by less than 2; the rest is below the first term left out
    return (total - slack, total + slack)


def square_root_bounds(low: int, high: int, bits: int) -> Between:
    """Enclose sqrt(value) * 2**bits from low <= value * 2**bits <= high."""
    return (isqrt(low << bits), isqrt(high << bits) + 1)


def product(left: Between, right: Between, bits: int) -> Between:
    """Enclose the product of two numbers that are not negative, rounded outwards."""
    return ((left[0] * right[0]) >> bits, -((-left[1] * right[1]) >> bits))


def power(base: Between, exponent: int, bits: int) -> Between:
    """Enclose base^exponent for a base that is not negative, by repeated squaring."""
    low = high = 1 << bits
    for digit in bin(exponent)[2:]:
        low, high = low * low >> bits, -(-high * high >> bits)
        if digit == "1":
            low, high = low * base[0] >> bits, -(-high * base[1] >> bits)
    return low, high


def powers(base: Between, last: int, bits: int) -> list[Between]:
    """Enclose base^0, …, base^last for a base in [0, 1], each product rounded outwards; both ends fall."""
    base_low, base_high = base[0], -base[1]
    low = high = 1 << bits
    found = [(low, high)]
    append = found.append
    for _ in range(last):
        low, high = low * base_low >> bits, -(high * base_high >> bits)
        append((low, high))
    return found


def exp_fraction(exponent: Fraction) -> Fraction:
    """Return e^exponent, for exponent >= 0, to within a relative error of 2^-128: for errors, never for a coin."""
    bits = _PRECISION_BITS + 2 * int(exponent) + 2
    return Fraction(1 << bits, exp_minus_bounds(exponent, bits)[0])


def exp_rounded(factor: int, exponent: Fraction) -> int:
    """Return factor · e^exponent, of whatever sign, rounded to the nearest integer, certainly."""
    size = abs(exponent)
    bits = 64 + 2 * int(size)
    while True:
        ends = exp_minus_bounds(size, bits)
        one = 1 << bits
        if exponent > 0:
            near = {(2 * factor * one + end) // (2 * end) for end in ends if end}
        else:
            near = {(2 * factor * end + one) // (2 * one) for end in ends}
        if len(near) == 1 and all(ends):
            return near.pop()
        bits *= 2  # ends: e^y is irrational for rational y other than 0 (Lindemann)
