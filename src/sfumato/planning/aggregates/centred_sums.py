"""Sums of an argument around a public offset: what averages, variances and their like are made of."""

from dataclasses import dataclass, replace
from fractions import Fraction

from sfumato.analysis.private_query import Group, RequestedAggregate
from sfumato.errors import QueryTooLarge, UnboundedSum
from sfumato.language.facts import Kind
from sfumato.language.lower_logic import present
from sfumato.language.numbers import shifted
from sfumato.language.scalar import Operator, Scalar
from sfumato.planning.aggregates.others import Others, all_of, conjuncts_of
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.aggregates.wording import as_written, column_name, table_of
from sfumato.planning.bounding.selectable import has_chosen_bounds
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import PAIRS, Aggregation, power_of

MAX_UNIT_SUM = 1 << 62
"""Limit of one person's contribution to a sum, in grid steps, so that sums over people with noise fit everywhere."""


@dataclass(frozen=True, slots=True)
class Centred:
    """The public grid of an argument x, of which sums are taken around an offset: all but `step` are in steps."""

    step: Fraction
    offset: int
    low: int
    high: int


def centred(asked: RequestedAggregate, group: Group, others: Others) -> Centred:
    """Return the grid of the one argument with what is subtracted from it: a sum of values around 0 moves least."""
    (argument,) = asked.aggregate.arguments
    facts = argument.facts
    alike = others.functions(asked)
    spread = any(power_of(function) > 1 for function in alike)
    offset = (facts.low + facts.high) // 2
    free = facts.low >= 0 and has_chosen_bounds(argument, group)  # the middle of a range not believed is far off
    if asked.aggregate.function is Aggregation.SUM or ((Aggregation.SUM in alike or free) and not spread):
        offset = 0
    elif asked.aggregate.distinct and spread:
        offset = facts.low  # different values must have different squares
    return Centred(facts.step, offset, facts.low, facts.high)


def _is_presence(condition: Scalar) -> bool:
    """Whether a condition is that something is not NULL."""
    return condition.operator is Operator.NOT and condition.arguments[0].operator is Operator.IS_NULL


def count_of(asked: RequestedAggregate) -> Quantity:
    """Return the count of an argument; of one that is never NULL it is the count of rows.

    Rows where x is present, if y is, are those where y is present, if x is: both are one measurement.
    """
    aggregate = asked.aggregate
    argument = aggregate.argument
    if argument is None or aggregate.distinct:
        known = () if asked.values is None else (Fraction(asked.values),)
        return replace(aggregate, function=Aggregation.COUNT, parameters=known)
    if not argument.facts.nullable:
        return Aggregate(Aggregation.COUNT, where=aggregate.where)
    held = conjuncts_of(aggregate.where)
    others = [part for part in held if _is_presence(part)]
    first, *rest = sorted([present(argument), *others], key=repr)
    where = (*(part for part in held if part not in others), *rest)
    counted = argument if not others else first.arguments[0].arguments[0]
    return Aggregate(Aggregation.COUNT, (counted,), where=aggregate.where if not others else all_of(where))


def around(argument: Scalar, grid: Centred) -> Scalar:
    """Return the argument less its offset."""
    return shifted(argument, grid.offset) if grid.offset else argument


def bounded(asked: RequestedAggregate, group: Group) -> Scalar:
    """Return the argument of an aggregate, or refuse: without bounds one person could move its sum by any amount."""
    (argument,) = asked.aggregate.arguments
    if not argument.facts.bounded:
        raise _unbounded(asked, argument, group)
    return argument


def sum_of_values(asked: RequestedAggregate, value: Scalar, group: Group) -> Quantity:
    """Return the sum of a function of the argument, or refuse: it has to stay within 64 bits."""
    facts = value.facts
    # what 128 bits cannot hold has become a double, which no longer counts as bounded
    if not facts.bounded or max(abs(facts.low), abs(facts.high)) * group.contribution.rows >= MAX_UNIT_SUM:
        raise QueryTooLarge(
            f"{as_written(asked)} reaches too far.",
            "One person could add 2^62 steps of the grid or more to it.",
            "Round the values with ROUND, narrow them with LEAST and GREATEST, or ask the owner for a coarser step.",
        )
    return Aggregate(Aggregation.SUM, (value,), asked.aggregate.distinct, asked.aggregate.where)


def _unbounded(asked: RequestedAggregate, argument: Scalar, group: Group) -> UnboundedSum:
    what = f"{as_written(asked)} needs bounds."
    why = "Its values have no bounds, so one person could change it by any amount."
    grid = argument.facts.kind is Kind.INTEGER
    declared = "bounds = [LOW, HIGH]" if grid else "bounds = [LOW, HIGH], step = STEP"
    if (table := table_of(argument, group.rows)) is not None:
        column = column_name(argument)
        remedy = f"Declare them: [tables.{table}.columns] {column} = {{ {declared} }}"
        function, clip = asked.aggregate.function, f"LEAST(GREATEST({column}, LOW), HIGH)"
        narrow = f"{clip} in its place" if function in PAIRS else f"{function.upper()}({clip})"
        clipped = f", or write {narrow}." if grid else "."
        return UnboundedSum(what, why, remedy + clipped)
    remedy = (
        "Narrow it in the text: LEAST(GREATEST(…, LOW), HIGH)."
        if grid
        else f"Ask the owner to declare the columns that it is computed from with {{ {declared} }}."
    )
    return UnboundedSum(what, why, remedy)
