"""Made-up people in tables of a policy's shape, and their neighbours: values inside and outside of what is declared.

The first three people are the worst that a policy allows: one has too many rows with the largest values, one too many
with the smallest, one is in as many groups as rows. Where a bound does not hold, removing one of them shows it. They
have more rows and cells than 8 bits count, where the policy allows it. With shared keys, a path leads from one key to
several people: a snapshot of such a population has to be refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from math import inf, nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.accounting.event import Neighbours
from sfumato.errors import TwoOwners
from sfumato.lab.generators.seeded_random import SeededDice
from sfumato.policy.policy import Column, ColumnType, Policy, Reference, RowUnit, Table, UnitColumn, UnitPath, fold_name

CANARY = "canary-7f3a"
"""A text that several rows hold and no message may repeat."""
HIGH_ID, LOW_ID, WANDERER_ID = 1, 2, 3
MAX_ROWS = 600
"""Of a policy that allows more rows per person, people have twice as many and one: beyond 480, which bits number."""
_MAX_DECLARED_KEYS = 1000
_MANY_KEYS = 100
_WORDS = ("er", "oslo", "rome", "é", "", "12", CANARY)
_LONG_TEXT = "lo" * 3000
_PUBLIC_ROWS = 8
_MAX_INT64 = (1 << 63) - 1
_TYPES = {
    ColumnType.INTEGER: pa.int64(),
    ColumnType.DECIMAL: pa.float64(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.DATE: pa.date32(),
    ColumnType.TIMESTAMP: pa.timestamp("us"),
    ColumnType.TEXT: pa.string(),
}


@dataclass(frozen=True, slots=True)
class OwnedRow:
    """A row and its unit; a public row has none."""

    owner: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Population:
    """The rows of every table, and the types under which they are written."""

    types: Mapping[str, Mapping[str, Any]]
    lines: Mapping[str, tuple[OwnedRow, ...]]

    @property
    def owners(self) -> tuple[str, ...]:
        """All people who have a row."""
        return tuple(dict.fromkeys(line.owner for lines in self.lines.values() for line in lines if line.owner))

    def without(self, owner: str) -> "Population":
        """Return the neighbour in which this person is not."""
        remaining = {name: tuple(line for line in lines if line.owner != owner) for name, lines in self.lines.items()}
        return replace(self, lines=remaining)

    def with_rows_of(self, owner: str, other: "Population") -> "Population":
        """Return the neighbour in which this person has the rows that they have in another population."""
        remaining = self.without(owner).lines
        theirs = {name: tuple(line for line in lines if line.owner == owner) for name, lines in other.lines.items()}
        return replace(self, lines={name: lines + theirs[name] for name, lines in remaining.items()})

    def shuffled(self, dice: SeededDice) -> "Population":
        """Return the same people with their rows in another order: nothing may move at all."""
        return replace(self, lines={name: tuple(dice.shuffled(lines)) for name, lines in self.lines.items()})

    def write(self, folder: Path) -> None:
        """Write one Parquet file per table."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, lines in self.lines.items():
            schema = pa.schema(list(self.types[name].items()))
            table = pa.Table.from_pylist([dict(line.values) for line in lines], schema=schema)
            pq.write_table(table, folder / f"{name}.parquet")


def populate(
    policy: Policy,
    seed: object,
    people: int = 8,
    likeness: Mapping[int, int] | None = None,
    public: Mapping[str, int] | None = None,
    most_rows: int = MAX_ROWS,
    shared_keys: bool = False,
) -> Population:
    """Return made-up rows for the tables of a policy.

    `likeness` says who has values like those of another one, `public` how many rows a public table has, and the worst
    people have 2 · `most_rows` + 1 rows where the policy allows it. `shared_keys` says whether the keys of paths
    lead to all people, and not to one person each.
    """
    if any(table.has_two_owners for table in policy.tables):
        raise TwoOwners(
            "A table of this policy has rows with two owners.",
            "Audits make up people one by one, and such rows are between two of them.",
            "Audit a policy without that table.",
        )
    making = _Making(policy, SeededDice(seed), people, likeness or {}, public or {}, most_rows, shared_keys)
    return making.population()


