"""A policy before it is one: what is known of each table and column, and what its owner still has to say."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeVar

from sfumato.drafting.literals import number_text, value_text
from sfumato.drafting.schema import Seen, SeenColumn, SeenTable
from sfumato.errors import BadParameter, UnknownName, shown, suggestion
from sfumato.policy.policy import ColumnType, fold

Wish = TypeVar("Wish")
Ends = tuple[str, str]
"""A least and a greatest value, as TOML writes them."""


@dataclass(frozen=True, slots=True)
class DraftColumn:
    """One column; every text is as TOML writes it, and None is not known."""

    name: str
    type: ColumnType
    untyped: bool = False
    """The source says no type (CSV), and nobody did."""
    bounds: Ends | None = None
    step: str | None = None
    values: tuple[str, ...] | None = None
    unique: bool = False
    looked: bool = False
    """Something here was taken from the data."""


@dataclass(frozen=True, slots=True)
class DraftTable:
    """One table; `unit` is a column, "rows", or None where it is not known who is protected."""

    name: str
    columns: tuple[DraftColumn, ...]
    unusable: tuple[str, ...] = ()
    """Columns that no policy can declare, by their names or by what they hold."""
    public: bool = False
    unit: str | None = None
    rows_per_unit: int | None = None
    looked: bool = False

    @property
    def private(self) -> bool:
        """Whether it is known whom the table protects."""
        return not self.public and self.unit is not None

    @property
    def needs_rows(self) -> bool:
        """Whether the policy must say how many rows of a person count, and nobody said so yet."""
        own = next((column for column in self.columns if column.name == self.unit), None)
        return self.private and self.unit != "rows" and self.rows_per_unit is None and not (own and own.unique)


@dataclass(frozen=True, slots=True)
class Draft:
    """A whole policy under way."""

    scheme: str
    tables: tuple[DraftTable, ...]
    epsilon: str | None = None
    delta: str | None = None

    def unknown(self) -> list[str]:
        """Return what must still be written before this is a policy."""
        missing = [f"tables.{table.name}.rows_per_unit" for table in self.tables if table.needs_rows]
        missing += [f"budget.{key}" for key in ("epsilon", "delta") if getattr(self, key) is None]
        if not any(table.private or table.public for table in self.tables):
            missing.append(f"tables.{self.tables[0].name}.unit")
        return missing


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the owner said beforehand. Columns are named as COLUMN or TABLE.COLUMN; texts are as they were typed."""

    unit: str | None = None
    rows_per_unit: Mapping[str, int] = field(default_factory=dict)
    """By table; the empty name stands for every table."""
    public: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, Ends] = field(default_factory=dict)
    steps: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    epsilon: str | None = None
    delta: str | None = None


def make_draft(seen: Seen, wishes: Wishes) -> Draft:
    """Return what follows from names and types alone, and from what the owner said."""
    _check_names(seen, wishes)
    tables = tuple(_table(table, wishes) for table in seen.tables)
    return Draft(
        seen.scheme,
        tables,
        None if wishes.epsilon is None else number_text(wishes.epsilon, "epsilon"),
        None if wishes.delta is None else number_text(wishes.delta, "delta"),
    )


def with_unit(table: DraftTable, unit: str | None) -> DraftTable:
    """Return the table with the column of this name as its unit, where it has one."""
    if unit is not None and fold(unit) == "rows":
        return replace(table, unit="rows")
    own = next((column.name for column in table.columns if fold(column.name) == fold(unit or "")), None)
    return replace(table, unit=own)


def with_bounds(column: DraftColumn, ends: Ends) -> DraftColumn:
    """Return the column with these bounds, which were typed."""
    low, high = (value_text(end, column.type, f"bounds of {column.name}") for end in ends)
    return replace(column, bounds=(low, high))


def with_values(column: DraftColumn, values: Iterable[str]) -> DraftColumn:
    """Return the column with these public keys, which were typed."""
    return replace(column, values=tuple(value_text(value, column.type, f"values of {column.name}") for value in values))


