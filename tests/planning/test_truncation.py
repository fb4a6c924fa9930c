"""Notes about what bounding leaves out: every place that cuts, once, with a question that can be asked."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sfumato

QUESTION = re.compile(r'SELECT COUNT\(\*\) FROM (?:"[^"]*"|\(.*?\) AS p)')
"""A question as a note spells it."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    """Return 500 customers with twelve orders each, in as many months, of which five count, in three months."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "data").mkdir()
    customers = [f"{person},{'abc'[person % 3]}" for person in range(500)]
    orders = [f"{order},{order % 500},{order // 500},{order % 90}" for order in range(6000)]
    items = [f"{order},{order % 7}" for order in range(6000)]
    (folder / "data" / "customer.csv").write_text("\n".join(["id,region", *customers]), encoding="utf-8")
    (folder / "data" / "orders.csv").write_text("\n".join(["oid,id,month,price", *orders]), encoding="utf-8")
    (folder / "data" / "items.csv").write_text("\n".join(["oid,qty", *items]), encoding="utf-8")
    (folder / "data" / "people.csv").write_text("\n".join(["id", *map(str, range(500))]), encoding="utf-8")
    (folder / "data" / "clicks.csv").write_text(
        "\n".join(["kind", *("xy"[row % 2] for row in range(99))]), encoding="utf-8"
    )
    whole = {"type": "integer"}
    tables = {
        "customer": {
            "unit": "id",
            "rows_per_unit": 1,
            "columns": {"id": whole, "region": {"type": "text", "values": ["a", "b", "c"]}},
        },
        "orders": {
            "unit": "id",
            "rows_per_unit": 5,
            "groups_per_unit": 3,
            "columns": {
                "oid": whole,
                "id": whole,
                "month": whole | {"bounds": [0, 11]},
                "price": whole | {"bounds": [0, 100]},
            },
        },
        "items": {
            "unit": "orders.id via oid = oid",
            "rows_per_unit": 4,
            "columns": {"oid": whole, "qty": whole | {"bounds": [0, 9]}},
        },
        "people": {"unit": "id", "columns": {"id": whole | {"unique": True}}},
        "clicks": {"unit": "rows", "columns": {"kind": {"type": "text", "values": ["x", "y"]}}},
    }
    policy: dict[str, object] = {
        "name": "shop",
        "source": f"csv:{folder}/data",
        "ledger": f"sqlite:{folder}/shop.ledger",
        "budget": {"epsilon": 200, "delta": "1e-3"},
        "tables": tables,
    }
    with sfumato.open(policy) as database:
        yield database


BY_MONTH = "SELECT month, COUNT(*) AS n FROM orders GROUP BY month"
ROWS, GROUPS = '"orders.removed"', "HAVING COUNT(*) > 3"
CUTS = {
    BY_MONTH: ["at most 5 rows in at most 3 groups", ROWS, GROUPS],
    "SELECT COUNT(*) FROM orders": ["at most 5 rows;", ROWS],
    "SELECT region, COUNT(*) AS n FROM customer JOIN orders ON customer.id = orders.id GROUP BY region": [
        '"customer.removed"',
        ROWS,
    ],
    "SELECT qty, COUNT(*) AS n FROM items GROUP BY qty": ['"items.removed"'],
    "SELECT month + 1 AS m, COUNT(*) AS n FROM orders GROUP BY 1": [ROWS, "at most 3 groups"],
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 2) COUNT(*) FROM orders": [
        "at most 2 rows",
        ROWS,
        "HAVING COUNT(*) > 2",
    ],
    "SELECT AVG(n) FROM (SELECT id, COUNT(*) AS n FROM orders GROUP BY id) t": ["at most 5 rows of orders;", ROWS],
    "SELECT m.n, a.n FROM (SELECT COUNT(*) AS n FROM orders) a CROSS JOIN (SELECT month, COUNT(*) AS n FROM orders "
    "GROUP BY month) m": ["at most 5 rows;", "at most 5 rows in at most 3 groups;", ROWS, GROUPS],
}


@pytest.mark.parametrize("sql", CUTS)
def test_every_place_that_cuts_is_named_once_and_its_question_can_be_asked(shop: sfumato.Database, sql: str) -> None:
    text = " ".join(shop.explain(sql, epsilon="1").notes)
    assert all(text.count(cut) == 1 for cut in CUTS[sql])
    assert text.count("extra rows are dropped") == max(1, sum("at most" in cut for cut in CUTS[sql]))
    questions = QUESTION.findall(text)
    assert questions
    for question in questions:
        assert shop.ask(question, epsilon="1").columns == ("count",)


def test_the_questions_count_whom_the_bounds_concern(shop: sfumato.Database) -> None:
    rows, groups = QUESTION.findall(" ".join(shop.ask(BY_MONTH, epsilon="1").notes))
    for question in (rows, groups):
        low, high = shop.ask(question, epsilon="2").intervals("0.999999")[0]["count"]
        assert low <= 500 <= high  # everybody has twelve orders, and five are kept, in five months


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT COUNT(*) FROM "orders.removed"',
        "SELECT kind, COUNT(*) FROM clicks GROUP BY kind",
        "SELECT COUNT(*) FROM people",
    ],
)
def test_where_nothing_is_cut_nothing_is_said(shop: sfumato.Database, sql: str) -> None:
    assert not any("dropped" in note for note in shop.explain(sql, epsilon="1").notes)


def test_names_that_need_quotes_have_them(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("Patient Id,Dept Name\n1,er\n1,icu\n", encoding="utf-8")
    columns = {"Patient Id": {"type": "integer"}, "Dept Name": {"type": "text", "values": ["er", "icu", "ward"]}}
    policy: dict[str, object] = {
        "name": "clinic",
        "source": f"csv:{tmp_path}/visits.csv",
        "ledger": f"sqlite:{tmp_path}/clinic.ledger",
        "budget": {"epsilon": 20, "delta": "1e-3"},
        "tables": {"visits": {"unit": "Patient Id", "rows_per_unit": 5, "groups_per_unit": 1, "columns": columns}},
    }
    with sfumato.open(policy) as clinic:
        notes = " ".join(clinic.explain('SELECT "dept name", COUNT(*) FROM visits GROUP BY 1', epsilon="1").notes)
        questions = QUESTION.findall(notes)
        assert len(questions) == 2
        for question in questions:
            clinic.ask(question, epsilon="1")
