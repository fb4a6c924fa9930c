"""The engine rounds exactly as `sensitivity.clipping` does, to the last integer, whatever the value and its type."""

import math
import random
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines.duckdb.column import column_sql
from sfumato.engines.duckdb.column import stored as as_stored
from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.sql.grid import NotExact, Range, floating, unbounded, whole
from sfumato.policy.policy import Bounds, Column, ColumnType
from sfumato.sensitivity.clipping import to_grid
from sfumato.sensitivity.grid import Grid

STEPS = [Fraction(1), Fraction(1, 100), Fraction(1, 3), Fraction(7, 2), Fraction(1, 2**53), Fraction(10**15)]
WIDTHS = [1, 1000, 2**48, 2**62]
HOSTILE = [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, -5e-324, 2.2e-308, 1.8e308, -1e308, 2.0**53, 2.0**63, 0.5]


def _computed(sql: str, values: pa.Array) -> list[int | None]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("given", pa.table({"n": range(len(values)), "v": values}))
        return [row[0] for row in connection.execute(f"SELECT {sql} FROM given ORDER BY n").fetchall()]  # noqa: S608


def expected(values: Any, grid: Grid) -> list[int | None]:
    """Return what `sensitivity.clipping` makes of values."""
    result = to_grid(values, grid)
    return [
        int(number) if present else None
        for number, present in zip(result.integers.tolist(), result.present.tolist(), strict=True)
    ]


def near_ties(step: Fraction, low: int, high: int, order: random.Random) -> list[float]:
    """Return floats at grid points and ties, and their neighbours on both sides."""
    found = []
    for _ in range(60):
        value = float((order.randint(low, high) + Fraction(order.choice([-1, 0, 1]), 2)) * step)
        found += [value, math.nextafter(value, math.inf), math.nextafter(value, -math.inf), value * order.random()]
    return found


@pytest.mark.parametrize("step", STEPS, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
def test_floats_become_the_integers_of_the_grid(step: Fraction, width: int) -> None:
    order = random.Random(width)
    low = order.randint(-width, 0)
    high = order.randint(low, width)
    values = HOSTILE + near_ties(step, low, high, order)
    values += [struct.unpack("d", order.randbytes(8))[0] for _ in range(60)]
    sql = floating("v", Range(step, low, high, clipped=True), DUCKDB)
    assert _computed(sql, pa.array(values, pa.float64())) == expected(
        np.array(values), Grid(low * step, high * step, step)
    )


@pytest.mark.parametrize("scale", [0, 1, 2, 10, 20, 30])
@pytest.mark.parametrize("step", [Fraction(1), Fraction(1, 100), Fraction(5, 2), Fraction(1, 3)], ids=str)
def test_decimals_become_the_integers_of_the_grid(scale: int, step: Fraction) -> None:
    order = random.Random(scale)
    digits = [0, 1, -1, 10**38 - 1, 1 - 10**38, 5 * 10 ** max(scale - 1, 0), 25 * 10 ** max(scale - 2, 0)]
    digits += [order.randint(-(10**size), 10**size) for size in range(1, 38)]
    digits = [max(min(number, 10**38 - 1), 1 - 10**38) for number in digits]
    values = [Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale)) for number in digits]
    column = Column("v", ColumnType.DECIMAL, Bounds(-300 * step, 1000 * step), step)
    sql = column_sql(column, as_stored("v", f"DECIMAL(38,{scale})"))
    grid = column.grid
    assert grid is not None
    exact = [Fraction(number, 10**scale) for number in digits]
    assert _computed(sql, pa.array([*values, None], pa.decimal128(38, scale))) == [*expected(exact, grid), None]


@pytest.mark.parametrize("kind", ["TINYINT", "BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT"])
def test_integers_of_every_width_become_the_integers_of_the_grid(kind: str) -> None:
    ends = {"TINYINT": (-128, 127), "BIGINT": (-(2**63), 2**63 - 1), "UBIGINT": (0, 2**64 - 1)}
    low, high = ends.get(kind, (-(2**127) + 1, 2**127 - 1) if kind == "HUGEINT" else (0, 2**128 - 1))
    values = [low, low + 1, high - 1, high, 0, 1, 2, 3, 5, 7, 100]
    listed = ", ".join(f"({value})::{kind}" for value in values)
    for column in (
        Column("v", ColumnType.INTEGER, Bounds(-3, 50), Fraction(1)),
        Column("v", ColumnType.DECIMAL, Bounds(Fraction(-4), Fraction(8)), Fraction(2)),
    ):
        sql = column_sql(column, as_stored("v", kind))
        with duckdb.connect() as connection:
            rows = connection.execute(f"SELECT {sql} FROM (SELECT unnest([{listed}, NULL]) AS v)").fetchall()  # noqa: S608
        assert column.grid is not None
        assert [row[0] for row in rows] == [*expected(values, column.grid), None]


def test_without_bounds_what_does_not_fit_64_bits_is_absent() -> None:
    values = [2.0**63, -(2.0**63), 2.0**62, 1e300, 2.5, 3.5, math.nan]
    assert _computed(floating("v", unbounded(Fraction(1)), DUCKDB), pa.array(values)) == [
        None,
        -(2**63),
        2**62,
        None,
        2,
        4,
        None,
    ]
    sql = whole("v::HUGEINT", 0, 2**64, unbounded(Fraction(1)), DUCKDB)
    assert _computed(sql, pa.array([2**63, 2**63 - 1, None], pa.uint64())) == [None, 2**63 - 1, None]


def test_a_step_that_128_bits_cannot_apply_is_refused_before_any_value_is_seen() -> None:
    with pytest.raises(NotExact):
        floating("v", unbounded(Fraction(1, 10**17)), DUCKDB)
    with pytest.raises(NotExact):
        whole("v", 38, 10**38, unbounded(Fraction(1, 7 * 10**17)), DUCKDB)
