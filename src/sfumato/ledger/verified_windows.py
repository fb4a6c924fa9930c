"""When the windows of caps begin, for the second reader of a ledger: by code of its own."""

from calendar import timegm
from time import gmtime

_DAY_MICROSECONDS = 86_400 * 10**6


def verified_window_start(every: str, time: int) -> int:
    """Return when the window of a time began: by days since 1970, which was a Thursday, and by the calendar of UTC."""
    days = time // _DAY_MICROSECONDS
    if every == "week":
        days -= (days + 3) % 7
    elif every != "day":
        months = {"month": 1, "quarter": 3, "year": 12}[every]
        year, month = gmtime(days * 86_400)[:2]
        days = timegm((year, month - (month - 1) % months, 1, 0, 0, 0)) // 86_400
    return days * _DAY_MICROSECONDS
