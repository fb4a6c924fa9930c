"""Spark's form of the operators on dates and timestamps.

A day is in the years 1 to 9999 whenever a function of the calendar sees it, so that none of them can raise. The zone of
every session of ours is UTC, so that a moment and its timestamp are the same.
"""

from sfumato.engines.spark.numbers import NARROW, given
from sfumato.engines.sql.dialect import Form
from sfumato.engines.sql.numbers import integer
from sfumato.language.scalar import Operator, Scalar

_DAY = 86_400_000_000
_PARTS = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "week": "weekofyear",
    "day": "dayofmonth",
    "doy": "dayofyear",
}
_PERIODS = ("year", "quarter", "month")


def date_sql(day: str) -> str:
    """Return a day of the calendar as a date."""
    return f"date_from_unix_date(CAST({day} AS INT))"


def day_sql(date: str) -> str:
    """Return a date as a day."""
    return f"CAST(unix_date({date}) AS {NARROW})"


def _period_start(scalar: Scalar, arguments: list[str]) -> str:
    unit = _PERIODS[_PERIODS.index(str(scalar.constant))]
    return day_sql(f"trunc({date_sql(*arguments)}, '{unit}')")


def _day_part(scalar: Scalar, arguments: list[str]) -> str:
    return f"CAST({_PARTS[str(scalar.constant)]}({date_sql(*arguments)}) AS {NARROW})"


def _later(day: str, scalar: Scalar) -> str:
    return day_sql(f"add_months({date_sql(day)}, {integer(scalar)})")


def _day_later(scalar: Scalar, arguments: list[str]) -> str:
    return _later(arguments[0], scalar)


def _moment_later(scalar: Scalar, arguments: list[str]) -> str:
    def body(v: str) -> str:
        rest = f"pmod({v}, {_DAY}L)"
        return f"({_later(f'(({v} - {rest}) div {_DAY}L)', scalar)} * {_DAY}L + {rest})"

    return given(arguments, body)


def _day_text(_: Scalar, arguments: list[str]) -> str:
    return f"CAST({date_sql(*arguments)} AS STRING)"


def _moment_text(_: Scalar, arguments: list[str]) -> str:
    return f"CAST(timestamp_micros({arguments[0]}) AS STRING)"


FORMS: dict[Operator, Form] = {
    Operator.PERIOD_START: _period_start,
    Operator.DAY_PART: _day_part,
    Operator.DAY_LATER: _day_later,
    Operator.MOMENT_LATER: _moment_later,
    Operator.DAY_TEXT: _day_text,
    Operator.MOMENT_TEXT: _moment_text,
}
"""One form per operator on times."""
