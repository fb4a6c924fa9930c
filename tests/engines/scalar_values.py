"""Values of a scalar as DuckDB computes them, one per row of hostile or ordinary values."""

from collections.abc import Sequence
from functools import cache

import duckdb

from sfumato.analysis.facts import Facts, Kind
from sfumato.analysis.lowering import lower
from sfumato.analysis.scalar import Scalar, column
from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.sql.scalar import scalar_sql
from sfumato.query.expression import Column, Expression

_STORED = {Kind.INTEGER: "BIGINT", Kind.TEXT: "VARCHAR", Kind.BOOLEAN: "BOOLEAN", Kind.REAL: "DOUBLE"}

Rows = Sequence[tuple[object, ...]]


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def columns_of(facts: Sequence[Facts]) -> tuple[Column, ...]:
    """Return one column per facts, named c0, c1, …"""
    return tuple(Column("t", f"c{i}", known.type) for i, known in enumerate(facts))


def lowered(expression: Expression, facts: Sequence[Facts]) -> Scalar:
    """Return the scalar of an expression over columns with these facts."""
    return lower(expression, {("t", f"c{i}"): column("t", f"c{i}", known) for i, known in enumerate(facts)})


def values(scalar: Scalar, facts: Sequence[Facts], rows: Rows) -> list[object]:
    """Return the value of each row; a failure of the engine is a failure of the test."""
    places = range(len(facts))
    lists = ", ".join(f"unnest(?::{_STORED[facts[i].kind]}[]) AS c{i}" for i in places)
    given = [list(range(len(rows))), *([row[i] for row in rows] for i in places)]
    connection = _connection()
    connection.execute(f"CREATE OR REPLACE TABLE t AS SELECT unnest(?::INTEGER[]) AS i, {lists}", given)
    named = {("t", f"c{i}"): f"t.c{i}" for i in places}
    sql = scalar_sql(scalar, named, DUCKDB)
    found = connection.execute(f"SELECT {sql} FROM t ORDER BY i").fetchall()  # noqa: S608
    return [value for (value,) in found]


def assert_within_facts(scalar: Scalar, found: Sequence[object]) -> None:
    """Every value is what the facts promise."""
    facts = scalar.facts
    for value in found:
        if value is None:
            assert facts.nullable
        elif facts.kind is Kind.INTEGER:
            assert isinstance(value, int)
            assert facts.low <= value <= facts.high
        elif facts.kind is Kind.TEXT:
            assert isinstance(value, str)
            assert facts.longest is None or len(value) <= facts.longest
        else:
            assert facts.kind is not Kind.BOOLEAN or isinstance(value, bool)
