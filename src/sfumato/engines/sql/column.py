"""Columns of a source on their way into the copy: what a declared type can be read from, and its range on the grid.

How a value is read is the engine's: each expression looks at one value, never raises, and depends on the policy and the
source's type alone. A value that the declared type cannot hold is absent, as NULL is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from fractions import Fraction

from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.grid import NotExact, Range, unbounded
from sfumato.errors import BadSource
from sfumato.language.facts import STORED_LIMIT
from sfumato.policy.policy import Column, ColumnType, Value, by_folded_name, fold_name, position


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
    NOTHING = "nothing but NULL"  # a file without values in this column, or without the column
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
"""The type of a column that is not declared."""
_HOLDS = {
    ColumnType.INTEGER: {Kind.INTEGER, Kind.DECIMAL, Kind.FLOATING},
    ColumnType.DECIMAL: {Kind.INTEGER, Kind.DECIMAL, Kind.FLOATING},
    ColumnType.BOOLEAN: {Kind.BOOLEAN, Kind.INTEGER},
    ColumnType.DATE: {Kind.DATE, Kind.CLOCK},
    ColumnType.TIMESTAMP: {Kind.DATE, Kind.CLOCK},
    ColumnType.TEXT: {Kind.TEXT, Kind.INTEGER, Kind.BOOLEAN, Kind.DATE},
}
"""Beside text that has not been parsed yet, and NULL."""


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
    _named: Mapping[str, Stored] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_named", by_folded_name(self.columns))

    def column(self, name: str) -> Stored:
        """Return the column of this name in any case; where these rows have none, all its values are NULL."""
        return self._named.get(fold_name(name), ABSENT)


@dataclass(frozen=True, slots=True)
class ValueForms:
    """How an engine reads values of its source: SQL that looks at one value and never raises."""

    narrow: str
    double_type: str
    text_type: str
    text: Callable[[Stored], str]
    """A value as a text."""
    number: Callable[[Stored, Range], str]
    """A number on its grid."""
    double: Callable[[Stored], str]
    """A finite double, with one zero."""
    boolean: Callable[[Stored], str]
    """0 or 1."""
    days: Callable[[Column, Stored], str]
    """Days since 1970, clipped to the bounds; without bounds, absent beyond the years 1 to 9999."""
    microseconds: Callable[[Stored, Range], str]
    """Microseconds since 1970, in UTC."""
    exact_integer: Callable[[Stored], str]
    """The text of an integer; NULL for what is none."""
    is_a_day: Callable[[Stored], str | None]
    """Whether a value is a day exactly; None where it always is."""
    is_of_microseconds: Callable[[Stored], str | None]
    """Whether microseconds tell a value exactly; None where they always do."""
    plain_integer: Callable[[Stored], str | None] = lambda stored: None
    """A 64-bit integer whose text is `exact_integer`, quicker to compare; None where there is none."""
    each: Callable[[Stored, Callable[[Stored], str]], str] = lambda stored, form: form(stored)
    """The form of the one way in which a value is stored, where a column holds several."""

    def storage(self, column: Column) -> str:
        """Return the type of a column in the copy."""
        if column.type is ColumnType.TEXT:
            return self.text_type
        return self.double_type if column.type is ColumnType.DECIMAL and column.step is None else self.narrow

    def column(self, column: Column, stored: Stored) -> str:
        """Return a value on the grid of its column, of the type `storage`; keys are checked by `keyed`."""
        if stored.kind is Kind.NOTHING:
            return f"CAST(NULL AS {self.storage(column)})"
        if stored.kind is Kind.EACH:
            return self.each(stored, lambda one: self.column(column, one))
        match column.type:
            case ColumnType.TEXT:
                text = self.text(stored)
                if column.length is None or isinstance(column.values, tuple):  # a longer text is none of the keys
                    return text
                return f"left({text}, {column.length})"  # counted in characters
            case ColumnType.BOOLEAN:
                return self.boolean(stored)
            case ColumnType.DATE:
                return self.days(column, stored)
            case ColumnType.TIMESTAMP:
                return self.microseconds(stored, range_of(column))
            case ColumnType.DECIMAL if column.step is None:
                return self.double(stored)
            case _:
                return self.number(stored, range_of(column))

    def unit(self, column: Column, stored: Stored) -> str:
        """Return the text that names a person: equal for equal people, however each table stores them; or NULL.

        Nothing is rounded, cut or clipped here, because that would make one person of two. A value that is not exactly
        of the declared type names no person. Nor does a floating-point number from 2^53 on, which may stand for several
        integers.
        """
        if stored.kind is Kind.NOTHING:
            return f"CAST(NULL AS {self.text_type})"
        if stored.kind is Kind.EACH:
            return self.each(stored, lambda one: self.unit(column, one))
        plain = Column(column.name, column.type)
        match column.type:
            case ColumnType.INTEGER:
                return self.exact_integer(stored)
            case ColumnType.TEXT:
                text = self.text(stored)
                return text if column.length is None else f"CASE WHEN length({text}) <= {column.length} THEN {text} END"
            case ColumnType.DATE:
                return self._exact(self.days(plain, stored), self.is_a_day(stored))
            case ColumnType.TIMESTAMP:
                return self._exact(self.microseconds(stored, range_of(plain)), self.is_of_microseconds(stored))
            case _:  # a key of a path; no person is named by one
                return self._exact(self.column(plain, stored), None)

    def short_name(self, column: Column, stored: Stored) -> str | None:
        """Return an integer whose text is `unit`; None where there is none."""
        return self.plain_integer(stored) if column.type is ColumnType.INTEGER else None

    def _exact(self, value: str, condition: str | None) -> str:
        text = f"CAST({value} AS {self.text_type})"
        return text if condition is None else f"CASE WHEN {condition} THEN {text} END"

    def check_range(self, table: str, column: Column, stored: Stored) -> None:
        """Refuse a step that cannot be applied to the source's type exactly."""
        try:
            self.column(column, stored)
        except NotExact:
            raise BadSource(
                f"tables.{table}.columns.{column.name}.step cannot be applied exactly to the {stored.kind} of the "
                "source.",
                "Rounding is exact, in 128-bit integers; with floating-point numbers the step has at most 15 digits.",
                "Choose a step with fewer digits, for example 0.01.",
            ) from None


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
    """Return the expression where it is one of the listed keys, else NULL: undeclared values are absent."""
    if not isinstance(column.values, tuple):
        return expression
    keys = ", ".join(_key(column, value, dialect) for value in column.values)
    return f"CASE WHEN {expression} IN ({keys}) THEN {expression} END"


