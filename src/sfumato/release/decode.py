"""From how an engine keeps a value to what a person reads: the last step of every answer."""

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from fractions import Fraction

from sfumato.language.facts import Facts, Kind
from sfumato.query.types import Type

EngineValue = int | float | str | bool | None
"""A value as an engine keeps it."""
Value = int | float | str | bool | date | datetime | timedelta | None
"""A value as a person reads it."""
Decoder = Callable[[EngineValue], Value]
"""What becomes of each value of a column."""

_EPOCH = date(1970, 1, 1).toordinal()
_START = datetime(1970, 1, 1)


def decode(value: EngineValue, facts: Facts) -> Value:
    """Return the value in its own unit.

    >>> decode(1250, Facts(Type.DECIMAL, Kind.INTEGER, step=Fraction(1, 100)))
    12.5
    >>> decode(19_000, Facts(Type.DATE, Kind.INTEGER))
    datetime.date(2022, 1, 8)
    """
    return None if value is None else _DECODERS[facts.type](facts)(value)


def decode_column(values: Sequence[EngineValue], facts: Facts) -> tuple[Value, ...]:
    """Return the values of one column, each in its own unit."""
    decoded = _DECODERS[facts.type](facts)
    return tuple([None if value is None else decoded(value) for value in values])


def _integer(facts: Facts) -> Decoder:
    unit = facts.step if facts.kind is Kind.INTEGER else 1
    plain = facts.step == 1
    return lambda value: value if plain and type(value) is int else round(Fraction(value or 0) * unit)


def _decimal(facts: Facts) -> Decoder:
    if facts.kind is Kind.REAL:
        return lambda value: float(value or 0)
    # one rounding, as a fraction would have it, at a fortieth of the time
    numerator, denominator = facts.step.as_integer_ratio()
    return lambda value: int(value or 0) * numerator / denominator


def _date(value: EngineValue) -> Value:
    # noise may lead out of the calendar; its ends stand for all that lies beyond
    return date.fromordinal(min(max(int(value or 0) + _EPOCH, 1), date.max.toordinal()))


def _timestamp(value: EngineValue) -> Value:
    try:
        return _START + timedelta(microseconds=int(value or 0))
    except OverflowError:
        return datetime.max if int(value or 0) > 0 else datetime.min


def _interval(value: EngineValue) -> Value:
    try:
        return timedelta(microseconds=int(value or 0))
    except OverflowError:
        return timedelta.max if int(value or 0) > 0 else timedelta.min


_DECODERS: dict[Type, Callable[[Facts], Decoder]] = {
    Type.INTEGER: _integer,
    Type.DECIMAL: _decimal,
    Type.BOOLEAN: lambda _: bool,
    Type.DATE: lambda _: _date,
    Type.TIMESTAMP: lambda _: _timestamp,
    Type.TEXT: lambda _: str,
    Type.INTERVAL: lambda _: _interval,
    Type.NULL: lambda _: lambda _value: None,
}
