"""Synthetic rows for every table of a policy, from the policy alone: the source is never opened.

Values are within their bounds, keys are declared keys, and paths lead to one person each. They say nothing about the
data: two datasets with the same policy have the same rehearsal.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.policy.policy import (
    Column,
    ColumnType,
    OwnerPair,
    Policy,
    Reference,
    RowUnit,
    Table,
    UnitColumn,
    UnitPath,
    Value,
    fold_name,
    position,
)

REHEARSED_PEOPLE = 2000
"""Number of synthetic people in each private table."""
_MAX_ROWS_PER_PERSON = 5
_PUBLIC_ROWS = 12
_TEXT_KEYS = 6
_TYPES = {
    ColumnType.INTEGER: pa.int64(),
    ColumnType.DECIMAL: pa.float64(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.DATE: pa.date32(),
    ColumnType.TIMESTAMP: pa.timestamp("us"),
    ColumnType.TEXT: pa.string(),
}
_FIRST_DAY, _FIRST_INSTANT = date(1970, 1, 1), datetime(1970, 1, 1)
_YEAR_START, _YEAR_DAYS = 19723, 366
"""2024 as days since 1970-01-01: dates without bounds lie there."""

Places = npt.NDArray[np.int64]


def synthetic_tables(policy: Policy) -> dict[str, pa.Table]:
    """Return the synthetic rows of every table, as Arrow tables."""
    tables = _SyntheticTables(policy)
    for table in _targets_first(policy):
        tables.add(table)
    return {table.name: tables.made[fold_name(table.name)] for table in policy.tables}


def _targets_first(policy: Policy) -> Iterator[Table]:
    """Give public tables first, then each private table after the one that its path leads to."""
    waiting = sorted(policy.tables, key=lambda table: not table.public)
    given: set[str] = set()
    while waiting:
        table = next(table for table in waiting if {fold_name(path.table) for path in _paths(table)} <= given)
        waiting.remove(table)
        given.add(fold_name(table.name))
        yield table


def _paths(table: Table) -> list[UnitPath]:
    """Return the paths that lead to the people of a table."""
    owners = table.unit.owners if isinstance(table.unit, OwnerPair) else (table.unit,)
    return [owner for owner in owners if isinstance(owner, UnitPath)]


@dataclass(slots=True)
class _SyntheticTables:
    policy: Policy
    made: dict[str, pa.Table] = field(default_factory=dict)

    def add(self, table: Table) -> None:
        columns = table.columns or tuple(self._referenced_columns(table))
        if table.public:
            listed = (len(column.values) for column in columns if isinstance(column.values, tuple))
            rows = max(_PUBLIC_ROWS, *listed, 0)
            values = {column.name: [_nth_value(column, index) for index in range(rows)] for column in columns}
        else:
            values = self._private_values(table, columns)
        schema = pa.schema([(column.name, _TYPES[column.type]) for column in columns])
        self.made[fold_name(table.name)] = pa.table(
            {column.name: pa.array(values[column.name], schema.field(column.name).type) for column in columns}
        )

    def _referenced_columns(self, table: Table) -> Iterator[Column]:
        """Give the columns of a public table that declares none: those whose values other columns have."""
        named = {
            fold_name(column.values.column): Column(column.values.column, column.type)
            for other in self.policy.tables
            for column in other.columns
            if isinstance(column.values, Reference) and fold_name(column.values.table) == fold_name(table.name)
        }
        yield from named.values() or [Column("label", ColumnType.TEXT)]

    def _private_values(self, table: Table, columns: Iterable[Column]) -> dict[str, list[Any]]:
        keys = self._key_columns(table)
        if isinstance(table.unit, OwnerPair):
            return self._paired_values(table, columns)
        if isinstance(table.unit, UnitPath):
            leading = self.made[fold_name(table.unit.table)].num_rows
            owner = np.repeat(np.arange(leading), self._rows_each(table, leading))
        else:
            owner = np.repeat(np.arange(REHEARSED_PEOPLE), self._rows_each(table, REHEARSED_PEOPLE))
        values: dict[str, list[Any]] = {}
        for column in columns:
            name = fold_name(column.name)
            if isinstance(table.unit, UnitPath) and name == fold_name(table.unit.here):
                found = self.made[fold_name(table.unit.table)].column(self._spelled_name(table.unit)).to_pylist()
                values[column.name] = [_convert_key(column, found[index]) for index in owner.tolist()]
            elif isinstance(table.unit, UnitColumn) and name == fold_name(table.unit.column):
                values[column.name] = [_running(column, index) for index in owner.tolist()]
            elif name in keys or column.unique:
                values[column.name] = [_running(column, index) for index in range(len(owner))]
            else:
                values[column.name] = self._draw_values(table, column, len(owner))
        return values

    def _paired_values(self, table: Table, columns: Iterable[Column]) -> dict[str, list[Any]]:
        """Return rows between two people each."""
        count = int(self._rows_each(table, REHEARSED_PEOPLE).sum())
        paths = {fold_name(path.here): path for path in _paths(table)}
        values: dict[str, list[Any]] = {}
        for column in columns:
            drawn = _numbers(f"{table.name}/{column.name}/owner", count, REHEARSED_PEOPLE)
            if (path := paths.get(fold_name(column.name))) is not None:
                found = self.made[fold_name(path.table)].column(self._spelled_name(path)).to_pylist()
                values[column.name] = [_convert_key(column, found[index % len(found)]) for index in drawn.tolist()]
            elif table.names_people(column.name):
                values[column.name] = [_running(column, index) for index in drawn.tolist()]
            else:
                values[column.name] = self._draw_values(table, column, count)
        return values

    def _key_columns(self, table: Table) -> set[str]:
        """Return the columns that the paths of other tables lead to: each value belongs to one row."""
        paths = (path for other in self.policy.tables for path in _paths(other))
        return {fold_name(path.there) for path in paths if fold_name(path.table) == fold_name(table.name)}

    def _spelled_name(self, unit: UnitPath) -> str:
        target = self.policy.table(unit.table)
        column = None if target is None else target.column(unit.there)
        if column is None:
            raise AssertionError("a policy with such a path is refused when it is read")
        return column.name

    def _rows_each(self, table: Table, owners: int) -> Places:
        own = table.column(table.unit.column) if isinstance(table.unit, UnitColumn) else None
        if isinstance(table.unit, RowUnit) or (own is not None and own.unique):
            return np.ones(owners, dtype=np.int64)
        most = min(table.rows_per_unit or 1, _MAX_ROWS_PER_PERSON)
        return 1 + _numbers(f"{table.name}/rows", owners, most)

    def _draw_values(self, table: Table, column: Column, count: int) -> list[Any]:
        seed = f"{table.name}/{column.name}"
        if isinstance(column.values, Reference):
            referenced = self.policy.table(column.values.table)
            name = column.values.column
            if referenced is not None and (declared := referenced.column(name)) is not None:
                name = declared.name
            values = self.made[fold_name(column.values.table)].column(name).to_pylist()
            return [values[index] for index in _skewed_indices(seed, count, len(values)).tolist()]
        if column.values:
            stored = [_stored_value(column, value) for value in column.values]
            return [stored[index] for index in _skewed_indices(seed, count, len(stored)).tolist()]
        if column.grid is not None:
            grid = column.grid
            steps = grid.least + _skewed_indices(seed, count, min(grid.greatest - grid.least + 1, 1 << 62))
            return [_from_steps(column, step) for step in steps.tolist()]
        return [_nth_value(column, index) for index in _skewed_indices(seed, count, _TEXT_KEYS).tolist()]


def _numbers(seed: str, count: int, below: int) -> Places:
    """Return whole numbers from 0 to `below`, the same in every rehearsal. They are data, never noise."""
    digest = hashlib.shake_256(f"sfumato rehearsal/{seed}".encode()).digest(8 * count)
    return (np.frombuffer(digest, dtype="<u8") % np.uint64(below)).astype(np.int64)


def _skewed_indices(seed: str, count: int, below: int) -> Places:
    """Return numbers of which small ones are more frequent, as in real data: the least of two."""
    return np.minimum(_numbers(f"{seed}/a", count, below), _numbers(f"{seed}/b", count, below))


def _from_steps(column: Column, step: int) -> Any:
    match column.type:
        case ColumnType.BOOLEAN:
            return bool(step)
        case ColumnType.DATE:
            return _FIRST_DAY + timedelta(days=step)
        case ColumnType.TIMESTAMP:
            return _FIRST_INSTANT + timedelta(microseconds=step)
        case ColumnType.DECIMAL:
            return float(Fraction(step) * (column.step or 1))
        case _:
            return step


def _nth_value(column: Column, place: int) -> Any:
    """Return a value of a column without bounds; those of different places differ where the column has that many."""
    if isinstance(column.values, tuple) and column.values:
        return _stored_value(column, column.values[place % len(column.values)])
    if column.grid is not None:
        return _from_steps(column, column.grid.least + place % (column.grid.greatest - column.grid.least + 1))
    match column.type:
        case ColumnType.TEXT:
            return f"rehearsal {place + 1}"[: column.length]
        case ColumnType.DATE:
            return _FIRST_DAY + timedelta(days=_YEAR_START + place % _YEAR_DAYS)
        case ColumnType.TIMESTAMP:
            return _FIRST_INSTANT + timedelta(days=_YEAR_START + place % _YEAR_DAYS)
        case ColumnType.DECIMAL:
            return float(place)
        case _:
            return place


def _running(column: Column, place: int) -> Any:
    """Return the name of a person or the key of a row: another one for each place."""
    if column.type is ColumnType.TEXT:
        return f"r{place}"
    return _nth_value(column, place)


def _convert_key(column: Column, value: Any) -> Any:
    """Return a key in the type of the column that refers to it."""
    return str(value) if column.type is ColumnType.TEXT else value


def _stored_value(column: Column, value: Value) -> Any:
    return float(position(value)) if column.type is ColumnType.DECIMAL else value
