"""The start of a month, week or year of a date is a date, wherever the question computes it."""

from collections.abc import Iterator
from datetime import date, datetime

import pytest
from tests.made_up_clinic import fresh_clinic

import sfumato


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    """Return the made-up clinic."""
    with sfumato.open(fresh_clinic(tmp_path_factory.mktemp("clinic"))) as opened:
        yield opened


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT date_trunc('month', day) AS m, COUNT(*) AS n FROM visits GROUP BY m",
        "SELECT m, n + 1 AS n FROM (SELECT date_trunc('month', day) AS m, COUNT(*) AS n FROM visits GROUP BY 1) t",
        "SELECT DISTINCT date_trunc('month', day) AS m, 1 AS n FROM visits",
    ],
)
def test_the_start_of_a_month_of_a_date_is_a_date(database: sfumato.Database, sql: str) -> None:
    release = database.ask(sql, epsilon="0.1")
    assert [row["m"] for row in release.rows()] == [date(2024, month, 1) for month in range(1, 13)]
    assert str(release.to_arrow().schema.field("m").type) == "date32[day]"
    assert "2024-02-01 " in repr(release)
    assert "00:00" not in repr(release)


def test_public_answers_and_text_are_dates_too_and_timestamps_stay(database: sfumato.Database) -> None:
    row = database.ask(
        "SELECT date_trunc('week', DATE '2024-02-29') AS w, date_trunc('day', TIMESTAMP '2024-02-29 10:00') AS t, "
        "date_trunc('month', NULL::date) AS missing"
    ).rows()[0]
    assert row == {"w": date(2024, 2, 26), "t": datetime(2024, 2, 29), "missing": None}
