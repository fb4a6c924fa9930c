"""Arithmetic, and the casts between numbers and truth values, as total scalars."""

from collections.abc import Callable
from fractions import Fraction
from math import ceil

from sfumato.language.facts import Facts, Kind
from sfumato.language.interval_ends import IntervalSide, end_scalar
from sfumato.language.lower_curves import CURVES
from sfumato.language.lower_logic import case_scalar, compare_scalars
from sfumato.language.numbers import (
    absolute,
    add_scalars,
    clip_scalar,
    constant,
    divide_scalars,
    modulo,
    multiplied,
    negate_scalar,
    quotient,
    round_to_places,
    sign_scalar,
    subtract_scalars,
    to_finer_grid,
    to_integer,
    value_of,
    with_type,
)
from sfumato.language.scalar import Operator, Scalar
from sfumato.query.expression import Call, Cast
from sfumato.query.functions import Function
from sfumato.query.position import SourceSpan
from sfumato.query.types import NUMBERS, Type

Lowering = Callable[[Call, tuple[Scalar, ...]], Scalar]


def lower_number_cast(cast: Cast, argument: Scalar) -> Scalar | None:
    """Return a cast between numbers and truth values; None for any other."""
    match argument.facts.type, cast.type:
        case (Type.INTEGER, Type.DECIMAL):
            return with_type(argument, Type.DECIMAL)
        case (Type.DECIMAL, Type.INTEGER):
            return to_integer(argument)
        case (Type.BOOLEAN, Type.INTEGER):
            if argument.constant is not None and argument.operator is Operator.CONSTANT:
                return constant(int(argument.constant is True), Type.INTEGER)
            facts = Facts(Type.INTEGER, Kind.INTEGER, nullable=argument.facts.nullable, low=0, high=1)
            return Scalar(Operator.FLAG, (argument,), facts)
        case (Type.INTEGER, Type.BOOLEAN):
            return compare_scalars(Operator.DIFFERENT, argument, constant(0, Type.INTEGER))
        case (source, target) if source is target and source in NUMBERS:
            return argument
        case _:
            return None


def _lower_end(side: IntervalSide) -> Lowering:
    return lambda _, arguments: end_scalar(arguments[0], side)


def _lower_unary(build: Callable[[Scalar, Type], Scalar]) -> Lowering:
    return lambda call, arguments: build(arguments[0], call.type)


def _two(build: Callable[[Scalar, Scalar, Type], Scalar]) -> Lowering:
    return lambda call, arguments: build(arguments[0], arguments[1], call.type)


def _lower_rounding(operator: Operator) -> Lowering:
    def lower(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
        places = _spelled_integer(arguments[1]) if len(arguments) > 1 else 0
        return round_to_places(operator, arguments[0], places, call.type)

    return lower


def _spelled_integer(scalar: Scalar) -> int:
    """Return an integer that the parser has seen to be spelled out."""
    return int(value_of(scalar) or 0)


def _width_bucket(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    low, high, count = value_of(arguments[1]), value_of(arguments[2]), _spelled_integer(arguments[3])
    if low is None or high is None or low >= high:
        raise SourceSpan(call.at).unsupported(
            "the bounds of WIDTH_BUCKET are not two numbers, the smaller first.",
            "All buckets must have the same width in every row.",
            "Write both bounds as numbers, such as WIDTH_BUCKET(age, 0, 100, 10).",
        )
    if arguments[0].facts.kind is Kind.INTEGER:
        return _bucket_of_integer(arguments[0], low, high, count)
    return _bucket_of_double(arguments[0], low, high, count)


def _bucket_of_integer(scalar: Scalar, low: Fraction, high: Fraction, count: int) -> Scalar:
    facts = scalar.facts
    # what lies below the first bucket or above the last moves to the next point of the grid outside of them
    outside = [min(max(side, facts.low - 1), facts.high + 1) for side in _next_outside(low, high, facts.step)]
    near = clip_scalar(scalar, *outside)
    width = constant((high - low) / count, Type.DECIMAL)
    past = divide_scalars(subtract_scalars(near, constant(low, Type.DECIMAL), Type.DECIMAL), width, Type.DECIMAL)
    if past.facts.kind is not Kind.INTEGER:
        return _bucket_of_double(scalar, low, high, count)
    whole_widths = to_finer_grid(to_integer(round_to_places(Operator.FLOORED, past, 0, Type.DECIMAL)), Fraction(1))
    if whole_widths.facts.kind is not Kind.INTEGER:
        return _bucket_of_double(scalar, low, high, count)
    index = clip_scalar(whole_widths, -1, count)
    return add_scalars(index, constant(1, Type.INTEGER), Type.INTEGER)


def _next_outside(low: Fraction, high: Fraction, step: Fraction) -> tuple[int, int]:
    return ceil(low / step) - 1, ceil(high / step)


def _bucket_of_double(scalar: Scalar, low: Fraction, high: Fraction, count: int) -> Scalar:
    bottom, top = constant(low, Type.DECIMAL), constant(high, Type.DECIMAL)
    width = constant((high - low) / count, Type.DECIMAL)
    past = divide_scalars(subtract_scalars(scalar, bottom, Type.DECIMAL), width, Type.DECIMAL)
    index = clip_scalar(to_integer(round_to_places(Operator.FLOORED, past, 0, Type.DECIMAL)), 0, count - 1)
    inside = add_scalars(index, constant(1, Type.INTEGER), Type.INTEGER)
    branches = [
        (compare_scalars(Operator.LESS, scalar, bottom), constant(0, Type.INTEGER)),
        (compare_scalars(Operator.LESS, scalar, top), inside),
        (compare_scalars(Operator.AT_MOST, top, scalar), constant(count + 1, Type.INTEGER)),
    ]
    return case_scalar(branches, constant(None, Type.INTEGER), Type.INTEGER)


ARITHMETIC: dict[Function, Lowering] = {
    Function.ADD: _two(add_scalars),
    Function.SUBTRACT: _two(subtract_scalars),
    Function.MULTIPLY: _two(multiplied),
    Function.DIVIDE: _two(divide_scalars),
    Function.QUOTIENT: _two(quotient),
    Function.MODULO: _two(modulo),
    Function.NEGATE: _lower_unary(negate_scalar),
    **{Function(side.value): _lower_end(side) for side in IntervalSide},
    Function.ABS: _lower_unary(absolute),
    Function.SIGN: _lower_unary(sign_scalar),
    Function.FLOOR: _lower_rounding(Operator.FLOORED),
    Function.CEIL: _lower_rounding(Operator.CEILED),
    Function.ROUND: _lower_rounding(Operator.ROUNDED),
    Function.TRUNC: _lower_rounding(Operator.TRUNCATED),
    **CURVES,
    Function.WIDTH_BUCKET: _width_bucket,
}
