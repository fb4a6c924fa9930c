"""Values of PostgreSQL's own types on their way into the copy: hostile ones, and each statement is over all of them."""

import math
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import psycopg
import pytest
from tests.engines.postgres_under_law import url

from sfumato.engines.postgres.column import column_sql, stored, unit_sql
from sfumato.policy.policy import Bounds, Column, ColumnType
from sfumato.sensitivity.clipping import to_grid
from sfumato.sensitivity.grid import Grid

DOUBLES = [
    *(
        math.nan,
        math.inf,
        -math.inf,
        -0.0,
        0.0,
        5e-324,
        -5e-324,
        2.2e-308,
        1e-200,
        1.5e-200,
        0.005,
        -0.005,
        0.015,
        0.025,
    ),
    *(0.5, 1.5, 2.5, -2.5, 0.49999999999999994, 2.675, 1e15 + 0.5, 2.0**49, 2.0**52 + 0.5, 2.0**53, 2.0**53 + 2),
    *(2.0**62, 2.0**63, -(2.0**63), 2.0**64, 1e22, 1e100, -1e100, 1.7976931348623157e308, 499.995, 123456.785),
]
NUMERICS = [
    *("NaN", "Infinity", "-Infinity", "0", "0.005", "-0.005", "0.015", "0.0050000000000000000000000001", "1e-100"),
    *("0.5", "1.5", "2.5", "9223372036854775807", "9223372036854775808", "-9223372036854775808.5", "1e30", "-1e200"),
]
INTEGERS = [-(2**63), -(2**62), -1, 0, 1, 5, 15, 25, 1500, 2500, 2**53 + 1, 2**63 - 1]
STEPS = [Fraction(1, 100), Fraction(1, 2), Fraction(1), Fraction(1000), Fraction(1, 10**6), Fraction(7, 4)]
INT64 = range(-(2**63), 2**63)


def _column(step: Fraction, bounds: tuple[int, int] | None) -> Column:
    found = None if bounds is None else Bounds(Fraction(bounds[0]), Fraction(bounds[1]))
    return Column("x", ColumnType.DECIMAL, step=step, bounds=found)


def _expected(column: Column, value: Any) -> int | None:
    step = column.step or Fraction(1)
    grid = column.grid or Grid(Fraction(-(10**40)) * step, Fraction(10**40) * step, step)
    result = to_grid([value], grid)
    number = int(result.integers[0]) if result.present[0] else None
    return number if number is not None and number in INT64 else None


def _read(expression: str, type: str, values: list[Any]) -> list[Any]:
    with psycopg.connect(url(), autocommit=True) as connection:
        connection.execute("SET timezone = 'Asia/Tokyo'; SET jit = off")
        connection.execute(f"CREATE TEMP TABLE t (i integer, x {type})")
        with connection.cursor() as cursor, cursor.copy("COPY t FROM STDIN") as copy:
            for at, value in enumerate(values):
                copy.write_row((at, value))
        return [value for (value,) in connection.execute(f"SELECT {expression} FROM t ORDER BY i").fetchall()]  # noqa: S608


@pytest.mark.parametrize("bounds", [None, (-500, 500), (0, 7)])
@pytest.mark.parametrize(
    ("type", "values"), [("double precision", DOUBLES), ("numeric", NUMERICS), ("bigint", INTEGERS)]
)
def test_numbers_reach_the_grid_as_the_definition_says(
    type: str, values: list[Any], bounds: tuple[int, int] | None
) -> None:
    columns = [_column(step, bounds) for step in STEPS if bounds is None or Fraction(bounds[1]) % step == 0]
    listed = ", ".join(column_sql(column, stored("x", type)) for column in columns)
    found = _read(f"ARRAY[{listed}]", type, [*values, None])
    exact = [_exact(value) for value in values]
    for at, column in enumerate(columns):
        assert [row[at] for row in found] == [*(_expected(column, value) for value in exact), None], column


def _exact(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    number = Decimal(value)
    return Fraction(number) if number.is_finite() else float(number)


def test_days_and_moments_without_end_and_beyond_the_years_of_a_policy_are_absent() -> None:
    days = ["infinity", "-infinity", "0044-03-15 BC", "10000-01-01", "9999-12-31", "0001-01-01", "1970-01-02"]
    last = (date(9999, 12, 31) - date(1970, 1, 1)).days
    first = (date(1, 1, 1) - date(1970, 1, 1)).days
    wanted = [None, None, None, None, last, first, 1]
    day, moment = Column("x", ColumnType.DATE), Column("x", ColumnType.TIMESTAMP)
    assert _read(column_sql(day, stored("x", "date")), "date", days) == wanted
    micro = [None if one is None else one * 86_400_000_000 for one in wanted]
    assert _read(column_sql(moment, stored("x", "date")), "date", days) == micro
    plain = "timestamp without time zone"
    assert _read(column_sql(moment, stored("x", plain)), plain, days) == micro
    assert _read(column_sql(day, stored("x", plain)), plain, days) == wanted
    late = ["9999-12-31 23:59:59.999999", "1969-12-31 23:59:59.999999"]
    after = [(datetime.fromisoformat(one) - datetime(1970, 1, 1)) // datetime.resolution for one in late]
    assert _read(column_sql(moment, stored("x", plain)), plain, late) == after
    zoned = "timestamp with time zone"  # read in UTC, whatever zone the connection has
    assert _read(column_sql(moment, stored("x", zoned)), zoned, ["2024-01-01 00:30:00+00"]) == [1_704_069_000_000_000]
    assert _read(unit_sql(day, stored("x", plain)), plain, ["1970-01-02", "1970-01-02 00:00:01", "infinity"]) == [
        "1",
        None,
        None,
    ]


def test_a_number_names_a_person_only_if_it_is_exactly_an_integer() -> None:
    person = Column("x", ColumnType.INTEGER)
    doubles = _read(
        unit_sql(person, stored("x", "double precision")), "double precision", [7.0, 7.5, 2.0**53, math.nan]
    )
    assert doubles == ["7", None, None, None]
    numerics = ["7.00", "7.5", "NaN", "Infinity", "340282366920938463463374607431768211456"]
    found = _read(unit_sql(person, stored("x", "numeric")), "numeric", numerics)
    assert found == ["7", None, None, None, numerics[-1]]


def test_stepless_decimals_are_finite_doubles_with_one_zero() -> None:
    column = Column("x", ColumnType.DECIMAL)
    found = _read(column_sql(column, stored("x", "double precision")), "double precision", DOUBLES)
    assert [str(value) for value in found[:5]] == ["None", "None", "None", "0.0", "0.0"]
    assert found[5:] == DOUBLES[5:]
    assert _read(column_sql(column, stored("x", "numeric")), "numeric", ["NaN", "1e400", "1e-400", "1.5"]) == [
        None,
        None,
        None,
        1.5,
    ]
