"""DuckDB's form of the operators on dates and timestamps. Each mentions its argument once.

A day is in the years 1 to 9999 whenever a function of the calendar sees it, so that none of them can raise.
"""

from sfumato.engines.sql.dialect import Form
from sfumato.engines.sql.numbers import integer
from sfumato.language.scalar import Operator, Scalar

_EPOCH = "DATE '1970-01-01'"
_PARTS = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "week": "week",
    "day": "day",
    "doy": "dayofyear",
}
_PERIODS = ("year", "quarter", "month")


def date_sql(day: str) -> str:
    """Return a day of the calendar as DuckDB's DATE."""
    return f"({_EPOCH} + CAST({day} AS INTEGER))"


def day_sql(date: str) -> str:
    """Return DuckDB's DATE as a day."""
    return f"({date} - {_EPOCH})"


def _period_start(scalar: Scalar, arguments: list[str]) -> str:
    unit = _PERIODS[_PERIODS.index(str(scalar.constant))]
    return day_sql(f"CAST(date_trunc('{unit}', {date_sql(*arguments)}) AS DATE)")


def _day_part(scalar: Scalar, arguments: list[str]) -> str:
    return f"{_PARTS[str(scalar.constant)]}({date_sql(*arguments)})"


def _day_later(scalar: Scalar, arguments: list[str]) -> str:
    return day_sql(f"CAST({date_sql(*arguments)} + {_months(scalar)} AS DATE)")


def _moment_later(scalar: Scalar, arguments: list[str]) -> str:
    return f"epoch_us(make_timestamp({arguments[0]}) + {_months(scalar)})"


def _months(scalar: Scalar) -> str:
    return f"to_months({integer(scalar)})"


def _day_text(_: Scalar, arguments: list[str]) -> str:
    return f"CAST({date_sql(*arguments)} AS VARCHAR)"


def _moment_text(_: Scalar, arguments: list[str]) -> str:
    return f"CAST(make_timestamp({arguments[0]}) AS VARCHAR)"


FORMS: dict[Operator, Form] = {
    Operator.PERIOD_START: _period_start,
    Operator.DAY_PART: _day_part,
    Operator.DAY_LATER: _day_later,
    Operator.MOMENT_LATER: _moment_later,
    Operator.DAY_TEXT: _day_text,
    Operator.MOMENT_TEXT: _moment_text,
}
"""One form per operator on times."""
