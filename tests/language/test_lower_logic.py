"""Conditions and choices follow three-valued logic, and what they say of a value narrows it."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from tests.language.evaluation import TRUTH, UNBOUNDED, call, evaluate, grid, keeps_facts, lowered, named, number, scope
from tests.language.scalar_oracle import meaning

from sfumato.language.facts import Kind
from sfumato.language.lowering import ScalarScope, lower, narrow_scope
from sfumato.query.expression import Case, Cast, Expression, Literal
from sfumato.query.functions import Function
from sfumato.query.types import Type

COMPARISONS = [Function.EQUAL, Function.DIFFERENT, Function.LESS, Function.AT_MOST, Function.DISTINCT_FROM]
LITERALS = [None, Fraction(0), Fraction(5, 2), Fraction(-1, 3), Fraction(10**30), Fraction(-(10**30)), Fraction(2)]


def _truth(function: Function, *arguments: Expression) -> Expression:
    return call(function, *arguments, type=Type.BOOLEAN)


def _agrees(expressions: list[Expression], columns: ScalarScope, rows: Sequence[Sequence[Any]]) -> None:
    scalars = lowered(expressions, columns)
    for expression, scalar, found in zip(expressions, scalars, evaluate(scalars, columns, rows), strict=True):
        for row, value in zip(rows, found, strict=True):
            values = {
                name: part * column.facts.step if column.facts.kind is Kind.INTEGER and part is not None else part
                for ((_, name), column), part in zip(columns.items(), row, strict=True)
            }
            expected = meaning(expression, values)
            integral = scalar.facts.kind is Kind.INTEGER and value is not None
            assert (value * scalar.facts.step if integral else value) == expected, (str(expression), row)
            assert keeps_facts(value, scalar.facts), (str(expression), row)


@pytest.mark.parametrize(("first", "second"), [(1, 1), (Fraction(1, 100), Fraction(3, 200)), (6, Fraction(4))], ids=str)
def test_comparisons_across_grids_are_exact(first: Fraction, second: Fraction) -> None:
    columns = scope(a=grid(first, -5, 5), b=grid(second, -5, 5))
    a, b = named(columns, "a"), named(columns, "b")
    sides: list[tuple[Expression, Expression]] = [
        (a, b),
        *((a, number(value)) for value in LITERALS),
        *((number(value), a) for value in LITERALS),
    ]
    expressions = [_truth(function, *pair) for function in COMPARISONS for pair in sides]
    expressions += [
        _truth(Function.IN, a, number(1), number(Fraction(1, 3)), number(3)),
        _truth(Function.IN, a, number(1), number(None), number(0)),
        _truth(Function.IN, a, b, number(2)),
        _truth(Function.IS_NULL, a),
    ]
    pairs: list[tuple[Expression, Expression]] = [(a, b), (a, number(None)), (number(None), b), (a, number(2))]
    expressions += [
        call(function, *pair)
        for function in (Function.LEAST, Function.GREATEST, Function.COALESCE, Function.NULLIF)
        for pair in [*pairs, (a, number(Fraction(1, 3)))]
    ]
    values = [None, *range(-5, 6)]
    _agrees(expressions, columns, list(product(values, values)))


def test_connectives_are_three_valued() -> None:
    columns = scope(p=TRUTH, q=TRUTH, r=TRUTH)
    p, q, r = (named(columns, name) for name in "pqr")
    expressions = [_truth(function, p, q, r) for function in (Function.AND, Function.OR)]
    expressions += [_truth(Function.NOT, p), _truth(Function.EQUAL, p, q), _truth(Function.DISTINCT_FROM, p, q)]
    expressions += [call(Function.COALESCE, p, q, type=Type.BOOLEAN), Case(((p, q),), r, Type.BOOLEAN)]
    _agrees(expressions, columns, list(product([None, True, False], repeat=3)))


def test_truth_values_and_integers_are_cast_both_ways() -> None:
    columns = scope(p=TRUTH, a=grid(1, -2, 2))
    p, a = named(columns, "p"), named(columns, "a")
    scalars = lowered([Cast(p, Type.INTEGER), Cast(a, Type.BOOLEAN)], columns)
    rows = [(None, None), (True, -2), (False, 0)]
    assert evaluate(scalars, columns, rows) == [[None, 1, 0], [None, True, False]]
    assert (scalars[0].facts.low, scalars[0].facts.high) == (0, 1)


def _between(x: Expression, low: int, high: int) -> Expression:
    return _truth(Function.AND, _truth(Function.AT_MOST, number(low), x), _truth(Function.AT_MOST, x, number(high)))


def test_a_branch_knows_what_its_condition_says() -> None:
    columns = scope(u=UNBOUNDED, h=grid(Fraction(1, 2), -100, 100))
    u, h = named(columns, "u"), named(columns, "h")
    below, above = _truth(Function.LESS, u, number(0)), _truth(Function.LESS, number(10), u)
    doubled = call(Function.ADD, u, u)
    cases: list[tuple[Expression, int, int]] = [
        (Case(((_between(u, 0, 10), u),), number(0), Type.DECIMAL), 0, 10),
        (Case(((below, number(0)), (above, number(10))), u, Type.DECIMAL), 0, 10),
        (Case(((_truth(Function.OR, below, above), number(0)),), u, Type.DECIMAL), 0, 10),
        (Case(((_truth(Function.NOT, _between(u, 3, 4)), number(3)),), u, Type.DECIMAL), 3, 3),
        (Case(((_truth(Function.IN, u, number(3), number(7)), u),), number(None), Type.DECIMAL), 3, 7),
        (Case(((_between(h, 1, 2), h),), number(1), Type.DECIMAL), 2, 4),
        (Case(((_between(doubled, 0, 8), doubled),), number(None), Type.DECIMAL), 0, 8),
        (call(Function.LEAST, call(Function.GREATEST, u, number(0)), number(100)), 0, 100),
    ]
    for expression, low, high in cases[:3] + cases[4:]:
        facts = lower(expression, columns).facts
        assert (facts.low, facts.high, facts.bounded) == (low, high, True), str(expression)
    rows = list(product([None, -(2**63), 2**63 - 1, *range(-3, 13)], [None, *range(-5, 8)]))
    _agrees([expression for expression, _, _ in cases], columns, rows)


def test_rows_that_a_filter_keeps_have_narrower_columns() -> None:
    columns = scope(u=UNBOUNDED, h=grid(Fraction(1, 2), -100, 100))
    u, h = named(columns, "u"), named(columns, "h")
    after = narrow_scope(columns, _truth(Function.AND, _between(u, 18, 50), _truth(Function.LESS, h, number(3))))
    first, second = after["t", "u"].facts, after["t", "h"].facts
    assert (first.low, first.high, first.bounded, first.nullable) == (18, 50, True, False)
    assert (second.low, second.high, second.nullable) == (-100, 5, False)
    assert narrow_scope(columns, _truth(Function.OR, _between(u, 0, 1), _truth(Function.IS_NULL, h))) == columns
    missing = narrow_scope(columns, _truth(Function.NOT, _truth(Function.IS_NULL, u)))
    assert not missing["t", "u"].facts.nullable
    empty = narrow_scope(columns, _truth(Function.AND, _between(u, 5, 6), _truth(Function.LESS, u, number(2))))
    assert empty["t", "u"].facts.low == empty["t", "u"].facts.high


def test_a_narrowed_column_cannot_overflow_in_a_row_that_the_filter_drops() -> None:
    columns = scope(u=UNBOUNDED)
    u = named(columns, "u")
    after = narrow_scope(columns, _between(u, -1000, 1000))
    scalar = lower(call(Function.POWER, u, number(6, Type.INTEGER)), after)
    assert scalar.facts.high == 10**18  # 64 bits are enough, so the engine computes with 64
    (values,) = evaluate([scalar], columns, [(-(2**63),), (2**63 - 1,), (7,)])
    assert values == [10**18, 10**18, 7**6]


def test_a_null_that_is_spelled_out_reaches_nowhere() -> None:
    columns = scope(a=grid(1, 5, 9, nullable=False))
    yes = _truth(Function.LESS, named(columns, "a"), number(7))
    facts = lower(Case(((yes, named(columns, "a")),), Literal(None, Type.INTEGER), Type.INTEGER), columns).facts
    assert (facts.low, facts.high, facts.nullable) == (5, 6, True)
