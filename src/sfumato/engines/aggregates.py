"""Aggregates: exact and secret. They leave an engine only to get their noise; `repr` shows only the shape."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from sfumato.analysis.private_query import KeyValue
from sfumato.mechanisms.answers import Answers
from sfumato.sensitivity.bounded_flow import OwnerPairs


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class BucketWeights:
    """The buckets of all cells: entry by entry the cell's place, the bucket and the weight, in that order."""

    cells: Answers
    buckets: Answers
    weights: Answers

    def __repr__(self) -> str:
        return "HeldBuckets()"

    def for_cell(self, place: int) -> tuple[Answers, Answers]:
        """Return the buckets of one cell that hold something, rising, and what they hold."""
        start, end = np.searchsorted(self.cells, (place, place + 1))
        return self.buckets[start:end], self.weights[start:end]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class KeyFrequencies:
    """The keys by which people's rows meet, by the place of their cell: their powers, and how many keys have them."""

    cells: Mapping[int, tuple[tuple[tuple[int, ...], int], ...]]

    def __repr__(self) -> str:
        return "HeldKeys()"

    def for_cell(self, place: int) -> tuple[tuple[tuple[int, ...], int], ...]:
        """Return the keys of one cell."""
        return self.cells.get(place, ())


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PairsByCell:
    """The amounts that pairs of owners share, by the place of their cell."""

    cells: Mapping[int, OwnerPairs]
    same_kind: bool

    def __repr__(self) -> str:
        return "PairsByCell()"

    def shares(self, place: int) -> tuple[tuple[int, int, int], ...]:
        """Return the pairs of one cell as both owners' numbers and what they share."""
        pairs = self.for_cell(place)
        return tuple(zip(pairs.first.tolist(), pairs.second.tolist(), pairs.amounts.tolist(), strict=True))

    def for_cell(self, place: int) -> OwnerPairs:
        """Return the pairs of one cell."""
        return self.cells.get(place) or no_pairs(self.same_kind)


def no_pairs(same_kind: bool = False) -> OwnerPairs:
    """Return the pairs of an empty cell."""
    nothing = np.zeros(0, dtype=np.int64)
    return OwnerPairs(nothing, nothing, nothing, same_kind)


Held = BucketWeights | KeyFrequencies | PairsByCell


@dataclass(frozen=True, slots=True, repr=False)
class GroupAggregates:
    """One group: its keys, one tuple per cell, and for each measurement one integer per cell.

    Of a histogram, it is one row of integers per cell, an integer for each of its buckets; of what has levels, an
    integer for each of them, unless one was chosen before.

    Where the keys are public, they are all there, in the order of `Group.all_cells`, and absent cells hold 0. Otherwise
    they are what the data holds, `units` tells how many people each has, and all of it is secret.
    """

    keys: tuple[tuple[KeyValue, ...], ...]
    columns: Mapping[str, Answers]
    units: Answers | None
    held: Mapping[str, Held] = field(default_factory=dict)
    """Of what is chosen, by its name."""

    def __repr__(self) -> str:
        return f"GroupAggregates({len(self.columns)} columns)"


@dataclass(frozen=True, slots=True)
class Aggregates:
    """The groups of a plan, in its order."""

    groups: tuple[GroupAggregates, ...]
