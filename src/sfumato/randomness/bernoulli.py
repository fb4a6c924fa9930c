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

from sfumato.errors import BadParameter
from sfumato.exact import integer, rational, shown
from sfumato.randomness.certified import exp_minus_bounds, scaled_ceiling, scaled_floor
from sfumato.randomness.source import Source, broken_source, read_exactly

WORD = 16
"""Bits of U that are drawn for every toss."""
LONGEST = 24_000
"""A comparison that so many bits leave open (P < e^-16384) is not chance but a broken source."""


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
        return (scaled_floor(self.value, bits), scaled_ceiling(self.value, bits))


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
        size = integer(count, "count", 0)
        words = np.frombuffer(read_exactly(source, 2 * size), dtype="<u2")
        real = cast(Probability, self.probability)  # a Fraction became a Rational
        tosses: npt.NDArray[np.bool_] = Coins.prepare((real,)).toss(words.reshape(1, size), source)[0]
        return tosses


@dataclass(frozen=True, slots=True, eq=False)
class Coins:
    """Several kinds of coin tossed together: row i of the words is for probability i."""

    probabilities: tuple[Probability, ...]
    thresholds: npt.NDArray[np.uint16]  # floor(p * 2^16), in a column

    @classmethod
    def prepare(cls, probabilities: tuple[Probability, ...]) -> "Coins":
        """Compute the thresholds: they depend on public parameters only."""
        # a word is 0 … 65535: for p = 1 the last one, and where a bound says -1 for p = 0 the first, is left to refine
        lows = [min(max(cached_bounds(real, WORD)[0], 0), (1 << WORD) - 1) for real in probabilities]
        return cls(probabilities, np.array(lows, dtype=np.uint16).reshape(-1, 1))

    def toss(self, words: npt.NDArray[np.uint16], source: Source) -> npt.NDArray[np.bool_]:
        """Toss one coin per word; the words that do not decide draw more bits from `source`."""
        tosses: npt.NDArray[np.bool_] = words < self.thresholds
        for toss in (words == self.thresholds).ravel().nonzero()[0]:
            kind, place = divmod(int(toss), words.shape[1])
            tosses[kind, place] = refine(self.probabilities[kind], int(words[kind, place]), WORD, source)
        return tosses


def refine(probability: Probability, known: int, bits: int, source: Source) -> bool:
    """Decide U < p where the first `bits` bits of U are `known` and the rest is still to be drawn."""
    while True:
        low, high = cached_bounds(probability, bits)
        if known < low:
            return True  # U < (known + 1) / 2^bits <= p
        if known >= high:
            return False  # U >= known / 2^bits >= p
        if bits >= LONGEST:
            raise broken_source()
        more = max(64, bits)
        known = (known << more) | int.from_bytes(read_exactly(source, more // 8), "big")
        bits += more


def cached_bounds(probability: Probability, bits: int) -> tuple[int, int]:
    """Return `probability.bounds(bits)`; for the types of this file it is computed once."""
    if isinstance(probability, Rational | ExpRatio):
        return _remembered(probability, bits)
    return probability.bounds(bits)  # whether a stranger's equality means equal bounds is not known


@lru_cache(maxsize=4096)
def _remembered(probability: Rational | ExpRatio, bits: int) -> tuple[int, int]:
    return probability.bounds(bits)


def _nonnegative(exponent: Fraction) -> None:
    if exponent < 0:
        raise BadParameter(
            f"exponent = {shown(exponent)} is negative.",
            "e^-exponent would be above 1.",
            "Give an exponent of at least 0.",
        )


def _within_unit(value: object, within: bool) -> None:
    if not within:
        raise BadParameter(
            f"probability = {shown(value)} is not in [0, 1].", "No coin has it.", "Give a probability from 0 to 1."
        )
