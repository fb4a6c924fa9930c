"""Ranges of values in the rows where a condition holds: `x BETWEEN 0 AND 10` bounds x.

A narrowed value is clipped, not trusted: an engine may compute it also for rows that the condition drops.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sfumato.language.facts import Kind
from sfumato.language.numbers import as_constant, clip_scalar
from sfumato.language.outside import bare
from sfumato.language.scalar import Constant, Operator, Scalar

ScalarShape = tuple[Operator, tuple[Scalar, ...], Constant]


@dataclass(frozen=True, slots=True)
class Restriction:
    """Restriction of a scalar: bounds of its integers where it is not NULL, and whether it never is (`present`)."""

    low: int | None = None
    high: int | None = None
    present: bool = False


Restrictions = Mapping[ScalarShape, Restriction]

_MISSING = {
    Operator.LESS: 2,
    Operator.AT_MOST: 2,
    Operator.EQUAL: 2,
    Operator.DIFFERENT: 2,
    Operator.IN: 1,
}
"""Comparisons, and how many of their first arguments are not NULL where they are true or false."""


def shape_of(scalar: Scalar) -> ScalarShape:
    """Return the computation without its type: two scalars of one shape have the same integers."""
    plain = bare(scalar)  # clipping keeps the order: what holds of a value outside its bounds holds of the clipped one
    return plain.operator, plain.arguments, plain.constant


def both(first: Restrictions, second: Restrictions) -> Restrictions:
    """Return the restrictions where both hold."""
    merged = dict(first)
    for key, limit in second.items():
        known = merged.get(key, Restriction())
        lows = [low for low in (known.low, limit.low) if low is not None]
        highs = [high for high in (known.high, limit.high) if high is not None]
        merged[key] = Restriction(max(lows, default=None), min(highs, default=None), known.present or limit.present)
    return merged


def limits_if_true(condition: Scalar) -> Restrictions:
    """Return the restrictions in rows for which the condition is true."""
    return both(_unless_false(condition), _required_not_null(condition))


def limits_if_not_true(condition: Scalar) -> Restrictions:
    """Return the restrictions in rows for which the condition is false or NULL."""
    match condition.operator, condition.arguments:
        case (Operator.OR, parts):
            restrictions: Restrictions = {}
            for part in parts:
                restrictions = both(restrictions, limits_if_not_true(part))
            return restrictions
        case (Operator.NOT, (part,)):
            return _unless_false(part)
        case (Operator.LESS, (first, second)):
            return _order_restrictions(second, first, apart=0)
        case (Operator.AT_MOST, (first, second)):
            return _order_restrictions(second, first, apart=1)
        case (Operator.DIFFERENT, (first, second)):
            return _among(first, (second,))
        case _:
            return {}


def _unless_false(condition: Scalar) -> Restrictions:
    """Return the restrictions where the condition is true or NULL: x compared with a number is NULL only where x is."""
    match condition.operator, condition.arguments:
        case (Operator.AND, parts):
            restrictions: Restrictions = {}
            for part in parts:
                restrictions = both(restrictions, _unless_false(part))
            return restrictions
        case (Operator.NOT, (part,)):
            return limits_if_not_true(part)
        case (Operator.LESS, (first, second)):
            return _order_restrictions(first, second, apart=1)
        case (Operator.AT_MOST, (first, second)):
            return _order_restrictions(first, second, apart=0)
        case (Operator.EQUAL | Operator.IN, (first, *others)):
            return _among(first, tuple(others))
        case _:
            return {}


def _order_restrictions(first: Scalar, second: Scalar, *, apart: int) -> Restrictions:
    """Return the restrictions of `first + apart <= second`, on one grid."""
    bottom, top = _integer_constant(first), _integer_constant(second)
    if top is not None and bottom is None:
        return {shape_of(first): Restriction(high=top - apart)}
    if bottom is not None and top is None:
        return {shape_of(second): Restriction(low=bottom + apart)}
    return {}


def _among(subject: Scalar, others: tuple[Scalar, ...]) -> Restrictions:
    if len(others) == 1 and _integer_constant(subject) is not None:
        subject, others = others[0], (subject,)
    integers = [_integer_constant(other) for other in others]
    known = [integer for integer in integers if integer is not None]
    if len(known) < len(integers) or _integer_constant(subject) is not None:
        return {}
    return {shape_of(subject): Restriction(low=min(known), high=max(known))}


def _integer_constant(scalar: Scalar) -> int | None:
    constant = scalar.operator is Operator.CONSTANT and scalar.facts.kind is Kind.INTEGER
    return scalar.facts.low if constant and scalar.constant is not None else None


def _required_not_null(condition: Scalar) -> Restrictions:
    """Return the scalars that are not NULL where the condition is true."""
    match condition.operator, condition.arguments:
        case (Operator.AND, parts):
            return {key: limit for part in parts for key, limit in _required_not_null(part).items()}
        case (Operator.NOT, (Scalar(Operator.IS_NULL, (argument,)),)):
            return _presence_restrictions((argument,))
        case (Operator.NOT, (Scalar(operator, arguments),)) if operator in _MISSING:
            return _presence_restrictions(arguments[: _MISSING[operator]])
        case (operator, arguments) if operator in _MISSING:
            return _presence_restrictions(arguments[: _MISSING[operator]])
        case _:
            return {}


def _presence_restrictions(scalars: tuple[Scalar, ...]) -> Restrictions:
    return {shape_of(scalar): Restriction(present=True) for scalar in scalars}


def within(scalar: Scalar, limits: Restrictions) -> Scalar:
    """Return the scalar as it is where the limits hold."""
    limit = limits.get(shape_of(scalar))
    if limit is None or scalar.operator is Operator.CONSTANT:
        return scalar
    facts = scalar.facts
    if limit.present:
        scalar = replace(scalar, facts=replace(facts, nullable=False))
    if facts.kind is not Kind.INTEGER or limit.low is limit.high is None:
        return as_constant(scalar)
    # where the limits contradict each other there is no row, and any point will do
    low = None if limit.low is None else min(max(limit.low, facts.low), facts.high)
    high = None if limit.high is None else max(min(limit.high, facts.high), facts.low if low is None else low)
    return clip_scalar(scalar, low, high)