def _key(column: Column, value: Value, dialect: Dialect) -> str:
    if isinstance(value, str):
        return dialect.text_literal(value)
    return str(int(Fraction(position(value)) / (column.step or 1)))


FIRST, LAST = date(1, 1, 1), date(9999, 12, 31)
"""The days that a policy can write; others are absent unless bounds clip them."""


def within_days(days: str, column: Column, dialect: Dialect) -> str:
    """Return days within the bounds of a column, or NULL beyond the days that there are; they are mentioned often."""
    if column.bounds is None:
        return f"CASE WHEN {days} BETWEEN {position(FIRST)} AND {position(LAST)} THEN {days} END"
    low, high = (f"CAST({position(side)} AS {dialect.bigint})" for side in (column.bounds.low, column.bounds.high))
    return f"least(greatest({days}, {low}), {high})"


def keeps_outside(column: Column) -> bool:
    """Whether the copy holds one step beyond its bounds what lies outside them; else that is absent, or nothing is."""
    return column.bounds is not None and column.values is None and _on_grid(column)


def beyond(column: Column) -> Column:
    """Return a column with bounds one step wider, where the copy holds what lies outside: the order is kept.

    A bound that is the last value of its type stays: nothing lies beyond it.
    """
    grid = column.grid
    if column.bounds is None or grid is None or not _on_grid(column):
        return column
    step = {ColumnType.DATE: timedelta(days=1), ColumnType.TIMESTAMP: timedelta(microseconds=1)}.get(column.type)
    low, high = column.bounds.low, column.bounds.high
    if step is None:
        low = low if grid.least == -STORED_LIMIT else low - grid.step  # type: ignore[operator]
        high = high if grid.greatest == STORED_LIMIT - 1 else high + grid.step  # type: ignore[operator]
    else:
        low = _moved_day(low, -step)  # type: ignore[arg-type]
        high = _moved_day(high, step)  # type: ignore[arg-type]
    return replace(column, bounds=replace(column.bounds, low=low, high=high))


def _on_grid(column: Column) -> bool:
    whole = (ColumnType.INTEGER, ColumnType.DATE, ColumnType.TIMESTAMP)
    return column.type in whole or (column.type is ColumnType.DECIMAL and column.step is not None)


def _moved_day(day: date, step: timedelta) -> date:
    try:
        return day + step
    except OverflowError:
        return day


def number_sql(column: Column, sql: str) -> str:
    """Return a stored value as it is added up: clipped to its bounds; NULL stays NULL."""
    grid = column.grid
    if grid is None or not keeps_outside(column):
        return sql
    low, high = grid.least, grid.greatest
    return f"CASE WHEN {sql} < {low} THEN {low} WHEN {sql} > {high} THEN {high} ELSE {sql} END"


def key_sql(column: Column, sql: str) -> str:
    """Return a stored value as it is a key: NULL where it lies outside its bounds."""
    grid = column.grid
    if grid is None or not keeps_outside(column):
        return sql
    return f"CASE WHEN {sql} BETWEEN {grid.least} AND {grid.greatest} THEN {sql} END"


def range_of(column: Column) -> Range:
    """Return the grid integers that a column may hold."""
    grid = column.grid
    if grid is not None:
        return Range(grid.step, grid.least, grid.greatest, clipped=True)
    if column.type is ColumnType.TIMESTAMP:
        last = datetime(9999, 12, 31, 23, 59, 59, 999999)
        return Range(Fraction(1), int(position(datetime(1, 1, 1))), int(position(last)), clipped=False)
    return unbounded(Fraction(1) if column.step is None else column.step)
