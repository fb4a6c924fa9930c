"""The other aggregates of the same values in a group: found once per group, so that n columns cost n look-ups."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction

from sfumato.analysis.private_query import RequestedAggregate
from sfumato.language.lower_logic import all_true, present
from sfumato.language.scalar import Operator, Scalar
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import LEVELLED, Aggregation

EXTREMES = {Aggregation.MIN: Fraction(0), Aggregation.MAX: Fraction(1)}
"""The quantile that each of these is."""
PAIR_COLUMNS = 2

_Values = tuple[tuple[Scalar, ...], bool, Scalar | None]
"""The arguments, whether each value counts once, and the condition."""
_RankedValue = tuple[bool, tuple[Scalar, ...], Scalar | None]
"""Whether the levels have no ends, the arguments and the condition."""


class Others:
    """The aggregates of one group, by the values that they are computed from."""

    def __init__(self, asked: Iterable[RequestedAggregate]) -> None:
        self._functions: dict[_Values, set[Aggregation]] = {}
        self._levels: dict[_RankedValue, set[Fraction]] = {}
        for requested in asked:
            for part in parts_of(requested):
                self._functions.setdefault(_values(part), set()).add(part.aggregate.function)
            if (level := level_of(requested)) is not None:
                self._levels.setdefault(_ranked_values(requested), set()).add(level)
        self._places = {values: _placed(levels) for values, levels in self._levels.items()}
        self._quantities: dict[_RankedValue, Quantity] = {}

    def functions(self, asked: RequestedAggregate) -> set[Aggregation]:
        """Return every function that is asked of the values of `asked`; of pairs, of each side."""
        return self._functions.get(_values(asked), set())

    def levels(self, asked: RequestedAggregate) -> dict[Fraction, int]:
        """Return the levels of all quantiles that are measured together with `asked`, in order, with their places."""
        return self._places[_ranked_values(asked)]

    def quantiles(self, asked: RequestedAggregate, make: Callable[[tuple[Fraction, ...]], Quantity]) -> Quantity:
        """Return the one quantity of all these levels, which `make` returns for the first of them."""
        values = _ranked_values(asked)
        if values not in self._quantities:
            self._quantities[values] = make(tuple(self._places[values]))
        return self._quantities[values]


def level_of(asked: RequestedAggregate) -> Fraction | None:
    """Return the level of a quantile, a minimum or a maximum; None for anything else."""
    function = asked.aggregate.function
    if function in LEVELLED:
        return asked.aggregate.parameters[0]
    return EXTREMES.get(function)


def parts_of(asked: RequestedAggregate) -> tuple[RequestedAggregate, ...]:
    """Return what is asked of each argument alone: of pairs, rows where the other is NULL do not count."""
    if len(asked.aggregate.arguments) != PAIR_COLUMNS:
        return (asked,)
    y, x = asked.aggregate.arguments
    return _beside(asked, y, x), _beside(asked, x, y)


def conjuncts_of(where: Scalar | None) -> tuple[Scalar, ...]:
    """Return the conditions that a condition consists of."""
    if where is None:
        return ()
    return where.arguments if where.operator is Operator.AND else (where,)


def all_of(conditions: tuple[Scalar, ...]) -> Scalar | None:
    """Return the condition that all hold; None without any."""
    return all_true(conditions) if len(conditions) > 1 else next(iter(conditions), None)


def _beside(asked: RequestedAggregate, argument: Scalar, other: Scalar) -> RequestedAggregate:
    where = asked.aggregate.where
    if other.facts.nullable and other != argument:
        where = all_of((*conjuncts_of(where), present(other)))
    return replace(asked, aggregate=Aggregate(asked.aggregate.function, (argument,), where=where))


def _placed(levels: set[Fraction]) -> dict[Fraction, int]:
    return {level: index for index, level in enumerate(sorted(levels))}


def _values(asked: RequestedAggregate) -> _Values:
    return asked.aggregate.arguments, asked.aggregate.distinct, asked.aggregate.where


def _ranked_values(asked: RequestedAggregate) -> _RankedValue:
    """Return what quantiles are measured together by: the same values, all with ends or all without."""
    alone = asked.aggregate.function is Aggregation.APPROX_QUANTILE
    return alone, asked.aggregate.arguments, asked.aggregate.where
