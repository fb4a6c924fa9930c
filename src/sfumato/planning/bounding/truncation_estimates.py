"""What caps and bounds probably cut off, from what was published of it: estimates, which guarantee nothing.

The sums of those who lost little are taken as they were published. Of those who lost much, buckets count that hold more
people than noise shows in an empty one.  How it is used: proofs/truncation.md, 8
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, hypot, log

from sfumato.planning.bounding.truncation import (
    BUCKET_COUNT,
    BUCKET_FAILURE,
    BUCKET_GROWTH,
    CUT_PEOPLE,
    MOVED,
    ROWS,
    ReleasedTruncation,
    TruncationBounds,
    TruncationStatistic,
    parts_of,
)

_LEVEL = Fraction(95, 100)
_MEAN_IN_BUCKET = log(BUCKET_GROWTH) * BUCKET_GROWTH / (BUCKET_GROWTH - 1)
"""What people in a bucket have on average, relative to its beginning, in a tail that is just regular."""


@dataclass(frozen=True, slots=True)
class TruncationEstimates:
    """Estimates of losses; with `margins` each is larger by how far noise reaches at 95 %."""

    published: TruncationBounds
    margins: bool

    @property
    def released(self) -> Mapping[tuple[str, str], ReleasedTruncation]:
        """What was published, by table and column."""
        return self.published.released

    def bounds_at(self, table: str, names: Sequence[str], tail: Fraction) -> dict[str, Mapping[str, int] | None]:
        """Return the estimate of each part of these statistics, for all people together, whatever the tail."""
        del tail
        return {name: self._estimates(self.released[table, name], name) for name in names}

    def _estimates(self, one: ReleasedTruncation, name: str) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for index, (each, part) in enumerate(parts_of(one.block)):
            if each.column == name:
                little, above = _noisy(one, f"s{index}"), _above(one, each)
                found[part] = self._added([(1.0, *little), *above])
                if name in (ROWS, MOVED):  # those who lost little lost half of what that may be, on average
                    people = [(1.0, number, margin) for _, number, margin in above]
                    few = (1.0, *_noisy(one, CUT_PEOPLE)) if name == ROWS and CUT_PEOPLE in one.noisy else None
                    found[CUT_PEOPLE] = self._added([few or (min(1.0, 2 / each.base), *little), *people])
        return found

    def _added(self, parts: Sequence[tuple[float, float, float]]) -> int:
        """Return the sum of numbers times their weights; their noise is independent."""
        value = sum(weight * number for weight, number, _ in parts)
        reach = hypot(*(weight * margin for weight, _, margin in parts)) if self.margins else 0.0
        return ceil(value + reach)


def _noisy(one: ReleasedTruncation, name: str) -> tuple[float, float]:
    """Return a number as it was published, not below 0, and how far its noise reaches."""
    return float(max(one.noisy[name], 0)), float(one.laws[name].margin(_LEVEL))


def _above(one: ReleasedTruncation, each: TruncationStatistic) -> list[tuple[float, float, float]]:
    """Return of each bucket what a person in it lost, how many there are, and how far that noise reaches.

    The first bucket counts always, later ones where they hold more people than noise shows in an empty one.
    """
    found: list[tuple[float, float, float]] = []
    for index in range(BUCKET_COUNT if one.block.tailed else 0):
        number, margin = _noisy(one, f"h{index}")
        seen = number > one.laws[f"h{index}"].margin(1 - 2 * BUCKET_FAILURE / BUCKET_GROWTH**index)
        lost = _MEAN_IN_BUCKET * each.bucket_edges[index] - each.max_contribution if each.tail else 0.0
        if seen or index == 0:
            found.append((lost, number if seen else 0.0, margin))
    return found
