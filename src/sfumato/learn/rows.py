"""Rows as integers, and their exact sums, for arrays and for rows in an engine.

A column is scaled from its bounds to integers in [-UNIT, UNIT]. How a row is shrunk, and its class of radius, follow in
integers from that row and from released numbers only. In memory integers are held in doubles: below 2^53 they are
exact, and so are their sums, in any order of summation.
Proof: proofs/learn.md
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sfumato.learn.table_metadata import Floats, TableMetadata

UNIT_STEPS = 1 << 16
"""One half of a column's range; and the length to which rows are shrunk."""
RADIUS_CLASSES = 25
"""Classes of radius: each is 2^(-1/4) of the one before."""
BLOCK_ROWS = 1 << 13
"""Number of rows per block, so that a block stays in the processor's cache."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ball:
    """Where rows are shrunk to: a centre and a radius, both released, in units of the columns."""

    centre: tuple[int, ...]
    radius: int


class Sums(Protocol):
    """Exact sums over rows of integers. Each is a function that adds up what single rows give."""

    def clipped_sums(self, *, squares: bool) -> Integers:
        """Return per class (one, without classes) the number of rows, then Σx and, if asked for, Σ⌊x²/UNIT⌋."""

    def radii(self, centre: Sequence[int], radii: Sequence[int]) -> Integers:
        """Return how many rows lie in each class of distance from the centre: the last one that is not nearer."""

    def products(self, ball: Ball, constant: int) -> Integers:
        """Return Σzz' of the shrunk rows z, with the constant as one column more, after the others."""

    def shrunk(self, ball: Ball) -> Integers:
        """Return per class the number of rows, then Σz of the shrunk rows."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in memory: integers in [-UNIT, UNIT], the class of each row, and its unit numbered from 0.

    Columns are contiguous (Fortran order), so that operations on a column are fast.
    """

    values: Floats
    labels: Integers
    people: Integers
    classes: int

    def __repr__(self) -> str:
        return f"Rows({self.values.shape[1]} columns)"

    def clipped_sums(self, *, squares: bool) -> Integers:
        width = self.values.shape[1]
        total = np.zeros((self.classes, 1 + width * (2 if squares else 1)), dtype=np.int64)
        for part in blocks(len(self.values)):
            total[:, : 1 + width] += self._by_class(self.values[part], part)
            if squares:
                cut = np.floor(self.values[part] ** 2 / UNIT_STEPS)  # division by a power of two is exact
                total[:, 1 + width :] += self._by_class(cut, part)[:, 1:]
        return total

    def radii(self, centre: Sequence[int], radii: Sequence[int]) -> Integers:
        # the last class whose radius is at least the distance; what lies beyond the first is in it
        ends = np.array([float(radius) ** 2 for radius in reversed(radii)])
        total = np.zeros(len(radii), dtype=np.int64)
        for part in blocks(len(self.values)):
            squares = squared_norms(self.values[part] - np.array(centre, dtype=np.float64))
            nearer = np.minimum(np.searchsorted(ends, squares, side="left"), len(radii) - 1)
            total += np.bincount(len(radii) - 1 - nearer, minlength=len(radii))
        return total

    def products(self, ball: Ball, constant: int) -> Integers:
        width = self.values.shape[1]
        total = np.zeros((width + 1, width + 1), dtype=np.int64)
        for part in blocks(len(self.values)):
            rows = np.full((len(self.values[part]), width + 1), float(constant), order="F")
            rows[:, :-1] = shrink(self.values[part], ball)
            total += exact_product(rows, rows)
        return total

    def shrunk(self, ball: Ball) -> Integers:
        total = np.zeros((self.classes, 1 + self.values.shape[1]), dtype=np.int64)
        for part in blocks(len(self.values)):
            total += self._by_class(shrink(self.values[part], ball), part)
        return total

    def _by_class(self, columns: Floats, part: slice) -> Integers:
        """Return for each class of a block the number of its rows and the sum of each column."""
        if self.classes == 1:
            return np.array([[len(columns), *columns.sum(axis=0)]]).astype(np.int64)
        own = (np.arange(self.classes)[:, None] == self.labels[part]).astype(np.float64).T
        return np.concatenate([own.sum(axis=0)[:, None].astype(np.int64), exact_product(own, columns)], axis=1)


def blocks(length: int) -> Iterator[slice]:
    """Give the rows in parts that are computed with at once."""
    return (slice(start, start + BLOCK_ROWS) for start in range(0, length, BLOCK_ROWS))


def squared_norms(values: Floats) -> Floats:
    """Return Σx² of each row: below 2^53 for a thousand columns of less than 2^21."""
    return np.asarray((values * values).sum(axis=1))


def lengths_above(squares: Floats) -> Floats:
    """Return integers at or above the square roots of integers below 2^52."""
    return np.asarray(np.rint(np.sqrt(squares)) + 1)


def shrink(values: Floats, ball: Ball) -> Floats:
    """Return rows of integers of length at most UNIT: (x - centre)·UNIT / max(radius, ‖x - centre‖), cut towards 0.

    Theorem: Σz² ≤ UNIT² for every row.  Proof: proofs/learn.md §3
    """
    moved = values - np.array(ball.centre, dtype=np.float64)
    squares = squared_norms(moved)
    lengths = lengths_above(squares)
    divisor = np.maximum(lengths, float(ball.radius))
    divisor[lengths * lengths < squares] = np.inf
    # dividend and divisor are exact, and their quotient is far coarser than a double: cutting it cuts the exact one
    moved *= UNIT_STEPS
    moved /= divisor[:, None]
    return np.asarray(np.trunc(moved, out=moved))


def exact_product(left: Floats, right: Floats) -> Integers:
    """Return left'·right of integers, exactly: every partial sum stays below 2^53.

    No product of two entries is above 2^36, and there are at most 2^13 rows at once.
    """
    total = np.zeros((left.shape[1], right.shape[1]), dtype=np.int64)
    for part in blocks(len(left)):
        total += (left[part].T @ right[part]).astype(np.int64)
    return total


def radii_of(metadata: TableMetadata, *, around_measured: bool) -> tuple[int, ...]:
    """Return the 25 public radii: the box's own (twice that around a measured centre), each 2^(-1/4) of the one before.

    >>> from sfumato.accounting.event import Neighbours
    >>> metadata = TableMetadata((0.0,) * 4, (1.0,) * 4, (), False, Neighbours.ADD_REMOVE, 1)
    >>> radii_of(metadata, around_measured=False)[::4]
    (131072, 65536, 32768, 16384, 8192, 4096, 2048)
    """
    first = UNIT_STEPS * len(metadata.low) ** 0.5 * (2 if around_measured else 1)
    return tuple(int(first * 2 ** (-step / 4)) for step in range(RADIUS_CLASSES))
