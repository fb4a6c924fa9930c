"""Likelihoods of noisy reports: enclosed for the laws, and to more digits than a float has for their errors."""

from fractions import Fraction

from sfumato.certified.binary import Between, exp_minus_bounds, power, product
from sfumato.randomness.bernoulli import ExpRatio, Probability

_PRECISION_BITS = 192
"""Binary digits of the probabilities from which errors are computed: far more than a float can show."""
_MAX_BITS = 4096


def as_fraction(probability: Probability) -> Fraction:
    """Return a probability whose relative error, and that of what it leaves to 1, is below 2^-128.

    It is for errors and error bars, never for a coin.
    """
    bits = _PRECISION_BITS
    while True:
        low, high = probability.bounds(bits)
        if bits > _MAX_BITS or min(low, (1 << bits) - high).bit_length() > 128:
            return Fraction(low, 1 << bits)
        bits *= 2


def divide_probability(probability: Probability, kept: int, others: int, bits: int) -> tuple[Between, Between]:
    """Enclose p / kept and (1 - p) / others, in units of 2^-bits."""
    precision = bits + 32
    low, high = probability.bounds(precision)
    low, high, one = max(low, 0), min(high, 1 << precision), 1 << precision
    return (
        (low // kept >> 32, -((-high // kept) >> 32)),
        ((one - high) // others >> 32, -((-(one - low) // others) >> 32)),
    )


def power_ratio(exponent: Fraction, numerator: int, factors: int, divisor: int, bits: int) -> Between:
    """Enclose x^numerator / ((1 + x)^factors · divisor), in units of 2^-bits, for x = e^-exponent."""
    precision = bits + factors.bit_length() + 32
    each = ExpRatio(exponent, a=1, b=0, c=1, d=1).bounds(precision)  # at most 1: errors stay small
    low, high = product(exp_minus_bounds(exponent * numerator, precision), power(each, factors, precision), precision)
    spare = precision - bits
    return low // divisor >> spare, -((-high // divisor) >> spare)
