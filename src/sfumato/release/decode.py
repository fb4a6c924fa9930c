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

_EPOCH = date(1970, 1, 1).toordinal()
_START = datetime(1970, 1, 1)


def decode(value: EngineValue, facts: Facts) -> Value:
    """Return the value in its own unit.

    >>> decode(1250, Facts(Type.DECIMAL, Kind.INTEGER, step=Fraction(1, 100)))
    12.5
    >>> decode(19_000, Facts(Type.DATE, Kind.INTEGER))
    datetime.date(2022, 1, 8)
    """
    return None if value is None else _DECODED[facts.type](value, facts)


def decode_column(values: Sequence[EngineValue], facts: Facts) -> tuple[Value, ...]:
    """Return the values of one column, each in its own unit."""
    decoded = _DECODED[facts.type]
    return tuple([None if value is None else decoded(value, facts) for value in values])


def _integer(value: EngineValue, facts: Facts) -> Value:
    if type(value) is int and facts.step == 1:
        return value
    return round(Fraction(value or 0) * (facts.step if facts.kind is Kind.INTEGER else 1))


def _decimal(value: EngineValue, facts: Facts) -> Value:
    if facts.kind is Kind.REAL:
        return float(value or 0)
    # one rounding, as a fraction would have it, at a fortieth of the time
    return int(value or 0) * facts.step.numerator / facts.step.denominator


def _date(value: EngineValue, _: Facts) -> Value:
    # noise may lead out of the calendar; its ends stand for all that lies beyond
    return date.fromordinal(min(max(int(value or 0) + _EPOCH, 1), date.max.toordinal()))


def _timestamp(value: EngineValue, _: Facts) -> Value:
    try:
        return _START + timedelta(microseconds=int(value or 0))
    except OverflowError:
        return datetime.max if int(value or 0) > 0 else datetime.min


def _interval(value: EngineValue, _: Facts) -> Value:
    try:
        return timedelta(microseconds=int(value or 0))
    except OverflowError:
        return timedelta.max if int(value or 0) > 0 else timedelta.min


_DECODED: dict[Type, Callable[[EngineValue, Facts], Value]] = {
    Type.INTEGER: _integer,
    Type.DECIMAL: _decimal,
    Type.BOOLEAN: lambda value, _: bool(value),
    Type.DATE: _date,
    Type.TIMESTAMP: _timestamp,
    Type.TEXT: lambda value, _: str(value),
    Type.INTERVAL: _interval,
    Type.NULL: lambda _value, _facts: None,
}
