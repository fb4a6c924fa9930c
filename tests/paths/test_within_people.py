"""Subqueries that stay within one person: by a key that leads there they are exact, and nobody moves them further.

Laws over made-up shops: customers with orders, orders with lines that belong to the customer of the order.
"""

# ruff: noqa: S608 - questions are written by hand here, never from anybody's input

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.refusals import refusing

import sfumato
from sfumato.errors import QueryTooLarge
from sfumato.prepare import RequestedPrice

LINES = "SELECT okey FROM lines GROUP BY okey HAVING SUM(amount) > 6"
QUESTIONS = (
    f"SELECT COUNT(*) FROM orders WHERE okey IN ({LINES})",
    f"SELECT COUNT(*) FROM orders WHERE okey NOT IN ({LINES})",
    f"SELECT COUNT(*) FROM lines WHERE okey IN ({LINES}) AND part <> 'b'",
    "SELECT COUNT(*) FROM customers WHERE cust IN (SELECT cust FROM orders GROUP BY cust HAVING COUNT(*) > 1)",
    "SELECT COUNT(*) FROM customers c WHERE c.credit < (SELECT SUM(price) FROM orders o WHERE o.cust = c.cust)",
    "SELECT COUNT(*) FROM orders o WHERE (SELECT COUNT(*) FROM lines WHERE okey = o.okey) <> 1",
    "SELECT COUNT(*) FROM lines l WHERE amount > (SELECT AVG(amount) FROM lines m WHERE m.okey = l.okey)",
    "SELECT COUNT(*) FROM lines l WHERE amount >= (SELECT MAX(amount) FROM lines m WHERE m.okey = l.okey AND "
    "m.part = l.part)",
    "SELECT COUNT(*) FROM lines l JOIN (SELECT okey AS k, part AS p, COUNT(*) AS c FROM lines GROUP BY okey, part) t "
    "ON k = l.okey",
    "SELECT COUNT(*) FROM (SELECT okey, SUM(amount) AS a FROM lines GROUP BY okey) t WHERE a > 6",
    "SELECT SUM(LEAST(a, 9)) FROM orders JOIN (SELECT okey AS k, SUM(amount) AS a FROM lines GROUP BY okey) t ON k = "
    "okey WHERE price > 1",
    "SELECT COUNT(*) FROM lines l WHERE EXISTS (SELECT * FROM lines m WHERE m.okey = l.okey AND m.part <> l.part) AND "
    "NOT EXISTS (SELECT * FROM lines n WHERE n.okey = l.okey AND n.part <> l.part AND n.amount > 4)",
    "SELECT part, COUNT(*) FROM lines l WHERE NOT EXISTS (SELECT * FROM orders o WHERE o.okey = l.okey AND o.price > "
    "l.amount) GROUP BY part",
)
OTHERS = (
    "SELECT COUNT(*) FROM lines l WHERE amount > (SELECT AVG(amount) FROM lines m WHERE m.part = l.part)",
    "SELECT COUNT(*) FROM lines WHERE part IN (SELECT part FROM lines GROUP BY part HAVING SUM(amount) > 6)",
    "SELECT COUNT(*) FROM orders WHERE price IN (SELECT okey FROM lines GROUP BY okey)",
    "SELECT COUNT(*) FROM orders o WHERE price < (SELECT SUM(amount) FROM lines l WHERE l.okey > o.okey)",
)
"""What they look at is other people's."""


def _rows(random: Random, people: int) -> dict[str, list[tuple[Any, ...]]]:
    customers = [(cust, random.randint(0, 9)) for cust in range(people)]
    orders = [
        (10 * cust + at, cust, random.randint(0, 9)) for cust, _ in customers for at in range(random.randint(0, 3))
    ]
    lines = [
        (okey, random.choice("abc"), random.randint(0, 5)) for okey, _, _ in orders for _ in range(random.randint(0, 4))
    ]
    return {"customers": customers, "orders": orders, "lines": lines}


NAMES = {"customers": ("cust", "credit"), "orders": ("okey", "cust", "price"), "lines": ("okey", "part", "amount")}
NUMBER = {"type": "integer", "bounds": [0, 9]}


