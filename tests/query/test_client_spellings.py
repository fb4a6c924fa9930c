"""What real clients write: parameters without blanks, casts in LIMIT, keywords as names, times with a zone."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.paths.worlds import a_world, policy, write

import sfumato
from sfumato.errors import BadSql, UnknownName, UnsupportedSql
from sfumato.prepare import RequestedPrice

START = "2024-03-01 00:00:00"
COUNT = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    folder: Path = tmp_path_factory.mktemp("spellings")
    write(folder, a_world(5))
    with sfumato.open(policy(folder)) as database:
        yield database


def measured(clinic: sfumato.Database, sql: str, parameters: Any = None) -> str:
    return clinic.prepare(sql, parameters, RequestedPrice("1", None, None, "1e-7")).fingerprint


@pytest.mark.parametrize(
    ("sql", "parameters", "plain"),
    [
        (f"{COUNT} WHERE age IN ($1,$2)", [3, 4], f"{COUNT} WHERE age IN (3, 4)"),
        (f"{COUNT} WHERE dept IN ($1,$2,$3)", ["er", "icu", "er"], f"{COUNT} WHERE dept IN ('er', 'icu')"),
        (f"{COUNT} WHERE age = ANY($1)", [[3, 4]], f"{COUNT} WHERE age IN (3, 4)"),
        (f"{COUNT} WHERE age = ANY($1::int8[])", [[4, 3, 4]], f"{COUNT} WHERE age IN (3, 4)"),
        (f"{COUNT} WHERE age = ANY('{{3,4}}'::integer[])", None, f"{COUNT} WHERE age IN (3, 4)"),
        (f"{COUNT} WHERE dept = ANY(ARRAY['er', 'icu'])", None, f"{COUNT} WHERE dept IN ('er', 'icu')"),
        (f"{COUNT} WHERE dept = ANY('{{er,icu}}')", None, f"{COUNT} WHERE dept IN ('er', 'icu')"),
        (f"{COUNT} WHERE dept <> ALL('{{er,NULL}}')", None, f"{COUNT} WHERE dept NOT IN ('er', NULL)"),
        (f"{COUNT} WHERE NOT dept = SOME($1)", [["er", None]], f"{COUNT} WHERE dept NOT IN ('er', NULL)"),
        (f"{COUNT} WHERE dept IN UNNEST(ARRAY['er'])", None, f"{COUNT} WHERE dept IN ('er')"),
        (f"{COUNT} WHERE dept <> ALL('{{}}')", None, COUNT),
        (f"{COUNT} WHERE age > ANY($1)", [[3, 4]], f"{COUNT} WHERE age > 3 OR age > 4"),
        (f"{COUNT} WHERE dept LIKE ANY(ARRAY['e%', 'i%'])", None, f"{COUNT} WHERE dept LIKE 'e%' OR dept LIKE 'i%'"),
        (f"{COUNT} WHERE age=$1 OR score=$2", [3, 4], f"{COUNT} WHERE age = 3 OR score = 4"),
        ("SELECT dept, COUNT(*) FROM visits GROUP BY dept LIMIT $1::INTEGER", [2], None),
        ("SELECT dept, COUNT(*) FROM visits GROUP BY dept LIMIT CAST($1 AS bigint) OFFSET $2::int", [2, 1], None),
        ('SELECT COUNT(*) AS n FROM "clinic"."public"."visits"', None, COUNT),
        ('SELECT COUNT("clinic"."public"."visits"."cost") FROM "clinic"."public"."visits"', None, None),
        ("SELECT COUNT(*) AS select FROM visits", None, COUNT),
        ("SELECT dept AS from, COUNT(*) AS where FROM visits GROUP BY dept", None, None),
        ("SELECT t.n AS end FROM (SELECT COUNT(*) AS n FROM visits) AS t", None, COUNT),
    ],
)
def test_what_a_client_writes_is_read(
    clinic: sfumato.Database, sql: str, parameters: list[object] | None, plain: str | None
) -> None:
    assert measured(clinic, sql, parameters)
    if plain is not None:
        assert measured(clinic, sql, parameters) == measured(clinic, plain)


@pytest.mark.parametrize(
    "written",
    [
        "'2024-03-01T00:00:00Z'",
        "'2024-03-01 00:00:00+00'",
        "'2024-03-01 00:00:00.000+00:00'",
        "'2024-03-01T00:00:00.000000499Z'",
        "'2024-02-29T23:59:59.999999999Z'",
        "timestamp with time zone '2024-03-01 00:00:00Z'",
        "timestamptz '2024-03-01 02:00:00+02'",
        "'2024-02-29 18:30:00-0530'::timestamptz",
        "TO_TIMESTAMP('2024-03-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')",
        "to_timestamp('01/03/2024', 'DD/MM/YYYY')",
        "to_timestamp('2024-03-01T00:00:00', 'YYYY-MM-DD\"T\"HH24:MI:SS')",
        "to_timestamp(1709251200)",
        "to_timestamp(1709251200.0)",
        "TIMESTAMP '2024-03-01 00:00:00' AT TIME ZONE 'UTC'",
        "('2024-03-01 01:00:00+01'::timestamptz AT TIME ZONE 'utc')",
    ],
)
def test_a_time_in_utc_is_a_constant_however_it_is_written(clinic: sfumato.Database, written: str) -> None:
    plain = measured(clinic, f"{COUNT} WHERE seen >= TIMESTAMP '{START}'")
    assert measured(clinic, f"{COUNT} WHERE seen >= {written}") == plain


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2024, 3, 1),
        datetime(2024, 3, 1, tzinfo=UTC),
        datetime(2024, 3, 1, 2, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_a_time_with_a_zone_is_a_parameter_in_utc(clinic: sfumato.Database, moment: datetime) -> None:
    plain = measured(clinic, f"{COUNT} WHERE seen >= TIMESTAMP '{START}'")
    assert measured(clinic, f"{COUNT} WHERE seen >= $1", [moment]) == plain


def test_a_column_at_utc_is_the_column(clinic: sfumato.Database) -> None:
    zoned = "SELECT DATE_TRUNC('month', seen AT TIME ZONE 'UTC') AS m, COUNT(*) FROM visits GROUP BY 1"
    assert measured(clinic, zoned) == measured(clinic, zoned.replace(" AT TIME ZONE 'UTC'", ""))


def test_a_day_by_a_format_is_a_constant(clinic: sfumato.Database) -> None:
    plain = measured(clinic, f"{COUNT} WHERE seen >= DATE '2024-03-01'")
    for written in ("TO_DATE('2024-03-01', 'YYYY-MM-DD')", "to_date('01.03.2024', 'DD.MM.YYYY')"):
        assert measured(clinic, f"{COUNT} WHERE seen >= {written}") == plain


def test_a_day_has_no_time_of_day_to_round(clinic: sfumato.Database) -> None:
    plain = measured(clinic, f"{COUNT} WHERE day >= DATE '2024-03-01'")
    for written in ("'2024-03-01T23:59:59.999999999Z'", "'2024-03-01 23:59:59.9999999'", "'2024-3-1T05:00:00Z'"):
        assert measured(clinic, f"{COUNT} WHERE day >= {written}") == plain


@pytest.mark.parametrize(
    ("sql", "refusal", "words"),
    [
        (f"{COUNT} WHERE seen AT TIME ZONE 'Europe/Berlin' > '{START}'", UnsupportedSql, "time zone Europe/Berlin"),
        (f"{COUNT} WHERE seen >= '{START}+02'", BadSql, "in UTC"),
        (f"{COUNT} WHERE seen >= to_timestamp('{START}', 'YYYY-MM-DD HH12:MI:SS')", UnsupportedSql, "HH24"),
        (f"{COUNT} WHERE seen >= to_timestamp('2024-13-01', 'YYYY-MM-DD')", UnsupportedSql, "to_timestamp"),
        (f"{COUNT} WHERE seen >= to_timestamp(age)", UnsupportedSql, "to_timestamp"),
        (f"{COUNT} WHERE seen >= to_date('2024-02-30', 'YYYY-MM-DD')", UnsupportedSql, "to_date"),
        ('SELECT COUNT(*) FROM "clinic"."private"."visits"', UnknownName, "public"),
        ("SELECT $$a$$, COUNT(*) FROM visits", UnsupportedSql, "dollar-quoted"),
    ],
)
def test_what_means_something_else_is_refused_by_name(
    clinic: sfumato.Database, sql: str, refusal: type[Exception], words: str
) -> None:
    with pytest.raises(refusal, match=words):
        measured(clinic, sql)
