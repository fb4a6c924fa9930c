"""Laws of functions of dates and timestamps, computed by every engine and compared with Python's own calendar."""

from calendar import monthrange
from collections.abc import Callable
from datetime import date, datetime, timedelta
from fractions import Fraction

import pytest
from tests.engines.scalar_values import assert_within_facts, columns_of, lowered, values

from sfumato.language.calendar import DAY_MICROSECONDS, FIRST_DAY, FIRST_MOMENT, LAST_DAY, LAST_MOMENT
from sfumato.language.facts import STORED_LIMIT, Facts, Kind
from sfumato.query.expression import Call, Cast, Expression, Literal
from sfumato.query.functions import CLOCK_PARTS, PARTS, UNITS, Function
from sfumato.query.types import Interval, Type

pytestmark = pytest.mark.usefixtures("every_engine")

DATES = Facts(Type.DATE, Kind.INTEGER, low=FIRST_DAY, high=LAST_DAY)
MOMENTS = Facts(Type.TIMESTAMP, Kind.INTEGER, low=FIRST_MOMENT, high=LAST_MOMENT)
WILD_DATES = Facts(
    Type.DATE, Kind.INTEGER, low=-STORED_LIMIT, high=STORED_LIMIT - 1, declared_low=False, declared_high=False
)
WILD_MOMENTS = Facts(Type.TIMESTAMP, Kind.INTEGER, low=-STORED_LIMIT, high=STORED_LIMIT - 1)
WILD_COUNTS = Facts(Type.INTEGER, Kind.INTEGER, low=-STORED_LIMIT, high=STORED_LIMIT - 1)
EPOCH = datetime(1970, 1, 1)

DAYS = sorted(
    {FIRST_DAY, FIRST_DAY + 1, LAST_DAY - 1, LAST_DAY, -1, 0, 1}
    | set(range(date(2019, 12, 20).toordinal() - 719163, date(2021, 1, 12).toordinal() - 719163, 3))
    | {
        date(year, month, monthrange(year, month)[1]).toordinal() - 719163
        for year in (4, 1900, 2000)
        for month in (2, 8)
    }
)
CLOCKS = (0, 1, 3_599_999_999, 45_296_123_456, DAY_MICROSECONDS - 1)
MICROSECONDS = [day * DAY_MICROSECONDS + clock for day in DAYS for clock in CLOCKS]
WILD = [
    None,
    -STORED_LIMIT,
    STORED_LIMIT - 1,
    FIRST_DAY - 1,
    LAST_DAY + 1,
    FIRST_MOMENT - 1,
    LAST_MOMENT + 1,
    0,
    -1,
    2**31,
    -(2**31) - 1,
]

SPANS = [
    Interval(months=1),
    Interval(months=-1),
    Interval(months=13, days=-3, microseconds=7),
    Interval(days=40),
    Interval(microseconds=-1),
    Interval(months=120_000),
    Interval(months=-120_000),
    Interval(months=119_976),  # from the first year to the last
    Interval(months=-119_976, days=1),
    Interval(months=-60_000),  # to before the first year that PostgreSQL knows, from some days
    Interval(months=-80_880, microseconds=1),
    Interval(months=60_000, days=-4_000),
    Interval(months=3_420_000),  # to after the last year that DuckDB knows, from some days
    Interval(months=-3_420_000),
]


