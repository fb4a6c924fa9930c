"""Operators of Spark over hostile values: none raises or leaves its facts, and each gives what it gives in DuckDB.

Spark takes half a second for a statement, so that each is one statement with a column per expression. The laws of
`tests/engines` compare DuckDB with Python; `python -m tests.engines.spark` runs all of them on Spark, too.
"""

import random
from collections.abc import Sequence
from math import isnan
from typing import Any

import numpy as np
import pyarrow as pa
from tests.engines.engines import DuckDBUnderLaw, trying
from tests.engines.scalar_values import assert_within_facts, columns_of
from tests.engines.spark_under_law import SparkUnderLaw
from tests.engines.test_grid_sql import HOSTILE, STEPS, expected, near_ties
from tests.engines.test_totality_numbers import ABOVE_NOISE, ROWS, SEEN, uses
from tests.engines.test_totality_texts import (
    ALONE,
    COUNT,
    COUNTS,
    LONG,
    PAIRS,
    PATTERNS,
    SIDES,
    SPELLED,
    TEXT,
    TEXTS,
    word,
)
from tests.engines.test_totality_times import WILD, WILD_DATES, WILD_MOMENTS, expressions
from tests.language.evaluation import evaluate, keeps_facts, scope

from sfumato.engines.spark.column import READING
from sfumato.engines.spark.column import stored as as_stored
from sfumato.language.facts import Facts, Kind
from sfumato.language.lower_logic import LOGIC
from sfumato.language.lower_numbers import ARITHMETIC
from sfumato.language.lowering import ScalarScope, lower
from sfumato.language.scalar import Scalar
from sfumato.policy.policy import Bounds, Column, ColumnType
from sfumato.query.expression import Call, Cast, Expression
from sfumato.query.functions import Function
from sfumato.query.types import Type
from sfumato.sensitivity.grid import Grid

EACH = 2
"""So many uses of each function, spread over all of them."""


def _compared(
    scalars: Sequence[Scalar], seen: ScalarScope, rows: Sequence[Sequence[Any]], fair: Sequence[bool]
) -> None:
    with trying(SparkUnderLaw()):
        found = evaluate(scalars, seen, rows)
    with trying(DuckDBUnderLaw()):
        expected = evaluate(scalars, seen, rows)
    for scalar, here, there in zip(scalars, found, expected, strict=True):
        assert_within_facts(scalar, here)
        for row, value, other, is_fair in zip(rows, here, there, fair, strict=True):
            assert scalar.facts.kind is not Kind.REAL or keeps_facts(value, scalar.facts)
            if is_fair and isinstance(value, float) and isinstance(other, float):
                assert value == other or abs(value - other) <= abs(other) * 1e-15, (scalar.operator, row)
            elif is_fair:
                assert value == other, (scalar.operator, scalar.constant, row)


def test_numbers_and_choices() -> None:
    everything: list[Expression] = []
    for function in sorted({*ARITHMETIC, *LOGIC} - ABOVE_NOISE):
        found = uses(function)
        everything += found[:: max(len(found) // EACH, 1)]
    finite = [not any(isinstance(one, float) and (isnan(one) or abs(one) > 1e308) for one in row) for row in ROWS]
    assert sum(finite) > 60
    _compared([lower(expression, SEEN) for expression in everything], SEEN, ROWS, finite)


def _lowered(everything: Sequence[Expression], facts: Sequence[Facts]) -> tuple[list[Scalar], ScalarScope]:
    seen = scope(**{f"c{at}": known for at, known in enumerate(facts)})
    return [lower(expression, seen) for expression in everything], seen


def test_texts() -> None:
    facts = [TEXT, TEXT, COUNT]
    first, second, count = columns_of(facts)
    everything: list[Expression] = [
        *(Call(function, (first,), type) for function, (type, _) in ALONE.items()),
        *(Call(function, (first, second), type) for function, (type, _) in PAIRS.items()),
        *(Call(function, (first, count), Type.TEXT) for function in SIDES),
        Call(Function.LOWER, (first,), Type.TEXT),
        Call(Function.UPPER, (first,), Type.TEXT),
        Call(Function.SUBSTRING, (first, count, count), Type.TEXT),
        Call(Function.REPLACE, (first, word("a"), word("b'c\\d${e}")), Type.TEXT),
        Call(Function.TRIM, (first, word("ba\0é")), Type.TEXT),
        *(Call(Function.LIKE, (first, word(pattern)), Type.BOOLEAN) for pattern in PATTERNS),
        *(Cast(first, type) for type in (Type.INTEGER, Type.DECIMAL, Type.BOOLEAN, Type.DATE, Type.TIMESTAMP)),
    ]
    hostile = [*TEXTS, *SPELLED, *LONG, "Straße Σίσυφος ΣΑΣ İı ǅ ﬁ 𐐨", None]
    rows = [(text, hostile[-1 - at], COUNTS[at % len(COUNTS)]) for at, text in enumerate(hostile)]
    _compared(*_lowered(everything, facts), rows, [True] * len(rows))


def test_times() -> None:
    for facts in (WILD_DATES, WILD_MOMENTS):
        scalars, seen = _lowered(expressions(facts), [facts, COUNT])
        rows = [(first, second) for first in WILD for second in (None, 0, -1, 40)]
        _compared(scalars, seen, rows, [True] * len(rows))


def test_doubles_become_the_integers_of_the_grid() -> None:
    assert_on_the_grid([Grid(-700 * step, 1000 * step, step) for step in STEPS])


def assert_on_the_grid(grids: Sequence[Grid]) -> None:
    """Compare with `sensitivity.clipping` what Spark makes of hostile values, and of those near a tie of any grid."""
    order = random.Random(46)
    values = [*HOSTILE, *(value for grid in grids for value in near_ties(grid.step, -701, 1001, order))]
    listed = [
        READING.column(
            Column("v", ColumnType.DECIMAL, Bounds(grid.low, grid.high), grid.step), as_stored("v", "double")
        )
        for grid in grids
    ]
    table = pa.table({"n": range(len(values)), "v": pa.array(values, pa.float64())})
    rows = SparkUnderLaw().rows(f"SELECT n, {', '.join(listed)} FROM given ORDER BY n", {"given": table})  # noqa: S608
    for at, grid in enumerate(grids, 1):
        assert [row[at] for row in rows] == expected(np.array(values), grid), grid
