"""Comparisons, conditions and choices as total scalars: three-valued logic, exact on every grid."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor

from sfumato.language import intervals
from sfumato.language.facts import Facts, Kind
from sfumato.language.intervals import RangeLaw, follow
from sfumato.language.numbers import as_constant, constant, is_null, on_one_grid, value_of, with_type
from sfumato.language.scalar import Operator, Scalar, literal
from sfumato.query.expression import Call
from sfumato.query.functions import Function
from sfumato.query.types import Type

_ORDER_OPERATORS = {Operator.LESS, Operator.AT_MOST}


def compare_scalars(operator: Operator, first: Scalar, second: Scalar) -> Scalar:
    """Return a comparison. A constant is moved to the other side's grid, where it divides the values as before."""
    pair: Sequence[Scalar] = (first, second)
    if value_of(first) is None and value_of(second) is not None and first.facts.kind is Kind.INTEGER:
        pair = (first, _bound(operator, first, value_of(second), ceil if operator is Operator.LESS else floor))
    elif value_of(second) is None and value_of(first) is not None and second.facts.kind is Kind.INTEGER:
        pair = (_bound(operator, second, value_of(first), floor if operator is Operator.LESS else ceil), second)
    else:
        pair = on_one_grid(pair)
    never = operator is Operator.DISTINCT_FROM
    return _truth_scalar(operator, pair, nullable=not never and _any_nullable(pair))


def _bound(operator: Operator, other: Scalar, value: Fraction | None, rounding: Callable[[Fraction], int]) -> Scalar:
    """Return the integer that divides the other side's values as `value` does, near enough to be kept."""
    facts = other.facts
    steps = (value or Fraction(0)) / facts.step
    if operator not in _ORDER_OPERATORS and steps.denominator != 1:
        return _at(facts.high + 1, facts)  # no value is equal to what is not on the grid
    return _at(min(max(rounding(steps), facts.low - 1), facts.high + 1), facts)


def _at(integer: int, facts: Facts) -> Scalar:
    point = replace(facts, nullable=False, low=integer, high=integer, declared_low=True, declared_high=True)
    return literal(integer, point)


def _truth_scalar(operator: Operator, arguments: Sequence[Scalar], *, nullable: bool) -> Scalar:
    return Scalar(operator, tuple(arguments), Facts(Type.BOOLEAN, Kind.BOOLEAN, nullable=nullable))


def _any_nullable(scalars: Sequence[Scalar]) -> bool:
    return any(scalar.facts.nullable for scalar in scalars)


def among(first: Scalar, items: Sequence[Scalar]) -> Scalar:
    """Return whether the first is one of the items."""
    if first.facts.kind is Kind.INTEGER and all(value_of(item) is not None or is_null(item) for item in items):
        placed = [item if is_null(item) else _bound(Operator.IN, first, value_of(item), floor) for item in items]
        everything = (first, *dict.fromkeys(placed))
    else:
        everything = on_one_grid((first, *items))
    return _truth_scalar(Operator.IN, everything, nullable=_any_nullable(everything))


def present(scalar: Scalar) -> Scalar:
    """Return whether a scalar is not NULL."""
    return _truth_scalar(Operator.NOT, (_truth_scalar(Operator.IS_NULL, (scalar,), nullable=False),), nullable=False)


def all_true(conditions: Sequence[Scalar]) -> Scalar:
    """Return whether all of these conditions are true."""
    return _truth_scalar(Operator.AND, conditions, nullable=_any_nullable(conditions))


def encode_literal(cell: int | str | bool, facts: Facts) -> Scalar:
    """Return a value as an engine keeps it, of the kind and on the grid of these facts."""
    if facts.kind is Kind.INTEGER:
        return _at(int(cell), facts)
    return literal(cell, replace(facts, nullable=False))


def case_scalar(branches: Sequence[tuple[Scalar, Scalar]], otherwise: Scalar, type: Type) -> Scalar:
    """Return a CASE."""
    values = on_one_grid((*(then for _, then in branches), otherwise))
    arguments = [part for (when, _), then in zip(branches, values[:-1], strict=True) for part in (when, then)]
    facts = _one_of(values, type, intervals.union, nullable=_any_nullable(values))
    return as_constant(Scalar(Operator.CASE, (*arguments, values[-1]), facts))


