"""Sums of an argument around a public offset: what averages, variances and their like are made of."""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.analysis.private_query import Asked, Group
from sfumato.errors import QueryTooLarge, UnboundedSum
from sfumato.language.facts import Kind
from sfumato.language.numbers import shifted
from sfumato.language.scalar import Scalar
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.aggregates.wording import as_written, column_name, table_of
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import SPREADS, Aggregation

FARTHEST_SUM = 1 << 62
"""One person's part of a sum stays below it, so that sums of people and noise fit everywhere."""


@dataclass(frozen=True, slots=True)
class Centred:
    """The public grid of an argument x, of which sums are taken around an offset: all but `step` are in steps."""

    step: Fraction
    offset: int
    low: int
    high: int


def centred(asked: Asked, argument: Scalar, group: Group) -> Centred:
    """Return the grid of an argument with what is subtracted from it: a sum of values around 0 moves least."""
    facts = argument.facts
    alike = {
        other.aggregate.function
        for other in group.asked
        if (other.aggregate.arguments, other.aggregate.distinct, other.aggregate.where)
        == ((argument,), asked.aggregate.distinct, asked.aggregate.where)
    }
    spread = bool(alike & SPREADS)
    offset = (facts.low + facts.high) // 2
    if asked.aggregate.function is Aggregation.SUM or (Aggregation.SUM in alike and not spread):
        offset = 0
    elif asked.aggregate.distinct and spread:
        offset = facts.low  # different values must have different squares
    return Centred(facts.step, offset, facts.low, facts.high)


def count_of(asked: Asked) -> Quantity:
    """Return the count of an argument; of one that is never NULL it is the count of rows."""
    aggregate = asked.aggregate
    argument = aggregate.argument
    if argument is not None and not aggregate.distinct and not argument.facts.nullable:
        argument = None
    counted = () if argument is None else (argument,)
    return Aggregate(Aggregation.COUNT, counted, aggregate.distinct and argument is not None, aggregate.where)


def around(argument: Scalar, grid: Centred) -> Scalar:
    """Return the argument less its offset."""
    return shifted(argument, grid.offset) if grid.offset else argument


def bounded(asked: Asked, group: Group) -> Scalar:
    """Return the argument of an aggregate, or refuse: without bounds one person could move its sum by any amount."""
    (argument,) = asked.aggregate.arguments
    if not argument.facts.bounded:
        raise _unbounded(asked, argument, group)
    return argument


def sum_of_values(asked: Asked, value: Scalar, group: Group) -> Quantity:
    """Return the sum of a function of the argument, or refuse: it has to stay within 64 bits."""
    facts = value.facts
    # what 128 bits cannot hold has become a double, which no longer counts as bounded
    if not facts.bounded or max(abs(facts.low), abs(facts.high)) * group.contribution.rows >= FARTHEST_SUM:
        raise QueryTooLarge(
            f"{as_written(asked)} reaches too far.",
            "One person could add 2^62 steps of the grid or more to it.",
            "Narrow the values with LEAST and GREATEST, or ask the owner for a coarser step or fewer rows.",
        )
    return Aggregate(Aggregation.SUM, (value,), asked.aggregate.distinct, asked.aggregate.where)


def _unbounded(asked: Asked, argument: Scalar, group: Group) -> UnboundedSum:
    what = f"{as_written(asked)} needs bounds."
    why = "Nothing bounds its values, so one person could move it by any amount."
    grid = argument.facts.kind is Kind.INTEGER
    declared = "bounds = [LOW, HIGH]" if grid else "bounds = [LOW, HIGH], step = STEP"
    if (table := table_of(argument, group.rows)) is not None:
        column = column_name(argument)
        remedy = f"Declare them: [tables.{table}.columns] {column} = {{ {declared} }}"
        function = asked.aggregate.function.upper()
        clipped = f", or write {function}(LEAST(GREATEST({column}, LOW), HIGH))." if grid else "."
        return UnboundedSum(what, why, remedy + clipped)
    remedy = (
        "Narrow it in the text: LEAST(GREATEST(…, LOW), HIGH)."
        if grid
        else f"Ask the owner to declare the columns that it is computed from with {{ {declared} }}."
    )
    return UnboundedSum(what, why, remedy)
