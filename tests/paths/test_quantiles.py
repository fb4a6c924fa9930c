"""Quantiles, extremes and modes through SQL: near the truth at a high price, with intervals that hold it, and notes."""

from collections.abc import Iterator
from datetime import date
from itertools import pairwise
from typing import Any

import duckdb
import pytest
from tests.statistical.quantile_coverage import SHAPES, coverage

import sfumato
from sfumato.prepare import RequestedPrice

SURE = "200"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    folder = tmp_path_factory.mktemp("quantiles")
    (folder / "data").mkdir()
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE visits AS SELECT i AS person, i % 101 AS age, (i * i) % 100000 / 100.0 AS cost, "
            "i % 3 AS ward, DATE '2024-01-01' + CAST(i % 60 AS INTEGER) AS day, "
            "CASE WHEN i % 4 = 0 THEN 'a' ELSE 'b' END AS city FROM range(6000) AS t(i)"
        )
        # one person with as many rows as everybody else together
        connection.execute(
            "CREATE TABLE notes AS SELECT 0 AS person, 90 AS mark FROM range(300) "
            "UNION ALL SELECT i, 10 FROM range(1, 301) t(i)"
        )
        for table in ("visits", "notes"):
            connection.execute(f"COPY {table} TO '{folder / 'data' / table}.parquet'")
    number: dict[str, Any] = {"type": "integer"}
    policy: dict[str, Any] = {
        "name": "quantiles",
        "source": f"parquet:{folder / 'data'}",
        "ledger": f"sqlite:{folder / 'ledger'}",
        "budget": {"epsilon": 100_000, "delta": 1e-3},
        "tables": {
            "visits": {
                "unit": "person",
                "rows_per_unit": 1,
                "columns": {
                    "person": number,
                    "age": number | {"bounds": [0, 120]},
                    "ward": number | {"bounds": [0, 2]},
                    "cost": {"type": "decimal", "bounds": [0, 1000], "step": 0.01},
                    "day": {"type": "date", "bounds": [date(2024, 1, 1), date(2024, 12, 31)]},
                    "city": {"type": "text"},
                },
            },
            "notes": {
                "unit": "person",
                "rows_per_unit": 300,
                "columns": {"person": number, "mark": number | {"bounds": [0, 100]}},
            },
        },
    }
    with sfumato.open(policy) as database:
        yield database


def test_every_spelling_of_a_median_is_near_it(clinic: sfumato.Database) -> None:
    for written in (
        "MEDIAN(age)",
        "QUANTILE_CONT(age, 0.5)",
        "QUANTILE_DISC(age, 0.5)",
        "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age)",
        "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY age DESC)",
        "APPROX_QUANTILE(age, 0.5)",
    ):
        release = clinic.ask(f"SELECT {written} AS x FROM visits", epsilon=SURE)  # noqa: S608
        value = release.rows()[0]["x"]
        assert abs(float(value) - 50) <= 1, written


def test_each_group_has_its_own_with_an_interval_that_holds_it(clinic: sfumato.Database) -> None:
    sql = "SELECT ward, MEDIAN(cost) AS m, QUANTILE_DISC(cost, 0.9) AS q, COUNT(*) AS n FROM visits GROUP BY ward"
    release = clinic.ask(sql, epsilon=SURE)
    assert [row["ward"] for row in release.rows()] == [0, 1, 2]
    for row, ends in zip(release.rows(), release.intervals(), strict=True):
        assert ends["m"][0] <= row["m"] <= ends["m"][1]
        assert 300 < ends["m"][0] < ends["m"][1] < 700
        assert 800 < row["q"] < 1000
    surer = [release.intervals(level)[0]["m"] for level in (0.5, 0.95, 0.98, 0.999, 1 - 1e-9)]
    assert surer[0] == surer[1]  # the ends that were chosen are good for 95 %, and those further out for more
    assert all(wide[0] <= narrow[0] <= narrow[1] <= wide[1] for narrow, wide in pairwise(surer))
    assert surer[1] != surer[3]
    assert surer[-1] == (0.0, 1000.0)


