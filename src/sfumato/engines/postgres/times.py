"""PostgreSQL's calendar.

A moment is split into its day and the rest: interval arithmetic by microseconds errs near the year 9999.
"""

from sfumato.engines.postgres.numbers import NARROW, let
from sfumato.engines.sql.times import MICROSECONDS_PER_DAY, TimeForms

_EPOCH = "DATE '1970-01-01'"
_MICROSECONDS_OF_DAY = f"((v % {MICROSECONDS_PER_DAY} + {MICROSECONDS_PER_DAY}) % {MICROSECONDS_PER_DAY})"
"""The microseconds of a moment `v` since its midnight."""


def date_sql(day: str) -> str:
    """Return a day of the calendar as a date."""
    return f"({_EPOCH} + CAST({day} AS integer))"


def day_sql(date: str) -> str:
    """Return a date as a day."""
    return f"CAST({date} - {_EPOCH} AS {NARROW})"


_DATE = date_sql(f"((v - {_MICROSECONDS_OF_DAY}) / {MICROSECONDS_PER_DAY})")
"""The date of a moment `v`."""


def _later(date: str, months: int) -> str:
    return f"CAST({date} + make_interval(months => {months}) AS date)"


def _moment_later(moment: str, months: int) -> str:
    return let(f"{day_sql(_later(_DATE, months))} * {MICROSECONDS_PER_DAY} + {_MICROSECONDS_OF_DAY}", v=moment)


def _moment_text(moment: str) -> str:
    clock = f"CAST(TIME '00:00' + {_MICROSECONDS_OF_DAY} * INTERVAL '1 microsecond' AS text)"
    return let(f"{_day_text(_DATE)} || ' ' || {clock}", v=moment)


def _day_text(date: str) -> str:
    return f"to_char({date}, 'YYYY-MM-DD')"


FORMS = TimeForms(
    date=date_sql,
    day=day_sql,
    start=lambda date, unit: f"CAST(date_trunc('{unit}', CAST({date} AS timestamp)) AS date)",
    part=lambda date, part: f"CAST(extract({part} FROM {date}) AS {NARROW})",
    later=_later,
    moment_later=_moment_later,
    day_text=_day_text,
    moment_text=_moment_text,
).forms()
"""One form per operator on times."""
