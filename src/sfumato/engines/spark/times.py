"""Spark's calendar. The zone of every session of ours is UTC, so that a moment and its timestamp are the same."""

from sfumato.engines.spark.numbers import NARROW, given
from sfumato.engines.sql.times import MICROSECONDS_PER_DAY, TimeForms

_PARTS = {"week": "weekofyear", "day": "dayofmonth", "doy": "dayofyear"}


def date_sql(day: str) -> str:
    """Return a day of the calendar as a date."""
    return f"date_from_unix_date(CAST({day} AS INT))"


def day_sql(date: str) -> str:
    """Return a date as a day."""
    return f"CAST(unix_date({date}) AS {NARROW})"


def _later(date: str, months: int) -> str:
    return f"add_months({date}, {months})"


def _moment_later(moment: str, months: int) -> str:
    def body(v: str) -> str:
        rest = f"pmod({v}, {MICROSECONDS_PER_DAY}L)"
        date = date_sql(f"(({v} - {rest}) div {MICROSECONDS_PER_DAY}L)")
        return f"({day_sql(_later(date, months))} * {MICROSECONDS_PER_DAY}L + {rest})"

    return given([moment], body)


FORMS = TimeForms(
    date=date_sql,
    day=day_sql,
    start=lambda date, unit: f"trunc({date}, '{unit}')",
    part=lambda date, part: f"CAST({_PARTS.get(part, part)}({date}) AS {NARROW})",
    later=_later,
    moment_later=_moment_later,
    day_text=lambda date: f"CAST({date} AS STRING)",
    moment_text=lambda moment: f"CAST(timestamp_micros({moment}) AS STRING)",
).forms()
"""One form per operator on times."""
