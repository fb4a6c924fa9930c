"""Arithmetic in the engine is the arithmetic of fractions, and lies where its facts say."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.language.evaluation import UNBOUNDED, call, evaluate, grid, keeps_facts, lowered, named, number, scope
from tests.language.scalar_oracle import half_away, meaning

from sfumato.errors import QueryTooLarge, UnitRevealed, UnsupportedSql
from sfumato.language.facts import MAX_INTERMEDIATE_STEPS, Facts, Kind
from sfumato.language.lower_curves import MAX_NESTED_ROOTS
from sfumato.language.lowering import ScalarScope, lower
from sfumato.language.numbers import clip_scalar, constant, shifted, squared, to_finer_grid, value_of
from sfumato.query.expression import Call, Case, Cast, Expression, Literal, Position
from sfumato.query.functions import Function
from sfumato.query.types import Type

SMALL = [None, *range(-7, 8)]
GRIDS = [(1, 1), (Fraction(1, 100), Fraction(1, 4)), (Fraction(3, 2), 1), (10, Fraction(1, 3))]
BINARY = [Function.ADD, Function.SUBTRACT, Function.MULTIPLY, Function.DIVIDE, Function.MODULO]
BUCKETS: list[tuple[Fraction | int, Fraction | int, int]] = [
    (0, 100, 10),
    (-50, 50, 7),
    (Fraction(1, 2), Fraction(3, 2), 1000),
    (900, 999, 3),
]
UNARY = [Function.NEGATE, Function.ABS, Function.SIGN, Function.FLOOR, Function.CEIL, Function.ROUND, Function.TRUNC]


def _expected(expression: Expression, facts: Facts, row: dict[str, Any]) -> int | None:
    """Return the oracle's value in steps, rounded half away from zero where the grid is coarser."""
    value = meaning(expression, row)
    return None if value is None else half_away(Fraction(value) / facts.step)


def _agrees(expressions: Sequence[Expression], columns: ScalarScope, rows: Sequence[Sequence[int | None]]) -> None:
    scalars = lowered(expressions, columns)
    for expression, scalar, found in zip(expressions, scalars, evaluate(scalars, columns, rows), strict=True):
        assert scalar.facts.kind is Kind.INTEGER
        for row, value in zip(rows, found, strict=True):
            values = {
                name: None if integer is None else integer * column.facts.step
                for ((_, name), column), integer in zip(columns.items(), row, strict=True)
            }
            assert value == _expected(expression, scalar.facts, values), (str(expression), row)
            assert keeps_facts(value, scalar.facts), (str(expression), row, scalar.facts)


@pytest.mark.parametrize(("first", "second"), GRIDS, ids=str)
def test_operators_on_two_grids_are_exact(first: Fraction, second: Fraction) -> None:
    columns = scope(a=grid(first, -7, 7), b=grid(second, -7, 7))
    pair = (named(columns, "a"), named(columns, "b"))
    expressions = [call(function, *pair) for function in BINARY]
    if first == second == 1:
        expressions.append(call(Function.QUOTIENT, *pair, type=Type.INTEGER))
    _agrees(expressions, columns, list(product(SMALL, SMALL)))


@pytest.mark.parametrize("step", [Fraction(1), Fraction(1, 100), Fraction(3, 2), Fraction(1, 3), Fraction(25)], ids=str)
@pytest.mark.parametrize(("low", "high"), [(-300, 300), (0, 300), (-300, 0), (3, 290)])
def test_operators_on_one_grid_are_exact(step: Fraction, low: int, high: int) -> None:
    columns = scope(a=grid(step, low, high))
    a = named(columns, "a")
    expressions: list[Expression] = [call(function, a) for function in UNARY]
    expressions += [
        call(function, a, number(places, Type.INTEGER))
        for function in (Function.ROUND, Function.TRUNC)
        for places in (-2, -1, 1, 2)
    ]
    expressions += [call(Function.POWER, a, number(n, Type.INTEGER)) for n in (0, 1, 2, 3, 9)]
    literals = [Fraction(-7, 2), Fraction(0), Fraction(3), Fraction(1, 10), Fraction(-1)]
    expressions += [call(function, a, number(value)) for function in BINARY for value in literals]
    expressions += [call(function, number(value), a) for function in BINARY for value in literals]
    expressions.append(Cast(a, Type.INTEGER))
    expressions += [
        call(Function.WIDTH_BUCKET, a, number(bottom), number(top), number(count, Type.INTEGER), type=Type.INTEGER)
        for bottom, top, count in BUCKETS
    ]
    if step == 1:
        expressions += [
            call(Function.QUOTIENT, a, number(value, Type.INTEGER), type=Type.INTEGER) for value in (-7, -1, 0, 3)
        ]
    _agrees(expressions, columns, [(None,), *((integer,) for integer in range(low, high + 1, 5))])