def _one_of(values: Sequence[Scalar], type: Type, law: RangeLaw, *, nullable: bool) -> Facts:
    """Return the facts of a value that is always one of these, which lie on one grid. NULL reaches nowhere."""
    telling = [value.facts for value in values if not is_null(value)] or [values[0].facts]
    lengths = [facts.max_chars for facts in telling]
    known = [length for length in lengths if length is not None]
    plain = Facts(
        type,
        telling[0].kind,
        nullable=nullable,
        step=telling[0].step,
        max_chars=max(known) if len(known) == len(lengths) else None,
    )
    if plain.kind is not Kind.INTEGER:
        return plain
    return follow(plain, law, telling) or plain  # a union of what 128 bits hold is held by them


def _coalesce(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    present = [argument for argument in arguments if not is_null(argument)]
    certain = next((i for i, argument in enumerate(present) if not argument.facts.nullable), len(present))
    needed = present[: certain + 1]
    if not needed:
        return constant(None, call.type)
    if len(needed) == 1:
        return with_type(needed[0], call.type)
    values = on_one_grid(needed)
    nullable = all(value.facts.nullable for value in values)
    return as_constant(
        Scalar(Operator.COALESCE, values, _one_of(values, call.type, intervals.union, nullable=nullable))
    )


def _extreme(
    operator: Operator, law: Callable[[Sequence[bool]], RangeLaw]
) -> Callable[[Call, tuple[Scalar, ...]], Scalar]:
    def lower(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
        present = [argument for argument in arguments if not is_null(argument)]
        if len(present) <= 1:
            return with_type(present[0], call.type) if present else constant(None, call.type)
        values = on_one_grid(present)
        is_present = [not value.facts.nullable for value in values]
        return as_constant(
            Scalar(operator, values, _one_of(values, call.type, law(is_present), nullable=not any(is_present)))
        )

    return lower


def _nullif(call: Call, arguments: tuple[Scalar, ...]) -> Scalar:
    first, second = arguments
    if is_null(first) or is_null(second):
        return first
    value = value_of(second)
    if value is not None and first.facts.kind is Kind.INTEGER:
        second = _bound(Operator.EQUAL, first, value, floor)
    else:
        first, second = on_one_grid((first, second))
    return Scalar(Operator.NULLIF, (first, second), replace(first.facts, type=call.type, nullable=True))


def _comparison(operator: Operator) -> Callable[[Call, tuple[Scalar, ...]], Scalar]:
    return lambda call, arguments: compare_scalars(operator, arguments[0], arguments[1])


def _connective(operator: Operator) -> Callable[[Call, tuple[Scalar, ...]], Scalar]:
    return lambda call, arguments: _truth_scalar(operator, arguments, nullable=_any_nullable(arguments))


LOGIC: dict[Function, Callable[[Call, tuple[Scalar, ...]], Scalar]] = {
    Function.EQUAL: _comparison(Operator.EQUAL),
    Function.DIFFERENT: _comparison(Operator.DIFFERENT),
    Function.LESS: _comparison(Operator.LESS),
    Function.AT_MOST: _comparison(Operator.AT_MOST),
    Function.DISTINCT_FROM: _comparison(Operator.DISTINCT_FROM),
    Function.IN: lambda call, arguments: among(arguments[0], arguments[1:]),
    Function.IS_NULL: lambda call, arguments: _truth_scalar(Operator.IS_NULL, arguments, nullable=False),
    Function.AND: _connective(Operator.AND),
    Function.OR: _connective(Operator.OR),
    Function.NOT: _connective(Operator.NOT),
    Function.COALESCE: _coalesce,
    Function.NULLIF: _nullif,
    Function.LEAST: _extreme(Operator.LEAST, intervals.least_law),
    Function.GREATEST: _extreme(Operator.GREATEST, intervals.greatest_law),
}
