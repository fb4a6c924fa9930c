"""Parameters and margins shared by the mechanisms that choose a candidate by its score."""

from dataclasses import dataclass
from fractions import Fraction
from math import log

import numpy as np

from sfumato.accounting.event import Neighbours
from sfumato.certified.binary import exp_minus_bounds, power, scaled_ceiling, scaled_floor
from sfumato.exact import integer, probability
from sfumato.mechanisms.parameters import read_parameters
from sfumato.randomness.margin import smallest_covering
from sfumato.randomness.selection import Integers

_MAX_INT64_TERM = 1 << 62


@dataclass(frozen=True, slots=True)
class ChoiceByScore:
    """The parameters of every mechanism that chooses one candidate by its integer score.

    One privacy unit moves each score by at most `sensitivity`; if `monotone`, it moves all of them the same way
    (counts under add-remove), and half of the noise is enough.
    """

    sensitivity: int
    epsilon: Fraction
    neighbours: Neighbours
    monotone: bool = False

    def __post_init__(self) -> None:
        read_parameters(self)

    @property
    def rate(self) -> Fraction:
        """Factor of a score in the exponent."""
        return rate_of(self.epsilon, self.sensitivity, self.monotone)


def rate_of(epsilon: Fraction, sensitivity: int, monotone: bool) -> Fraction:
    """Return epsilon / (2 * sensitivity), or epsilon / sensitivity for scores that all move the same way."""
    return epsilon / (sensitivity * (1 if monotone else 2))


def exponential_margin(rate: Fraction, candidates: int, confidence: Fraction) -> int:
    """Return the smallest t such that the exponential law lands within t of the best with that confidence.

    It holds for every vector of `candidates` integer scores. Part (3) of proofs/exponential.md.
    """
    others, confident = integer(candidates, "candidates", 1) - 1, probability(confidence, "confidence")
    if others == 0:
        return 0
    return negligible_reach(rate, (1 - confident) / (confident * others))


def negligible_reach(rate: Fraction, limit: Fraction) -> int:
    """Return the smallest t with e^(-rate * (t + 1)) <= limit: the weight of scores more than t below the best."""
    near = 0 if limit >= 1 else Fraction(log(limit.denominator) - log(limit.numerator)) / rate - 1
    return smallest_covering(lambda reach: _exp_minus_at_most(rate * (reach + 1), limit), near)


def permute_and_flip_margin(rate: Fraction, candidates: int, confidence: Fraction) -> int:
    """Return the smallest t such that permute-and-flip lands within t of the best with that confidence.

    It holds for every vector of `candidates` integer scores. Part (3) of proofs/permute_and_flip.md.
    """
    size, confident = integer(candidates, "candidates", 1), probability(confidence, "confidence")
    if size == 1:
        return 0
    return smallest_covering(lambda reach: _covers_best(rate * (reach + 1), size, confident), guess=0)


def add_score_noise(values: Integers, noise: Integers) -> Integers:
    """Return values + noise, exactly: Python integers wherever 64 bits might not hold the sum."""
    if all(part.dtype != object and _fits_int64_sum(part) for part in (values, noise)):
        return values.astype(np.int64) + noise
    exact: Integers = values.astype(object) + noise.astype(object)
    return exact


def _fits_int64_sum(part: Integers) -> bool:
    return not len(part) or (int(part.min()) > -_MAX_INT64_TERM and int(part.max()) < _MAX_INT64_TERM)


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


def _covers_best(exponent: Fraction, size: int, confidence: Fraction) -> bool:
    """Decide (1 - (1 - p)^size) / (size * p) >= confidence, where p = e^-exponent."""
    bits = 128 + size.bit_length()
    while True:
        low, high = exp_minus_bounds(exponent, bits)
        one = 1 << bits
        # 1 - (1 - p)^n >= np - n(n - 1)p²/2, which decides at once where p is tiny and would take many digits
        if 2 * one * (1 - confidence) >= (size - 1) * high:
            return True
        # the left side falls with p, so each end of p gives a bound
        if one - power((one - high, one - high), size, bits)[1] >= scaled_ceiling(confidence * size * high, 0):
            return True
        if low and one - power((one - low, one - low), size, bits)[0] < scaled_floor(confidence * size * low, 0):
            return False
        bits *= 2  # ends: equality would make p algebraic (Lindemann)
