"""Compute the local sensitivity of medians, quantiles and extremes of bounded integers, at every distance.

An order statistic moves to an adjacent value: its local sensitivity is a gap in the sorted data. Changes empty a gap of
its values, or bring another gap to the rank.
Proof: proofs/smooth_sensitivity.md, (2) and (3)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Neighbours, as_neighbours
from sfumato.errors import BadParameter
from sfumato.exact import integer, rational


@dataclass(frozen=True, slots=True)
class OrderStatistic:
    """The value of rank max(1, ⌈level · n⌉) of n integers in [low, high]; of no values it is `low`.

    `level` 1/2 is the (lower) median, 0 the minimum, 1 the maximum.
    """

    level: Fraction
    low: int
    high: int
    neighbours: Neighbours

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", rational(self.level, "level"))
        object.__setattr__(self, "low", integer(self.low, "low", -(1 << 62)))
        object.__setattr__(self, "high", integer(self.high, "high", self.low))
        object.__setattr__(self, "neighbours", as_neighbours(self.neighbours))
        if not 0 <= self.level <= 1 or self.high >= 1 << 62:
            raise BadParameter(
                f"level = {self.level}, high = {self.high}: one is out of range.",
                "A level is a share from 0 to 1, and values are held in 64 bits.",
                "Use for example 1/2 for the median.",
            )

    @property
    def reach(self) -> int:
        """The global sensitivity."""
        return self.high - self.low

    def rank(self, size: int) -> int:
        """Return the rank of the statistic among `size` values; 0 if there are none."""
        return max(1, ceil(self.level * size)) if size else 0

    def value(self, values: Sequence[int]) -> int:
        """Return the order statistic itself."""
        return int(self._with_bounds(values)[self.rank(len(values))])

    def at_distance(self, values: Sequence[int], distance: int) -> int:
        """Return the largest local sensitivity of any data that `distance` changes lead to, exactly."""
        ends = self._with_bounds(values)
        if self.neighbours is Neighbours.REPLACE:
            return self._replace_sensitivity(ends, distance) if values else 0
        return self._add_remove_sensitivity(ends, distance)

    def farthest(self, values: Sequence[int]) -> int:
        """Return a number of changes that leads to any data as far as gaps are concerned."""
        return len(values) + 2

    def _with_bounds(self, values: Sequence[int]) -> npt.NDArray[np.int64]:
        """Sort the values between the two ends of their range, so that position 0 and n + 1 are the ends."""
        inner = np.clip(np.sort(np.asarray(values, dtype=np.int64)), self.low, self.high)
        return np.concatenate(([self.low], inner, [self.high]))

    def _replace_sensitivity(self, ends: npt.NDArray[np.int64], distance: int) -> int:
        """Return the widest window of distance + 1 steps that holds the rank: max over t of x[r+t] - x[r+t-k-1]."""
        size, steps = len(ends) - 2, distance + 1
        upper = self.rank(size) + np.arange(steps + 1)
        gaps = ends[np.minimum(upper, size + 1)] - ends[np.maximum(upper - steps, 0)]
        return int(gaps.max())

    def _add_remove_sensitivity(self, ends: npt.NDArray[np.int64], distance: int) -> int:
        """Return the widest gap that `distance` added and removed people can open and bring to the rank."""
        size = len(ends) - 2
        widest = 0
        for inside in range(min(distance, size) + 1):  # people removed from inside the gap
            first, last = self._gap_positions(size - inside, distance - inside)
            starts = np.arange(max(first, 0), min(last, size - inside) + 1)
            if len(starts):
                widest = max(widest, int((ends[starts + inside + 1] - ends[starts]).max()))
        return widest

    def _gap_positions(self, size: int, changes: int) -> tuple[int, int]:
        """Return the first and last position whose gap `changes` units at the ends can bring to the rank.

        With s people more at the low end and t at the high one, the gap behind position j is the one behind j + s.
        """
        first, last = size, 0
        for more in range(-min(changes, size), changes + 1):  # s + t
            spare = (changes - abs(more)) // 2
            for gap in self._gaps(size + more):
                first = min(first, gap - max(0, more) - spare)
                last = max(last, gap - min(0, more) + spare)
        return first, last

    def _gaps(self, size: int) -> list[int]:
        """Return the positions behind which lie the gaps that one more or one fewer person makes the value cross."""
        rank = self.rank(size)
        grows = self.rank(size + 1) > rank
        positions = {rank if grows else rank - 1}
        if size:
            positions.add(rank - 1 if self.rank(size - 1) < rank else rank)
        return sorted(positions)
