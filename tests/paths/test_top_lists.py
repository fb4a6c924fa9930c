"""Lists through the whole path: with little noise they are what the plain question says, and nothing else gets out."""

from collections.abc import Iterator
from datetime import date

import pytest

import sfumato
from sfumato.errors import Refusal, UnsupportedSql

ARTICLES = {"tea": 90, "milk": 70, "bread": 50, "salt": 30}
"""How many people bought each; two of them twice."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    folder = tmp_path_factory.mktemp("shop")
    lines = ["person,article,kind,shelf,price,day"]
    for shelf, (article, people) in enumerate(ARTICLES.items()):
        kind = "wet" if article in {"tea", "milk"} else "dry"
        line = f"{article},{kind},{shelf},{10 * shelf + 5},2024-{3 * shelf + 1:02}-28"
        lines += [f"{person},{line}" for person in range(people)]
        lines += [f"{person},{line}" for person in range(2)]  # they buy twice
    (folder / "bought.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    columns = {
        "person": {"type": "integer"},
        "article": {"type": "text"},
        "kind": {"type": "text", "values": ["wet", "dry"]},
        "shelf": {"type": "integer", "bounds": [0, 99]},
        "price": {"type": "decimal", "bounds": [0, 40], "step": "0.5"},
        "day": {"type": "date", "bounds": [date(2024, 1, 1), date(2024, 12, 31)]},
    }
    policy: dict[str, object] = {
        "name": "shop",
        "source": f"csv:{folder / 'bought.csv'}",
        "ledger": f"sqlite:{folder / 'ledger'}",
        "budget": {"epsilon": 10**6, "delta": "1e-3"},
        "tables": {"bought": {"unit": "person", "rows_per_unit": 20, "columns": columns}},
    }
    with sfumato.open(policy) as database:
        yield database


def rows(shop: sfumato.Database, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in shop.ask(sql, epsilon=1000).rows()]


def test_top_lists_are_the_largest_groups_by_people(shop: sfumato.Database) -> None:
    sql = "SELECT article, COUNT(DISTINCT person) AS n FROM bought GROUP BY article ORDER BY n DESC, article LIMIT 2"
    assert "chosen privately" in shop.explain(sql, epsilon=1000).mechanisms["article"]
    assert rows(shop, sql) == rows(shop, "SELECT APPROX_TOP_K(article, 2) FROM bought") == [("tea", 90), ("milk", 70)]
    release = shop.ask(sql, epsilon=1000)
    assert not any("over-represented" in note for note in release.notes)  # the noise of a list did not choose it
    assert release.intervals()[0]["n"] == (90, 90)


def test_what_follows_the_first_and_what_is_large_enough_are_lists_too(shop: sfumato.Database) -> None:
    people = "SELECT article, COUNT(DISTINCT person) AS n FROM bought GROUP BY article"
    for rest, expected in (
        ("ORDER BY n DESC LIMIT 1 OFFSET 1", [("milk", 70)]),
        ("HAVING COUNT(DISTINCT person) >= 60 ORDER BY n DESC LIMIT 3", [("tea", 90), ("milk", 70)]),
    ):
        sql = f"{people} {rest}"
        assert "chosen privately" in shop.explain(sql, epsilon=1000).mechanisms["article"]
        assert rows(shop, sql) == expected
        assert any("over-represented" in note for note in shop.ask(sql, epsilon=1000).notes)  # noise chose among them


def test_rows_and_sums_select_what_they_show(shop: sfumato.Database) -> None:
    counted = "SELECT article, COUNT(*) AS n FROM bought GROUP BY article"
    assert any("rows on" in note for note in shop.explain(counted, epsilon=20).notes)
    release = shop.ask(counted, epsilon=20)  # tea has 92 rows, and appears from fewer than 80 on
    assert "tea" in [row["article"] for row in release.rows()]
    assert all(abs(row["n"] - ARTICLES[row["article"]] - 2) < 40 for row in release.rows())  # 20 scales of the noise
    summed = "SELECT article, SUM(price) AS total FROM bought GROUP BY article ORDER BY total DESC LIMIT 2"
    assert any("a sum of" in note for note in shop.explain(summed, epsilon=1).notes)
    assert shop.ask(summed, epsilon=1).rows() == []  # all together are far from it


def test_a_list_of_declared_keys_shows_its_largest_alone(shop: sfumato.Database) -> None:
    sql = "SELECT shelf, COUNT(DISTINCT person) AS n FROM bought GROUP BY shelf ORDER BY n DESC LIMIT 3"
    assert shop.explain(sql, epsilon=1000).mechanisms["shelf"] == "the 3 largest, chosen privately"
    assert rows(shop, sql) == [(0, 90), (1, 70), (2, 50)]


def test_the_mode_of_texts_is_the_value_that_most_people_have(shop: sfumato.Database) -> None:
    assert rows(shop, "SELECT MODE(article) FROM bought") == [("tea",)]
    assert rows(shop, "SELECT MODE(kind) AS m FROM bought WHERE article <> 'tea' AND article <> 'milk'") == [("dry",)]
    assert rows(shop, "SELECT APPROX_TOP_K(article, 1) FILTER (WHERE kind = 'dry') AS a FROM bought") == [("bread", 50)]


def test_each_group_has_its_own_mode(shop: sfumato.Database) -> None:
    assert rows(shop, "SELECT kind, MODE(article) AS m FROM bought GROUP BY kind ORDER BY kind") == [
        ("dry", "bread"),
        ("wet", "tea"),
    ]
    later = "SELECT MODE(article) FILTER (WHERE shelf <> 0), kind FROM bought GROUP BY 2 ORDER BY 2 DESC"
    assert rows(shop, later) == [("milk", "wet"), ("bread", "dry")]
    assert rows(shop, "SELECT shelf > 1 AS upper, MODE(kind) FROM bought GROUP BY 1") == [(False, "wet"), (True, "dry")]
    with pytest.raises(UnsupportedSql, match="the GROUP BY keys only"):
        shop.explain("SELECT kind, COUNT(*), MODE(article) FROM bought GROUP BY kind", epsilon=1)


def test_histograms_have_ranges_of_days_and_those_that_are_spelled_out(shop: sfumato.Database) -> None:
    months = rows(shop, "SELECT HISTOGRAM(day) FROM bought")
    assert len(months) == 12
    assert [count for _, _, count in months if count] == [92, 72, 52, 32]
    assert months[3] == (date(2024, 4, 1), date(2024, 5, 1), 72)
    halves = rows(shop, "SELECT HISTOGRAM(day, 2) FROM bought")
    assert halves == [(date(2024, 1, 1), date(2024, 7, 2), 164), (date(2024, 7, 2), date(2025, 1, 1), 84)]
    assert rows(shop, "SELECT HISTOGRAM(price, 10, 30, 2) FROM bought") == [(10, 20, 72), (20, 30, 52)]
    edges = "SELECT HISTOGRAM(price, (0, 5.5, 25, 40)) FILTER (WHERE kind = 'dry') FROM bought"
    assert rows(shop, edges) == [(0, 5.5, 0), (5.5, 25, 0), (25, 40, 84)]
    days = "SELECT HISTOGRAM(day, (DATE '2024-01-28', DATE '2024-04-28', DATE '2024-07-28')) FROM bought"
    assert [count for *_, count in rows(shop, days)] == [92, 124]
    short = "SELECT HISTOGRAM(day, (DATE '2024-1-1', DATE '2024-9-1', TIMESTAMP '2024-10-01 12:00')) FROM bought"
    assert [count for *_, count in rows(shop, short)] == [216, 0]
    for edges in ("'1'::integer, '10'::integer, '9'::integer", "DATE '2024-9-1', DATE '2024-10-1', DATE '2024-1-1'"):
        with pytest.raises(Refusal, match="not spelled out"):
            shop.explain(f"SELECT HISTOGRAM(price, ({edges})) FROM bought", epsilon=1)  # noqa: S608


def test_histograms_count_values_and_ranges(shop: sfumato.Database) -> None:
    assert rows(shop, "SELECT HISTOGRAM(kind) FROM bought") == [("dry", 84), ("wet", 164)]
    assert rows(shop, "SELECT HISTOGRAM(article) FROM bought")[0] == ("bread", 52)
    found = rows(shop, "SELECT HISTOGRAM(price, 4) FROM bought")
    assert found == [(0, 10, 92), (10, 20, 72), (20, 30, 52), (30, 40, 32)]
    assert len(rows(shop, "SELECT HISTOGRAM(shelf) FROM bought")) == 20


def test_the_largest_group_is_told_from_results(shop: sfumato.Database) -> None:
    groups = (
        "(SELECT kind, article, COUNT(*) AS n FROM bought WHERE article IN ('tea', 'milk', 'salt') GROUP BY 1, 2) t"
    )
    assert rows(shop, f"SELECT ARG_MAX(article, n), MAX(n) FROM {groups}") == [("tea", 92)]  # noqa: S608
    least = f"SELECT kind, ARG_MIN(article, n) AS a FROM {groups} WHERE n > 10 GROUP BY kind ORDER BY kind"  # noqa: S608
    assert rows(shop, least) == [("dry", "salt"), ("wet", "milk")]
    with pytest.raises(UnsupportedSql, match="Group first"):
        shop.explain("SELECT ARG_MAX(article, price) FROM bought", epsilon=1)


def test_without_a_delta_common_texts_are_found_among_all_that_can_be_spelled(shop: sfumato.Database) -> None:
    release = shop.ask("SELECT APPROX_TOP_K(article, 2) AS a FROM bought", epsilon=500, delta=0)
    assert [tuple(row.values()) for row in release.rows()] == [("tea", 90), ("milk", 70)]
    assert release.loss.epsilon == 500
    assert release.loss.delta == 0
    assert rows(shop, "SELECT MODE(article) FROM bought") == [("tea",)]


def test_a_small_group_is_not_in_a_list_whatever_its_rank(shop: sfumato.Database) -> None:
    release = shop.ask("SELECT APPROX_TOP_K(article, 2) FROM bought WHERE price > 30", epsilon=1)
    assert release.rows() == []
    assert any("No group passed" in note for note in release.notes)