def _table(table: SeenTable, wishes: Wishes) -> DraftTable:
    columns = tuple(_column(table, column, wishes) for column in table.columns if column.type is not None)
    unusable = tuple(column.name for column in table.columns if column.type is None)
    draft = DraftTable(table.name, columns, unusable)
    if fold(table.name) in map(fold, wishes.public):
        return replace(draft, public=True)
    draft = with_unit(draft, wishes.unit)
    if draft.unit in (None, "rows"):
        return draft
    rows = {fold(name): rows for name, rows in wishes.rows_per_unit.items()}
    return replace(draft, rows_per_unit=rows.get(fold(table.name), rows.get("")))


def _column(table: SeenTable, column: SeenColumn, wishes: Wishes) -> DraftColumn:
    typed = _wish(wishes.types, table, column)
    bounds, values = _wish(wishes.bounds, table, column), _wish(wishes.values, table, column)
    step = _wish(wishes.steps, table, column)
    untyped = column.stored == "unread text" and typed is None
    kind = _type(typed) if typed is not None else column.type or ColumnType.TEXT
    if untyped and (bounds or step):
        kind, untyped = _guessed(bounds or (), step), False
    draft = DraftColumn(column.name, kind, untyped and values is None)
    if step is not None:
        draft = replace(draft, step=number_text(step, f"step of {column.name}"))
    elif column.step is not None:
        draft = replace(draft, step=decimal_text(column.step))
    if bounds is not None:
        draft = with_bounds(draft, bounds)
    return draft if values is None else with_values(draft, values)


def _guessed(ends: Iterable[str], step: str | None) -> ColumnType:
    """Return the type of a CSV column from what the owner wrote of it: their words, not the data's."""
    words = " ".join(ends)
    if "T" in words:
        return ColumnType.TIMESTAMP
    if words.count("-") >= 4:
        return ColumnType.DATE
    return ColumnType.DECIMAL if step is not None or "." in words else ColumnType.INTEGER


def _type(word: str) -> ColumnType:
    if word in set(ColumnType):
        return ColumnType(word)
    raise BadParameter(
        f"The type {shown(word)} does not exist.",
        f"A column is one of: {', '.join(ColumnType)}.",
        f"{suggestion(word, ColumnType)}Write --type COLUMN=TYPE.",
    )


def _wish(wishes: Mapping[str, Wish], table: SeenTable, column: SeenColumn) -> Wish | None:
    named = {fold(name): wish for name, wish in wishes.items()}
    return named.get(fold(f"{table.name}.{column.name}"), named.get(fold(column.name)))


def _check_names(seen: Seen, wishes: Wishes) -> None:
    """Refuse a wish about something that is not there: a slip of the keyboard would leave a column unprotected."""
    tables = [table.name for table in seen.tables]
    columns = [column.name for table in seen.tables for column in table.columns]
    paths = [f"{table.name}.{column.name}" for table in seen.tables for column in table.columns]
    known = {fold(name) for name in (*columns, *paths)}
    for name in (*wishes.types, *wishes.bounds, *wishes.steps, *wishes.values):
        if fold(name) not in known:
            raise _unknown("column", name, paths if "." in name else columns)
    for name in (*wishes.public, *filter(None, wishes.rows_per_unit)):
        if fold(name) not in map(fold, tables):
            raise _unknown("table", name, tables)
    if wishes.unit is not None and fold(wishes.unit) != "rows" and fold(wishes.unit) not in map(fold, columns):
        raise _unknown("column", wishes.unit, columns)


def _unknown(what: str, name: str, known: Iterable[str]) -> UnknownName:
    listed = list(dict.fromkeys(known))
    return UnknownName(
        f"There is no {what} {shown(name)} in the data.",
        "Only the names of the source can be declared.",
        f"{suggestion(name, listed)}There are: {', '.join(listed[:20])}{', …' if len(listed) > 20 else ''}.",
    )


def decimal_text(value: Fraction) -> str:
    """Return a decimal fraction as decimal text.

    >>> decimal_text(Fraction(1, 100)), decimal_text(Fraction(30000))
    ('0.01', '30000')
    """
    places = 0
    while value.denominator != 1 and (value * 10**places).denominator != 1:
        places += 1
    digits = str(int(abs(value) * 10**places)).rjust(places + 1, "0")
    sign = "-" if value < 0 else ""
    return sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)
