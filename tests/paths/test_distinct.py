"""COUNT(DISTINCT …) of what is not a person, through SQL: near the truth, with bars and notes."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from scipy.stats import binom
from tests.release.bars_clinic import holds, opened, released

import sfumato
from sfumato.accounting.event import Neighbours
from sfumato.planning.aggregates.distinct_count import _limits, errs_less


@pytest.mark.parametrize(("neighbours", "plain"), [(Neighbours.ADD_REMOVE, 10), (Neighbours.REPLACE, 24)])
def test_the_method_is_the_one_of_earlier_versions_whose_answers_are_paid_for(
    neighbours: Neighbours, plain: int
) -> None:
    """Version 0.14 counted so many rows of a person plainly, and matched more: another method is another charge."""
    found = [most for most in range(2, 60) if not errs_less(_limits(most), Fraction(most), None, neighbours)]
    assert found == list(range(2, plain + 1))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    folder = tmp_path_factory.mktemp("distinct")
    (folder / "data").mkdir()
    with duckdb.connect() as connection:  # everybody has ten of 86 places; ten bills are their own
        connection.execute(
            "CREATE TABLE sales AS SELECT p AS who, (p * 7 + i * 11) % 86 AS place, p * 100 + i AS bill, "
            "CASE WHEN p % 2 = 0 THEN 'a' ELSE 'b' END AS town FROM range(900) t(p), range(10) u(i)"
        )
        connection.execute(f"COPY sales TO '{folder / 'data'}/sales.parquet'")
    number: dict[str, Any] = {"type": "integer"}
    policy: dict[str, Any] = {
        "name": "shop",
        "source": f"parquet:{folder / 'data'}",
        "ledger": f"sqlite:{folder / 'ledger'}",
        "budget": {"epsilon": 100_000, "delta": 1e-3},
        "tables": {
            "sales": {
                "unit": "who",
                "rows_per_unit": 150,
                "groups_per_unit": 1,
                "columns": {
                    "who": number,
                    "place": number | {"bounds": [0, 5000]},
                    "bill": number,
                    "town": {"type": "text", "values": ["a", "b"]},
                },
            }
        },
    }
    with sfumato.open(policy) as opened:
        yield opened


def test_a_count_of_86_places_has_the_noise_of_one_value(shop: sfumato.Database) -> None:
    release = shop.ask("SELECT COUNT(DISTINCT place) AS n FROM sales", epsilon="20")
    ((low, high),) = [row["n"] for row in release.intervals()]  # missed once in 600,000 runs
    assert low <= 86 <= high
    assert release.rows()[0]["n"] - low <= 2  # how far up it is, noise does not tell: values may be one person's own
    assert any("with a limit of 1 per person" in note and "never above" in note for note in release.notes)


def test_values_that_nobody_else_has_count_all_the_same(shop: sfumato.Database) -> None:
    release = shop.ask("SELECT COUNT(DISTINCT bill) AS n FROM sales", epsilon="20")
    (low, high) = release.intervals("0.999999")[0]["n"]
    assert low <= 9000 <= high
    assert release.rows()[0]["n"] - low < 50  # of the limit 16, not of 150


def test_groups_are_matched_each_by_itself(shop: sfumato.Database) -> None:
    two = "COUNT(DISTINCT place) AS n, COUNT(DISTINCT bill) FILTER (WHERE place < 43) AS b"
    rows = shop.ask(f"SELECT town, {two} FROM sales GROUP BY town", epsilon="40").rows()  # noqa: S608
    assert [abs(row["n"] - 86) < 12 for row in rows] == [True, True]
    assert all(abs(row["b"] - 2250) < 500 for row in rows)


def test_what_is_computed_from_it_has_bars(shop: sfumato.Database) -> None:
    sql = "SELECT town, 2 * COUNT(DISTINCT place) + 1 AS n FROM sales GROUP BY town HAVING COUNT(DISTINCT place) > 50"
    release = shop.ask(sql, epsilon="40")
    assert all(low <= 173 <= high for low, high in (row["n"] for row in release.intervals("0.999999")))
    assert all(row["n"][1] is None for row in release.intervals(bias=True))


def test_a_quote_tells_how_it_is_made_and_a_margin_that_is_asked_for_is_kept(shop: sfumato.Database) -> None:
    sql = "SELECT COUNT(DISTINCT place) AS n FROM sales WHERE place < 4999"  # nothing of it is paid for
    quote = shop.explain(sql, epsilon="1")
    assert quote.margins == {"n": None}
    assert "matching" in quote.mechanisms["n"]
    assert any("±4 at limit 1" in note for note in quote.notes)
    assert shop.explain(sql, within={"n": 25}).margins == {"n": 25}
    assert "matching" not in shop.explain(sql, within={"n": 25}).mechanisms["n"]


def test_a_tiny_price_buys_much_noise_and_nothing_else(shop: sfumato.Database) -> None:
    release = shop.ask("SELECT COUNT(DISTINCT place) AS n, COUNT(*) AS m FROM sales", epsilon="1e-18")
    low, high = release.intervals()[0]["n"]  # which side of the truth the noise falls to is chance
    assert 0 <= low <= high


@pytest.mark.parametrize("values", [1, 5, 40])
def test_values_that_are_each_one_persons_own_lie_in_the_interval(tmp_path: Path, values: int) -> None:
    """Twenty people with 40 own values each: 800 were said to lie between 18 and 26.

    Of 60 releases with fixed bits; with others, bars of exactly 95 % fail with probability below 1e-6 (binomial).
    """
    rows = {"p": np.repeat(np.arange(20), values), "bill": np.arange(20 * values)}
    table = {"rows_per_unit": 50, "columns": {"bill": {"type": "integer"}}}
    with opened(tmp_path, rows, table) as database:
        found = list(released(database, "SELECT COUNT(DISTINCT bill) AS n FROM v", 60, "1"))
    missed = [not holds(release.intervals()[0]["n"], 20 * values) for release in found]
    assert binom.sf(sum(missed) - 1, 60, 0.05) > 1e-6
    assert all(release.intervals()[0]["n"][1] is not None for release in found)


def test_few_values_of_a_person_are_counted_plainly_and_the_interval_is_short(tmp_path: Path) -> None:
    """Twenty people with 9 own values each of 10 rows: by matching within a limit of 1, the interval is 487 long.

    Of 60 releases with fixed bits; with others, bars of exactly 95 % fail with probability below 1e-6 (binomial).
    """
    rows = {"p": np.repeat(np.arange(20), 9), "bill": np.arange(180)}
    table = {"rows_per_unit": 10, "columns": {"bill": {"type": "integer"}}}
    sql = "SELECT COUNT(DISTINCT bill) AS n FROM v"
    with opened(tmp_path, rows, table) as database:
        assert "matching" not in database.explain(sql, epsilon="1").mechanisms["n"]
        found = list(released(database, sql, 60, "1"))
    ends = [release.intervals()[0]["n"] for release in found]
    assert binom.sf(sum(not holds(end, 180) for end in ends) - 1, 60, 0.05) > 1e-6
    assert all(high - low <= 60 for low, high in ends)


@pytest.mark.parametrize("most", [3, 40])
@pytest.mark.parametrize("keys", [{"values": ["a", "b", "c"]}, {}])
def test_a_count_of_different_values_never_exceeds_the_public_keys(
    tmp_path: Path, keys: dict[str, Any], most: int
) -> None:
    """Declared values, and integers within bounds: by matching and plainly, at a price that buys much noise."""
    rows = {"p": np.arange(30), "town": np.array(["a", "b", "c", "z"])[np.arange(30) % 4], "x": np.arange(30) % 5}
    columns = {"town": {"type": "text", **keys}, "x": {"type": "integer", "bounds": [0, 4]}}
    parts = "COUNT(DISTINCT town) AS n, COUNT(DISTINCT x) AS m, AVG(DISTINCT x) AS a"
    with opened(tmp_path, rows, {"rows_per_unit": most, "columns": columns}) as database:
        for release in released(database, f"SELECT {parts} FROM v", 40, "0.1"):  # noqa: S608
            for name, possible in (("n", 3 if keys else None), ("m", 5)):
                value, (low, high) = release.rows()[0][name], release.intervals()[0][name]
                if possible is not None:
                    assert 0 <= low <= value <= high <= possible
        (exact,) = released(database, f"SELECT {parts} FROM v", 1, "900")  # noqa: S608 - noise with probability < 1e-40
    assert (exact.rows()[0]["n"], exact.rows()[0]["m"]) == (3 if keys else 4, 5)