@pytest.mark.parametrize("step", [Fraction(1), Fraction(1, 100), Fraction(7)], ids=str)
def test_a_root_is_nearer_than_two_steps_of_its_grid(step: Fraction) -> None:
    columns = scope(a=grid(step, -5, 2000))
    scalar = lower(call(Function.SQRT, named(columns, "a")), columns)
    (values,) = evaluate([scalar], columns, [(integer,) for integer in range(-5, 2001)])
    for integer, value in enumerate(values, start=-5):
        assert keeps_facts(value, scalar.facts)
        if integer < 0:
            assert value is None
        else:
            root = value * scalar.facts.step
            assert max(root - scalar.facts.step, 0) ** 2 <= integer * step <= (root + scalar.facts.step) ** 2


@pytest.mark.parametrize("function", [Function.ADD, Function.SUBTRACT, Function.MULTIPLY, Function.DIVIDE], ids=str)
def test_the_interval_of_a_monotone_operator_is_met_at_both_ends(function: Function) -> None:
    columns = scope(a=grid(1, -4, 9), b=grid(1, 2, 5))
    scalar = lower(call(function, named(columns, "a"), named(columns, "b")), columns)
    (values,) = evaluate([scalar], columns, list(product(range(-4, 10), range(2, 6))))
    assert (min(values), max(values)) == (scalar.facts.low, scalar.facts.high)


def test_a_literal_factor_or_divisor_only_changes_the_step() -> None:
    columns = scope(a=grid(1, 0, 100))
    a = named(columns, "a")
    for function, value, step in [
        (Function.MULTIPLY, Fraction(10), Fraction(10)),
        (Function.DIVIDE, Fraction(3), Fraction(1, 3)),
        (Function.MULTIPLY, Fraction(1, 4), Fraction(1, 4)),
    ]:
        facts = lower(call(function, a, number(value)), columns).facts
        assert (facts.step, facts.low, facts.high) == (step, 0, 100)
    negative = lower(call(Function.MULTIPLY, a, number(-10)), columns).facts
    assert (negative.step, negative.low, negative.high) == (Fraction(10), -100, 0)


def test_a_side_is_declared_only_if_all_that_it_depends_on_is() -> None:
    half = Facts(Type.INTEGER, Kind.INTEGER, low=0, high=2**63 - 1, declared_high=False)
    columns = scope(h=half, b=grid(1, 2, 5), u=UNBOUNDED)
    h, b, u = (named(columns, name) for name in "hbu")

    def declared(expression: Expression) -> tuple[bool, bool]:
        facts = lower(expression, columns).facts
        return facts.declared_low, facts.declared_high

    assert declared(call(Function.ADD, h, b)) == (True, False)
    assert declared(call(Function.SUBTRACT, b, h)) == (False, True)
    assert declared(call(Function.MULTIPLY, h, b)) == (True, False)
    assert declared(call(Function.NEGATE, h)) == (False, True)
    assert declared(call(Function.ABS, u)) == (True, False)
    assert declared(call(Function.SIGN, u)) == (True, True)
    assert declared(call(Function.MODULO, u, b)) == (True, True)
    assert declared(call(Function.DIVIDE, b, u)) == (True, True)
    assert declared(call(Function.SQRT, h)) == (True, False)
    assert declared(call(Function.LEAST, h, b)) == (True, False)  # b may be NULL
    assert declared(call(Function.LEAST, h, number(100))) == (True, True)


def test_what_leaves_128_bits_is_computed_in_doubles() -> None:
    columns = scope(u=UNBOUNDED)
    u = named(columns, "u")
    cube = call(Function.POWER, u, number(3, Type.INTEGER))
    scalar = lower(cube, columns)
    assert scalar.facts.kind is Kind.REAL
    (values,) = evaluate([scalar], columns, [(-(2**63),), (3,), (None,)])
    assert values == [float(-(2**189)), 27.0, None]


def test_builders_of_the_plan_are_exact() -> None:
    columns = scope(a=grid(Fraction(1, 2), -20, 20))
    a = columns["t", "a"]
    built = [
        to_finer_grid(a, Fraction(1, 10)),
        shifted(a, 3),
        squared(a),
        clip_scalar(a, -5, None),
        clip_scalar(a, -5, 7),
    ]
    rows = [(None,), *((integer,) for integer in range(-20, 21))]
    steps = [Fraction(1, 10), Fraction(1, 2), Fraction(1, 4), Fraction(1, 2), Fraction(1, 2)]
    assert [scalar.facts.step for scalar in built] == steps
    for (integer,), *found in zip(rows, *evaluate(built, columns, rows), strict=True):
        if integer is None:
            assert found == [None] * 5
        else:
            assert found == [5 * integer, integer - 3, integer**2, max(integer, -5), min(max(integer, -5), 7)]
    with pytest.raises(ValueError, match="refined"):
        to_finer_grid(a, Fraction(1, 3))


