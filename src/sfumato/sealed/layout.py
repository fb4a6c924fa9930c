"""Lay out a sealed table in its store: numbered cells, and columns of residues wide enough for every sum."""

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

LIMB_BITS = 31
"""Bits of one stored column: sums of a billion of them fit 64 bits, signed."""
ROWS = "rows"
SQUARES = "squares"
SUMS = "sums"
Residues = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class SealedColumn:
    """One number per row, as residues: `kind` of the measure, for the rows of one slot.

    A counted row has the plaintext 2^gap + (value - low), or the square of that; every other row has 0. One sum
    therefore holds both the count of those rows and the sum of their values.
    """

    kind: str
    measure: str
    slot: int
    low: int
    """Lower bound of the measure, in grid steps."""
    width: int
    """Upper minus lower bound; squared for squares."""
    gap: int
    prime: int
    limbs: tuple[str, ...]
    """The names of the stored columns, lowest bits first."""

    @property
    def labels(self) -> tuple[str, str, str]:
        """Labels of its keys, unique within the table."""
        return (self.kind, self.measure, str(self.slot))

    def split(self, residues: Residues) -> list[npt.NDArray[np.int32]]:
        """Return residues as stored columns."""
        mask = (1 << LIMB_BITS) - 1
        return [((residues >> LIMB_BITS * limb) & mask).astype(np.int32) for limb in range(len(self.limbs))]

    def check_sum(self, total: int, rows: int) -> tuple[int, int] | None:
        """Return the count and the sum above `low`; None if no honest rows have this total."""
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
    """Whether the store sees which rows belong to the same unit."""

    @property
    def name(self) -> str:
        """The table's name, folded."""
        return fold_name(self.table.name)

    def column(self, kind: str, measure: str, slot: int) -> SealedColumn | None:
        """Return the column of this kind, or None."""
        wanted = (kind, measure, str(slot))
        return next((column for column in self.columns if column.labels == wanted), None)

    def counting_column(self, slot: int) -> SealedColumn:
        """Return a column in which every real row of a slot counts."""
        return next(column for column in self.columns if column.slot == slot and self._counts_all(column))

    def _counts_all(self, column: SealedColumn) -> bool:
        nulls = {fold_name(name) for name in _sealed_entry(self.table).nulls}
        return column.kind in (ROWS, SUMS) and column.measure not in nulls


def layouts_of(tables: Sequence[Table], integrity: int) -> dict[str, Layout]:
    """Return the layouts of a policy's tables by name.

    In a join a row counts once for each row of its unit in the other table, and the sums have room for that.
    """
    joining = [table for table in tables if _has_join_column(table)]
    return {
        fold_name(table.name): layout_of(
            table,
            integrity,
            max((partner.rows_per_unit or 1 for partner in joining if partner is not table), default=1)
            if table in joining
            else 1,
        )
        for table in tables
    }


def layout_of(table: Table, integrity: int, times: int = 1) -> Layout:
    """Return the layout of a table whose rows count up to `times` times.

    Refuse a table whose sums at full capacity fit no residue.
    """
    sealed = _sealed_entry(table)
    cell_columns, slot_columns = _sorted_columns(table, sealed.cells), _sorted_columns(table, sealed.splayed)
    cells = tuple(product(*(_sorted_values(column) for column in cell_columns)))
    slots = tuple(product(*(_sorted_values(column) for column in slot_columns)))
    columns: list[SealedColumn] = []
    for slot in range(len(slots)):
        for kind, measure, low, width in _measured_quantities(table):
            first = sum(len(column.limbs) for column in columns)
            columns.append(_make_column(table, kind, measure, slot, low, width, integrity, first, times))
    return Layout(
        table, cells, slots, cell_columns, slot_columns, tuple(columns), sealed.capacity, _has_join_column(table)
    )


def _has_join_column(table: Table) -> bool:
    return any(column.joins for column in table.columns)


def _sealed_entry(table: Table) -> Any:
    if table.sealed is None:
        raise AssertionError("a policy with [sealed] says of every table what is sealed of it")
    return table.sealed


def _sorted_columns(table: Table, names: tuple[str, ...]) -> tuple[Column, ...]:
    """Return the columns in an order that is independent of the policy's spelling."""
    columns = (table.column(name) for name in sorted(names, key=fold_name))
    return tuple(column for column in columns if column is not None)


def _sorted_values(column: Column) -> list[bool | int | str]:
    return sorted(values_of(column), key=lambda value: (str(type(value)), value))


def _measured_quantities(table: Table) -> Iterator[tuple[str, str, int, int]]:
    sealed = _sealed_entry(table)
    squares, nulls = ({fold_name(name) for name in names} for names in (sealed.squares, sealed.nulls))
    measures = _sorted_columns(table, sealed.measures)
    if all(fold_name(column.name) in nulls for column in measures):
        yield ROWS, "", 0, 0
    for column in measures:
        grid = column.grid
        if grid is None:
            raise AssertionError("a measure has bounds")
        yield SUMS, fold_name(column.name), grid.least, grid.greatest - grid.least
        if fold_name(column.name) in squares:
            yield SQUARES, fold_name(column.name), grid.least, (grid.greatest - grid.least) ** 2


def _make_column(
    table: Table, kind: str, measure: str, slot: int, low: int, width: int, integrity: int, first: int, times: int
) -> SealedColumn:
    capacity = _sealed_entry(table).capacity * times
    if capacity > MAX_CAPACITY_ROWS:
        raise BadPolicy(
            f"tables.{table.name}.capacity, times the rows per person of a table that it is joined with, is too large.",
            f"The store adds up {MAX_CAPACITY_ROWS} rows at most.",
            "Give the table a smaller capacity, or the other one a smaller rows_per_unit.",
        )
    gap = (capacity * width).bit_length()  # 2^gap > capacity · width
    possible_pairs = (capacity + 1) + width * capacity * (
        capacity + 1
    ) // 2  # number of possible pairs of count and sum
    for prime in PRIMES:
        if prime > (capacity + 1) << gap and possible_pairs << integrity <= prime - 1:  # proofs/sealed.md §2
            limbs = -(-prime.bit_length() // LIMB_BITS)
            names = tuple(f"c{number}" for number in range(first, first + limbs))
            return SealedColumn(kind, measure, slot, low, width, gap, prime, names)
    raise BadPolicy(
        f"tables.{table.name}.measures names {quote_value(measure)}, whose sums are too large to be sealed.",
        f"With a capacity of {capacity} rows and an integrity of {integrity} bits they do not fit 127 bits.",
        "Give the column a coarser step or narrower bounds, or the table a smaller capacity.",
    )
