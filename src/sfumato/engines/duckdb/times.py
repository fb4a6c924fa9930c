"""DuckDB's calendar."""

from sfumato.engines.sql.times import TimeForms

_EPOCH = "DATE '1970-01-01'"
_PARTS = {"doy": "dayofyear"}


def date_sql(day: str) -> str:
    """Return a day of the calendar as DuckDB's DATE."""
    return f"({_EPOCH} + CAST({day} AS INTEGER))"


def day_sql(date: str) -> str:
    """Return DuckDB's DATE as a day."""
    return f"({date} - {_EPOCH})"


FORMS = TimeForms(
    date=date_sql,
    day=day_sql,
    start=lambda date, unit: f"CAST(date_trunc('{unit}', {date}) AS DATE)",
    part=lambda date, part: f"{_PARTS.get(part, part)}({date})",
    later=lambda date, months: f"CAST({date} + to_months({months}) AS DATE)",
    moment_later=lambda moment, months: f"epoch_us(make_timestamp({moment}) + to_months({months}))",
    day_text=lambda date: f"CAST({date} AS VARCHAR)",
    moment_text=lambda moment: f"CAST(make_timestamp({moment}) AS VARCHAR)",
).forms()
"""One form per operator on times."""
