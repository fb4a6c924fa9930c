"""Every type that a source may store becomes what was declared, or is absent; no value can make it raise."""

from datetime import date, datetime
from fractions import Fraction

import duckdb
import pytest

from sfumato.engines.duckdb.column import column_sql, unit_sql
from sfumato.engines.duckdb.column import stored as as_stored
from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.sql.column import check_type, keyed
from sfumato.errors import BadSource
from sfumato.policy.policy import Bounds, Column, ColumnType

CLOCK = Column("v", ColumnType.TIMESTAMP)
DAY = Column("v", ColumnType.DATE)
WITHIN = Column("v", ColumnType.DATE, Bounds(date(1970, 1, 2), date(1970, 1, 9)))
HOURS = Column("v", ColumnType.TIMESTAMP, Bounds(datetime(1970, 1, 1), datetime(1970, 1, 1, 1)))
TRUTH = Column("v", ColumnType.BOOLEAN)
TEXT = Column("v", ColumnType.TEXT)
LOOSE = Column("v", ColumnType.DECIMAL)
WHOLE = Column("v", ColumnType.INTEGER, None, Fraction(1))


@pytest.mark.parametrize(
    ("column", "kind", "value", "expected"),
    [
        (CLOCK, "TIMESTAMP", "1970-01-01 00:00:01", 1_000_000),
        (CLOCK, "TIMESTAMP", "infinity", None),
        (CLOCK, "TIMESTAMP", "290000-01-01", None),
        (CLOCK, "TIMESTAMP_S", "1969-12-31 23:59:59", -1_000_000),
        (CLOCK, "TIMESTAMP_S", "290309-01-01", None),
        (CLOCK, "TIMESTAMP_MS", "1970-01-01 00:00:00.001", 1000),
        (CLOCK, "TIMESTAMP_NS", "1970-01-01 00:00:00.000001500", 2),
        (CLOCK, "TIMESTAMP_NS", "1970-01-01 00:00:00.000002500", 2),
        (CLOCK, "TIMESTAMP_NS", "infinity", None),
        (CLOCK, "TIMESTAMP WITH TIME ZONE", "1970-01-01 01:00:00+01", 0),
        (CLOCK, "TIMESTAMP WITH TIME ZONE", "-infinity", None),
        (CLOCK, "DATE", "1970-01-02", 86_400_000_000),
        (CLOCK, "DATE", "5000000-01-01", None),
        (HOURS, "TIMESTAMP", "290000-01-01", 3_600_000_000),
        (HOURS, "TIMESTAMP", "0001-01-01", 0),
        (DAY, "DATE", "1969-12-31", -1),
        (DAY, "DATE", "5000000-01-01", None),
        (DAY, "DATE", "infinity", None),
        (DAY, "DATE", "2024-02-29", 19782),
        (DAY, "TIMESTAMP", "1969-12-31 23:59:59", -1),
        (DAY, "TIMESTAMP", "-infinity", None),
        (WITHIN, "DATE", "5000000-01-01", 8),
        (WITHIN, "DATE", "1900-01-01", 1),
        (WITHIN, "DATE", "infinity", None),
        (TRUTH, "BOOLEAN", "true", 1),
        (TRUTH, "INTEGER", "0", 0),
        (TRUTH, "INTEGER", "2", None),
        (TEXT, "UUID", "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000001"),
        (TEXT, "ENUM('a', 'b')", "b", "b"),
        (TEXT, "INTEGER", "7", "7"),
        (LOOSE, "DOUBLE", "-0.0", 0.0),
        (LOOSE, "DOUBLE", "nan", None),
        (LOOSE, "DECIMAL(10,2)", "1.25", 1.25),
        (WHOLE, "HUGEINT", "170141183460469231731687303715884105727", None),
    ],
)
def test_a_value_becomes_what_was_declared(column: Column, kind: str, value: str, expected: object) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE given (v {kind})")
        connection.execute("INSERT INTO given VALUES ($1), (NULL)", [value])
        (described, *_), *_ = [row[1:] for row in connection.execute("DESCRIBE given").fetchall()]
        stored = as_stored("v", described)
        check_type("given", column, stored)
        rows = connection.execute(f"SELECT {column_sql(column, stored)} FROM given").fetchall()  # noqa: S608
    assert rows == [(expected,), (None,)]
    assert str(rows[0][0]) == str(expected)  # 0.0 is not −0.0


@pytest.mark.parametrize("column", [CLOCK, DAY, TRUTH, WHOLE, LOOSE, WITHIN, HOURS], ids=lambda column: column.type)
@pytest.mark.parametrize("text", ["", "x", "1e999", "2024-02-30", "9" * 400, "\u00e9" * 1000, "1/0", "nan", "-"])
def test_unread_text_that_is_not_of_its_type_is_absent(column: Column, text: str) -> None:
    with duckdb.connect() as connection:
        sql = column_sql(column, as_stored("v", "VARCHAR", raw=True))
        assert connection.execute(f"SELECT {sql} FROM (SELECT $1::VARCHAR AS v)", [text]).fetchall() == [(None,)]  # noqa: S608


def test_what_is_not_a_declared_key_is_absent() -> None:
    column = Column("v", ColumnType.TEXT, values=("er", "it's"))
    with duckdb.connect() as connection:
        sql = keyed(column, "v", DUCKDB)
        given = "unnest(['er', 'it''s', 'ER', '', NULL]) AS v"
        rows = connection.execute(f"SELECT {sql} FROM (SELECT {given})").fetchall()  # noqa: S608
    assert [row[0] for row in rows] == ["er", "it's", None, None, None]


def test_people_with_ids_beyond_64_bits_stay_apart() -> None:
    with duckdb.connect() as connection:
        sql = unit_sql(WHOLE, as_stored("v", "HUGEINT"))
        given = "unnest([9223372036854775808::HUGEINT, 9223372036854775809::HUGEINT]) AS v"
        assert len(set(connection.execute(f"SELECT {sql} FROM (SELECT {given})").fetchall())) == 2  # noqa: S608


@pytest.mark.parametrize("kind", ["BLOB", "INTEGER[]", "INTERVAL", "STRUCT(a INTEGER)", "TIME", "VARCHAR"])
def test_a_type_that_cannot_hold_the_declared_one_is_refused_by_its_key(kind: str) -> None:
    with pytest.raises(BadSource, match=r"tables\.t\.columns\.v\.type is integer"):
        check_type("t", WHOLE, as_stored("v", kind))
