"""Public buckets of an integer grid: every point near the origin by itself, further out at most 1/4096 of the way wide.

A quantile is looked for among buckets, so that an engine returns some hundred thousand counts at most, never the rows.
Where a range has at most 16,384 points, each is a bucket and nothing is lost.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

_SINGLE_STEP_REACH = 1 << 14
_WIDTH_GROWTH = 4


@dataclass(frozen=True, slots=True)
class Stretch:
    """Buckets of one width, side by side: from `start` up to and without `end`, the first of them numbered `first`."""

    start: int
    end: int
    width: int
    first: int

    @property
    def buckets(self) -> int:
        return -(-(self.end - self.start) // self.width)


@dataclass(frozen=True)
class Spacing:
    """The buckets of the integers from `low` to `high`.

    >>> Spacing(0, 120).buckets, Spacing(0, 10**6).buckets
    (121, 52490)
    >>> Spacing(0, 10**6).ends(40000)
    (246784, 246799)
    """

    low: int
    high: int

    @property
    def origin(self) -> int:
        """The point of the range that is nearest to 0: buckets are narrowest around it."""
        return min(max(0, self.low), self.high)

    @cached_property
    def stretches(self) -> tuple[Stretch, ...]:
        """The widths of buckets, from the lowest value to the highest."""
        found: list[Stretch] = []
        first = 0
        for start, end, width in self._bucket_edges():
            found.append(Stretch(start, end, width, first))
            first += found[-1].buckets
        return tuple(found)

    @property
    def buckets(self) -> int:
        last = self.stretches[-1]
        return last.first + last.buckets

    def numbers(self, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the number of the bucket that each value lies in; values outside are moved to the range."""
        values = np.clip(np.asarray(starts, dtype=np.int64), self.low, self.high)
        places = np.searchsorted(np.array([stretch.start for stretch in self.stretches]), values, side="right") - 1
        start, width, first = (
            np.array([getattr(stretch, name) for stretch in self.stretches], dtype=np.int64)[places]
            for name in ("start", "width", "first")
        )
        return np.asarray((values - start) // width + first)

    def ends(self, number: int) -> tuple[int, int]:
        """Return the least and the greatest value of a bucket."""
        stretch = self.stretches[bisect_right([one.first for one in self.stretches], number) - 1]
        start = stretch.start + (number - stretch.first) * stretch.width
        return start, min(start + stretch.width, stretch.end) - 1

    def middle(self, number: int) -> float:
        """Return the middle of a bucket: the value itself where the bucket is one value."""
        low, high = self.ends(number)
        return (low + high) / 2

    def _bucket_edges(self) -> Iterator[tuple[int, int, int]]:
        """Give the stretches in order: below the origin the widest first."""
        widths = []
        reach, width = _SINGLE_STEP_REACH, 1
        while reach < max(self.high - self.origin, self.origin - self.low) + 1:
            reach, width = reach * _WIDTH_GROWTH, width * _WIDTH_GROWTH
            widths.append((reach // _WIDTH_GROWTH, reach, width))
        for near, far, width in reversed(widths):
            if self.low <= self.origin - near - 1:
                yield max(self.low, self.origin - far), self.origin - near, width
        yield (
            max(self.low, self.origin - _SINGLE_STEP_REACH),
            min(self.high, self.origin + _SINGLE_STEP_REACH - 1) + 1,
            1,
        )
        for near, far, width in widths:
            if self.high >= self.origin + near:
                yield self.origin + near, min(self.high, self.origin + far - 1) + 1, width
