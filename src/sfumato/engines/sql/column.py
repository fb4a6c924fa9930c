"""Columns of a source on their way into the copy: what a declared type can be read from, and its range on the grid.

How a value is read is the engine's: each expression looks at one value, never raises, and depends on the policy and the
source's type alone. A value that the declared type cannot hold is absent, as NULL is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fractions import Fraction

from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.grid import Range, unbounded
from sfumato.errors import BadSource
from sfumato.policy.policy import Column, ColumnType, Value, fold, position


class Kind(StrEnum):
    """How the source stores a column."""

    INTEGER = "integers"
    DECIMAL = "decimals"
    FLOATING = "floating-point numbers"
    BOOLEAN = "booleans"
    DATE = "dates"
    CLOCK = "timestamps"
    TEXT = "text"
    RAW = "unread text"  # CSV and partition names: the declared type says how to read it
    EACH = "numbers and text in one"  # objects, SQLite: the declared type is a number, and each value is read alone
    NOTHING = "nothing but NULL"  # a file in which nobody has a value, or without this column
    OTHER = "values of another kind"


TYPES = {
    Kind.INTEGER: ColumnType.INTEGER,
    Kind.DECIMAL: ColumnType.DECIMAL,
    Kind.FLOATING: ColumnType.DECIMAL,
    Kind.BOOLEAN: ColumnType.BOOLEAN,
    Kind.DATE: ColumnType.DATE,
    Kind.CLOCK: ColumnType.TIMESTAMP,
    Kind.TEXT: ColumnType.TEXT,
}
"""What a column is, where nobody declared it."""
_HOLDS = {
    ColumnType.INTEGER: {Kind.INTEGER, Kind.DECIMAL, Kind.FLOATING},
    ColumnType.DECIMAL: {Kind.INTEGER, Kind.DECIMAL, Kind.FLOATING},
    ColumnType.BOOLEAN: {Kind.BOOLEAN, Kind.INTEGER},
    ColumnType.DATE: {Kind.DATE, Kind.CLOCK},
    ColumnType.TIMESTAMP: {Kind.DATE, Kind.CLOCK},
    ColumnType.TEXT: {Kind.TEXT, Kind.INTEGER, Kind.BOOLEAN, Kind.DATE},
}
"""Beside text that nobody has read yet, and NULL."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An SQL expression for a value of the source, the engine's type of it, and what that is to us."""

    sql: str
    type: str
    kind: Kind


ABSENT = Stored("NULL", "NULL", Kind.NOTHING)
"""A column that some rows do not have."""


@dataclass(frozen=True, slots=True, repr=False)
class Part:
    """Those rows of a table that are stored alike: what stands after FROM, and its columns."""

    relation: str
    columns: tuple[tuple[str, Stored], ...]

    def column(self, name: str) -> Stored:
        """Return the column of this name in any case; where these rows have none, all its values are NULL."""
        return next((stored for known, stored in self.columns if fold(known) == fold(name)), ABSENT)


@dataclass(frozen=True, slots=True)
class ValueForms:
    """How an engine reads values of its source: SQL that looks at one value and never raises."""

    storage: Callable[[Column], str]
    """The type of a column in the copy."""
    column: Callable[[Column, Stored], str]
    """A value on the grid of its column, of the type `storage`; whether it is a listed key is asked later."""
    unit: Callable[[Column, Stored], str]
    """The text that names a person: equal for equal people, however each table stores them; NULL for nobody."""


def check_type(table: str, column: Column, stored: Stored) -> None:
    """Refuse a column whose type in the source cannot hold the declared one."""
    if stored.kind not in _HOLDS[column.type] | {Kind.RAW, Kind.EACH, Kind.NOTHING}:
        raise BadSource(
            f"tables.{table}.columns.{column.name}.type is {column.type}, and the source stores {stored.kind} there.",
            f"A column of type {column.type} is read from {_listed(column.type)}.",
            "Declare the type that the source has, or convert the source.",
        )
    if column.format is not None and stored.kind not in (Kind.RAW, Kind.TEXT, Kind.NOTHING):
        raise BadSource(
            f"tables.{table}.columns.{column.name}.format is written, and the source stores {stored.kind} there.",
            "A format says how text is to be read.",
            "Remove format.",
        )


def _listed(kind: ColumnType) -> str:
    return f"{', '.join(sorted(_HOLDS[kind]))}, or CSV text"


def keyed(column: Column, expression: str, dialect: Dialect) -> str:
    """Return the expression where it is one of the listed keys, else NULL: what was not declared is absent."""
    if not isinstance(column.values, tuple):
        return expression
    keys = ", ".join(_key(column, value, dialect) for value in column.values)
    return f"CASE WHEN {expression} IN ({keys}) THEN {expression} END"


def _key(column: Column, value: Value, dialect: Dialect) -> str:
    if isinstance(value, str):
        return dialect.literal(value)
    return str(int(Fraction(position(value)) / (column.step or 1)))


def range_of(column: Column) -> Range:
    """Return the grid integers that a column may hold."""
    grid = column.grid
    if grid is not None:
        return Range(grid.step, grid.least, grid.greatest, clipped=True)
    if column.type is ColumnType.TIMESTAMP:
        last = datetime(9999, 12, 31, 23, 59, 59, 999999)
        return Range(Fraction(1), int(position(datetime(1, 1, 1))), int(position(last)), clipped=False)
    return unbounded(Fraction(1) if column.step is None else column.step)
