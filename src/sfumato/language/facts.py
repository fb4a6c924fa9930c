"""Facts about a value before any data is read: type, representation and range."""

from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

from sfumato.query.types import Type

MAX_INTERMEDIATE_STEPS = 1 << 126
"""No integer that a query computes reaches so far: 128 bits hold it, and the sum of two."""
STORED_LIMIT = 1 << 63
"""Integers of the copy lie in [-STORED_LIMIT, STORED_LIMIT)."""


class Kind(StrEnum):
    """How an engine keeps a value."""

    INTEGER = "integer"
    """A whole number of steps: numbers on their grid, dates as days, timestamps and intervals as microseconds."""
    REAL = "real"
    """A double. It can be compared and shown; it never meets noise."""
    TEXT = "text"
    BOOLEAN = "boolean"
    UNIT = "unit"
    """The opaque id of a person: it can be equal to another, and nothing else."""


class Outside(StrEnum):
    """How a column tells that the source's value lies outside the declared bounds."""

    NONE = "none"
    """It does not: no value lies outside."""
    STORED = "stored"
    """The engine holds `low - 1` or `high + 1` in its place; as a number it is clipped where it is read."""
    MARKED = "marked"
    """A hidden truth value beside it says so: it was computed from such columns."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that hold for every value of an expression, from text and policy alone."""

    type: Type
    kind: Kind
    nullable: bool = True
    step: Fraction = Fraction(1)
    """Of an INTEGER kind: the value is `integer * step`. 1 for whole numbers, dates, timestamps and intervals."""
    low: int = 0
    high: int = 0
    """Of an INTEGER kind, in steps: every value that is not NULL lies in [low, high]."""
    declared_low: bool = True
    declared_high: bool = True
    """Whether policy or text bound that side. If not, `low` or `high` is only what the storage can hold."""
    max_chars: int | None = None
    """Of a TEXT kind: no value has more characters; None where the maximum is unknown."""
    outside: Outside = Outside.NONE
    """Of a column of people's rows: how a key or condition sees that a value lies outside its bounds."""

    @property
    def bounded(self) -> bool:
        """Whether the values can be summed: a grid, and both sides promised by policy or text."""
        return self.kind is Kind.INTEGER and self.declared_low and self.declared_high

    @property
    def span(self) -> int:
        """How many integers lie in [low, high]."""
        return self.high - self.low + 1


def hull(first: Facts, second: Facts) -> Facts:
    """Return the facts that hold for every value of either."""
    longest = None if None in (first.max_chars, second.max_chars) else max(first.max_chars or 0, second.max_chars or 0)
    return replace(
        first,
        nullable=first.nullable or second.nullable,
        low=min(first.low, second.low),
        high=max(first.high, second.high),
        declared_low=first.declared_low and second.declared_low,
        declared_high=first.declared_high and second.declared_high,
        max_chars=longest,
        outside=Outside.NONE,
    )
