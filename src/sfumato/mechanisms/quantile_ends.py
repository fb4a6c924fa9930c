"""The ends of a quantile: two buckets at the same distance from an answer that hold every quantile of its level.

The first distance scores best whose ends, and those of all longer distances, hold it by as many ranks as they need. An
end further out needs more. So a distance that is far too short scores far below the best, on whatever data, and few
ranks are enough for the first. One score for an answer and its ends together, or for the ends of all levels together,
is the worst of theirs: it moves no further than one of them does, so that everything is one choice.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import lcm, prod
from typing import Any, Protocol

import numpy as np

from sfumato.caches import remembered
from sfumato.mechanisms.held_values import HeldValues
from sfumato.randomness.selection import SELECTION_WORD_BITS, Integers, exponential_weighted, uniform_below
from sfumato.randomness.source import Source

_MAX_INT64_TERM = 1 << 60
_MAX_DISTANCES = 100
"""More distances than any range has."""


class Ranked(Protocol):
    """The values that ends are chosen on: of one cell, or of a cell for each row of places."""

    @property
    def total(self) -> Any:
        """The weight of all values: an integer, or a column of them."""

    def below(self, places: Integers) -> Integers:
        """Return the weight before each of these buckets."""


@dataclass(frozen=True, slots=True)
class EndsOf:
    """The ends of one level.

    A distance is far enough if its own ends lie at least `wanted[0]` beyond the level's rank, in steps of 1/q of a
    weight, and those of the k-th distance after it at least `wanted[k]`.
    """

    level: Fraction
    buckets: int
    weight: int
    wanted: tuple[int, ...]

    def distances(self, place: int) -> tuple[int, ...]:
        """Return the distances among which the ends of an answer at this bucket are chosen."""
        return distances_to(int(self._max_distance(np.array(place))))

    def at(self, place: int, far: int) -> tuple[int, int, int]:
        """Return the lower end, the answer and the upper end; an extreme's ends reach to the bound on its side."""
        last = self.buckets - 1
        return 0 if self.level == 0 else max(0, place - far), place, last if self.level == 1 else min(last, place + far)

    def distance_counts(self, places: Integers) -> Integers:
        """Return for each place how many distances there are."""
        found: Integers = np.searchsorted(first_distances(_MAX_DISTANCES), self._max_distance(places)) + 1
        return found

    def misses(self, cell: Ranked, places: Integers, most: int) -> Integers:
        """Return by how much each of the first `most` distances misses the wanted ranks: a row for each place.

        Entries beyond the last distance of a place have no meaning.
        """
        p, q, last = self.level.numerator, self.level.denominator, self.buckets - 1
        rank, largest = p * cell.total, q * (cell.total + 2 * self.weight) + max(self.wanted)
        kind = object if np.max(largest) >= _MAX_INT64_TERM else np.int64
        answers, far = places[:, None], np.array(first_distances(most))
        lower, upper = (cell.below(ends).astype(kind) for ends in (answers - far, answers + far + 1))
        # an end that misses has a surplus below 0, and so far below it as it misses the level's rank itself
        left_slack, right_slack = 2 * p * self.weight - 1, 2 * (q - p) * self.weight - 1
        left, right = rank - q * lower - left_slack, q * upper - rank - right_slack
        # an end at the end of the range holds everything on its side, and so does an extreme's
        on_left = (far < answers) & (self.level > 0)
        on_right = (answers + far < last) & (self.level < 1)
        either = np.where(on_left & on_right, np.minimum(left, right), np.where(on_left, left, right))
        everything = np.full(either.shape, 2 * largest, dtype=kind)  # the last distance holds everything
        surplus = np.where(far < self._max_distance(answers), either, everything)
        slack = surplus - self.wanted[0]
        for further in range(1, most):
            slack[:, :-further] = np.minimum(slack[:, :-further], surplus[:, further:] - self.wanted[further])
        before = np.column_stack((np.zeros_like(slack[:, :1]), slack[:, :-1]))
        worst_misses: Integers = np.maximum(0, np.maximum(-slack, before))
        return worst_misses

    def pairs(self) -> tuple[Integers, Integers]:
        """Return all answers and the numbers of their distances, each pair once."""
        places = np.arange(self.buckets)
        counts = self.distance_counts(places)
        numbers = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(places, counts), numbers

    def _max_distance(self, places: Integers) -> Integers:
        distances: Integers = np.maximum(places * (self.level > 0), (self.buckets - 1 - places) * (self.level < 1))
        return distances


