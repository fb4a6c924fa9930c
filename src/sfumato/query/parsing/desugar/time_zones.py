"""Times with a zone: constants become times in UTC, which is what a timestamp is here."""

import re
from datetime import datetime, timedelta
from fractions import Fraction

from sfumato.query.expression import Expression, Literal
from sfumato.query.literal import timestamp
from sfumato.query.position import SourceSpan
from sfumato.query.resolve import cast
from sfumato.query.types import TIMES, Type

_UTC = frozenset({"utc", "etc/utc", "gmt", "z", "zulu", "+00", "+00:00", "uct", "universal"})
_FIELDS = {
    "yyyy": r"(?P<year>\d{4})",
    "mm": r"(?P<month>\d{1,2})",
    "dd": r"(?P<day>\d{1,2})",
    "hh24": r"(?P<hour>\d{1,2})",
    "mi": r"(?P<minute>\d{1,2})",
    "ss": r"(?P<second>\d{1,2})",
    "us": r"(?P<fraction>\d{1,6})",
    "ms": r"(?P<fraction>\d{1,3})",
}
_PATTERN = re.compile(r"yyyy|mm|dd|hh24|mi|ss|us|ms|\"([^\"]*)\"|([a-z]+)|(.)", re.IGNORECASE | re.DOTALL)
_EPOCH = datetime(1970, 1, 1)
_MAX_EPOCH_SECONDS = 253_402_300_799
"""The last second of the year 9999."""


def zoned_timestamp(argument: Expression, place: SourceSpan) -> Expression:
    """Return CAST(x AS timestamptz): a text in quotes may name its offset from UTC; other values are in UTC."""
    if isinstance(argument, Literal) and argument.type is Type.TEXT and isinstance(argument.value, str):
        found = timestamp(argument.value.strip().lower(), zoned=True)
        if found is not None:
            return Literal(found, Type.TIMESTAMP, place.at)
    return cast(argument, Type.TIMESTAMP, place)


def at_time_zone(argument: Expression, zone: str | None, place: SourceSpan) -> Expression:
    """Return x AT TIME ZONE 'UTC', which is the timestamp x; other zones are refused by name."""
    if zone is None or zone.strip().lower() not in _UTC:
        named = "another time zone" if zone is None else f"the time zone {zone[:40]}"
        raise place.unsupported(
            f"{named} is not supported.",
            "Timestamps are in UTC here, and the rules of other zones change.",
            "Write AT TIME ZONE 'UTC', or add an interval: x + INTERVAL '1 hour'.",
        )
    if argument.type not in TIMES and not isinstance(argument, Literal):
        raise place.bad("AT TIME ZONE needs a time.", f"This is {argument.type}.", "Use it with a date or a timestamp.")
    return zoned_timestamp(argument, place)


def to_timestamp(name: str, arguments: list[Expression], place: SourceSpan) -> Expression:
    """Return the time that a text spells by a format, or that a number of seconds since 1970 is: of constants alone."""
    values = [value.value if isinstance(value, Literal) else None for value in arguments]
    match values:
        case [str() as text, str() as format]:
            found = _parse_formatted(text, format)
        case [seconds] if isinstance(seconds, int | Fraction) and not isinstance(seconds, bool):
            found = _since_epoch(Fraction(seconds))
        case _:
            found = None
    if found is None:
        raise place.unsupported(
            f"this form of {name} is not supported.",
            "It takes a text in quotes with a format of YYYY, MM, DD, HH24, MI, SS, MS and US that it follows, or a "
            "number of seconds since 1970-01-01.",
            "Write for example to_timestamp('2024-12-31 23:59:59', 'YYYY-MM-DD HH24:MI:SS').",
        )
    return Literal(found, Type.TIMESTAMP, place.at)


def to_date(name: str, arguments: list[Expression], place: SourceSpan) -> Expression:
    """Return the day that a text spells by a format: of constants alone."""
    values = [value.value if isinstance(value, Literal) else None for value in arguments]
    match values:
        case [str() as text, str() as format]:
            found = _parse_formatted(text, format)
        case _:
            found = None
    if found is None:
        raise place.unsupported(
            f"this form of {name} is not supported.",
            "It takes a text in quotes with a format of YYYY, MM and DD that it follows.",
            "Write for example to_date('2024-12-31', 'YYYY-MM-DD').",
        )
    return Literal(found.date(), Type.DATE, place.at)


def _since_epoch(seconds: Fraction) -> datetime | None:
    if abs(seconds) > _MAX_EPOCH_SECONDS:
        return None
    try:
        return _EPOCH + timedelta(microseconds=round(seconds * 1_000_000))
    except OverflowError:
        return None


def _parse_formatted(text: str, format: str) -> datetime | None:
    """Read a text by a format; None where the format has other fields, one of them twice, or the text differs."""
    pattern, seen = "", set()
    for part in _PATTERN.finditer(format):
        field = part[0].lower()
        if field in _FIELDS:
            if field in seen:
                return None
            seen.add(field)
            pattern += _FIELDS[field]
        elif part[2] is not None and part[2].lower() != "t":
            return None
        else:
            pattern += re.escape(part[1] if part[1] is not None else part[0])
    try:
        match = re.fullmatch(pattern, text, re.ASCII | re.IGNORECASE)
    except re.error:  # milliseconds and microseconds are one field
        return None
    if match is None or "yyyy" not in seen:
        return None
    parts = {name: value for name, value in match.groupdict().items() if value is not None}
    fraction = int(parts.pop("fraction", "0").ljust(6, "0"))
    numbers = {"month": 1, "day": 1} | {name: int(value) for name, value in parts.items()}
    try:
        return datetime(**numbers, microsecond=fraction)  # type: ignore[arg-type]
    except ValueError:
        return None
