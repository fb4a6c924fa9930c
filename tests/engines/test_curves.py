"""Logarithms and powers of integers are the integers of `language.curves`, on every engine."""

from fractions import Fraction
from typing import Any

import pytest
from tests.language.evaluation import call, evaluate, grid, named, number, scope
from tests.language.test_curves import _some, _value

from sfumato.language.facts import STORED_LIMIT, Facts, Kind
from sfumato.language.lowering import lower
from sfumato.language.scalar import ListedResults, Operator, Scalar
from sfumato.query.expression import Expression
from sfumato.query.functions import Function
from sfumato.query.types import Type

pytestmark = pytest.mark.usefixtures("every_engine")

CENTS = grid(Fraction(1, 100), 0, 10**7)
TIGHT = grid(Fraction(1, 1000), -20_000, 20_000)
FEW = grid(1, -3, 200)
WIDE = Facts(Type.DECIMAL, Kind.INTEGER, step=Fraction(1, 10**9), low=-STORED_LIMIT, high=STORED_LIMIT - 1)
SEEN = scope(cents=CENTS, tight=TIGHT, few=FEW, wide=WIDE)


def _expressions(name: str) -> list[Expression]:
    x = named(SEEN, name)
    found: list[Expression] = [
        call(Function.LN, x),
        call(Function.LOG, x),
        call(Function.LOG, number(3), x),
        call(Function.LOG2, x),
    ]
    if name != "wide":
        found += [call(Function.POWER, x, number(Fraction(exponent))) for exponent in ("0.7", "-1.3", "1.2")]
    if name in {"tight", "few"}:
        found += [call(Function.POWER, number(Fraction("1.01")), x), call(Function.POWER, number(Fraction("0.9")), x)]
    return found + ([call(Function.EXP, x)] if name == "tight" else [])


def _expected(scalar: Scalar, value: int | None) -> int | None:
    if value is None:
        return None
    if scalar.operator is Operator.LOOKUP:
        assert isinstance(scalar.constant, ListedResults)
        at = (-value if scalar.arguments[0].operator is Operator.NEGATE else value) - scalar.constant.first
        return scalar.constant.values[at] if at >= 0 else None
    of_log = scalar.arguments[0] if scalar.operator is Operator.EXP and scalar.arguments[0].arguments else scalar
    while of_log.operator is Operator.NEGATE:
        of_log = of_log.arguments[0]
    if of_log.operator is Operator.LOG and (value < 0 or (value == 0 and getattr(of_log.constant, "zero", 0) is None)):
        return None
    return min(max(_value(scalar, value), scalar.facts.low), scalar.facts.high)


@pytest.mark.parametrize("name", ["cents", "tight", "few", "wide"])
def test_every_engine_computes_the_same_integers(name: str) -> None:
    facts = SEEN["t", name].facts
    values: list[Any] = [None, *(m for m in (facts.low, -1, 0) if m >= facts.low), *_some(1, facts.high)]
    values += range(max(facts.low, -40), min(40, facts.high))
    scalars = [lower(expression, SEEN) for expression in _expressions(name)]
    rows = [tuple(value if column == name else None for _, column in SEEN) for value in values]
    for expression, scalar, found in zip(_expressions(name), scalars, evaluate(scalars, SEEN, rows), strict=True):
        assert scalar.facts.kind is Kind.INTEGER, expression
        assert found == [_expected(scalar, value) for value in values], (expression, scalar.constant)