def neighbour_of(
    population: Population,
    policy: Policy,
    seed: object,
    person: int,
    people: int = 8,
    public: Mapping[str, int] | None = None,
    most_rows: int = MAX_ROWS,
) -> Population:
    """Return the neighbour without one person, or, where a policy replaces people, with other rows of theirs."""
    if policy.neighbours is Neighbours.ADD_REMOVE:
        return population.without(str(person))
    other = populate(policy, seed, people, {person: HIGH_ID if person == LOW_ID else LOW_ID}, public, most_rows)
    return population.with_rows_of(str(person), other)


@dataclass(slots=True)
class _Making:
    policy: Policy
    dice: SeededDice
    people: int
    likeness: Mapping[int, int]
    public: Mapping[str, int]
    most_rows: int
    shared_keys: bool

    def population(self) -> Population:
        types, lines = {}, {}
        for table in self.policy.tables:
            columns = self._columns(table)
            types[table.name] = {column.name: _TYPES[column.type] for column in columns}
            lines[table.name] = tuple(self._lines(table, columns))
        return Population(types, lines)

    def _columns(self, table: Table) -> tuple[Column, ...]:
        """Return the declared columns; a public table that declares none has those that others refer to."""
        if table.columns:
            return table.columns
        named = {
            fold_name(column.values.column): replace(column, name=column.values.column, values=None)
            for other in self.policy.tables
            for column in other.columns
            if isinstance(column.values, Reference) and fold_name(column.values.table) == fold_name(table.name)
        }
        return (*named.values(), Column("label", ColumnType.TEXT), Column("number", ColumnType.INTEGER))

    def _lines(self, table: Table, columns: tuple[Column, ...]) -> list[OwnedRow]:
        if table.public:
            return [
                OwnedRow("", self._public(columns, row)) for row in range(self.public.get(table.name, _PUBLIC_ROWS))
            ]
        if isinstance(table.unit, RowUnit):
            return [
                OwnedRow(f"{table.name}/{row}", self._row(table, columns, row + 1, row)) for row in range(self.people)
            ]
        return [
            OwnedRow(str(person), self._row(table, columns, person, row))
            for person in range(1, self.people + 1)
            for row in range(self._rows(table, person))
        ]

    def _rows(self, table: Table, person: int) -> int:
        most = min(table.rows_per_unit or 1, self.most_rows)
        return 2 * most + 1 if person <= WANDERER_ID else self.dice.randint(0, min(most, 4) + 1)

    def _public(self, columns: tuple[Column, ...], row: int) -> dict[str, Any]:
        """Return a public row; each value occurs twice, so that joins multiply."""
        return {column.name: _public_value(column, row // 2) for column in columns}

    def _row(self, table: Table, columns: tuple[Column, ...], person: int, row: int) -> dict[str, Any]:
        return {column.name: self._value(table, column, person, row) for column in columns}

    def _value(self, table: Table, column: Column, person: int, row: int) -> Any:
        if isinstance(table.unit, UnitColumn) and fold_name(table.unit.column) == fold_name(column.name):
            return _person_name(column, person)
        if self._leads_to_people(table, column):
            return _person_name(column, row % 3 if self.shared_keys else 10 * person + row % 3)
        person = self.likeness.get(person, person)
        if isinstance(column.values, Reference):
            spelled = tuple(_public_value(replace(column, values=None), index) for index in range(4))
        else:
            spelled = column.values or ()
        if spelled:
            stored = [_stored_value(column, value) for value in spelled]
            choices = [*stored, *stored, None, *(("elsewhere",) if column.type is ColumnType.TEXT else ())]
            least, most = stored[0], stored[-1]
            if person == WANDERER_ID:
                return stored[row % len(stored)]
        else:
            least, most, choices = _tried_values(column)
            if person == WANDERER_ID:
                if (values := _many_keys(column)) is not None:
                    return values[row % len(values)]
                return f"only {row}" if column.type is ColumnType.TEXT else _in_a_cell(column, choices, row)
        if person in (HIGH_ID, LOW_ID):
            return most if person == HIGH_ID else least
        return self.dice.choice(choices)

    def _leads_to_people(self, table: Table, column: Column) -> bool:
        """Whether a path to the person begins or ends in this column: then its values are the person's own."""
        units = [(other, other.unit) for other in self.policy.tables if isinstance(other.unit, UnitPath)]
        ends = {(fold_name(unit.table), fold_name(unit.there)) for _, unit in units}
        ends |= {(fold_name(other.name), fold_name(unit.here)) for other, unit in units}
        return (fold_name(table.name), fold_name(column.name)) in ends


def _many_keys(column: Column) -> range | None:
    """Return all values of a column of many public keys: one person has a row with each of them."""
    if column.type is not ColumnType.INTEGER or column.bounds is None:
        return None
    low, high = column.bounds.low, column.bounds.high
    keys = range(low, high + 1) if isinstance(low, int) and isinstance(high, int) else range(0)
    return keys if _MANY_KEYS <= len(keys) <= _MAX_DECLARED_KEYS else None


def _person_name(column: Column, person: int) -> Any:
    match column.type:
        case ColumnType.TEXT:
            return f"p{person}"
        case ColumnType.DATE:
            return date(2000, 1, 1) + timedelta(days=person)
        case ColumnType.TIMESTAMP:
            return datetime(2000, 1, 1) + timedelta(days=person)
        case ColumnType.DECIMAL:
            return float(person)
        case ColumnType.BOOLEAN:
            return person % 2 == 0
        case _:
            return person


def _public_value(column: Column, place: int) -> Any:
    if isinstance(column.values, tuple):
        return _stored_value(column, column.values[place % len(column.values)])
    if column.type is ColumnType.TEXT:
        return _WORDS[place % len(_WORDS)]
    if column.type is ColumnType.DECIMAL and column.step is None:  # doubles whose sum hangs on their order
        return (place + 1) / 7 * 10.0 ** (place % 13 - 6)
    return _person_name(column, place + 1)


def _in_a_cell(column: Column, choices: list[Any], row: int) -> Any:
    """Return a value of which a person has no other, as far as bounds allow; every seventh is one of all sorts."""
    low, high = (column.bounds.low, column.bounds.high) if column.bounds else (None, None)
    if row % 7 == 0:
        return choices[row // 7 % len(choices)]
    match low, high:
        case int(), int():
            return low + row % (high - low + 1)
        case (datetime(), datetime()) | (date(), date()):
            return low + timedelta(days=row % ((high - low).days + 1))
    return choices[row % len(choices)]


def _stored_value(column: Column, value: Any) -> Any:
    return float(value) if column.type is ColumnType.DECIMAL else value


def _tried_values(column: Column) -> tuple[Any, Any, list[Any]]:
    """Return a value at the lower end or beyond, one at the upper end, and all sorts of values."""
    low, high = (column.bounds.low, column.bounds.high) if column.bounds else (None, None)
    match column.type:
        case ColumnType.TEXT:
            return _WORDS[0], _WORDS[1], [*_WORDS, _LONG_TEXT, None]
        case ColumnType.BOOLEAN:
            return False, True, [False, True, None]
        case ColumnType.INTEGER:
            if not isinstance(low, int) or not isinstance(high, int):
                return -_MAX_INT64 - 1, _MAX_INT64, [0, 5, 7, -_MAX_INT64 - 1, _MAX_INT64, None]
            least, most = max(low - _MAX_DECLARED_KEYS, -_MAX_INT64), min(high + _MAX_DECLARED_KEYS, _MAX_INT64)
            thirds = [low + (high - low) // 3 + 1, high - (high - low) // 3]  # in doubles, no sum of them is exact
            return least, most, [low, high, (low + high) // 2, *thirds, least, most, None]
        case ColumnType.DECIMAL:
            inside = [float(end) for end in (low, high) if isinstance(end, int | Fraction)] or [0.0, 1.5]
            return -1e300, 1e300, [*inside, sum(inside) / 2, -1e300, 1e300, nan, inf, -0.0, 0.0, 2.0**53 + 2, None]
        case ColumnType.DATE:
            days = [date(2024, 2, 29), date(1900, 1, 1), date(2100, 12, 31)]
            days += [] if not isinstance(low, date) or not isinstance(high, date) else [low, high]
            return date(1900, 1, 1), date(2100, 12, 31), [*days, None]
        case _:
            times = [datetime(2024, 2, 29, 23, 59, 59, 999999), datetime(1900, 1, 1), datetime(2100, 12, 31)]
            times += [] if not isinstance(low, datetime) or not isinstance(high, datetime) else [low, high]
            return datetime(1900, 1, 1), datetime(2100, 12, 31), [*times, None]
