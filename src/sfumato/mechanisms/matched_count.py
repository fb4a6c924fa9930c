"""Count distinct values through a maximum matching, with few values per unit."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.accounting.event import Neighbours, Pure
from sfumato.caches import remembered
from sfumato.exact import integer
from sfumato.mechanisms.answers import integer_answers
from sfumato.mechanisms.choice import negligible_reach, permute_and_flip_margin
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.parameters import read_parameters
from sfumato.mechanisms.permute_and_flip import PermuteAndFlip
from sfumato.randomness.source import Source

LIMIT_EPSILON_SHARE = Fraction(1, 3)
"""Share of epsilon for the choice of the limit; the rest is for the count."""
_FALSE_LIMIT_PROBABILITY, _FALSE_LIMIT_FACTOR, _MIN_LIMITS_PROBABILITY = Fraction(37, 1000), 4, Fraction(1, 2000)
"""How often the second limit may be chosen where the first is enough, by how many times less often each later one, and
how often all that are far above together."""
_EARLIER_CONFIDENCE = Fraction(95, 100)
"""Up to version 0.14 every limit needed the same gain, more than chance alone suggests with this probability."""
_MAX_WANTED_GAIN = 1 << 40
"""Upper limit of a wanted gain, reached only at tiny prices."""


@dataclass(frozen=True, slots=True)
class MatchedCount:
    """Count distinct values through a maximum matching, with at most `limit` values per unit.

    The limit is selected privately by what a higher one would add. The count within it is released with noise.

    Theorem: if sizes[i] is the number of values that can be served if each unit serves at most limits[i], and one
    privacy unit has values in at most `cells` cells, then releasing all cells is epsilon-DP. Without its noise no
    number is above the truth.  [KS23]  Proof: proofs/matching.md

    >>> made = MatchedCount((1, 2, 4, 5), 1, Fraction(1), Neighbours.ADD_REMOVE)
    >>> made.wanted_gains, made.noise(0).margin(Fraction(95, 100))
    ((16, 24, 33), 4)
    """

    limits: tuple[int, ...]
    """Starting at 1, each twice the previous one; the last, the maximum of one unit, may be less."""
    cells: int
    epsilon: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", integer(self.cells, "cells", 1))
        read_parameters(self)
        previous_limits = [1, *(2 * limit for limit in self.limits)]
        if not self.limits or any(
            not 1 <= limit <= max_limit for limit, max_limit in zip(self.limits, previous_limits, strict=False)
        ):
            raise AssertionError("a limit is at most twice the one before")

    @property
    def event(self) -> Pure:
        """Event of releasing all cells."""
        return Pure(self.epsilon, self.neighbours)

    @property
    def wanted_gains(self) -> tuple[int, ...]:
        """Gain, per value of each limit but the last, that the next limit needs to be worth its noise.

        The higher a limit, the more it costs if chance alone suggests it, and the less often chance does.
        Proof: proofs/matching.md, 5
        """
        return _wanted_gains(self._limit_chooser.rate, len(self.limits))

    @property
    def earlier_wanted_gain(self) -> int:
        """The gain, per value of a limit, that every next limit needed up to version 0.14."""
        return _earlier_wanted_gain(self._limit_chooser.rate, len(self.limits))

    def unserved(self, place: int, confidence: Fraction) -> int:
        """Return an upper bound, at this confidence, of the values that are not served within the chosen limit.

        The choice implies it: a limit whose successor adds much is rarely chosen, and later limits add less.
        Proof: proofs/matching.md, 6

        >>> made = MatchedCount((1, 2, 4, 5), 1, Fraction(1), Neighbours.ADD_REMOVE)
        >>> [made.unserved(place, Fraction(95, 100)) for place in range(4)]
        [164, 133, 215, 0]
        """
        if place == len(self.limits) - 1:
            return 0
        limit, next_limit, last = self.limits[place], self.limits[place + 1], self.limits[-1]
        gain = self.gain_of_next(place, confidence)
        return gain + gain * (last - next_limit) // (next_limit - limit)

    def gain_of_next(self, place: int, confidence: Fraction) -> int:
        """Return an upper bound, at this confidence, of the values that the limit after the chosen one would add.

        It holds for limits that were chosen by the gain of earlier versions, too: their answers are kept.
        """
        choice_margin = permute_and_flip_margin(self._limit_chooser.rate, len(self.limits), confidence)
        wanted = max(self.wanted_gains[place], self.earlier_wanted_gain)
        return (wanted + choice_margin + 1) * self.limits[place] - 1

    @property
    def _limit_chooser(self) -> PermuteAndFlip:
        return _limit_chooser(self.epsilon * LIMIT_EPSILON_SHARE / self.cells, self.neighbours)

    def noise(self, place: int) -> Laplace:
        """Return the noise of the count at this limit."""
        limit = self.limits[place]
        return Laplace(limit, limit * self.cells / (self.epsilon * (1 - LIMIT_EPSILON_SHARE)), self.neighbours)

    def release(self, sizes: object, source: Source) -> tuple[int, int]:
        """Return the index of the chosen limit and the noisy count of one cell."""
        exact = [int(size) for size in integer_answers(sizes)]
        place = self._limit_chooser.release(np.array(self.scores(exact), dtype=np.int64), source)
        (noisy,) = self.noise(place).release(np.array([exact[place]], dtype=np.int64), source)
        return place, int(noisy)

    def scores(self, sizes: list[int]) -> list[int]:
        """Score each limit: 0 if its gain is enough and the next one's is not, and less the farther from that."""
        pairs = zip(sizes[:-1], sizes[1:], self.limits[:-1], strict=True)
        gains = [(after - before) // limit for before, after, limit in pairs]
        over = [gain - wanted for gain, wanted in zip(gains, self.wanted_gains, strict=True)]
        return [-max(0, more, -less) for more, less in zip([*over, 0], [0, *over], strict=True)]


@remembered(256)
def _limit_chooser(epsilon: Fraction, neighbours: Neighbours) -> PermuteAndFlip:
    moved = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    return PermuteAndFlip(moved, epsilon, neighbours)


@remembered(256)
def _wanted_gains(rate: Fraction, limits: int) -> tuple[int, ...]:
    """Return the gains without which limits after the first are chosen as seldom as they may be."""
    least = _MIN_LIMITS_PROBABILITY / limits
    chances = [max(_FALSE_LIMIT_PROBABILITY / _FALSE_LIMIT_FACTOR**index, least) for index in range(limits - 1)]
    # a limit is chosen before the one that is enough in half of all orders at most  [MS20]
    return tuple(min(negligible_reach(rate, 2 * chance) + 1, _MAX_WANTED_GAIN) for chance in chances)


@remembered(256)
def _earlier_wanted_gain(rate: Fraction, limits: int) -> int:
    return min(permute_and_flip_margin(rate, limits, _EARLIER_CONFIDENCE) + 1, _MAX_WANTED_GAIN)
