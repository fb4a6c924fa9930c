"""Values that are too fine to be summed in 64 bits are rounded first, by less than any answer shows.

Roots, quotients, logarithms and products have many places. Half a step of what they are rounded to is below a
millionth of their range, and far below what noise does to a sum of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from sfumato.analysis.private_query import RequestedAggregate
from sfumato.language.intervals import max_magnitude
from sfumato.language.numbers import round_to_places
from sfumato.language.scalar import Operator, Scalar
from sfumato.query.functions import power_of

_MAX_SUM_STEPS = 1 << 61
"""One person's part of a sum stays below it: half of what is refused, so that rounding up is no matter."""
_MIN_DISTINCT_STEPS = 1 << 20
"""Minimum number of distinct steps in the range of a rounded value; a coarser value is left unrounded."""
_UNROUNDED_OPERATORS = frozenset({Operator.COLUMN, Operator.CONSTANT, Operator.CLIPPED})
"""Operators whose declared step is kept."""
_MAX_PLACES, _MIN_PLACES = 30, -60


def round_until_summable(aggregates: tuple[RequestedAggregate, ...], rows: int) -> tuple[RequestedAggregate, ...]:
    """Return the aggregates with arguments rounded so that one person's `rows` rows can be summed."""
    powers: dict[Scalar, int] = {}
    for requested in aggregates:
        for part in requested.aggregate.arguments if power_of(requested.aggregate.function) else ():
            powers[part] = max(powers.get(part, 1), power_of(requested.aggregate.function))
    rounded = dict(_rounded_arguments(powers, rows))
    if not rounded:
        return aggregates
    return tuple(
        replace(aggregate, aggregate=replace(aggregate.aggregate, arguments=_map_arguments(aggregate, rounded)))
        if _is_sum(aggregate)
        else aggregate
        for aggregate in aggregates
    )


def _is_sum(aggregate: RequestedAggregate) -> bool:
    return power_of(aggregate.aggregate.function) > 0 and not aggregate.aggregate.distinct


def _map_arguments(aggregate: RequestedAggregate, rounded: dict[Scalar, Scalar]) -> tuple[Scalar, ...]:
    return tuple(rounded.get(argument, argument) for argument in aggregate.aggregate.arguments)


def _rounded_arguments(powers: Mapping[Scalar, int], rows: int) -> Iterable[tuple[Scalar, Scalar]]:
    """Give each argument that has to be rounded, by the highest power that is summed of it, and what it becomes."""
    for argument, power in powers.items():
        facts = argument.facts
        if argument.operator in _UNROUNDED_OPERATORS or not facts.bounded:
            continue
        most = _root(_MAX_SUM_STEPS // max(rows, 1), power)
        if max_magnitude(facts) < most or most < _MIN_DISTINCT_STEPS:
            continue
        farthest = max_magnitude(facts) * facts.step
        places = next((n for n in range(_MAX_PLACES, _MIN_PLACES, -1) if farthest * _ten_to(n) < most - 1), None)
        if places is not None:
            yield argument, round_to_places(Operator.ROUNDED, argument, places, facts.type)


def _root(number: int, power: int) -> int:
    """Return the largest integer whose power is at most the number.

    >>> _root(80, 4), _root(81, 4)
    (2, 3)
    """
    low, high = 0, 1 << (number.bit_length() // power + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**power <= number else (low, middle)
    return low


def _ten_to(places: int) -> Fraction:
    return Fraction(10) ** places
