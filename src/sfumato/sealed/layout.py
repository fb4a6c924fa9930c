"""What a sealed table looks like in its store: numbered cells, and columns of residues wide enough for every sum."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import BadPolicy, quote_value
from sfumato.policy.policy import Column, Table, fold_name
from sfumato.policy.sealing import values_of
from sfumato.policy.table_keys import MAX_CAPACITY_ROWS
from sfumato.sealed.ashe import PRIMES

LIMB = 31
"""Bits of one stored column: sums of a billion of them fit 64 bits, signed."""
ROWS = "rows"
SQUARES = "squares"
SUMS = "sums"
Residue = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class SealedColumn:
    """One number per row, as residues: `kind` of the measure, for the rows of one slot.

    A row that counts here has the plaintext 2^gap + (value - low), or the square of that; every other row 0. So one
    sum is both the number of those rows and the sum of their values.
    """

    kind: str
    measure: str
    slot: int
    low: int
    """The least value of the measure, in steps of its grid."""
    width: int
    """The greatest minus the least value; of squares, squared."""
    gap: int
    prime: int
    limbs: tuple[str, ...]
    """The names of the stored columns, lowest bits first."""

    @property
    def labels(self) -> tuple[str, str, str]:
        """What tells its keys from those of other columns of the table."""
        return (self.kind, self.measure, str(self.slot))

    def split(self, residues: Residue) -> list[npt.NDArray[np.int32]]:
        """Return residues as stored columns."""
        mask = (1 << LIMB) - 1
        return [((residues >> LIMB * at) & mask).astype(np.int32) for at in range(len(self.limbs))]

    def valid(self, total: int, rows: int) -> tuple[int, int] | None:
        """Return how many rows count and the sum of their values above `low`; None if no honest rows add up to it."""
        count, surplus = divmod(total, 1 << self.gap)
        return (count, surplus) if count <= rows and surplus <= count * self.width else None


@dataclass(frozen=True, slots=True)
class Layout:
    """The cells of a table (combinations of its cell columns), its slots (of splayed ones) and its columns."""

    table: Table
    cells: tuple[tuple[bool | int | str, ...], ...]
    slots: tuple[tuple[bool | int | str, ...], ...]
    cell_columns: tuple[Column, ...]
    slot_columns: tuple[Column, ...]
    columns: tuple[SealedColumn, ...]
    capacity: int
    joins: bool = False
    """Whether the store is shown which rows are of one person."""

    @property
    def name(self) -> str:
        """The table's name, folded."""
        return fold_name(self.table.name)

    def column(self, kind: str, measure: str, slot: int) -> SealedColumn | None:
        """Return the column of this kind, or None."""
        wanted = (kind, measure, str(slot))
        return next((column for column in self.columns if column.labels == wanted), None)

    def counting(self, slot: int) -> SealedColumn:
        """Return a column in which every real row of a slot counts."""
        return next(column for column in self.columns if column.slot == slot and self._counts_all(column))

    def _counts_all(self, column: SealedColumn) -> bool:
        nulls = {fold_name(name) for name in _sealed(self.table).nulls}
        return column.kind in (ROWS, SUMS) and column.measure not in nulls


def layouts_of(tables: Sequence[Table], integrity: int) -> dict[str, Layout]:
    """Return how the tables of a policy are laid out, by their names.

    In a join a row counts once for each of its person's rows in the other table, and the sums have room for that.
    """
    joining = [table for table in tables if _joins(table)]
    return {
        fold_name(table.name): layout_of(
            table,
            integrity,
            max((other.rows_per_unit or 1 for other in joining if other is not table), default=1)
            if table in joining
            else 1,
        )
        for table in tables
    }


def layout_of(table: Table, integrity: int, times: int = 1) -> Layout:
    """Return how a table is laid out whose rows count up to so many times.

    It is refused where a sum of its capacity fits no residue.
    """
    sealed = _sealed(table)
    cell_columns, slot_columns = _sorted(table, sealed.cells), _sorted(table, sealed.splayed)
    cells = tuple(product(*(_ordered(column) for column in cell_columns)))
    slots = tuple(product(*(_ordered(column) for column in slot_columns)))
    columns: list[SealedColumn] = []
    for slot in range(len(slots)):
        for kind, measure, low, width in _quantities(table):
            first = sum(len(column.limbs) for column in columns)
            columns.append(_column(table, kind, measure, slot, low, width, integrity, first, times))
    return Layout(table, cells, slots, cell_columns, slot_columns, tuple(columns), sealed.capacity, _joins(table))


def _joins(table: Table) -> bool:
    return any(column.joins for column in table.columns)


def _sealed(table: Table) -> Any:
    if table.sealed is None:
        raise AssertionError("a policy with [sealed] says of every table what is sealed of it")
    return table.sealed


def _sorted(table: Table, names: tuple[str, ...]) -> tuple[Column, ...]:
    """Return the columns in an order that does not hang on how the policy is written."""
    found = (table.column(name) for name in sorted(names, key=fold_name))
    return tuple(column for column in found if column is not None)


def _ordered(column: Column) -> list[bool | int | str]:
    return sorted(values_of(column), key=lambda value: (str(type(value)), value))


def _quantities(table: Table) -> Iterator[tuple[str, str, int, int]]:
    sealed = _sealed(table)
    squares, nulls = ({fold_name(name) for name in names} for names in (sealed.squares, sealed.nulls))
    measures = _sorted(table, sealed.measures)
    if all(fold_name(column.name) in nulls for column in measures):
        yield ROWS, "", 0, 0
    for column in measures:
        grid = column.grid
        if grid is None:
            raise AssertionError("a measure has bounds")
        yield SUMS, fold_name(column.name), grid.least, grid.greatest - grid.least
        if fold_name(column.name) in squares:
            yield SQUARES, fold_name(column.name), grid.least, (grid.greatest - grid.least) ** 2


def _column(
    table: Table, kind: str, measure: str, slot: int, low: int, width: int, integrity: int, first: int, times: int
) -> SealedColumn:
    capacity = _sealed(table).capacity * times
    if capacity > MAX_CAPACITY_ROWS:
        raise BadPolicy(
            f"tables.{table.name}.capacity, times the rows per person of a table that it is joined with, is too large.",
            f"The store adds up {MAX_CAPACITY_ROWS} rows at most.",
            "Give the table a smaller capacity, or the other one a smaller rows_per_unit.",
        )
    gap = (capacity * width).bit_length()  # 2^gap > capacity · width
    valid = (capacity + 1) + width * capacity * (capacity + 1) // 2  # how many pairs of count and sum there are
    for prime in PRIMES:
        if prime > (capacity + 1) << gap and valid << integrity <= prime - 1:  # proofs/sealed.md §2
            limbs = -(-prime.bit_length() // LIMB)
            names = tuple(f"c{at}" for at in range(first, first + limbs))
            return SealedColumn(kind, measure, slot, low, width, gap, prime, names)
    raise BadPolicy(
        f"tables.{table.name}.measures names {quote_value(measure)}, whose sums are too large to be sealed.",
        f"With a capacity of {capacity} rows and an integrity of {integrity} bits they do not fit 127 bits.",
        "Give the column a coarser step or narrower bounds, or the table a smaller capacity.",
    )
