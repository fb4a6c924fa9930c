"""Coins with any computable probability, tossed exactly.

A coin compares a uniform real U, revealed bit by bit, with its probability. Sixteen bits decide all but 2^-16 of the
tosses; the others draw more bits until certified bounds decide. Proof: proofs/bernoulli.md
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from sfumato.certified.binary import exp_minus_bounds, scaled_ceiling, scaled_floor
from sfumato.errors import BadParameter, quote_value
from sfumato.exact import integer, rational
from sfumato.randomness.source import Source, broken_source, read_exactly, sample_size

WORD_BITS = 16
"""Bits of U that are drawn for every toss."""
MAX_COMPARED_BITS = 24_000
"""Maximum number of compared bits: a comparison that they leave open (P < e^-16384) means a broken source."""


class Probability(Protocol):
    """A computable real in [0, 1]."""

    def bounds(self, bits: int) -> tuple[int, int]:
        """Return low <= p * 2**bits <= high with high - low <= 1."""


@dataclass(frozen=True, slots=True)
class Rational:
    """A probability that is a fraction."""

    value: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", rational(self.value, "probability"))
        _within_unit(self.value, 0 <= self.value <= 1)

    def bounds(self, bits: int) -> tuple[int, int]:
        digits = integer(bits, "bits", 0)
        return (scaled_floor(self.value, digits), scaled_ceiling(self.value, digits))


@dataclass(frozen=True, slots=True)
class ExpRatio:
    """The real (a + b·x) / (c + d·x) with x = e^-exponent: every probability that the Laplace family needs."""

    exponent: Fraction
    a: int
    b: int
    c: int
    d: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "exponent", rational(self.exponent, "exponent"))
        _nonnegative(self.exponent)
        # monotone in x on [0, 1], so it lies in [0, 1] if it does at both ends
        at_zero, at_one = (self.a, self.c), (self.a + self.b, self.c + self.d)
        _within_unit(self, all(0 <= top <= bottom and bottom > 0 for top, bottom in (at_zero, at_one)))

    def bounds(self, bits: int) -> tuple[int, int]:
        integer(bits, "bits", 0)
        guard = 16
        while True:
            one = 1 << (bits + guard)
            ends = [
                (self.a * one + self.b * x, self.c * one + self.d * x)
                for x in exp_minus_bounds(self.exponent, bits + guard)
            ]
            low = min((top << bits) // bottom for top, bottom in ends)
            high = max(-((-top << bits) // bottom) for top, bottom in ends)
            if high - low <= 1:
                return (low, high)
            guard *= 2


def exp_minus(exponent: Fraction) -> Probability:
    """Return the probability e^-exponent, for exponent >= 0.

    >>> exp_minus(Fraction(1)).bounds(64)[0]
    6786177901268885274
    """
    return ExpRatio(exponent, a=0, b=1, c=1, d=0)


def logistic(exponent: Fraction) -> Probability:
    """Return the probability 1 / (1 + e^exponent), for exponent >= 0."""
    return ExpRatio(exponent, a=0, b=1, c=1, d=1)


@dataclass(frozen=True, slots=True)
class Bernoulli:
    """True with exactly the stated probability. Proof: proofs/bernoulli.md."""

    probability: Fraction | Probability

    def __post_init__(self) -> None:
        if not hasattr(self.probability, "bounds"):
            object.__setattr__(self, "probability", Rational(self.probability))

    def draw(self, count: int, source: Source) -> npt.NDArray[np.bool_]:
        """Toss `count` independent coins."""
        size = sample_size(count)
        words = np.frombuffer(read_exactly(source, 2 * size), dtype="<u2")
        return Coins(cast(Probability, self.probability)).toss(words, source)  # a Fraction became a Rational


@dataclass(frozen=True, slots=True)
class Coins:
    """Coins of one kind, tossed together."""

    probability: Probability

    @property
    def threshold(self) -> int:
        """The words below it say true, those above it false: floor(p * 2^16), as far as a word reaches."""
        # a word is 0 … 65535: for p = 1 the last one, and where a bound says -1 for p = 0 the first, is left to refine
        return min(max(cached_bounds(self.probability, WORD_BITS)[0], 0), (1 << WORD_BITS) - 1)

    def toss(self, words: npt.NDArray[np.uint16], source: Source) -> npt.NDArray[np.bool_]:
        """Toss one coin per word; the words that do not decide draw more bits from `source`."""
        threshold = self.threshold
        tosses: npt.NDArray[np.bool_] = words < threshold
        for index in (words == threshold).nonzero()[0]:
            tosses[index] = refine(self.probability, threshold, WORD_BITS, source)
        return tosses


def refine(probability: Probability, known: int, bits: int, source: Source) -> bool:
    """Decide U < p where the first `bits` bits of U are `known` and the rest is still to be drawn."""
    while True:
        low, high = cached_bounds(probability, bits)
        if known < low:
            return True  # U < (known + 1) / 2^bits <= p
        if known >= high:
            return False  # U >= known / 2^bits >= p
        if bits >= MAX_COMPARED_BITS:
            raise broken_source()
        more = max(64, bits)
        known = (known << more) | int.from_bytes(read_exactly(source, more // 8), "big")
        bits += more


def cached_bounds(probability: Probability, bits: int) -> tuple[int, int]:
    """Return `probability.bounds(bits)`; for the types of this file it is computed once."""
    if isinstance(probability, Rational | ExpRatio):
        return _cached_threshold(probability, bits)
    return probability.bounds(bits)  # whether a stranger's equality means equal bounds is not known


@lru_cache(maxsize=4096)
def _cached_threshold(probability: Rational | ExpRatio, bits: int) -> tuple[int, int]:
    return probability.bounds(bits)


def _nonnegative(exponent: Fraction) -> None:
    if exponent < 0:
        raise BadParameter(
            f"exponent = {quote_value(exponent)} is negative.",
            "e^-exponent would be above 1.",
            "Give an exponent of at least 0.",
        )


def _within_unit(value: object, within: bool) -> None:
    if not within:
        raise BadParameter(
            f"probability = {quote_value(value)} is not in [0, 1].",
            "A probability lies between 0 and 1.",
            "Give a probability from 0 to 1.",
        )
