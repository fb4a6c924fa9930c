"""Columns of tests, and the engine's value of an expression for each row of them."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa
from tests.engines.engines import engine_under_law
from tests.engines.widths import narrow_types

from sfumato.engines.sql.scalar import scalar_sql
from sfumato.language.facts import STORED_LIMIT, Facts, Kind
from sfumato.language.lowering import ScalarScope, lower
from sfumato.language.scalar import Scalar, column
from sfumato.query.expression import Call, Column, Expression, Literal
from sfumato.query.functions import Function
from sfumato.query.types import Type

STORAGE = {Kind.REAL: pa.float64(), Kind.BOOLEAN: pa.bool_(), Kind.TEXT: pa.string()}


def grid(step: Fraction | int, low: int, high: int, nullable: bool = True) -> Facts:
    """Return the facts of a number in [low, high] steps; on the grid of 1 it is an integer."""
    type = Type.INTEGER if step == 1 else Type.DECIMAL
    return Facts(type, Kind.INTEGER, nullable=nullable, step=Fraction(step), low=low, high=high)


UNBOUNDED = Facts(
    Type.INTEGER, Kind.INTEGER, low=-STORED_LIMIT, high=STORED_LIMIT - 1, declared_low=False, declared_high=False
)
DOUBLE = Facts(Type.DECIMAL, Kind.REAL)
TRUTH = Facts(Type.BOOLEAN, Kind.BOOLEAN)


def scope(**columns: Facts) -> ScalarScope:
    """Return columns of the table t."""
    return {("t", name): column("t", name, facts) for name, facts in columns.items()}


def named(columns: ScalarScope, name: str) -> Column:
    """Return a reference to one of them."""
    return Column("t", name, columns["t", name].facts.type)


def number(value: int | Fraction | None, type: Type = Type.DECIMAL) -> Literal:
    """Return a number that is spelled out."""
    return Literal(Fraction(value) if type is Type.DECIMAL and value is not None else value, type)


def call(function: Function, *arguments: Expression, type: Type = Type.DECIMAL) -> Call:
    """Return a call."""
    return Call(function, arguments, type)


def evaluate(scalars: Sequence[Scalar], seen: ScalarScope, rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return the engine's own value of each scalar, for each row: integers are in steps."""
    columns = {
        name: pa.array([row[i] for row in rows], STORAGE.get(scalar.facts.kind, pa.int64()))
        for i, ((_, name), scalar) in enumerate(seen.items())
    }
    if not scalars:
        return []
    engine, named = engine_under_law(), {key: f"t.{key[1]}" for key in seen}
    written = [scalar_sql(scalar, named, engine.dialect) for scalar in scalars]
    selected = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(written))
    table = pa.table({"n": pa.array(range(len(rows)), pa.int64()), **columns})
    integers = [sql for sql, scalar in zip(written, scalars, strict=True) if scalar.facts.kind is Kind.INTEGER]
    assert not narrow_types(engine, integers, {"t": table}, "(SELECT * FROM t ORDER BY n LIMIT 1) AS t")
    results = engine.rows(f"SELECT {selected} FROM t ORDER BY n", {"t": table})  # noqa: S608
    return [[row[i] for row in results] for i in range(len(scalars))]


def keeps_facts(value: Any, facts: Facts) -> bool:
    """Whether a value of the engine is what the facts say."""
    if value is None:
        return facts.nullable
    if facts.kind is Kind.INTEGER:
        return type(value) is int and facts.low <= value <= facts.high
    if facts.kind is Kind.REAL:
        return isinstance(value, float)
    return isinstance(value, bool)


def lowered(expressions: Sequence[Expression], columns: ScalarScope) -> list[Scalar]:
    """Return the scalars of expressions."""
    return [lower(expression, columns) for expression in expressions]
