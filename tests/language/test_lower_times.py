"""What is known of functions of times before any data is read."""

from datetime import date

import pytest

from sfumato.language.calendar import DAY_MICROSECONDS, FIRST_DAY, LAST_DAY, civil, day_of, months_later
from sfumato.language.facts import Facts, Kind
from sfumato.language.lowering import lower
from sfumato.language.numbers import is_null
from sfumato.language.scalar import Scalar, column
from sfumato.query.expression import Call, Column, Literal
from sfumato.query.functions import Function
from sfumato.query.types import Interval, Type


def extracted(part: str, low: date, high: date, declared: bool = True) -> Facts:
    facts = Facts(
        Type.DATE,
        Kind.INTEGER,
        low=day_of(low.year, low.month, low.day),
        high=day_of(high.year, high.month, high.day),
        declared_low=declared,
        declared_high=declared,
    )
    call = Call(Function.EXTRACT, (Literal(part, Type.TEXT), Column("t", "d", Type.DATE)), Type.INTEGER)
    return lower(call, {("t", "d"): column("t", "d", facts)}).facts


def moved(span: Interval, low: int, high: int) -> Scalar:
    facts = Facts(Type.DATE, Kind.INTEGER, nullable=False, low=low, high=high)
    call = Call(Function.SHIFT, (Column("t", "d", Type.DATE), Literal(span, Type.INTERVAL)), Type.TIMESTAMP)
    return lower(call, {("t", "d"): column("t", "d", facts)})


@pytest.mark.parametrize(
    ("part", "low", "high", "reach"),
    [
        ("year", date(1999, 12, 31), date(2024, 1, 1), (1999, 2024)),
        ("month", date(2023, 3, 1), date(2023, 5, 31), (3, 5)),
        ("month", date(2023, 12, 1), date(2024, 1, 1), (1, 12)),
        ("day", date(2023, 3, 4), date(2023, 3, 9), (4, 9)),
        ("dow", date(2024, 1, 1), date(2024, 1, 3), (1, 3)),
        ("dow", date(2024, 1, 1), date(2024, 3, 3), (0, 6)),
        ("week", date(2024, 1, 1), date(2024, 12, 29), (1, 52)),
    ],
)
def test_a_part_reaches_as_far_as_it_can_in_the_range(part: str, low: date, high: date, reach: tuple[int, int]) -> None:
    facts = extracted(part, low, high)
    assert (facts.low, facts.high) == reach


def test_parts_that_come_again_are_bounded_by_themselves_and_years_by_their_dates() -> None:
    assert extracted("month", date.min, date.max, declared=False).bounded
    assert not extracted("year", date.min, date.max, declared=False).bounded
    assert extracted("year", date.min, date.max).bounded


def test_a_date_moved_by_months_reaches_exactly_from_end_to_end() -> None:
    january = day_of(2024, 1, 30), day_of(2024, 1, 31)
    facts = moved(Interval(months=1), *january).facts
    assert (facts.low, facts.high, facts.nullable) == (
        day_of(2024, 2, 29) * DAY_MICROSECONDS,
        day_of(2024, 2, 29) * DAY_MICROSECONDS,
        False,
    )


def test_what_always_leaves_the_calendar_is_null() -> None:
    assert is_null(moved(Interval(months=120_000), 0, 10))
    assert moved(Interval(days=1), 0, LAST_DAY).facts.nullable


def test_the_calendar_agrees_with_python_and_goes_on_beyond_it() -> None:
    for day in range(FIRST_DAY, LAST_DAY, 9_973):
        year, month, of_month = civil(day)
        assert date.fromordinal(day - FIRST_DAY + 1) == date(year, month, of_month)
        assert day_of(year, month, of_month) == day
        assert months_later(day, 12 * 400) == day + 146_097
