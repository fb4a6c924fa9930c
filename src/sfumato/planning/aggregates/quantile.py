"""MEDIAN, QUANTILE, MIN, MAX and MODE: what is chosen among the values that a column can have.

All quantiles of one column under one condition are one measurement. A person's rows share a weight of 1, so that
no person decides a median by having many rows. Proof: proofs/quantiles.md
"""

from dataclasses import dataclass, replace
from fractions import Fraction

from sfumato.analysis.private_query import Group, RequestedAggregate
from sfumato.errors import UnsupportedSql
from sfumato.language.facts import Facts, Kind
from sfumato.language.scalar import Operator, Scalar
from sfumato.mechanisms.spacing import Spacing, Stretch
from sfumato.planning.aggregates.centred_sums import bounded
from sfumato.planning.aggregates.others import Others, level_of
from sfumato.planning.aggregates.recipe import Quantity, Recipe
from sfumato.planning.aggregates.wording import as_written, own_name
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation
from sfumato.query.types import NUMBERS, Type

_MAX_VALUES = 1 << 16


@dataclass(frozen=True, slots=True)
class QuantileColumn:
    """The `place`-th of the levels that were measured together, in `step`s; `between` buckets their middle is told."""

    name: str
    ranks: str
    spacing: Spacing
    place: int
    level: Fraction
    step: Fraction
    between: bool
    ends: bool

    @property
    def measured(self) -> tuple[str, ...]:
        """The measurements that it is computed from."""
        return (self.ranks,)

    @property
    def plain(self) -> None:
        """No measurement is it."""
        return None


@dataclass(frozen=True, slots=True)
class ModeColumn:
    """The value that most people have."""

    name: str
    chosen: str
    spacing: Spacing
    step: Fraction

    @property
    def measured(self) -> tuple[str, ...]:
        """The measurements that it is computed from."""
        return (self.chosen,)

    @property
    def plain(self) -> None:
        """No measurement is it."""
        return None


def ranked(asked: RequestedAggregate, group: Group, others: Others) -> Recipe[QuantileColumn]:
    """One measurement of all levels that are asked of the same values."""
    argument = _ordered(asked, group)
    spacing, levels = _spacing(argument), others.levels(asked)
    alone = asked.aggregate.function is Aggregation.APPROX_QUANTILE
    function = Aggregation.QUANTILES_ALONE if alone else Aggregation.QUANTILES

    def measured(parameters: tuple[Fraction, ...]) -> Quantity:
        return Aggregate(function, (bucket_of(argument, spacing),), where=asked.aggregate.where, parameters=parameters)

    quantity = others.quantiles(asked, measured)
    level = level_of(asked) or Fraction(0)
    between = asked.aggregate.function is Aggregation.QUANTILE_CONT and argument.facts.type in NUMBERS

    def make(ranks: str) -> QuantileColumn:
        return QuantileColumn(asked.name, ranks, spacing, levels[level], level, argument.facts.step, between, not alone)

    return Recipe(((quantity, Fraction(1)),), make)


def commonest(asked: RequestedAggregate, group: Group, _others: Others) -> Recipe[ModeColumn]:
    """One choice among all values."""
    (argument,) = asked.aggregate.arguments
    if argument.facts.kind is not Kind.INTEGER or not argument.facts.bounded or argument.facts.span > _MAX_VALUES:
        name = own_name(argument, group)
        if argument.facts.kind in {Kind.TEXT, Kind.BOOLEAN} and not asked.aggregate.distinct:
            raise UnsupportedSql(
                f"{as_written(asked)} cannot be combined with the other columns.",
                "The most frequent text needs a separate count of all texts.",
                "Ask for MODE with the GROUP BY keys only, and for the other columns in another query.",
            )
        raise UnsupportedSql(
            f"{as_written(asked)} is not answered.",
            f"A mode is chosen among all possible values, and they have to be at most {_MAX_VALUES:,} numbers.",
            f"Count each value instead: GROUP BY {name} ORDER BY COUNT(*) DESC LIMIT 1.",
        )
    spacing = _spacing(argument)
    quantity: Quantity = Aggregate(Aggregation.MODE, (bucket_of(argument, spacing),), where=asked.aggregate.where)

    def make(chosen: str) -> ModeColumn:
        return ModeColumn(asked.name, chosen, spacing, argument.facts.step)

    return Recipe(((quantity, Fraction(1)),), make)


def bucket_of(argument: Scalar, spacing: Spacing) -> Scalar:
    """Return the number of the bucket of a value, as an engine computes it: total, and in 64 bits."""
    facts = argument.facts  # integers in steps: no engine needs the value of a step
    number = Facts(Type.INTEGER, Kind.INTEGER, facts.nullable, low=0, high=spacing.buckets - 1)
    parts: list[Scalar] = []
    for stretch in spacing.stretches[:-1]:
        below = Scalar(Operator.LESS, (argument, _constant(stretch.end)), _truth(facts))
        parts += [below, _number(argument, stretch)]
    last = _number(argument, spacing.stretches[-1])
    return replace(last, facts=number) if not parts else Scalar(Operator.CASE, (*parts, last), number)


def _number(value: Scalar, stretch: Stretch) -> Scalar:
    """Return (value - start) / width + first; outside of its stretch it means nothing, and stays in 128 bits."""
    low, high, nullable = value.facts.low, value.facts.high, value.facts.nullable

    def step(operator: Operator, inner: Scalar, other: int, ends: tuple[int, int]) -> Scalar:
        known = Facts(Type.INTEGER, Kind.INTEGER, nullable, low=ends[0], high=ends[1])
        return Scalar(operator, (inner, _constant(other)), known)

    found, ends = value, (low, high)
    if stretch.start:
        ends = (ends[0] - stretch.start, ends[1] - stretch.start)
        found = step(Operator.SUBTRACT, found, stretch.start, ends)
    if stretch.width > 1:
        ends = (_towards_zero(ends[0], stretch.width), _towards_zero(ends[1], stretch.width))
        found = step(Operator.QUOTIENT, found, stretch.width, ends)
    if stretch.first:
        found = step(Operator.ADD, found, stretch.first, (ends[0] + stretch.first, ends[1] + stretch.first))
    return found


def _constant(number: int) -> Scalar:
    return Scalar(Operator.CONSTANT, (), Facts(Type.INTEGER, Kind.INTEGER, False, low=number, high=number), number)


def _towards_zero(number: int, divisor: int) -> int:
    return number // divisor if number >= 0 else -(-number // divisor)


def _truth(facts: Facts) -> Facts:
    return Facts(Type.BOOLEAN, Kind.BOOLEAN, facts.nullable)


def _spacing(argument: Scalar) -> Spacing:
    return Spacing(argument.facts.low, argument.facts.high)


def _ordered(asked: RequestedAggregate, group: Group) -> Scalar:
    (argument,) = asked.aggregate.arguments
    if argument.facts.kind in {Kind.TEXT, Kind.BOOLEAN}:
        raise UnsupportedSql(
            f"{as_written(asked)} is not answered.",
            "Only values on a grid are put in order privately: numbers, dates and timestamps.",
            f"Count the values instead: GROUP BY {own_name(argument, group)} and COUNT(*).",
        )
    return bounded(asked, group)