class Shop:
    """A shop in memory, with what is measured of it exactly and in plain SQL."""

    def __init__(self, folder: Path, rows: dict[str, list[tuple[Any, ...]]], neighbours: str = "add-remove") -> None:
        types = {"part": pa.string()}
        frames = {
            table: pa.table(
                {
                    name: pa.array([row[at] for row in rows[table]], types.get(name, pa.int64()))
                    for at, name in enumerate(names)
                }
            )
            for table, names in NAMES.items()
        }
        folder.mkdir(parents=True)
        key = {"type": "integer"}
        self.db = sfumato.open(
            {
                "name": "shop",
                "source": frames,
                "ledger": f"sqlite:{folder / 'ledger'}",
                "neighbours": neighbours,
                "budget": {"epsilon": 9, "delta": 1e-6},
                "tables": {
                    "customers": {"unit": "cust", "rows_per_unit": 1, "columns": {"cust": key, "credit": NUMBER}},
                    "orders": {
                        "unit": "cust",
                        "rows_per_unit": 3,
                        "columns": {"okey": key | {"unique": True}, "cust": key, "price": NUMBER},
                    },
                    "lines": {
                        "unit": "orders.cust via okey = okey",
                        "rows_per_unit": 12,
                        "columns": {
                            "okey": key,
                            "part": {"type": "text", "values": ["a", "b", "c"]},
                            "amount": {"type": "integer", "bounds": [0, 5]},
                        },
                    },
                },
            }
        )
        self.plain = duckdb.connect()
        for table, frame in frames.items():
            self.plain.register(table, frame)

    def exact(self, sql: str) -> tuple[list[int], int]:
        """Return what is measured, and how far one person may move it."""
        asked = self.db.prepare(sql, None, RequestedPrice("1"))
        (group,) = asked.engine.run(asked.job).groups
        (measured,) = asked.plan.groups[0].measured
        return [int(value) for value in group.columns[measured.name]], int(measured.sensitivity.l1)

    def close(self) -> None:
        self.db.close()
        self.plain.close()


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Shop, list[Shop]]]]:
    folder = tmp_path_factory.mktemp("shops")
    made = []
    for seed in range(2):
        rows = _rows(Random(seed), 3)
        others = []
        for person in range(3):
            keys = {okey for okey, cust, _ in rows["orders"] if cust == person}
            left = {
                "customers": [row for row in rows["customers"] if row[0] != person],
                "orders": [row for row in rows["orders"] if row[1] != person],
                "lines": [row for row in rows["lines"] if row[0] not in keys],
            }
            others.append(Shop(folder / f"{seed} without {person}", left))
        made.append((Shop(folder / f"{seed}", rows), others))
    yield made
    for first, others in made:
        for shop in (first, *others):
            shop.close()


@pytest.mark.parametrize("sql", QUESTIONS)
def test_what_stays_within_a_person_is_exact_and_moves_as_far_as_it_says(
    shops: list[tuple[Shop, list[Shop]]], sql: str
) -> None:
    farthest = 0
    for first, others in shops:
        whole, most = first.exact(sql)
        answers = [row[-1] or 0 for row in first.plain.execute(sql).fetchall()]
        assert sorted(value for value in whole if value) == sorted(answer for answer in answers if answer)
        for other in others:
            moved = sum(abs(one - two) for one, two in zip(whole, other.exact(sql)[0], strict=True))
            assert moved <= most, sql
            farthest = max(farthest, moved)
    assert farthest, "a law over constants would prove nothing"


@pytest.mark.parametrize("sql", OTHERS)
def test_what_looks_at_other_people_is_refused(shops: list[tuple[Shop, list[Shop]]], sql: str) -> None:
    with refusing():
        shops[0][0].exact(sql)


def test_semi_and_anti_joins_multiply_nothing(shops: list[tuple[Shop, list[Shop]]]) -> None:
    db = shops[0][0].db
    for sql in (QUESTIONS[0], QUESTIONS[1], QUESTIONS[5]):
        (group,) = db.prepare(sql, None, RequestedPrice("1")).plan.groups
        assert group.group.contribution.rows == 3, sql
    for sql in (QUESTIONS[6], QUESTIONS[7], QUESTIONS[11]):
        (group,) = db.prepare(sql, None, RequestedPrice("1")).plan.groups
        assert group.group.contribution.rows == 12, sql


def test_what_limits_a_mark_is_what_is_compared_and_not_a_product_of_rows(tmp_path: Path) -> None:
    """By equalities alone a row is looked up; a text that is carried is not read; one table's is read once a row."""
    text, key = {"type": "text"}, {"type": "integer"}
    policy: dict[str, object] = {
        "name": "shop",
        "source": {
            "lines": pa.table({"cust": [1], "okey": [1], "part": ["a"], "note": ["b"]}),
            "people": pa.table({"cust": [1], "about": ["c"]}),
        },
        "ledger": f"sqlite:{tmp_path / 'ledger'}",
        "budget": {"epsilon": 9, "delta": 1e-6},
        "tables": {
            "lines": {
                "unit": "cust",
                "rows_per_unit": 20_000,
                "columns": {"cust": key, "okey": key, "part": text, "note": text},
            },
            "people": {"unit": "cust", "rows_per_unit": 1, "columns": {"cust": key, "about": text}},
        },
    }
    inner = "SELECT * FROM lines m WHERE m.cust = l.cust"
    joined = "SELECT COUNT(*) FROM lines l JOIN people p ON p.cust = l.cust"
    with sfumato.open(policy) as db:
        for sql in (
            f"SELECT COUNT(*) FROM lines l WHERE EXISTS ({inner} AND m.part = l.note AND m.okey = l.okey)",
            f"SELECT COUNT(*) FROM lines l WHERE NOT EXISTS ({inner} AND m.note LIKE '%z%' AND m.okey = l.okey)",
            f"{joined} WHERE p.about LIKE '%z%'",
            f"{joined} WHERE CASE WHEN l.okey > 2 THEN p.about ELSE l.note END = 'b'",
            f"{joined} WHERE p.about = 'something' AND l.note <> 'x'",
        ):
            assert db.explain(sql, epsilon="1"), sql
        for sql in (
            f"SELECT COUNT(*) FROM lines l WHERE EXISTS ({inner} AND m.okey > l.okey)",
            f"{joined} WHERE p.about || l.note LIKE '%z%'",
        ):
            with pytest.raises(QueryTooLarge):
                db.explain(sql, epsilon="1")
