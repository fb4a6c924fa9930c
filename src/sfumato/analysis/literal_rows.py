"""Exact rows of the text, and plain aggregates over public or already noisy rows."""

from dataclasses import replace
from fractions import Fraction

from sfumato.analysis.groups import lower_aggregate, picks_a_value
from sfumato.errors import UnsupportedSql, position_prefix
from sfumato.language.facts import MAX_INTERMEDIATE_STEPS, Facts, Kind
from sfumato.language.lowering import ScalarScope, lower
from sfumato.language.numbers import is_null, on_one_grid, real, value_of
from sfumato.language.rel_nodes import AggregateItem
from sfumato.language.scalar import Operator, Scalar
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import LEVELLED, Aggregation, plain_row_refusal
from sfumato.query.relation import Measure, Values
from sfumato.query.types import NUMBERS, Type

_MAX_TABLE_ROWS = 1 << 40
"""More rows than any table has: what a plain sum may grow by."""

LiteralCell = int | float | str | bool | None


def literal_rows(values: Values) -> tuple[tuple[tuple[LiteralCell, ...], ...], list[Facts]]:
    """Return the rows of a VALUES list as an engine keeps them, and what is known of each column."""
    lowered = [[lower(cell, {}) for cell in row] for row in values.rows]
    columns = [list(column) for column in zip(*lowered, strict=True)] if lowered and values.types else []
    settled = [_common_representation(column, type) for column, type in zip(columns, values.types, strict=True)]
    rows = tuple(zip(*(cells for cells, _ in settled), strict=True)) if settled else tuple(() for _ in values.rows)
    return rows, [facts for _, facts in settled]


def _common_representation(column: list[Scalar], type: Type) -> tuple[list[LiteralCell], Facts]:
    """Return a column's cells in one representation: on the coarsest grid that holds all, or as doubles."""
    nullable = any(is_null(cell) for cell in column)
    present = [cell for cell in column if not is_null(cell)]
    if not present:
        return [None] * len(column), replace(column[0].facts, type=type, nullable=True)
    if type not in NUMBERS:
        known = present[0].facts
        if known.kind is Kind.INTEGER:
            ends = [cell.facts.low for cell in present]
            known = replace(known, low=min(ends), high=max(ends))
        longest = max((cell.facts.max_chars or 0 for cell in present), default=0) or None
        return [_literal_value(cell) for cell in column], replace(
            known, type=type, nullable=nullable, max_chars=longest
        )
    on_grid = on_one_grid(present)
    if all(cell.facts.kind is Kind.INTEGER and cell.operator is Operator.CONSTANT for cell in on_grid):
        ends = [cell.facts.low for cell in on_grid]
        facts = Facts(type, Kind.INTEGER, nullable, on_grid[0].facts.step, min(ends), max(ends))
        steps = iter(ends)
        return [None if is_null(cell) else next(steps) for cell in column], facts
    exact = [None if is_null(cell) else value_of(cell) for cell in column]
    return [None if value is None else float(value) for value in exact], Facts(type, Kind.REAL, nullable)


def _literal_value(cell: Scalar) -> LiteralCell:
    return None if isinstance(cell.constant, tuple) else cell.constant


def lower_plain_aggregate(measure: Measure, scope: ScalarScope) -> AggregateItem:
    """Return a plain aggregate of public or noisy rows."""
    aggregate = lower_aggregate(measure.aggregate, scope)
    facts = _facts(measure, aggregate)
    if facts.kind is Kind.REAL:
        arguments = tuple(_real(argument, aggregate.function) for argument in aggregate.arguments)
        aggregate = replace(aggregate, arguments=arguments)
    return AggregateItem(measure.name, aggregate, facts)


def _real(argument: Scalar, function: Aggregation) -> Scalar:
    """Return an argument as doubles; an average adds integers, where their sum surely fits."""
    if argument.facts.kind is not Kind.INTEGER:
        return argument
    return argument if function is Aggregation.AVG and _sum_range(argument.facts) is not None else real(argument)


def _facts(measure: Measure, aggregate: Aggregate[Scalar]) -> Facts:
    function, argument = aggregate.function, aggregate.argument
    if function is Aggregation.COUNT or argument is None:
        return Facts(Type.INTEGER, Kind.INTEGER, False, Fraction(1), 0, _MAX_TABLE_ROWS, declared_high=False)
    known = argument.facts
    if function in {Aggregation.MIN, Aggregation.MAX} or picks_a_value(aggregate, measure.type):
        return replace(known, nullable=True, type=measure.type)
    if (refused := plain_row_refusal(function)) is not None:
        what = f"{position_prefix(measure.at)}{function} of public or noisy rows is not supported."
        raise UnsupportedSql(what, *refused)
    if function is Aggregation.SUM and known.kind is Kind.INTEGER:
        reach = _sum_range(known)
        if reach is not None:
            return replace(known, type=measure.type, nullable=True, low=reach[0], high=reach[1])
    return Facts(measure.type, Kind.REAL, True)


def _sum_range(known: Facts) -> tuple[int, int] | None:
    """Return how far a sum of such integers reaches; None if that is further than 128 bits hold."""
    low, high = min(known.low * _MAX_TABLE_ROWS, known.low), max(known.high * _MAX_TABLE_ROWS, known.high)
    return (low, high) if max(-low, high) < MAX_INTERMEDIATE_STEPS else None


def is_exact(folded: AggregateItem) -> bool:
    """Whether an aggregate is the same whatever order the rows are added in: doubles are not."""
    function, argument = folded.aggregate.function, folded.aggregate.argument
    if argument is None or function in {Aggregation.COUNT, Aggregation.MIN, Aggregation.MAX}:
        return True
    if function in LEVELLED:
        return folded.facts.kind is Kind.INTEGER
    return function in {Aggregation.SUM, Aggregation.AVG} and argument.facts.kind is Kind.INTEGER
