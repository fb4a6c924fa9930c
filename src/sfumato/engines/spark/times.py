"""Spark's calendar. The zone of every session of ours is UTC, so that a moment and its timestamp are the same."""

from sfumato.engines.spark.numbers import NARROW, given
from sfumato.engines.sql.times import TimeForms

_DAY = 86_400_000_000
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
        rest = f"pmod({v}, {_DAY}L)"
        date = date_sql(f"(({v} - {rest}) div {_DAY}L)")
        return f"({day_sql(_later(date, months))} * {_DAY}L + {rest})"

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
