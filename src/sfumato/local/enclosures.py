"""Probabilities and e^ε: likelihoods as enclosures in integers, errors to more digits than a float has."""

from fractions import Fraction

from sfumato.randomness.bernoulli import ExpRatio, Probability
from sfumato.randomness.certified import exp_minus_bounds

PRECISION = 192
"""Binary digits of the probabilities from which errors are computed: far more than a float can show."""
_FINEST = 4096
Bounds = tuple[int, int]
"""Integers low and high with low <= probability · 2^bits <= high."""


def as_fraction(probability: Probability) -> Fraction:
    """Return a probability whose relative error, and that of what it leaves to 1, is below 2^-128.

    It is for errors and error bars, never for a coin.
    """
    bits = PRECISION
    while True:
        low, high = probability.bounds(bits)
        if bits > _FINEST or min(low, (1 << bits) - high).bit_length() > 128:
            return Fraction(low, 1 << bits)
        bits *= 2


def split(probability: Probability, kept: int, others: int, bits: int) -> tuple[Bounds, Bounds]:
    """Enclose p / kept and (1 - p) / others, in units of 2^-bits."""
    precision = bits + 32
    low, high = probability.bounds(precision)
    low, high, one = max(low, 0), min(high, 1 << precision), 1 << precision
    return (
        (low // kept >> 32, -((-high // kept) >> 32)),
        ((one - high) // others >> 32, -((-(one - low) // others) >> 32)),
    )


def grown(epsilon: Fraction) -> Fraction:
    """Return e^epsilon to within a relative error of 2^-128: for errors and estimates, never for a coin."""
    bits = PRECISION + 2 * int(epsilon) + 2
    return Fraction(1 << bits, exp_minus_bounds(epsilon, bits)[0])


def rounded(factor: int, exponent: Fraction, *, inverse: bool = False) -> int:
    """Return factor · e^-exponent (or e^+exponent) rounded to the nearest integer, certainly."""
    bits = 64 + 2 * int(exponent)
    while True:
        ends = exp_minus_bounds(exponent, bits)
        one = 1 << bits
        if inverse:
            near = {(2 * factor * one + end) // (2 * end) for end in ends if end}
        else:
            near = {(2 * factor * end + one) // (2 * one) for end in ends}
        if len(near) == 1 and all(ends):
            return near.pop()
        bits *= 2  # ends: e^y is irrational for rational y other than 0 (Lindemann)


def power_ratio(exponent: Fraction, power: int, factors: int, divisor: int, bits: int) -> Bounds:
    """Enclose x^power / ((1 + x)^factors · divisor), in units of 2^-bits, for x = e^-exponent."""
    precision = bits + factors.bit_length() + 32
    low, high = exp_minus_bounds(exponent * power, precision)
    square_low, square_high = ExpRatio(exponent, a=1, b=0, c=1, d=1).bounds(precision)  # at most 1: errors stay small
    while factors:
        if factors & 1:
            low, high = low * square_low >> precision, -(-high * square_high >> precision)
        square_low, square_high = square_low**2 >> precision, -(-(square_high**2) >> precision)
        factors >>= 1
    spare = precision - bits
    return low // divisor >> spare, -((-high // divisor) >> spare)
