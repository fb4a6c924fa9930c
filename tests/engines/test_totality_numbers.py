"""No operator on numbers or truth values raises or leaves its facts, whatever the columns hold."""

import math
from fractions import Fraction
from itertools import product

import pytest
from tests.engines.engines import engine_under_law
from tests.language.evaluation import DOUBLE, TRUTH, UNBOUNDED, call, evaluate, grid, keeps_facts, named, number, scope

from sfumato.engines.duckdb.numbers import FORMS as NUMBER_FORMS
from sfumato.engines.duckdb.numbers import TYPES
from sfumato.engines.sql.logic import ChoiceForms
from sfumato.engines.sql.scalar import scalar_sql
from sfumato.errors import QueryTooLarge
from sfumato.language.facts import Facts, Kind
from sfumato.language.lower_logic import LOGIC
from sfumato.language.lower_numbers import ARITHMETIC
from sfumato.language.lowering import lower
from sfumato.language.scalar import Operator, walk
from sfumato.query.expression import Case, Cast, Expression, Literal
from sfumato.query.functions import Function
from sfumato.query.types import Type

pytestmark = pytest.mark.usefixtures("every_engine")

INTEGERS = [None, -(2**63), 2**63 - 1, -(2**62), -1, 0, 1, 2, 10**18]
DOUBLES = [None, math.nan, math.inf, -math.inf, -0.0, 0.0, 5e-324, -2.2e-308, 1.7976931348623157e308, -1e308, 0.5, -1.0]
FINE = Facts(Type.DECIMAL, Kind.INTEGER, step=Fraction(1, 10**6), low=-(2**63), high=2**63 - 1)
SEEN = scope(a=UNBOUNDED, b=FINE, c=grid(Fraction(7, 3), -(2**63), 2**63 - 1), d=DOUBLE, e=DOUBLE, p=TRUTH)
ROWS = [
    (first, second, first, double, other, truth)
    for (first, second), (double, other), truth in zip(
        list(product(INTEGERS, INTEGERS)) + list(product(INTEGERS, INTEGERS))[: 144 - 81],
        product(DOUBLES, DOUBLES),
        [None, True, False] * 48,
        strict=True,
    )
]
NUMBERS: list[Expression] = [named(SEEN, name) for name in "abcde"]
FIXED: list[Expression] = [
    number(0),
    number(-1),
    number(Fraction(1, 3)),
    number(10**38),
    number(Fraction(1, 10**30)),
    number(None),
]
SPELLED: dict[Function, list[list[Expression]]] = {
    Function.POWER: [[number(Fraction(n))] for n in (0, 1, 2, 9, -1, -9, Fraction(3, 2), Fraction(-7, 10))],
    Function.ROUND: [[], [number(18, Type.INTEGER)], [number(-18, Type.INTEGER)], [number(2, Type.INTEGER)]],
    Function.TRUNC: [[], [number(18, Type.INTEGER)], [number(-18, Type.INTEGER)], [number(2, Type.INTEGER)]],
    Function.WIDTH_BUCKET: [
        [number(low), number(high), number(count, Type.INTEGER)]
        for low, high, count in [(0, 1, 10**6), (-(10**38), 10**38, 3)]
    ],
}
ALONE = {Function.NEGATE, Function.ABS, Function.SIGN, Function.FLOOR, Function.CEIL, Function.SQRT, Function.IS_NULL}
ALONE |= {Function.EXP, Function.LN, Function.LOG2}
TRUTHS = {Function.AND, Function.OR, Function.NOT}


ABOVE_NOISE = {Function.DP_LOW, Function.DP_HIGH, Function.DP_MARGIN}
"""Error bars of noisy numbers: no engine computes them."""


def uses(function: Function) -> list[Expression]:
    if function in TRUTHS:
        p = named(SEEN, "p")
        parts: list[list[Expression]] = (
            [[p]] if function is Function.NOT else [[p, Literal(None, Type.BOOLEAN)], [p, p]]
        )
        return [call(function, *part, type=Type.BOOLEAN) for part in parts]
    if function in SPELLED:
        return [call(function, x, *rest) for x in NUMBERS for rest in SPELLED[function]]
    if function in ALONE:
        return [call(function, x) for x in [*NUMBERS, *FIXED]]
    pairs = [*product(NUMBERS, NUMBERS), *product(NUMBERS, FIXED), *product(FIXED, NUMBERS)]
    return [call(function, *pair) for pair in pairs]


def _never_raises(expressions: list[Expression]) -> None:
    scalars = [lower(expression, SEEN) for expression in expressions]
    for expression, scalar, found in zip(expressions, scalars, evaluate(scalars, SEEN, ROWS), strict=True):
        for row, value in zip(ROWS, found, strict=True):
            assert keeps_facts(value, scalar.facts), (str(expression), row, value)


@pytest.mark.parametrize("function", sorted({*ARITHMETIC, *LOGIC} - ABOVE_NOISE), ids=str)
def test_no_operator_raises_or_leaves_its_facts(function: Function) -> None:
    _never_raises(uses(function))


def test_no_cast_or_choice_raises_or_leaves_its_facts() -> None:
    a, b, c, d, e = NUMBERS
    p = named(SEEN, "p")
    less = call(Function.LESS, a, number(5), type=Type.BOOLEAN)
    _never_raises(
        [
            *(Cast(x, Type.INTEGER) for x in (b, c, d, e, p)),
            *(Cast(x, Type.DECIMAL) for x in NUMBERS),
            Cast(a, Type.BOOLEAN),
            *(Case(((p, x), (less, a)), y, Type.DECIMAL) for x, y in product(NUMBERS, [*NUMBERS, *FIXED])),
            Cast(call(Function.MULTIPLY, d, e), Type.INTEGER),
        ]
    )


def test_every_form_was_tried() -> None:
    everything = [use for function in {*ARITHMETIC, *LOGIC} - ABOVE_NOISE for use in uses(function)]
    a, p = named(SEEN, "a"), named(SEEN, "p")
    everything += [Case(((p, a),), a, Type.INTEGER), Cast(p, Type.INTEGER), Cast(named(SEEN, "d"), Type.INTEGER)]
    tried = {part.operator for use in everything for part in walk(lower(use, SEEN))}
    choices = ChoiceForms(TYPES, lambda first, second, leaf: first)
    assert {*NUMBER_FORMS, *choices.forms()} - {Operator.WITHIN} <= tried  # which is tried with dates


def test_an_expression_that_would_be_too_long_is_refused() -> None:
    expression: Expression = named(SEEN, "d")
    for _ in range(14):
        expression = call(Function.ADD, expression, expression)
    with pytest.raises(QueryTooLarge):
        scalar_sql(lower(expression, SEEN), {("t", "d"): "t.d"}, engine_under_law().dialect)
