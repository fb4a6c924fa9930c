"""What choosing mechanisms share: the rate that a sensitivity allows, and how far below the best a choice may land."""

from fractions import Fraction

import numpy as np

from sfumato.errors import BadParameter, shown
from sfumato.exact import integer, positive_rational, probability
from sfumato.randomness.certified import exp_minus_bounds, scaled_ceiling, scaled_floor
from sfumato.randomness.margin import smallest_covering
from sfumato.randomness.selection import Integers

_SAFE = 1 << 62


def rate_of(epsilon: Fraction, sensitivity: int, monotone: bool) -> Fraction:
    """Return epsilon / (2 * sensitivity), or epsilon / sensitivity for scores that all move the same way."""
    if not isinstance(monotone, bool):
        raise BadParameter(
            f"monotone = {shown(monotone)} is not a yes or no.",
            "It claims that one unit moves all scores up or all of them down, which halves the noise.",
            "Write monotone=True only if that is proved; otherwise leave it out.",
        )
    return positive_rational(epsilon, "epsilon") / (integer(sensitivity, "sensitivity", 1) * (1 if monotone else 2))


def exponential_margin(rate: Fraction, candidates: int, confidence: Fraction) -> int:
    """Return the smallest t such that the exponential law lands within t of the best with that confidence.

    For every vector of so many integer scores. Part (3) of proofs/exponential.md.
    """
    others, confident = integer(candidates, "candidates", 1) - 1, probability(confidence, "confidence")
    if others == 0:
        return 0
    limit = (1 - confident) / (confident * others)
    return smallest_covering(lambda reach: _exp_minus_at_most(rate * (reach + 1), limit), guess=0)


def permute_and_flip_margin(rate: Fraction, candidates: int, confidence: Fraction) -> int:
    """Return the smallest t such that permute-and-flip lands within t of the best with that confidence.

    For every vector of so many integer scores. Part (3) of proofs/permute_and_flip.md.
    """
    size, confident = integer(candidates, "candidates", 1), probability(confidence, "confidence")
    if size == 1:
        return 0
    return smallest_covering(lambda reach: _best_wins(rate * (reach + 1), size, confident), guess=0)


def noisy(values: Integers, noise: Integers) -> Integers:
    """Return values + noise, exactly: Python integers wherever 64 bits might not hold the sum."""
    if all(part.dtype != object and _small(part) for part in (values, noise)):
        return values.astype(np.int64) + noise
    exact: Integers = values.astype(object) + noise.astype(object)
    return exact


def _small(part: Integers) -> bool:
    return not len(part) or (int(part.min()) > -_SAFE and int(part.max()) < _SAFE)


def _exp_minus_at_most(exponent: Fraction, limit: Fraction) -> bool:
    """Decide e^-exponent <= limit for rationals exponent, limit > 0."""
    bits = 64
    while True:
        low, high = exp_minus_bounds(exponent, bits)
        if high <= scaled_floor(limit, bits):
            return True
        if low >= scaled_ceiling(limit, bits):
            return False
        bits *= 2  # ends: e^-exponent is irrational (Lindemann)


def _best_wins(exponent: Fraction, size: int, confidence: Fraction) -> bool:
    """Decide (1 - (1 - p)^size) / (size * p) >= confidence, where p = e^-exponent."""
    bits = 128 + size.bit_length()
    while True:
        low, high = exp_minus_bounds(exponent, bits)
        one = 1 << bits
        # the left side falls with p, so each end of p gives a bound
        if one - _power(one - high, size, bits)[1] >= scaled_ceiling(confidence * size * high, 0):
            return True
        if low and one - _power(one - low, size, bits)[0] < scaled_floor(confidence * size * low, 0):
            return False
        bits *= 2  # ends: equality would make p algebraic (Lindemann)


def _power(base: int, exponent: int, bits: int) -> tuple[int, int]:
    """Enclose (base / 2^bits)^exponent * 2^bits by repeated squaring, rounded down and up."""
    low = high = 1 << bits
    for digit in bin(exponent)[2:]:
        low, high = low * low >> bits, -(-high * high >> bits)
        if digit == "1":
            low, high = low * base >> bits, -(-high * base >> bits)
    return low, high