def test_a_number_that_128_bits_cannot_hold_is_still_a_constant() -> None:
    for value in (Fraction(10) ** 59, -(Fraction(10) ** 38), Fraction(1, 10**38)):
        scalar = constant(value, Type.DECIMAL)
        assert value_of(scalar) == value
        assert abs(scalar.facts.low) < MAX_INTERMEDIATE_STEPS


def test_buckets_need_bounds_that_are_spelled_out() -> None:
    columns = scope(a=grid(1, 0, 10))
    a, ten = named(columns, "a"), number(10)
    bounds: list[tuple[Expression, Expression]] = [
        (a, ten),
        (ten, ten),
        (ten, number(0)),
        (Literal(None, Type.DECIMAL), ten),
    ]
    for low, high in bounds:
        bucket = Call(Function.WIDTH_BUCKET, (a, low, high, number(3, Type.INTEGER)), Type.INTEGER, Position(3, 7))
        with pytest.raises(UnsupportedSql, match="At 3:7"):
            lower(bucket, columns)


def test_a_person_can_only_be_equal_to_a_person() -> None:
    columns = scope(p=Facts(Type.INTEGER, Kind.UNIT), q=Facts(Type.INTEGER, Kind.UNIT), a=grid(1, 0, 9))
    p, q, a = (named(columns, name) for name in "pqa")
    assert lower(call(Function.EQUAL, p, q), columns).facts.kind is Kind.BOOLEAN
    yes = Literal(True, Type.BOOLEAN)
    refused: list[Expression] = [
        call(Function.EQUAL, p, a),
        call(Function.DIFFERENT, p, q),
        call(Function.ADD, p, number(1)),
        call(Function.IS_NULL, p),
        call(Function.COALESCE, p, q),
        call(Function.IN, p, q, q),
        Cast(p, Type.DECIMAL),
        Cast(p, Type.TEXT),
        Case(((yes, p),), q, Type.INTEGER),
    ]
    for expression in refused:
        with pytest.raises(UnitRevealed):
            lower(expression, columns)


NESTED = scope(a=grid(1, -9, 9), b=grid(Fraction(1, 10), -50, 80), c=grid(Fraction(3), 0, 4, nullable=False))
_LEAVES = st.one_of(
    st.sampled_from([named(NESTED, name) for name in "abc"]),
    st.fractions(-20, 20, max_denominator=1).map(number),
    st.sampled_from([number(Fraction(1, 4)), number(Fraction(-7, 10)), number(None)]),
)
_EXACT = [Function.ADD, Function.SUBTRACT, Function.MULTIPLY, Function.MODULO, Function.LEAST, Function.GREATEST]


def _deeper(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    conditions = st.builds(
        lambda function, a, b: call(function, a, b, type=Type.BOOLEAN),
        st.sampled_from([Function.LESS, Function.AT_MOST, Function.EQUAL, Function.DIFFERENT, Function.DISTINCT_FROM]),
        inner,
        inner,
    )
    negations = st.builds(lambda c: call(Function.NOT, c, type=Type.BOOLEAN), conditions)
    both = st.builds(
        lambda function, a, b: call(function, a, b, type=Type.BOOLEAN),
        st.sampled_from([Function.AND, Function.OR]),
        conditions | negations,
        conditions | negations,
    )
    return st.one_of(
        st.builds(call, st.sampled_from([*_EXACT, Function.COALESCE, Function.NULLIF]), inner, inner),
        st.builds(call, st.sampled_from(UNARY), inner),
        st.builds(
            lambda w, t, v, e, o: Case(((w, t), (v, e)), o, Type.DECIMAL),
            conditions | both,
            inner,
            conditions | negations | both,
            inner,
            inner,
        ),
    )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.recursive(_LEAVES, _deeper, max_leaves=9), min_size=6, max_size=6),
    st.lists(
        st.tuples(st.none() | st.integers(-9, 9), st.none() | st.integers(-50, 80), st.integers(0, 4)),
        min_size=12,
        max_size=12,
    ),
)
def test_nested_expressions_mean_in_the_engine_what_they_mean(
    expressions: list[Expression], rows: list[tuple[int | None, int | None, int]]
) -> None:
    exact = [part for part in expressions if lower(part, NESTED).facts.kind is Kind.INTEGER]
    _agrees(exact, NESTED, rows)


def test_roots_of_roots_are_refused_before_they_take_seconds() -> None:
    columns = scope(a=grid(1, 0, 110))
    root: Expression = named(columns, "a")
    for _ in range(MAX_NESTED_ROOTS):
        root = call(Function.SQRT, root)
    assert lower(root, columns).facts.type is Type.DECIMAL
    with pytest.raises(QueryTooLarge, match="nested more than 6 deep"):
        lower(call(Function.SQRT, call(Function.ADD, root, root)), columns)
