"""Values of a scalar as an engine computes them, one per row of hostile or ordinary values."""

from collections.abc import Sequence

import pyarrow as pa
from tests.engines.engines import engine_under_law
from tests.engines.widths import narrow_types

from sfumato.engines.sql.scalar import scalar_sql
from sfumato.language.facts import Facts, Kind
from sfumato.language.lowering import lower
from sfumato.language.scalar import Scalar, column
from sfumato.query.expression import Column, Expression

_STORED = {
    Kind.INTEGER: pa.int64(),
    Kind.TEXT: pa.string(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.REAL: pa.float64(),
}

Rows = Sequence[tuple[object, ...]]


def columns_of(facts: Sequence[Facts]) -> tuple[Column, ...]:
    """Return one column per facts, named c0, c1, …"""
    return tuple(Column("t", f"c{i}", known.type) for i, known in enumerate(facts))


def lowered(expression: Expression, facts: Sequence[Facts]) -> Scalar:
    """Return the scalar of an expression over columns with these facts."""
    return lower(expression, {("t", f"c{i}"): column("t", f"c{i}", known) for i, known in enumerate(facts)})


def values(scalar: Scalar, facts: Sequence[Facts], rows: Rows) -> list[object]:
    """Return the value of each row; a failure of the engine is a failure of the test."""
    engine, places = engine_under_law(), range(len(facts))
    columns = {f"c{i}": pa.array([row[i] for row in rows], _STORED[facts[i].kind]) for i in places}
    given = pa.table({"i": pa.array(range(len(rows)), pa.int64()), **columns})
    sql = scalar_sql(scalar, {("t", f"c{i}"): f"t.c{i}" for i in places}, engine.dialect)
    if scalar.facts.kind is Kind.INTEGER:
        assert not narrow_types(engine, [sql], {"t": given}, "(SELECT * FROM t ORDER BY i LIMIT 1) AS t")
    found = engine.rows(f"SELECT {sql} AS v FROM t ORDER BY i", {"t": given})  # noqa: S608
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
            assert facts.max_chars is None or len(value) <= facts.max_chars
        else:
            assert facts.kind is not Kind.BOOLEAN or isinstance(value, bool)
