"""What an expression means, by exact fractions and Python's own logic: written without the code under test."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil, floor, trunc
from typing import Any

from sfumato.query.expression import Call, Case, Cast, Column, Expression, Literal
from sfumato.query.functions import Function
from sfumato.query.types import Type

Row = Mapping[str, Any]


def half_away(value: Fraction) -> int:
    """Round half away from zero."""
    return floor(value + Fraction(1, 2)) if value >= 0 else ceil(value - Fraction(1, 2))


def meaning(expression: Expression, row: Row) -> Any:
    """Return the value of an expression for a row: a Fraction, a truth value or None."""
    match expression:
        case Column(_, name):
            return row[name]
        case Literal(value):
            return Fraction(value) if isinstance(value, int) and not isinstance(value, bool) else value
        case Cast(argument, type):
            return _cast(meaning(argument, row), type)
        case Case(branches, otherwise):
            for when, then in branches:
                if meaning(when, row) is True:
                    return meaning(then, row)
            return meaning(otherwise, row)
        case Call(function, arguments):
            return _call(function, [meaning(argument, row) for argument in arguments])


def _cast(value: Any, type: Type) -> Any:
    if value is None:
        return None
    if type is Type.BOOLEAN:
        return value != 0
    return Fraction(half_away(Fraction(value))) if type is Type.INTEGER else value


def _call(function: Function, values: list[Any]) -> Any:
    known = [value for value in values if value is not None]
    match function:
        case Function.AND:
            return False if False in known else None if None in values else True
        case Function.OR:
            return True if True in known else None if None in values else False
        case Function.IS_NULL:
            return values[0] is None
        case Function.DISTINCT_FROM:
            return values[0] != values[1]
        case Function.COALESCE:
            return known[0] if known else None
        case Function.LEAST:
            return min(known, default=None)
        case Function.GREATEST:
            return max(known, default=None)
        case Function.NULLIF:
            return None if values[0] == values[1] else values[0]
        case Function.IN:
            found = values[0] is not None and values[0] in values[1:]
            return True if found else None if None in values else False
    return None if None in values else _strict(function, values)


def _strict(function: Function, values: list[Any]) -> Any:
    first: Any = values[0]
    second: Any = values[1] if len(values) > 1 else None
    if function in {Function.DIVIDE, Function.QUOTIENT, Function.MODULO} and second == 0:
        return None
    places = 10 ** int(second or 0) if function in {Function.ROUND, Function.TRUNC} else 1
    table: dict[Function, Callable[[], Any]] = {
        Function.ADD: lambda: first + second,
        Function.SUBTRACT: lambda: first - second,
        Function.MULTIPLY: lambda: first * second,
        Function.DIVIDE: lambda: first / second,
        Function.QUOTIENT: lambda: Fraction(trunc(first / second)),
        Function.MODULO: lambda: first - second * trunc(first / second),
        Function.NEGATE: lambda: -first,
        Function.ABS: lambda: abs(first),
        Function.SIGN: lambda: Fraction((first > 0) - (first < 0)),
        Function.FLOOR: lambda: Fraction(floor(first)),
        Function.CEIL: lambda: Fraction(ceil(first)),
        Function.ROUND: lambda: Fraction(half_away(first * places)) / places,
        Function.TRUNC: lambda: Fraction(trunc(first * places)) / places,
        Function.POWER: lambda: first ** int(second),
        Function.WIDTH_BUCKET: lambda: _bucket(*values),
        Function.EQUAL: lambda: first == second,
        Function.DIFFERENT: lambda: first != second,
        Function.LESS: lambda: first < second,
        Function.AT_MOST: lambda: first <= second,
        Function.NOT: lambda: not first,
    }
    return table[function]()


def _bucket(value: Fraction, low: Fraction, high: Fraction, count: Fraction) -> Fraction:
    if value < low:
        return Fraction(0)
    return count + 1 if value >= high else Fraction(floor((value - low) * count / (high - low)) + 1)
