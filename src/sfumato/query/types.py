"""The types of the algebra: six that a column may have, durations, and the type of a bare NULL."""

from dataclasses import dataclass
from enum import StrEnum


class Type(StrEnum):
    """Type of a value; the first six are those of the policy."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TEXT = "text"
    INTERVAL = "interval"  # a duration: the difference of timestamps, or a literal in date arithmetic
    NULL = "null"  # a bare NULL before its neighbours give it a type; never the type of a finished column


class NumberType(StrEnum):
    """PostgreSQL's types of numbers, the narrowest first."""

    INT4 = "int4"
    INT8 = "int8"
    NUMERIC = "numeric"
    FLOAT8 = "float8"


NUMBERS = frozenset({Type.INTEGER, Type.DECIMAL})
TIMES = frozenset({Type.DATE, Type.TIMESTAMP})

CASTS = frozenset(
    {(first, second) for first in (Type.INTEGER, Type.DECIMAL) for second in (Type.INTEGER, Type.DECIMAL)}
    | {(first, second) for first in (Type.DATE, Type.TIMESTAMP) for second in (Type.DATE, Type.TIMESTAMP)}
    | {(Type.BOOLEAN, Type.INTEGER), (Type.INTEGER, Type.BOOLEAN)}
    | {(type, Type.TEXT) for type in Type}
    | {(Type.TEXT, type) for type in Type if type not in {Type.INTERVAL, Type.NULL}}
    | {(type, type) for type in Type}
)
"""Which type may be cast to which, as in PostgreSQL."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A duration as PostgreSQL keeps it: months, days and microseconds do not turn into each other."""

    months: int = 0
    days: int = 0
    microseconds: int = 0

    def __neg__(self) -> "Interval":
        return Interval(-self.months, -self.days, -self.microseconds)

    def __str__(self) -> str:
        return f"{self.months} months {self.days} days {self.microseconds} microseconds"
