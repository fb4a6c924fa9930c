"""Rows of which some lie outside their bounds, and what a question about them has to say: by Python, value by value."""

import operator
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

YEARS = [2001, 2006, *range(2007, 2017), 2016, 2017, 2018, 2018, None]
"""Bounds are 2007 to 2016: two lie below, three above, one is absent."""
FIRST, LAST = 2007, 2016
VALUES: dict[str, tuple[Callable[[int], Any], Callable[[Any], str], Mapping[str, object]]] = {
    "year": (lambda year: year, str, {"type": "integer", "bounds": [FIRST, LAST]}),
    "cost": (
        lambda year: Decimal(year) / 100,
        str,
        {"type": "decimal", "bounds": ["20.07", "20.16"], "step": "0.01"},
    ),
    "day": (
        lambda year: date(2007, 1, 1) + timedelta(days=year - FIRST),
        lambda day: f"DATE '{day}'",
        {"type": "date", "bounds": [date(2007, 1, 1), date(2007, 1, 10)]},
    ),
    "seen": (
        lambda year: datetime(2007, 1, 1) + timedelta(microseconds=year - FIRST),
        lambda moment: f"TIMESTAMP '{moment.isoformat(sep=' ', timespec='microseconds')}'",
        {
            "type": "timestamp",
            "bounds": [datetime(2007, 1, 1), datetime(2007, 1, 1) + timedelta(microseconds=LAST - FIRST)],
        },
    ),
}
"""Of each type: the value that stands for a year, how SQL spells it, and what the policy says."""
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
EPSILON = "200"
"""At this price the noise of a count is 0 but with a probability below 1e-80."""


def table(years: list[int | None] = YEARS) -> pa.Table:
    """Return one row for each year, each of another person."""
    columns: dict[str, Any] = {"id": list(range(len(years)))}
    for name, (value, _, _) in VALUES.items():
        columns[name] = [None if year is None else value(year) for year in years]
    types = {"cost": pa.decimal128(12, 2), "seen": pa.timestamp("us")}
    return pa.table({name: pa.array(column, types.get(name)) for name, column in columns.items()})


def policy() -> dict[str, Any]:
    """Return the policy of these rows, without its source and ledger."""
    columns = {"id": {"type": "integer"}, **{name: dict(words) for name, (_, _, words) in VALUES.items()}}
    visits = {"unit": "id", "rows_per_unit": 1, "columns": columns}
    return {"name": "outside", "budget": {"epsilon": 1_000_000, "delta": 1e-6}, "tables": {"visits": visits}}


def conditions(name: str) -> Iterator[tuple[str, int]]:
    """Give conditions on a column and how many rows meet them: comparisons are those of the value in the source."""
    value, spelled, _ = VALUES[name]
    present = [value(year) for year in YEARS if year is not None]
    ends = [value(year) for year in (FIRST, FIRST + 1, LAST - 1, LAST)]
    for end in ends:
        for symbol, holds in COMPARISONS.items():
            yield f"{name} {symbol} {spelled(end)}", sum(holds(one, end) for one in present)
    low, high = spelled(ends[0]), spelled(ends[-1])
    inside = sum(ends[0] <= one <= ends[-1] for one in present)
    yield f"{name} BETWEEN {low} AND {high}", inside
    yield f"NOT {name} BETWEEN {low} AND {high}", len(present) - inside
    yield f"{name} IN ({low}, {high})", sum(one in (ends[0], ends[-1]) for one in present)
    yield f"{name} NOT IN ({low}, {high})", sum(one not in (ends[0], ends[-1]) for one in present)
    yield f"{name} IS NULL", len(YEARS) - len(present)
    yield f"COALESCE({name}, {low}) = {high}", sum(one == ends[-1] for one in present)


def groups(name: str) -> dict[Any, int]:
    """Return how many rows each declared group has: a value outside is in none."""
    value = VALUES[name][0]
    return {value(year): YEARS.count(year) for year in range(FIRST, LAST + 1)}