def choose_distances(
    cell: HeldValues, ends: Sequence[EndsOf], places: Sequence[int], rate: Fraction, source: Source
) -> list[int]:
    """Choose a distance for each answer, by the worst miss of all: P proportional to exp(-rate * that).

    How many lists of distances miss by t at most is a product; so t is drawn first, then one of its lists, uniformly.
    """
    tables = [end_pair.distances(place) for end_pair, place in zip(ends, places, strict=True)]
    missed = [
        [int(miss) * scale for miss in end_pair.misses(cell, np.array([place]), len(table))[0].tolist()]
        for end_pair, place, table, scale in zip(
            ends, places, tables, common_scales([end_pair.level for end_pair in ends]), strict=True
        )
    ]
    worst = sorted({miss for misses in missed for miss in misses})
    rising = [sorted(misses) for misses in missed]
    within_miss = [[bisect_right(misses, most) for misses in rising] for most in worst]
    lists = [prod(counts) for counts in within_miss]
    exact_counts = [within_this - within_last for within_this, within_last in zip(lists, [0, *lists[:-1]], strict=True)]
    possible_misses = [miss_index for miss_index, count in enumerate(exact_counts) if count]
    draw = exponential_weighted(
        [-worst[miss_index] for miss_index in possible_misses],
        [exact_counts[miss_index] for miss_index in possible_misses],
        rate,
        source,
    )
    miss_index = possible_misses[draw]
    bits = sum(len(distances_to(end_pair.buckets - 1)).bit_length() for end_pair in ends) + SELECTION_WORD_BITS
    number = uniform_below(exact_counts[miss_index], -(-bits // SELECTION_WORD_BITS) * SELECTION_WORD_BITS, source)
    found = _list(number, within_miss[miss_index], within_miss[miss_index - 1] if miss_index else [0] * len(ends))
    ranked = [sorted(range(len(misses)), key=misses.__getitem__) for misses in missed]  # those within t come first
    return [table[order[nth]] for table, order, nth in zip(tables, ranked, found, strict=True)]


def farther(buckets: int, distance: int, further: int) -> int:
    """Return the distance that lies the given number of places later, among those of a range of buckets."""
    every = distances_to(buckets - 1)
    return every[min(every.index(distance) + further, len(every) - 1)]


def rank_sensitivity(level: Fraction) -> int:
    """Return how far a weight of 1 moves a score of this level at most, in steps of 1/q."""
    return max(level.numerator, level.denominator - level.numerator)


def common_scales(levels: Sequence[Fraction]) -> list[int]:
    """Return what each level's misses are multiplied by, so that a unit moves all of them by equally much."""
    common = lcm(*map(rank_sensitivity, levels))
    return [common // rank_sensitivity(level) for level in levels]


def _list(number: int, upto: Sequence[int], before: Sequence[int]) -> list[int]:
    """Return the list of this number: below `upto` in each place, and in some place at or above `before`.

    They are ordered by the first such place.

    >>> [_list(number, [2, 2], [1, 1]) for number in range(3)]
    [[1, 0], [1, 1], [0, 1]]
    """
    for first in range(len(upto)):
        sizes = [*before[:first], upto[first] - before[first], *upto[first + 1 :]]
        count = prod(sizes)
        if number < count:
            break
        number -= count
    found = []
    for size in reversed(sizes):
        number, digit = divmod(number, size)
        found.append(digit)
    found.reverse()
    found[first] += before[first]
    return found


@remembered(1024)
def distances_to(farthest: int) -> tuple[int, ...]:
    """Return 0, 1, 2, 3, 4, 6, 8, 12, … up to the first that reaches the farthest place.

    >>> distances_to(0), distances_to(9)
    ((0,), (0, 1, 2, 3, 4, 6, 8, 12))
    """
    return first_distances(int(np.searchsorted(first_distances(_MAX_DISTANCES), farthest)) + 1)


@lru_cache(maxsize=128)
def first_distances(count: int) -> tuple[int, ...]:
    """Return the first `count` of 0, 1, 2, 3, 4, 6, 8, 12, …

    >>> first_distances(6)
    (0, 1, 2, 3, 4, 6)
    """
    found, step = [0, 1, 2], 2
    while len(found) < count:
        found += [step + step // 2, 2 * step]
        step *= 2
    return tuple(found[:count])
