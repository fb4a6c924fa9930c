"""Values that are too fine to be summed in 64 bits are rounded first, by less than any answer shows.

Roots, quotients, logarithms and products have many places. Half a step of what they are rounded to is below a
millionth of their range, and far below what noise does to a sum of them.
"""

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from math import isqrt

from sfumato.analysis.private_query import RequestedAggregate
from sfumato.language.intervals import max_magnitude
from sfumato.language.numbers import round_to_places
from sfumato.language.scalar import Operator, Scalar
from sfumato.query.functions import PAIRS, SPREADS, Aggregation

_MAX_SUM_STEPS = 1 << 61
"""One person's part of a sum stays below it: half of what is refused, so that rounding up is no matter."""
_MIN_DISTINCT_STEPS = 1 << 20
"""Minimum number of distinct steps in the range of a rounded value; a coarser value is left unrounded."""
_UNROUNDED_OPERATORS = frozenset({Operator.COLUMN, Operator.CONSTANT, Operator.CLIPPED})
"""What the policy gave a step keeps it."""
_MAX_PLACES, _COARSEST_PLACES = 30, -60


def round_until_summable(asked: tuple[RequestedAggregate, ...], rows: int) -> tuple[RequestedAggregate, ...]:
    """Return what is asked, with arguments that one person's `rows` rows can be summed of, where rounding does that."""
    squared = {part for one in asked if one.aggregate.function in SPREADS | PAIRS for part in one.aggregate.arguments}
    plain = {part for one in asked if _is_sum(one) for part in one.aggregate.arguments}
    rounded = dict(_rounded_arguments(plain | squared, squared, rows))
    if not rounded:
        return asked
    return tuple(
        replace(one, aggregate=replace(one.aggregate, arguments=_map_arguments(one, rounded))) if _is_sum(one) else one
        for one in asked
    )


def _is_sum(one: RequestedAggregate) -> bool:
    summed = one.aggregate.function in {Aggregation.SUM, Aggregation.AVG} | SPREADS | PAIRS
    return summed and not one.aggregate.distinct


def _map_arguments(one: RequestedAggregate, rounded: dict[Scalar, Scalar]) -> tuple[Scalar, ...]:
    return tuple(rounded.get(argument, argument) for argument in one.aggregate.arguments)


def _rounded_arguments(arguments: set[Scalar], squared: set[Scalar], rows: int) -> Iterable[tuple[Scalar, Scalar]]:
    for argument in arguments:
        facts = argument.facts
        if argument.operator in _UNROUNDED_OPERATORS or not facts.bounded:
            continue
        most = _MAX_SUM_STEPS // max(rows, 1)
        most = isqrt(most) if argument in squared else most
        if max_magnitude(facts) < most or most < _MIN_DISTINCT_STEPS:
            continue
        farthest = max_magnitude(facts) * facts.step
        places = next((n for n in range(_MAX_PLACES, _COARSEST_PLACES, -1) if farthest * _ten_to(n) < most - 1), None)
        if places is not None:
            yield argument, round_to_places(Operator.ROUNDED, argument, places, facts.type)


def _ten_to(places: int) -> Fraction:
    return Fraction(10) ** places