def test_keys_that_nobody_declared_have_medians(clinic: sfumato.Database) -> None:
    release = clinic.ask("SELECT city, MEDIAN(age) AS m FROM visits GROUP BY city", epsilon=SURE)
    assert [row["city"] for row in release.rows()] == ["a", "b"]
    assert all(abs(row["m"] - 50) <= 2 for row in release.rows())


def test_no_group_at_all_is_an_answer(clinic: sfumato.Database) -> None:
    sql = "SELECT city, MEDIAN(age) AS m, MIN(age) AS l, MODE(age) AS c FROM visits WHERE age > 110 GROUP BY city"
    release = clinic.ask(sql, epsilon="1")
    assert release.rows() == release.intervals() == []
    assert release.columns == ("city", "m", "l", "c")


def test_dates_have_medians_and_extremes(clinic: sfumato.Database) -> None:
    sql = "SELECT MEDIAN(day) AS m, MIN(day) AS first, MAX(day) AS last FROM visits"
    (row,), (ends,) = (lambda release: (release.rows(), release.intervals()))(clinic.ask(sql, epsilon=SURE))
    assert abs((row["m"] - date(2024, 1, 30)).days) <= 1
    assert row["first"] <= date(2024, 1, 2)
    assert row["last"] >= date(2024, 2, 28)
    assert ends["first"][0] == date(2024, 1, 1)
    assert ends["last"][1] == date(2024, 12, 31)


def test_an_extreme_says_what_it_is(clinic: sfumato.Database) -> None:
    quote = clinic.explain("SELECT MAX(age) AS oldest FROM visits", epsilon="1")
    assert quote.margins == {"oldest": None}
    assert any("extreme quantile" in note and "people lie above" in note for note in quote.notes)


def test_nobody_decides_a_median_by_having_many_rows(clinic: sfumato.Database) -> None:
    sql = "SELECT MEDIAN(mark) AS m, QUANTILE_CONT(mark, 0.9) AS q, MODE(mark) AS c FROM notes"
    (row,) = clinic.ask(sql, epsilon=SURE).rows()
    assert row == {"m": 10.0, "q": 10.0, "c": 10}
    assert any("weight people equally" in note for note in clinic.explain(sql, epsilon="1").notes)


def test_what_follows_from_quantiles_has_intervals_too(clinic: sfumato.Database) -> None:
    sql = "SELECT MAX(age) - MIN(age) AS range, 2 * MEDIAN(age) AS twice FROM visits HAVING MEDIAN(age) > 3"
    (row,), (ends,) = (lambda release: (release.rows(), release.intervals()))(clinic.ask(sql, epsilon=SURE))
    assert ends["range"][0] <= row["range"] <= ends["range"][1] <= 120
    assert ends["twice"][0] <= 100 <= ends["twice"][1]


def test_a_question_names_the_rule_by_which_its_ends_are_chosen(clinic: sfumato.Database) -> None:
    """Releases that were kept under another rule, whose ends are good for other levels, are not taken for its own."""
    texts = [
        clinic.prepare(f"SELECT {written} FROM visits", None, RequestedPrice("1")).fingerprint  # noqa: S608
        for written in ("MEDIAN(age)", "APPROX_QUANTILE(age, 0.5)")
    ]
    assert '"ends","1/20"' in texts[0]
    assert '"ends"' not in texts[1]


@pytest.mark.parametrize(("shape", "size", "rows"), [("skewed", 25, 1), ("tied", 4, 1), ("even", 25, 3)])
def test_intervals_cover_as_often_as_they_say_with_error_rate_one_in_a_million(
    shape: str, size: int, rows: int
) -> None:
    for written, held in coverage(SHAPES[shape], (size, rows), 60, 3).items():
        assert held.enough, written
