"""Cohorts: reads which column divides people, and names the cohorts that there are.  Proof: proofs/cohorts.md"""

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta

from sfumato.accounting.event import Neighbours
from sfumato.policy.entry import Entry, quote_entry, refuse, text
from sfumato.policy.policy import (
    Cohort,
    Column,
    ColumnType,
    Period,
    Policy,
    RowUnit,
    Table,
    UnitColumn,
    Value,
    fold_name,
    position,
)

OTHER = "other"
"""The cohort of people without a declared value, and of those who came at no known time."""
MAX_COHORTS = 1000
_MAX_CHARS = 200
_FIRST = re.compile(r"""first\(\s*(?P<named>[^,]+?)\s*,\s*["'](?P<every>\w+)["']\s*\)""")
_MONTHS = {Period.MONTH: 1, Period.QUARTER: 3, Period.YEAR: 12}
_TIMES = (ColumnType.DATE, ColumnType.TIMESTAMP)
_DIVIDED_BY = (ColumnType.TEXT, ColumnType.INTEGER, ColumnType.BOOLEAN)
_WRITE = 'Write for example cohort = "patients.region", or cohort = \'first(visits.day, "year")\'.'
_SCHEMES = frozenset({"parquet", "csv", "files", "duckdb", "sqlite", "frames", "postgresql", "spark"})
"""Sources whose engines keep the cohorts of people."""


def read_cohort(entry: Entry, tables: tuple[Table, ...], neighbours: Neighbours, scheme: str) -> Cohort:
    """Read by which column people are divided, or refuse."""
    typed = text(entry, _MAX_CHARS)
    first = _FIRST.fullmatch(typed.strip())
    named = first["named"] if first else typed.strip()
    if first and first["every"] not in tuple(_MONTHS):
        raise _bad_cohort(
            entry, "A cohort of people who came first in the same time spans a month, a quarter or a year."
        )
    before, _, after = named.partition(".")
    table = next((table for table in tables if fold_name(table.name) == fold_name(before)), None)
    column = None if table is None else table.column(after)
    if table is None or column is None:
        raise _bad_cohort(entry, "It names no column that this policy declares.")
    cohort = Cohort(table.name, column.name, Period(first["every"]) if first else None)
    _check_table(entry, cohort, table, column)
    if neighbours is Neighbours.REPLACE:
        why = "A person who is replaced by one of another cohort would cost both budgets."
        raise refuse(entry, 'is written beside neighbours = "replace".', why, "Remove one of them.")
    if any(isinstance(other.unit, RowUnit) for other in tables):
        why = "A row that is its own person cannot be found again in the next snapshot, so its cohort cannot be kept."
        raise refuse(entry, 'is written beside a table with unit = "rows".', why, "Name the person by a column.")
    if any(other.has_two_owners for other in tables):
        why = "A row of two people would belong to two cohorts, and no proof says which of them pays."
        raise refuse(entry, "is written beside a table whose rows have two owners.", why, "Remove one of them.")
    if scheme not in _SCHEMES:
        why = "Its engine does not keep the cohorts of people yet."
        raise refuse(
            entry, f"is written for a source of the scheme {scheme}.", why, "Remove cohort, or use another source."
        )
    return cohort


def _check_table(entry: Entry, cohort: Cohort, table: Table, column: Column) -> None:
    if not isinstance(table.unit, UnitColumn) or fold_name(table.unit.column) == fold_name(column.name):
        raise _bad_cohort(entry, "Its table must name the person in each row, by another column.")
    if cohort.every is not None:
        if column.type not in _TIMES or column.bounds is None:
            raise _bad_cohort(entry, "`every` divides people by a date or timestamp with bounds.")
        if len(list(_windows(column, cohort.every, None))) > MAX_COHORTS:
            raise _bad_cohort(entry, f"The bounds of the column span more than {MAX_COHORTS:,} cohorts.")
        return
    listed = column.type is ColumnType.BOOLEAN or isinstance(column.values, tuple)
    if column.type not in _DIVIDED_BY or not listed:
        raise _bad_cohort(entry, "The cohorts are the declared values of a text, an integer or a boolean.")
    if table.rows_per_unit != 1:
        raise _bad_cohort(entry, "A person is in one cohort, so its table needs rows_per_unit = 1.")
    names = [cohort_name(value) for value in declared_values(column)]
    if len(names) > MAX_COHORTS or OTHER in names:
        raise _bad_cohort(entry, f'There are at most {MAX_COHORTS:,} cohorts, and "{OTHER}" is the one of all others.')


