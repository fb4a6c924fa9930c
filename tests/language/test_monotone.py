"""What a restriction of a year, a period or a day says of the column is exactly what the calendar says."""

from datetime import date, timedelta

import pytest

from sfumato.language.calendar import civil, period_start
from sfumato.language.facts import Facts, Kind
from sfumato.language.monotone import column_restriction
from sfumato.language.narrowing import Restriction, shape_of
from sfumato.language.scalar import ColumnRef, Operator, Scalar
from sfumato.query.types import Type

FACTS = Facts(Type.DATE, Kind.INTEGER)
COLUMN = Scalar(Operator.COLUMN, (), FACTS, ColumnRef("visits", "day"))
DAYS = [(date(1999, 12, 25) + timedelta(days=at) - date(1970, 1, 1)).days for at in range(800)]


def _scalar(operator: Operator, unit: str) -> Scalar:
    return Scalar(operator, (COLUMN,), FACTS, unit)


@pytest.mark.parametrize(
    ("operator", "unit"),
    [(Operator.DAY_PART, "year"), *((Operator.PERIOD_START, unit) for unit in ("month", "quarter", "year"))],
)
def test_a_day_is_within_the_limits_of_the_column_exactly_if_its_period_is(operator: Operator, unit: str) -> None:

    def value(day: int) -> int:
        return civil(day)[0] if operator is Operator.DAY_PART else period_start(day, unit)

    points = sorted({value(day) + step for day in DAYS[::40] for step in (-1, 0, 1)})
    for low in (None, *points):
        for high in (None, *points[::3]):
            found = column_restriction(shape_of(_scalar(operator, unit)), Restriction(low, high))
            assert found is not None
            limit = found[1]
            for day in DAYS[::7]:
                wanted = (low is None or low <= value(day)) and (high is None or value(day) <= high)
                given = (limit.low is None or limit.low <= day) and (limit.high is None or day <= limit.high)
                assert wanted == given


@pytest.mark.parametrize("unit", ["month", "dow", "week"])
def test_what_comes_again_says_nothing(unit: str) -> None:
    assert column_restriction(shape_of(_scalar(Operator.DAY_PART, unit)), Restriction(1, 2)) is None
