"""How many values of the snapshot lie outside their bounds: exact numbers, for the data owner alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction

import numpy as np

from sfumato.database import Database
from sfumato.engines.sql.builder import select
from sfumato.engines.sql.column import keeps_outside
from sfumato.engines.sql.names import quoted
from sfumato.errors import Refusal
from sfumato.planning.aggregates.count import CountColumn
from sfumato.policy.policy import Column, Table, Value
from sfumato.prepare import RequestedPrice
from sfumato.release.rendering.escaping import escape_unprintable

_COLUMNS_PER_QUESTION = 20
_ANY_PRICE = "0.1"
"""Nothing is charged or answered: a statement has a plan, and a plan has a price."""


@dataclass(frozen=True, slots=True)
class OutsideColumn:
    """How many rows of the snapshot hold a value of a column below and above its bounds."""

    table: str
    column: Column
    below: int
    above: int


def count_outside(database: Database) -> list[OutsideColumn]:
    """Return the columns that have values outside their bounds, over the rows that the snapshot keeps."""
    database.require_owner("count values outside their bounds")
    found = []
    for table in database.policy.tables:
        bounded = _bounded_columns(table)
        for start in range(0, len(bounded), _COLUMNS_PER_QUESTION):
            columns = bounded[start : start + _COLUMNS_PER_QUESTION]
            try:
                counts = _counts(database, table, columns)
            except Refusal:  # the table cannot be asked about now
                continue
            pairs = zip(columns, counts[::2], counts[1::2], strict=True)
            found += [OutsideColumn(table.name, *pair) for pair in pairs if pair[1] or pair[2]]
    return found


def outside_text(found: Sequence[OutsideColumn]) -> str:
    """Return what to tell the owner: how many values lie outside, what becomes of them, and what to write."""
    if not found:
        return ""
    lines = [f"  - {line}" for report in found for line in _lines(report)]
    return "\n".join(
        [
            "Values outside their bounds",
            *lines,
            "  As keys and in conditions they are outside, in no group; in sums and averages they are clipped.",
            "  If they are real, choose wider bounds from what you know about the column, and run `sfumato refresh "
            "POLICY`. It names the --confirm HASH to add where something was spent before.",
        ]
    )


def _bounded_columns(table: Table) -> list[Column]:
    if table.public or table.has_two_owners:  # a total of shares is no count of rows
        return []
    return [column for column in table.columns if not table.names_people(column.name) and keeps_outside(column)]


def _counts(database: Database, table: Table, columns: Sequence[Column]) -> list[int]:
    """Return how many rows lie below and above, column after column, by the statement of a question about them."""
    tests = [test for column in columns for test in _tests(column)]
    listed = ", ".join(f"COUNT(*) FILTER (WHERE {test}) AS n{at}" for at, test in enumerate(tests))
    sql = select(listed, quoted(table.name))
    prepared = database.prepare(sql, None, RequestedPrice(_ANY_PRICE))
    exact, plan = prepared.engine.run(prepared.job).groups[0], prepared.plan.groups[0]
    measured = {output.name: output.plain for output in plan.derived if isinstance(output, CountColumn)}
    # where a question selects how many rows count, the last number is that of all of them
    return [int(np.ravel(exact.columns[measured[asked.name]])[-1]) for asked in plan.group.asked]


def _tests(column: Column) -> Iterator[str]:
    if column.bounds is not None:
        name = quoted(column.name)
        yield f"{name} < {_literal(column.bounds.low)}"
        yield f"{name} > {_literal(column.bounds.high)}"


def _literal(value: Value) -> str:
    match value:
        case datetime():
            return f"TIMESTAMP '{value}'"
        case date():
            return f"DATE '{value}'"
        case Fraction():
            return f"CAST('{_spell_bound(value)}' AS DECIMAL)"
    return str(value)


def _spell_bound(value: Value) -> str:
    """Return a bound as a policy spells it."""
    return f"{float(value):.15g}" if isinstance(value, Fraction) else str(value)


def _lines(one: OutsideColumn) -> Iterator[str]:
    if one.column.bounds is None:
        return
    low, high = _spell_bound(one.column.bounds.low), _spell_bound(one.column.bounds.high)
    sides = [f"{one.below:,} below {low}"] * (one.below > 0) + [f"{one.above:,} above {high}"] * (one.above > 0)
    wider = f"bounds = [{'LOW' if one.below else low}, {'HIGH' if one.above else high}]"
    yield escape_unprintable(f"{one.table}.{one.column.name}: {' and '.join(sides)}. Write {wider} to include them.")
