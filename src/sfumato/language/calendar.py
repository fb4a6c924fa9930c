"""The Gregorian calendar on all integers: days since 1970-01-01, carried on for ever in both directions.

It repeats after 400 years, which are a whole number of weeks, so that Python's years 1 to 9999 are enough to compute
any other. Facts are derived with it; engines are asked only for days from FIRST_DAY to LAST_DAY.
"""

from collections.abc import Callable
from datetime import date

DAY_MICROSECONDS = 86_400_000_000
"""Microseconds in a day."""
_EPOCH = date(1970, 1, 1).toordinal()
FIRST_DAY = date.min.toordinal() - _EPOCH
LAST_DAY = date.max.toordinal() - _EPOCH
FIRST_MOMENT = FIRST_DAY * DAY_MICROSECONDS
LAST_MOMENT = (LAST_DAY + 1) * DAY_MICROSECONDS - 1
_CYCLE_DAYS = 146_097
_CYCLE_YEARS = 400


def civil(day: int) -> tuple[int, int, int]:
    """Return year, month and day of the month.

    >>> civil(0), civil(FIRST_DAY - 1)
    ((1970, 1, 1), (0, 12, 31))
    """
    cycles, date_in_cycle = _in_first_cycle(day)
    return date_in_cycle.year + cycles * _CYCLE_YEARS, date_in_cycle.month, date_in_cycle.day


def day_of(year: int, month: int, day: int) -> int:
    """Return the day of a date that exists."""
    cycles, rest = divmod(year - 1, _CYCLE_YEARS)
    return date(rest + 1, month, day).toordinal() - _EPOCH + cycles * _CYCLE_DAYS


def months_later(day: int, months: int) -> int:
    """Return the same day of another month, or its last day if it has no such day.

    >>> civil(months_later(day_of(2024, 1, 31), 1))
    (2024, 2, 29)
    """
    year, month, of_month = civil(day)
    years, month = divmod(month - 1 + months, 12)
    start = day_of(year + years, month + 1, 1)
    after = day_of(year + years + (month == 11), (month + 1) % 12 + 1, 1)
    return min(start + of_month - 1, after - 1)


def period_start(day: int, unit: str) -> int:
    """Return the first day of the year, quarter or month."""
    year, month, _ = civil(day)
    return day_of(year, {"year": 1, "quarter": (month - 1) // 3 * 3 + 1, "month": month}[unit], 1)


PARTS: dict[str, tuple[Callable[[date], int], Callable[[date], object], int]] = {
    "quarter": (lambda day: (day.month + 2) // 3, lambda day: day.year, 4),
    "month": (lambda day: day.month, lambda day: day.year, 12),
    "week": (lambda day: day.isocalendar().week, lambda day: day.isocalendar().year, 53),
    "day": (lambda day: day.day, lambda day: (day.year, day.month), 31),
    "doy": (lambda day: day.timetuple().tm_yday, lambda day: day.year, 366),
}
"""Parts of a date that come again: the part, the period in which it only grows, the most it can be. All begin at 1."""


def part_range(part: str, low: int, high: int) -> tuple[int, int]:
    """Return the least and the most that the part can be from one day to another."""
    value, period, most = PARTS[part]
    (first_cycle, first), (last_cycle, last) = _in_first_cycle(low), _in_first_cycle(high)
    if (first_cycle, period(first)) == (last_cycle, period(last)):
        return value(first), value(last)
    return 1, most


def _in_first_cycle(day: int) -> tuple[int, date]:
    cycles, rest = divmod(day - FIRST_DAY, _CYCLE_DAYS)
    return cycles, date.fromordinal(rest + 1)