def moment(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def count(at: datetime) -> int:
    since = at - EPOCH
    return since.days * DAY_MICROSECONDS + since.seconds * 1_000_000 + since.microseconds


def truncated(at: datetime, unit: str) -> datetime:
    day = datetime(at.year, at.month, at.day)
    match unit:
        case "year":
            return day.replace(month=1, day=1)
        case "quarter":
            return day.replace(month=(at.month - 1) // 3 * 3 + 1, day=1)
        case "month":
            return day.replace(day=1)
        case "week":
            return day - timedelta(days=at.weekday())
        case "day":
            return day
        case "hour":
            return day.replace(hour=at.hour)
        case "minute":
            return day.replace(hour=at.hour, minute=at.minute)
    return at.replace(microsecond=0)


EXTRACTED: dict[str, Callable[[datetime], Fraction | int]] = {
    "year": lambda at: at.year,
    "quarter": lambda at: (at.month + 2) // 3,
    "month": lambda at: at.month,
    "week": lambda at: at.isocalendar().week,
    "day": lambda at: at.day,
    "dow": lambda at: at.isoweekday() % 7,
    "isodow": lambda at: at.isoweekday(),
    "doy": lambda at: at.timetuple().tm_yday,
    "hour": lambda at: at.hour,
    "minute": lambda at: at.minute,
    "second": lambda at: at.second + Fraction(at.microsecond, 10**6),
    "epoch": lambda at: Fraction(count(at), 10**6),
}


def later(at: datetime, span: Interval) -> datetime | None:
    years, month = divmod(at.year * 12 + at.month - 1 + span.months, 12)
    month += 1
    if not 1 <= years <= 9999:
        return None
    try:
        moved = at.replace(year=years, month=month, day=min(at.day, monthrange(years, month)[1]))
        return moved + timedelta(days=span.days, microseconds=span.microseconds)
    except OverflowError:
        return None


def word(text: str) -> Literal:
    return Literal(text, Type.TEXT)


def numbers(expression: Expression, facts: list[Facts], rows: list[tuple[object, ...]]) -> list[Fraction | None]:
    scalar = lowered(expression, facts)
    found = values(scalar, facts, rows)
    assert_within_facts(scalar, found)
    return [None if value is None else int(str(value)) * scalar.facts.step for value in found]


@pytest.mark.parametrize("unit", UNITS)
def test_date_trunc_goes_back_to_the_start_of_the_unit(unit: str) -> None:
    (time,) = columns_of([MOMENTS])
    found = numbers(
        Call(Function.DATE_TRUNC, (word(unit), time), Type.TIMESTAMP), [MOMENTS], [(at,) for at in MICROSECONDS]
    )
    assert found == [count(truncated(moment(at), unit)) for at in MICROSECONDS]
    (day,) = columns_of([DATES])
    found = numbers(Call(Function.DATE_TRUNC, (word(unit), day), Type.TIMESTAMP), [DATES], [(at,) for at in DAYS])
    assert found == [count(truncated(moment(at * DAY_MICROSECONDS), unit)) for at in DAYS]


@pytest.mark.parametrize("part", PARTS)
def test_extract_gives_the_part_of_the_calendar_and_the_clock(part: str) -> None:
    (time,) = columns_of([MOMENTS])
    found = numbers(Call(Function.EXTRACT, (word(part), time), Type.DECIMAL), [MOMENTS], [(at,) for at in MICROSECONDS])
    assert found == [EXTRACTED[part](moment(at)) for at in MICROSECONDS]
    if part not in CLOCK_PARTS:
        (day,) = columns_of([DATES])
        found = numbers(Call(Function.EXTRACT, (word(part), day), Type.DECIMAL), [DATES], [(at,) for at in DAYS])
        assert found == [EXTRACTED[part](moment(at * DAY_MICROSECONDS)) for at in DAYS]


@pytest.mark.parametrize("part", ["epoch", "day", "hour", "minute", "second"])
def test_the_parts_of_a_difference_all_have_its_sign(part: str) -> None:
    times = columns_of([MOMENTS, MOMENTS])
    span = Call(Function.ELAPSED, times, Type.INTERVAL)
    rows = [(first, second) for first in MICROSECONDS[::17] for second in MICROSECONDS[::31]]
    found = numbers(Call(Function.EXTRACT, (word(part), span), Type.DECIMAL), [MOMENTS, MOMENTS], list(rows))
    units = {
        "day": (DAY_MICROSECONDS, 10**12 * DAY_MICROSECONDS),
        "hour": (3600 * 10**6, DAY_MICROSECONDS),
        "minute": (60 * 10**6, 3600 * 10**6),
    }

    def oracle(length: int) -> Fraction:
        size, sign = abs(length), -1 if length < 0 else 1
        if part == "epoch":
            return Fraction(length, 10**6)
        if part == "second":
            return sign * Fraction(size % (60 * 10**6), 10**6)
        unit, again = units[part]
        return Fraction(sign * (size % again // unit))

    assert found == [oracle(first - second) for first, second in rows]


@pytest.mark.parametrize("span", SPANS, ids=str)
def test_an_interval_moves_a_time_as_postgresql_does_or_to_null(span: Interval) -> None:
    (time,) = columns_of([MOMENTS])
    by = Literal(span, Type.INTERVAL)
    found = numbers(Call(Function.SHIFT, (time, by), Type.TIMESTAMP), [MOMENTS], [(at,) for at in MICROSECONDS])
    wanted = [later(moment(at), span) for at in MICROSECONDS]
    assert found == [None if at is None else count(at) for at in wanted]
    (day,) = columns_of([DATES])
    found = numbers(Call(Function.SHIFT, (day, by), Type.TIMESTAMP), [DATES], [(at,) for at in DAYS])
    wanted = [later(moment(at * DAY_MICROSECONDS), span) for at in DAYS]
    assert found == [None if at is None else count(at) for at in wanted]


def test_days_move_a_date_within_the_calendar_or_to_null() -> None:
    arguments = columns_of([DATES, WILD_COUNTS])
    rows = [
        (day, by)
        for day in DAYS[::5]
        for by in (-STORED_LIMIT, STORED_LIMIT - 1, 0, 1, -400, LAST_DAY - FIRST_DAY, None)
    ]
    found = numbers(Call(Function.SHIFT, arguments, Type.DATE), [DATES, WILD_COUNTS], list(rows))
    sums = [None if by is None else day + by for day, by in rows]
    assert found == [None if day is None or not FIRST_DAY <= day <= LAST_DAY else day for day in sums]


def test_times_that_are_spelled_out_give_the_same_as_columns() -> None:
    at = datetime(2024, 2, 29, 13, 45, 10, 250_000)
    for part in PARTS:
        call = Call(Function.EXTRACT, (word(part), Literal(at, Type.TIMESTAMP)), Type.DECIMAL)
        assert numbers(call, [DATES], [(0,)]) == [EXTRACTED[part](at)]
    for unit in UNITS:
        call = Call(Function.DATE_TRUNC, (word(unit), Literal(at, Type.TIMESTAMP)), Type.TIMESTAMP)
        assert numbers(call, [DATES], [(0,)]) == [count(truncated(at, unit))]
    moved = Call(Function.SHIFT, (Literal(at.date(), Type.DATE), Literal(4, Type.INTEGER)), Type.DATE)
    assert numbers(moved, [DATES], [(0,)]) == [date(2024, 3, 4).toordinal() - 719163]


def expressions(facts: Facts) -> list[Expression]:
    (time,) = columns_of([facts])
    parts = [part for part in PARTS if facts.type is Type.TIMESTAMP or part not in CLOCK_PARTS]
    return [
        *(Call(Function.DATE_TRUNC, (word(unit), time), Type.TIMESTAMP) for unit in UNITS),
        *(Call(Function.EXTRACT, (word(part), time), Type.DECIMAL) for part in parts),
        *(Call(Function.SHIFT, (time, Literal(span, Type.INTERVAL)), Type.TIMESTAMP) for span in SPANS),
        Call(Function.ELAPSED, (time, time), Type.INTEGER if facts.type is Type.DATE else Type.INTERVAL),
        *(Cast(time, type) for type in (Type.DATE, Type.TIMESTAMP, Type.TEXT) if type is not facts.type),
    ]


@pytest.mark.parametrize("facts", [WILD_DATES, WILD_MOMENTS], ids=["dates", "timestamps"])
def test_no_function_of_times_raises_or_leaves_its_facts_on_any_stored_integer(facts: Facts) -> None:
    for expression in expressions(facts):
        scalar = lowered(expression, [facts])
        assert_within_facts(scalar, values(scalar, [facts], [(value,) for value in WILD]))


@pytest.mark.parametrize("facts", [DATES, MOMENTS], ids=["dates", "timestamps"])
def test_a_narrow_range_stays_true_at_its_ends(facts: Facts) -> None:
    """Each range ends or begins where a month does, which is where days fall together."""
    one = 1 if facts.type is Type.DATE else DAY_MICROSECONDS
    for first, last in [(DAYS[20], DAYS[21]), (DAYS[30], DAYS[60]), (17_195, 17_197)]:
        narrow = Facts(facts.type, Kind.INTEGER, nullable=False, low=first * one, high=last * one + one - 1)
        rows = [(at,) for at in {narrow.low, narrow.low + one // 3, narrow.high - one // 3, narrow.high}]
        for expression in expressions(narrow):
            scalar = lowered(expression, [narrow])
            assert_within_facts(scalar, values(scalar, [narrow], rows))


def test_times_are_printed_as_iso_dates() -> None:
    (time,) = columns_of([MOMENTS])
    found = values(lowered(Cast(time, Type.TEXT), [MOMENTS]), [MOMENTS], [(at,) for at in MICROSECONDS])
    assert found == [
        str(moment(at)).rstrip("0") if at % 10**6 else moment(at).isoformat(sep=" ") for at in MICROSECONDS
    ]
    (day,) = columns_of([DATES])
    found = values(lowered(Cast(day, Type.TEXT), [DATES]), [DATES], [(at,) for at in DAYS])
    assert found == [moment(at * DAY_MICROSECONDS).date().isoformat() for at in DAYS]
