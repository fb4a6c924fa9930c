"""PostgreSQL's form of the operators on dates and timestamps.

A day is in the years 1 to 9999 whenever a function of the calendar sees it, so that none of them can raise. A moment is
split into its day and the rest: interval arithmetic by microseconds errs near the year 9999.
"""

from sfumato.engines.postgres.numbers import NARROW, let
from sfumato.engines.sql.dialect import Form
from sfumato.engines.sql.numbers import integer
from sfumato.language.scalar import Operator, Scalar

_EPOCH = "DATE '1970-01-01'"
_DAY = 86_400_000_000
_PARTS = ("year", "quarter", "month", "week", "day", "doy")
_PERIODS = ("year", "quarter", "month")
_REST = f"((v % {_DAY} + {_DAY}) % {_DAY})"
"""The microseconds of a moment `v` since its midnight."""


def date_sql(day: str) -> str:
    """Return a day of the calendar as a date."""
    return f"({_EPOCH} + CAST({day} AS integer))"


def day_sql(date: str) -> str:
    """Return a date as a day."""
    return f"CAST({date} - {_EPOCH} AS {NARROW})"


def _period_start(scalar: Scalar, arguments: list[str]) -> str:
    unit = _PERIODS[_PERIODS.index(str(scalar.constant))]
    return day_sql(f"CAST(date_trunc('{unit}', CAST({date_sql(*arguments)} AS timestamp)) AS date)")


def _day_part(scalar: Scalar, arguments: list[str]) -> str:
    part = _PARTS[_PARTS.index(str(scalar.constant))]
    return f"CAST(extract({part} FROM {date_sql(*arguments)}) AS {NARROW})"


def _later(date: str, scalar: Scalar) -> str:
    return day_sql(f"CAST({date} + make_interval(months => {integer(scalar)}) AS date)")


def _day_later(scalar: Scalar, arguments: list[str]) -> str:
    return _later(date_sql(*arguments), scalar)


def _moment_later(scalar: Scalar, arguments: list[str]) -> str:
    day = date_sql(f"((v - {_REST}) / {_DAY})")
    return let(f"{_later(day, scalar)} * {_DAY} + {_REST}", v=arguments[0])


def _day_text(_: Scalar, arguments: list[str]) -> str:
    return f"to_char({date_sql(*arguments)}, 'YYYY-MM-DD')"


def _moment_text(_: Scalar, arguments: list[str]) -> str:
    day = f"to_char({date_sql(f'((v - {_REST}) / {_DAY})')}, 'YYYY-MM-DD')"
    clock = f"CAST(TIME '00:00' + {_REST} * INTERVAL '1 microsecond' AS text)"
    return let(f"{day} || ' ' || {clock}", v=arguments[0])


FORMS: dict[Operator, Form] = {
    Operator.PERIOD_START: _period_start,
    Operator.DAY_PART: _day_part,
    Operator.DAY_LATER: _day_later,
    Operator.MOMENT_LATER: _moment_later,
    Operator.DAY_TEXT: _day_text,
    Operator.MOMENT_TEXT: _moment_text,
}
"""One form per operator on times."""
