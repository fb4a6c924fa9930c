"""Text that spells a value becomes the exact value, or is refused before any data is read."""

import re
from datetime import date, datetime, timedelta
from fractions import Fraction

from sfumato.query.expression import Literal, Value
from sfumato.query.position import SourceSpan
from sfumato.query.types import Interval, Type

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE]([+-]?\d{1,3}))?", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d{1,38}", re.ASCII)
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4}-\d{1,2}-\d{1,2})(?:[ T](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"
    r"(?: ?(z|utc|[+-]\d{2}(?::?\d{2})?))?)?",
    re.ASCII,
)
_DAY_END = re.compile("[ t]")
_QUANTITY = re.compile(r"([+-]?\d{1,9})\s*([a-z]+)", re.ASCII)

_TRUE = frozenset({"t", "true", "y", "yes", "on", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "off", "0"})

_SECOND_MICROSECONDS = 1_000_000
_UNITS = {
    "year": Interval(months=12),
    "month": Interval(months=1),
    "mon": Interval(months=1),
    "week": Interval(days=7),
    "day": Interval(days=1),
    "hour": Interval(microseconds=3600 * _SECOND_MICROSECONDS),
    "minute": Interval(microseconds=60 * _SECOND_MICROSECONDS),
    "min": Interval(microseconds=60 * _SECOND_MICROSECONDS),
    "second": Interval(microseconds=_SECOND_MICROSECONDS),
    "sec": Interval(microseconds=_SECOND_MICROSECONDS),
}

_SAMPLES: dict[Type, Value] = {
    Type.INTEGER: 1,
    Type.DECIMAL: Fraction(1),
    Type.BOOLEAN: True,
    Type.DATE: date(2000, 1, 1),
    Type.TIMESTAMP: datetime(2000, 1, 1),
    Type.INTERVAL: Interval(days=1),
    Type.TEXT: "day",
}
"""A value of each type, for a parameter whose own is not known yet."""


def sample(type: Type) -> Literal:
    """Return a literal of a type, for what depends on types alone."""
    return Literal(_SAMPLES.get(type), type)


class Unbound(str):
    """The text of a parameter that has no value yet; it learns its type from its neighbours, as spelled text does."""

    name: str
    learned: dict[str, Type]
    arrays: set[str]
    """The names of those that stand for arrays: their type is that of the items."""

    def __new__(cls, name: str, learned: dict[str, Type], arrays: set[str]) -> "Unbound":
        unbound = super().__new__(cls, "day")
        unbound.name, unbound.learned, unbound.arrays = name, learned, arrays
        return unbound


MAX_NUMBER_CHARS = 60
MAX_EXPONENT = 38
MAX_INTEGER = 2**63 - 1
MAX_INTERVAL = Interval(months=120_000, days=3_660_000, microseconds=3_660_000 * 86400 * _SECOND_MICROSECONDS)
"""Ten thousand years: more than any date has."""


def parse_number(text: str, place: SourceSpan) -> Literal:
    """Read a number without sign: digits alone are an integer while it fits 64 bits, anything else a decimal."""
    match = _NUMBER.fullmatch(text)
    if match is None or len(text) > MAX_NUMBER_CHARS or abs(int(match[3] or 0)) > MAX_EXPONENT:
        raise place.bad(
            "this number cannot be read.",
            f"A number has at most {MAX_NUMBER_CHARS} characters and an exponent of at most {MAX_EXPONENT}.",
            "Write it with fewer digits.",
        )
    if text.isdigit() and int(text) <= MAX_INTEGER:
        return Literal(int(text), Type.INTEGER, place.at)
    return Literal(Fraction(text), Type.DECIMAL, place.at)


def convert(literal: Literal, type: Type, place: SourceSpan) -> Literal | None:
    """Return a literal as another type, or None where that is not a matter of spelling."""
    value = literal.value
    if value is None or literal.type is type:
        return Literal(value, type, literal.at)
    match type:
        case Type.DECIMAL if literal.type is Type.INTEGER and isinstance(value, int):
            return Literal(Fraction(value), type, literal.at)
        case Type.TIMESTAMP if isinstance(value, date):
            return Literal(datetime(value.year, value.month, value.day), type, literal.at)
    if isinstance(value, Unbound):
        return Literal(_SAMPLES.get(value.learned.setdefault(value.name, type)), type, literal.at)
    if isinstance(value, str) and literal.type is Type.TEXT:
        return Literal(_read_value(value, type, place), type, literal.at)
    return None


def _read_value(text: str, type: Type, place: SourceSpan) -> Value:
    word = text.strip().lower()
    value: Value = None
    match type:
        case Type.INTEGER if _INTEGER.fullmatch(word) and abs(int(word)) <= MAX_INTEGER:
            value = int(word)
        case Type.DECIMAL:
            unsigned = word.removeprefix("-")
            if _NUMBER.fullmatch(unsigned):
                magnitude = Fraction(parse_number(unsigned, place).value)  # type: ignore[arg-type]
                value = -magnitude if word.startswith("-") else magnitude
        case Type.BOOLEAN if word in _TRUE | _FALSE:
            value = word in _TRUE
        case Type.DATE:
            value = _date(word if timestamp(word) is None else _DAY_END.split(word)[0])  # without the time of day
        case Type.TIMESTAMP:
            value = timestamp(word)
        case Type.INTERVAL:
            value = parse_interval(word, place)
        case Type.TEXT:
            value = text
    if value is None:
        raise place.bad(f"this is not {_article(type)}.", _EXPECTED_FORMS[type], "Correct it, or compare with text.")
    return value


_EXPECTED_FORMS = {
    Type.INTEGER: "An integer is digits with an optional sign.",
    Type.DECIMAL: "A decimal is written like 12.5.",
    Type.BOOLEAN: "A boolean is true or false.",
    Type.DATE: "A date is written like 2024-12-31 and has to exist.",
    Type.TIMESTAMP: "A timestamp is written like 2024-12-31 23:59:59, in UTC (Z, or no zone), and has to exist.",
    Type.INTERVAL: "An interval is written like 3 days.",
}


def _article(type: Type) -> str:
    return f"{'an' if type.value[0] in 'aeiou' else 'a'} {type}"


def _date(text: str) -> date | None:
    match = _DATE.fullmatch(text)
    try:
        return date(int(match[1]), int(match[2]), int(match[3])) if match else None
    except ValueError:
        return None


def timestamp(text: str, zoned: bool = False) -> datetime | None:
    """Read a time, or the beginning of a day, in small letters; None where it is neither.

    It may say that it is in UTC; with `zoned`, that it has another offset from UTC. Digits behind the microseconds are
    rounded, as in PostgreSQL: Go writes nine.

    >>> timestamp("2024-03-01t10:00:00z"), timestamp("2024-03-01 10:00+02")
    (datetime.datetime(2024, 3, 1, 10, 0), None)
    >>> timestamp("2024-03-01 10:00+02", zoned=True)
    datetime.datetime(2024, 3, 1, 8, 0)
    """
    match = _TIMESTAMP.fullmatch(text.replace("t", "T"))
    day = _date(match[1]) if match else None
    if match is None or day is None:
        return None
    hour, minute, second = (int(match[i] or 0) for i in (2, 3, 4))
    finer = timedelta(
        microseconds=round(Fraction(int(match[5] or 0), 10 ** len(match[5] or "")) * _SECOND_MICROSECONDS)
    )
    offset = _offset(match[6] or "z")
    if offset and not zoned:
        return None
    try:
        return datetime(day.year, day.month, day.day, hour, minute, second) + finer - offset
    except (ValueError, OverflowError):
        return None


def _offset(text: str) -> timedelta:
    """Return an offset from UTC, as written behind a time."""
    if text in ("z", "utc"):
        return timedelta(0)
    digits = text[1:].replace(":", "")
    ahead = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0))
    return -ahead if text[0] == "-" else ahead


def parse_interval(text: str, place: SourceSpan) -> Interval:
    """Read a duration such as `1 year 2 months`."""
    months = days = microseconds = 0
    position, word = 0, text.strip().lower()
    while word and position < len(word):
        match = _QUANTITY.match(word, position)
        unit = _UNITS.get(match[2]) or _UNITS.get(match[2].removesuffix("s")) if match else None
        if match is None or unit is None:
            break
        count = int(match[1])
        months += count * unit.months
        days += count * unit.days
        microseconds += count * unit.microseconds
        position = match.end() + len(word[match.end() :]) - len(word[match.end() :].lstrip())
    interval = Interval(months, days, microseconds)
    if not word or position < len(word) or _too_long(interval):
        raise place.bad(
            "this interval cannot be read.",
            "An interval is whole numbers of years, months, weeks, days, hours, minutes or seconds, "
            "ten thousand years at most.",
            "Write for example INTERVAL '3 days'.",
        )
    return interval


def _too_long(interval: Interval) -> bool:
    return (
        abs(interval.months) > MAX_INTERVAL.months
        or abs(interval.days) > MAX_INTERVAL.days
        or abs(interval.microseconds) > MAX_INTERVAL.microseconds
    )