def _bad_cohort(entry: Entry, why: str) -> Exception:
    return refuse(entry, f"is {quote_entry(entry.value)}.", why, _WRITE)


def cohort_column(policy: Policy) -> tuple[Table, Column]:
    """Return the table and the column that divide people."""
    cohort = policy.cohort
    table = None if cohort is None else policy.table(cohort.table)
    column = None if table is None or cohort is None else table.column(cohort.column)
    if table is None or column is None:
        raise AssertionError("the policy has checked it")
    return table, column


def cohort_names(policy: Policy, taken: datetime, before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the cohorts that are open in a snapshot that is taken now, `other` last.

    Those that were open `before` stay open, as people stay in them: proofs/cohorts.md, 2.
    """
    cohort = policy.cohort
    if cohort is None:
        return ()
    _, column = cohort_column(policy)
    if cohort.every is None:
        named = [cohort_name(value) for value in declared_values(column)]
    else:
        named = [name for name, _, _ in _windows(column, cohort.every, taken)]
    return tuple(dict.fromkeys([*named, *(name for name in before if name != OTHER), OTHER]))


def declared_values(column: Column) -> tuple[Value, ...]:
    """Return the values by which people are divided."""
    if column.type is ColumnType.BOOLEAN:
        return (False, True)
    return column.values if isinstance(column.values, tuple) else ()


def cohort_name(value: Value) -> str:
    """Return the name of the cohort of a declared value."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def cohort_windows(policy: Policy, names: tuple[str, ...]) -> list[tuple[str, int, int]]:
    """Return the named windows of time: name, first and last integer of the column in the copy."""
    cohort = policy.cohort
    if cohort is None or cohort.every is None:
        return []
    _, column = cohort_column(policy)
    found = _windows(column, cohort.every, None)
    return [(name, low, high) for name, low, high in found if name in names]


def _windows(column: Column, every: Period, taken: datetime | None) -> Iterator[tuple[str, int, int]]:
    """Give the windows between the bounds of a column, up to the one that contains `taken`."""
    if column.bounds is None or column.grid is None:
        raise AssertionError("the policy has checked it")
    low, high = column.bounds.low, column.bounds.high
    if not isinstance(low, date) or not isinstance(high, date):
        raise AssertionError("bounds of a time are times")
    months, last = _MONTHS[every], high if taken is None else min(_day(high), _day(taken))
    start = _start(_day(low), months)
    while start <= _day(last):
        after = _start(start + timedelta(days=31 * months), months)
        least = max(column.grid.least, _integer(column, start))
        yield _band_name(start, every), least, min(column.grid.greatest, _integer(column, after) - 1)
        start = after


def _day(value: date) -> date:
    return value.date() if isinstance(value, datetime) else value


def _start(day: date, months: int) -> date:
    return day.replace(month=(day.month - 1) // months * months + 1, day=1)


def _integer(column: Column, day: date) -> int:
    if column.type is ColumnType.DATE:
        return int(position(day))
    return int(position(datetime(day.year, day.month, day.day)))  # times of columns have no zone


def _band_name(start: date, every: Period) -> str:
    match every:
        case Period.YEAR:
            return f"{start.year}"
        case Period.QUARTER:
            return f"{start.year}-Q{(start.month + 2) // 3}"
        case _:
            return f"{start.year}-{start.month:02}"
