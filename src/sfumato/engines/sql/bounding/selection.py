"""Totals of all people up to each bound: added up once, when the copy is written.

A question that leaves no row out chooses its bounds by these numbers, so that it need not look at people's rows for it.

Proof: proofs/chosen_caps.md, 7
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sfumato.engines.build_catalog import levelled_columns, most_rows, stores_bound_index, sum_of, summed_columns
from sfumato.engines.sql.bounding.bound_index import stored_names
from sfumato.engines.sql.bounding.candidates import MAX_SUMMED_ROWS, part_at_bound
from sfumato.engines.sql.build_protocol import Building
from sfumato.engines.sql.column import number_sql
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.flow import Tables
from sfumato.engines.sql.names import (
    LEVEL,
    TOTALS,
    first_bound_column,
    last_bound_column,
    level_name,
    running_total_column,
)
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import ScanNode
from sfumato.planning.bounding.candidates import MAX_CANDIDATES, candidate_thresholds
from sfumato.planning.plan import GroupPlan
from sfumato.policy.policy import Column, Table
from sfumato.query.functions import Aggregation
from sfumato.query.types import Type

_FILLED, _LAST_THRESHOLD = "filled", "most"


@dataclass(frozen=True, slots=True)
class _Filled:
    """What fills bounds, by the hidden columns that say at which of them a row counts."""

    first: str
    amounts: tuple[int, ...]
    column: Column | None = None
    """The column whose sum is cut off; None where rows count as a whole."""


def has_totals(table: Table) -> bool:
    """Whether the copy says what all people have up to each bound."""
    return any(True for _ in _filled(table))


def total_columns(dialect: Dialect) -> list[tuple[str, str]]:
    """Return the columns of that table and their types: what fills bounds, the last of these, and a total at each."""
    named = [(_FILLED, dialect.text_type), (_LAST_THRESHOLD, dialect.integer_type(_up_to(1)))]
    return [*named, *((_total(index), dialect.wide) for index in range(MAX_CANDIDATES))]


def write_totals(build: Building, table: Table) -> None:
    """Write down, for all that fills bounds, what people have up to each: from the rows that the copy keeps of them."""
    rows = build.copy_relation(table.name)
    queries = [_totals_query(one, rows, build.dialect) for one in _filled(table)]
    build.create_table_as(build.copy_relation(table.name + TOTALS), " UNION ALL ".join(queries))


def totals_sql(plan: GroupPlan, tables: Tables, dialect: Dialect) -> str | None:
    """Return the statement for the people whose totals select bounds, over stored totals; None where there are none."""
    rows = plan.group.rows
    if not plan.is_bound_selection or not isinstance(rows, ScanNode) or plan.group.contribution.bound_rows:
        return None
    names, table = stored_names(plan), tables.get(rows.table + TOTALS)
    if names is None or table is None:
        return None
    found, relations = list[str](), list[str]()
    for at, (measurement, name) in enumerate(zip(plan.measured, names, strict=True)):
        amounts = () if measurement.candidates is None else measurement.candidates.thresholds
        found += [f"t{at}.{_total(index)}" for index in range(len(amounts))]
        here = f"{_FILLED} = {dialect.text_literal(name)} AND {_LAST_THRESHOLD} = {amounts[-1]}"
        relations.append(f"(SELECT * FROM {table} WHERE {here}) AS t{at}")  # noqa: S608
    return f"SELECT {', '.join(found)} FROM {' CROSS JOIN '.join(relations)}"  # noqa: S608


def _filled(table: Table) -> Iterator[_Filled]:
    """Give what fills bounds that questions choose."""
    if stores_bound_index(table):
        amounts = candidate_thresholds(most_rows(table))
        yield _Filled(LEVEL, amounts)
        yield from (_Filled(level_name(column.name), amounts) for column in levelled_columns(table))
    for column in summed_columns(table):
        if table.rows_chosen or column.bounds_chosen:
            yield _Filled(first_bound_column(column.name), candidate_thresholds(sum_of(column, table)), column)


def _totals_query(one: _Filled, rows: str, dialect: Dialect) -> str:
    """Return the query for one row of totals. Rows are added up by their places first, and then what was found.

    A row beyond the last bound has a place behind it, and counts nowhere; one without a value has no place.
    """
    most = one.amounts[-1]
    added = dialect.integer_type(_up_to(most * MAX_SUMMED_ROWS))
    places, sums = {"first_place": one.first}, {"n": "count(*)"}
    if one.column is not None:
        places["last_place"] = last_bound_column(one.column.name)
        value = number_sql(one.column, dialect.quote_identifier(one.column.name))
        before = dialect.quote_identifier(running_total_column(one.column.name))
        for name, sql in (("v", value), ("b", before)):
            sums[name] = dialect.aggregate(Aggregation.SUM, sql, _up_to(most), False)
    kept = [f"{dialect.quote_identifier(name)} AS {alias}" for alias, name in places.items()]
    kept += [f"CAST({sql} AS {added}) AS {name}" for name, sql in sums.items()]
    by, present = (
        ", ".join(map(dialect.quote_identifier, places.values())),
        f"{dialect.quote_identifier(one.first)} IS NOT NULL",
    )
    parts = f"SELECT {', '.join(kept)} FROM {rows} WHERE {present} GROUP BY {by}"  # noqa: S608
    last, whole = (None, "n") if one.column is None else ("last_place", "v")
    totals = ["0"] * MAX_CANDIDATES
    for index, amount in enumerate(one.amounts):
        part = part_at_bound(index, "first_place", last, whole, f"{dialect.integer(amount, added)} * n - b")
        total = dialect.aggregate(Aggregation.SUM, part, _up_to(most * MAX_SUMMED_ROWS), False)
        totals[index] = f"coalesce({total}, 0)"
    values = [dialect.text_literal(one.first), str(most), *totals]
    named = zip(total_columns(dialect), values, strict=True)
    return (
        f"SELECT {', '.join(f'CAST({sql} AS {type}) AS {name}' for (name, type), sql in named)} FROM ({parts}) AS parts"  # noqa: S608
    )


def _total(place: int) -> str:
    return f"total{place}"


def _up_to(most: int) -> Facts:
    return Facts(Type.INTEGER, Kind.INTEGER, low=0, high=most)
