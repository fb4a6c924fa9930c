"""What is exact because it is public or already noisy: literal rows of the text, and plain aggregates."""

from dataclasses import replace
from fractions import Fraction

from sfumato.analysis.facts import FARTHEST, Facts, Kind
from sfumato.analysis.flow import Folded
from sfumato.analysis.groups import measure_parts
from sfumato.analysis.lowering import Scope, lower
from sfumato.analysis.numbers import real
from sfumato.analysis.scalar import Scalar
from sfumato.query.functions import Aggregation
from sfumato.query.relation import Measure, Values
from sfumato.query.types import Type

_ROWS = 1 << 40
"""More rows than any table has: what a plain sum may grow by."""

Written = int | float | str | bool | None


def literal_rows(values: Values) -> tuple[tuple[tuple[Written, ...], ...], list[Facts]]:
    """Return the rows of a VALUES list as an engine keeps them, and what is known of each column."""
    lowered = [[lower(cell, {}) for cell in row] for row in values.rows]
    columns = [list(column) for column in zip(*lowered, strict=True)] if lowered and values.types else []
    facts = [_column_facts(column, type) for column, type in zip(columns, values.types, strict=True)]
    settled = [[_written(cell, known) for cell in column] for column, known in zip(columns, facts, strict=True)]
    rows = tuple(zip(*settled, strict=True)) if settled else tuple(() for _ in values.rows)
    return rows, facts


def _column_facts(column: list[Scalar], type: Type) -> Facts:
    known = [cell.facts for cell in column if cell.constant is not None]
    nullable = any(cell.constant is None for cell in column)
    if not known:
        return replace(column[0].facts, type=type, nullable=True)
    if known[0].kind is not Kind.INTEGER:
        longest = max((facts.longest or 0 for facts in known), default=0)
        return replace(known[0], type=type, nullable=nullable, longest=longest or None)
    step = _common([facts.step for facts in known])
    scaled = [int(facts.low * facts.step / step) for facts in known]
    return Facts(type, Kind.INTEGER, nullable, step, min(scaled), max(scaled))


def _common(steps: list[Fraction]) -> Fraction:
    """Return the coarsest grid on which all lie: the greatest common divisor of fractions."""
    found = steps[0]
    for step in steps[1:]:
        first, second = found, step
        while second:
            first, second = second, first % second
        found = first
    return found


def _written(cell: Scalar, facts: Facts) -> Written:
    if cell.constant is None or isinstance(cell.constant, tuple):
        return None
    if facts.kind is Kind.INTEGER:
        return int(Fraction(int(cell.constant)) * cell.facts.step / facts.step)
    return cell.constant


def folded(measure: Measure, scope: Scope) -> Folded:
    """Return a plain aggregate of public or noisy rows."""
    argument, where = measure_parts(measure, scope)
    facts = _facts(measure, argument)
    if argument is not None and facts.kind is Kind.REAL and argument.facts.kind is Kind.INTEGER:
        argument = real(argument)
    return Folded(measure.name, measure.aggregation, argument, measure.distinct, where, facts)


def _facts(measure: Measure, argument: Scalar | None) -> Facts:
    if measure.aggregation is Aggregation.COUNT or argument is None:
        return Facts(Type.INTEGER, Kind.INTEGER, False, Fraction(1), 0, _ROWS, declared_high=False)
    known = argument.facts
    if measure.aggregation in {Aggregation.MIN, Aggregation.MAX}:
        return replace(known, nullable=True, type=measure.type)
    if measure.aggregation is Aggregation.SUM and known.kind is Kind.INTEGER:
        low, high = min(known.low * _ROWS, known.low), max(known.high * _ROWS, known.high)
        if max(-low, high) < FARTHEST:
            return replace(known, type=measure.type, nullable=True, low=low, high=high)
    return Facts(measure.type, Kind.REAL, True)
