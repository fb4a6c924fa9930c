"""Declared values and bounds of columns: a condition that can never hold is refused, and not charged."""

from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction

from sfumato.errors import BadSql, closest_names
from sfumato.query.expression import Column, Expression, Literal, Value, identifier
from sfumato.query.literal import convert
from sfumato.query.position import SourceSpan
from sfumato.query.types import NUMBERS, Type

_SHOWN_VALUES = 12


@dataclass(frozen=True, slots=True)
class DeclaredValues:
    """A column with declared values: whatever else the data holds is absent."""

    values: tuple[Value, ...]

    def admits(self, value: Value) -> bool:
        """Whether the column can hold this."""
        return value in self.values

    def __str__(self) -> str:
        more = f", … ({len(self.values):,} in total)" if len(self.values) > _SHOWN_VALUES else ""
        return f"The policy declares its values: {', '.join(map(_value_sql, self.values[:_SHOWN_VALUES]))}{more}."


@dataclass(frozen=True, slots=True)
class DeclaredBounds:
    """A column with bounds: a value outside them is no value that a condition can name."""

    low: int | Fraction | date
    high: int | Fraction | date

    def admits(self, value: Value) -> bool:
        """Whether the column can hold this."""
        return self.low <= value <= self.high  # type: ignore[operator]

    def is_below(self, value: Value) -> bool:
        """Whether everything within the bounds is below this."""
        return self.high < value  # type: ignore[operator]

    def __str__(self) -> str:
        ends = f"{_value_sql(self.low)} to {_value_sql(self.high)}"
        return f"The policy declares its bounds, {ends}; a condition sees values beyond them as outside."


Admitted = DeclaredValues | DeclaredBounds


def never_equal(column: Expression, other: Expression, declared: Admitted | None, place: SourceSpan) -> BadSql | None:
    """Return the refusal of a literal that a column is never equal to; refuse one that is not of its type."""
    if declared is None or not isinstance(column, Column) or not isinstance(other, Literal) or other.value is None:
        return None
    if (column.type, other.type) == (Type.DATE, Type.TIMESTAMP):
        return None  # they are compared as timestamps, of which a date is one
    literal = _as(other, column.type, place)
    if literal is not None and declared.admits(literal.value):
        return None
    name = identifier(column.name)
    refusal = place.bad(f"{name} is never {_value_sql(other.value)}.", str(declared), _remedy(name, other, declared))
    if literal is None:
        raise refusal
    return refusal


def beyond_bounds(
    lesser: Expression, greater: Expression, declared: Admitted | None, place: SourceSpan
) -> tuple[BadSql, bool] | None:
    """Return what is wrong where one of two is a column, and the other a literal outside its bounds.

    Beside it: whether the comparison still holds for all values within the bounds. It never holds for others, which are
    outside whatever they are.  Proof: proofs/outside_bounds.md, 2
    """
    column, other = (lesser, greater) if isinstance(lesser, Column) else (greater, lesser)
    if not isinstance(declared, DeclaredBounds) or not isinstance(column, Column) or not isinstance(other, Literal):
        return None
    if other.value is None or (column.type, other.type) == (Type.DATE, Type.TIMESTAMP):
        return None
    literal = _as(other, column.type, place)
    if literal is None or declared.admits(literal.value):
        return None
    name, above = identifier(column.name), declared.is_below(literal.value)
    end = declared.high if above else declared.low
    holds = above == (column is lesser)
    never = f"{name} is never {'above' if above else 'below'} {_value_sql(other.value)}."
    left_out = f"values of {name} {'above' if above else 'below'} {_value_sql(end)} are left out."
    remedy = f"Compare with a value between them, for example {name} {'>' if above else '<'}= {_value_sql(end)}."
    return place.bad(left_out if holds else never, str(declared), remedy), holds


def _as(literal: Literal, type: Type, place: SourceSpan) -> Literal | None:
    """Return the literal as a value of the column's type; None where it is none."""
    if literal.type in NUMBERS and type in NUMBERS:
        return literal
    try:
        return convert(literal, type, place)
    except BadSql:
        return None


def _remedy(name: str, wrong: Literal, declared: Admitted) -> str:
    if isinstance(declared, DeclaredBounds):
        return f"Compare with a value between them, for example {name} = {_value_sql(declared.high)}."
    if not declared.values:
        return "Use another column."
    close: list[str] = []
    if isinstance(wrong.value, str):
        close = closest_names(wrong.value, (value for value in declared.values if isinstance(value, str)))
    if close:
        return f"Did you mean {name} = {_value_sql(close[0])}?"
    return f"Compare with one of them, for example {name} = {_value_sql(declared.values[0])}."


def _value_sql(value: Value) -> str:
    """Return a value as SQL spells it; a date as text, which is what people type."""
    return f"'{value}'" if isinstance(value, date | datetime) else str(Literal(value, Type.TEXT))
