"""Rows as integers, and their exact sums: what a fit measures, whether the rows are an array or lie in an engine.

A column is brought from its bounds to [-UNIT, UNIT] in integers. What is decided about a row (how it is shrunk, which
class of radius it is in) is decided in integers from that row and from released numbers alone.  Proof: proofs/learn.md
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sfumato.learn.outline import Outline

UNIT = 1 << 16
"""One half of a column's range; and the length to which rows are shrunk."""
RADII = 25
"""Classes of radius: each is 2^(-1/4) of the one before."""

Integers = npt.NDArray[np.int64]
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class Ball:
    """Where rows are shrunk to: a centre and a radius, both released, in units of the columns."""

    centre: tuple[int, ...]
    radius: int


class Sums(Protocol):
    """Exact sums over rows of integers. Each is a function that adds up what single rows give."""

    def boxed(self) -> Integers:
        """Return per class (one, without classes) the number of rows, then Σx, then Σ⌊x²/UNIT⌋ of each column."""

    def radii(self, centre: Sequence[int], radii: Sequence[int]) -> Integers:
        """Return how many rows lie in each class of distance from the centre: the last one that is not nearer."""

    def products(self, ball: Ball, constant: int) -> Integers:
        """Return Σzz' of the shrunk rows z, with the constant as one column more, after the others."""

    def shrunk(self, ball: Ball) -> Integers:
        """Return per class the number of rows, then Σz of the shrunk rows."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in memory: integers in [-UNIT, UNIT], one line per row, the class of each, and its person from 0 on."""

    values: Integers
    labels: Integers
    people: Integers
    classes: int

    def __repr__(self) -> str:
        return f"Rows({self.values.shape[1]} columns)"

    def boxed(self) -> Integers:
        columns = [np.ones(len(self.values), dtype=np.int64)[:, None], self.values, self.values**2 // UNIT]
        return self._by_class(np.concatenate(columns, axis=1))

    def radii(self, centre: Sequence[int], radii: Sequence[int]) -> Integers:
        squares = squared_norms(self.values - np.array(centre, dtype=np.int64))
        # the last class whose radius is at least the distance; what lies beyond the first is in it
        ends = np.array([int(radius) ** 2 for radius in reversed(radii)], dtype=np.int64)
        nearer = np.minimum(np.searchsorted(ends, squares, side="left"), len(radii) - 1)
        return np.bincount(len(radii) - 1 - nearer, minlength=len(radii)).astype(np.int64)

    def products(self, ball: Ball, constant: int) -> Integers:
        rows = np.empty((len(self.values), self.values.shape[1] + 1))
        rows[:, :-1] = shrink(self.values, ball)
        rows[:, -1] = constant
        return exact_product(rows, rows)

    def shrunk(self, ball: Ball) -> Integers:
        rows = shrink(self.values, ball)
        return self._by_class(np.concatenate([np.ones((len(rows), 1), dtype=np.int64), rows], axis=1))

    def _by_class(self, columns: Integers) -> Integers:
        if self.classes == 1:
            return np.asarray(columns.sum(axis=0, dtype=np.int64)[None, :])
        return np.stack([columns[self.labels == at].sum(axis=0, dtype=np.int64) for at in range(self.classes)])


def squared_norms(values: Integers) -> Integers:
    """Return Σx² of each row: below 2^53 for a thousand columns of less than 2^21."""
    return np.asarray(np.einsum("ij,ij->i", values, values))


def shrink(values: Integers, ball: Ball) -> Integers:
    """Return rows of integers of length at most UNIT: (x - centre)·UNIT / max(radius, ‖x - centre‖), cut towards 0.

    Theorem: Σz² ≤ UNIT² for every row.  Proof: proofs/learn.md §3
    """
    moved = values - np.array(ball.centre, dtype=np.int64)
    squares = squared_norms(moved)
    lengths = np.rint(np.sqrt(squares.astype(np.float64))).astype(np.int64) + 1
    long_enough = lengths * lengths >= squares
    divisor = np.maximum(lengths, ball.radius)
    # both are integers below 2^53, and their quotient is far coarser than a double: cutting it cuts the exact one
    cut = np.trunc(moved * float(UNIT) / divisor[:, None])
    return np.where(long_enough[:, None], cut, 0).astype(np.int64)


def exact_product(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> Integers:
    """Return left'·right of integers that doubles hold, exactly: every partial sum of a block stays below 2^53.

    No product of two entries is above 2^36, so that a block of 2^16 rows adds up to at most 2^52.
    """
    total = np.zeros((left.shape[1], right.shape[1]), dtype=np.int64)
    for start in range(0, len(left), _BLOCK):
        part = left[start : start + _BLOCK].T @ right[start : start + _BLOCK]
        total += part.astype(np.int64)
    return total


def radii_of(outline: Outline, *, around_measured: bool) -> tuple[int, ...]:
    """Return the 25 public radii: the box's own (twice that around a measured centre), each 2^(-1/4) of the one before.

    >>> from sfumato.accounting.event import Neighbours
    >>> outline = Outline((0.0,) * 4, (1.0,) * 4, (), False, Neighbours.ADD_REMOVE, 1)
    >>> radii_of(outline, around_measured=False)[::4]
    (131072, 65536, 32768, 16384, 8192, 4096, 2048)
    """
    first = UNIT * len(outline.low) ** 0.5 * (2 if around_measured else 1)
    return tuple(int(first * 2 ** (-step / 4)) for step in range(RADII))
