"""Cells of a person that count, by the numbers in the copy: the same cells that ranking would keep, and no window."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from tests.engines.engines import engine_under_law
from tests.engines.planned import plan_of, without_hidden_columns

from sfumato.engines.aggregates import GroupAggregates
from sfumato.engines.engine import Engine
from sfumato.engines.sql.statements import Statements

pytestmark = pytest.mark.usefixtures("every_engine")

SALT, KEPT = bytes(range(32)), 3
SHOPS = ["süd", "nord", *(f"shop {at}" for at in range(10))]
COLUMNS = {
    "who": {"type": "integer"},
    "shop": {"type": "text", "values": SHOPS},
    "month": {"type": "integer", "values": list(range(1, 13))},
    "price": {"type": "integer", "bounds": [0, 9]},
    "item": {"type": "text"},
}
POLICY: dict[str, object] = {
    "name": "small",
    "budget": {"epsilon": 10, "delta": 0.001},
    "tables": {
        "sales": {"unit": "who", "rows_per_unit": 150, "groups_per_unit": KEPT, "columns": COLUMNS},
        "towns": {"public": True},
    },
}
_RANDOM = Random(7)
ROWS = [
    {
        "who": who,
        "shop": _RANDOM.choice([*SHOPS, "elsewhere", None]),
        "month": _RANDOM.randint(0, 12),
        "price": at % 10,
        "item": _RANDOM.choice(["tea", "bread", None, f"item {at % 12}"]),
    }
    for who in range(40)
    for at in range(_RANDOM.randint(0, 25))
]
ROWS += [{"who": 99, "shop": "nord", "month": 1, "price": at % 10, "item": f"item {at}"} for at in range(140)]
TABLES = {
    "sales": pa.Table.from_pylist(ROWS),
    "towns": pa.table({"shop": SHOPS, "town": ["a", "b", "c"] * 4}),
}
PLAIN = "SELECT shop, COUNT(*), SUM(price) FROM sales GROUP BY shop"
BY_A_FILTER = (
    PLAIN,
    "SELECT month, COUNT(DISTINCT price), COUNT(DISTINCT who) FROM sales GROUP BY month",
    "SELECT s, COUNT(*) FROM (SELECT shop AS s, price + 1 AS p FROM sales) t GROUP BY s",
    "SELECT item, COUNT(*), SUM(price) FROM sales GROUP BY item",
    "SELECT price, COUNT(DISTINCT who), COUNT(DISTINCT who) FILTER (WHERE month > 4) FROM sales GROUP BY price",
)
BY_BITS = (
    "SELECT shop, COUNT(*), SUM(price) FROM sales WHERE price < 5 GROUP BY shop",
    "SELECT shop, COUNT(*), COUNT(DISTINCT who) FROM sales WHERE shop <> 'nord' AND month > 3 GROUP BY shop",
    "SELECT s.shop, COUNT(*), COUNT(DISTINCT s.who) FROM sales s JOIN towns t ON s.shop = t.shop "
    "WHERE t.town = 'a' OR s.price > 2 GROUP BY 1",
    "SELECT s, COUNT(*) FROM (SELECT shop AS s, price AS p FROM sales WHERE month < 9) t WHERE p > 1 GROUP BY s",
    "SELECT item, COUNT(DISTINCT who) FROM sales WHERE price > 0 GROUP BY item",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 20) shop, COUNT(*) FROM sales GROUP BY shop",
)
BY_RANK = (
    "SELECT shop, month, COUNT(*), COUNT(DISTINCT who) FROM sales WHERE month < 4 GROUP BY 1, 2",
    "SELECT UPPER(shop) AS s, COUNT(*) FROM sales GROUP BY s",
)


@pytest.fixture(scope="module")
def engine(every_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    root = tmp_path_factory.mktemp("cells")
    secret = root / "small.ledger.copy.salt"
    secret.touch(mode=0o600)
    secret.write_bytes(SALT)
    opened = engine_under_law().opened(root, POLICY, TABLES)
    yield opened
    opened.close()


def _shown(group: GroupAggregates) -> dict[object, list[int]]:
    return {key: [int(values[at]) for values in group.columns.values()] for at, key in enumerate(group.keys)}


def _people(group: GroupAggregates) -> dict[object, int] | None:
    """Return how many people are in each cell, where the keys are secret."""
    return None if group.units is None else dict(zip(group.keys, group.units.tolist(), strict=True))


@pytest.mark.parametrize("sql", [*BY_A_FILTER, *BY_BITS, *BY_RANK])
def test_numbers_keep_the_cells_that_ranking_keeps(engine: Engine, sql: str) -> None:
    plan = plan_of(engine, POLICY, sql)
    (one,) = plan.groups
    assert one.group.contribution.bound_groups
    ranked = without_hidden_columns(plan, "numbered")
    jobs = [engine.prepare(each) for each in (plan, ranked)]
    texts = [job.statements[0] or "" for job in jobs if isinstance(job, Statements)]
    assert ["dense_rank" in text for text in texts] == [sql in BY_RANK, True]
    assert ["bit_or" in text for text in texts] == [sql in BY_BITS, False]
    (numbered,), (by_rank,) = (engine.run(job).groups for job in jobs)
    assert _shown(numbered) == _shown(by_rank)
    assert _people(numbered) == _people(by_rank)
    assert sum(values[0] for values in _shown(numbered).values()) > 0


def test_the_cells_of_a_person_that_count_are_those_with_the_least_hashes(engine: Engine) -> None:
    expected: Counter[str] = Counter()
    shops = defaultdict(list)
    for row in ROWS:
        if row["shop"] in SHOPS:
            shops[row["who"]].append(row["shop"])
    for who, visited in shops.items():
        person = int(sha256(f"{SALT.hex()}unit:{who}".encode()).hexdigest()[:32], 16)
        draws = {shop: sha256(f"{person:X}:{len(shop.encode())}:{shop}".encode()).digest() for shop in visited}
        first = sorted(draws, key=draws.__getitem__)[:KEPT]
        expected.update(shop for shop in visited if shop in first)
    (group,) = engine.run(engine.prepare(plan_of(engine, POLICY, PLAIN))).groups
    assert {key[0]: values[0] for key, values in _shown(group).items() if values[0]} == dict(expected)  # type: ignore[index]


def test_what_may_be_a_key_is_numbered_unless_nothing_cuts_it(tmp_path: Path) -> None:
    few = {
        **COLUMNS,
        "shop": {"type": "text", "values": SHOPS[:KEPT]},
        "month": {"type": "integer", "bounds": [1, KEPT]},
        "unlike": {"type": "text", "unique": True},
        "cost": {"type": "decimal", "bounds": [0, 9], "step": 0.01},
    }
    sales = {"unit": "who", "rows_per_unit": 30, "groups_per_unit": KEPT, "columns": few}
    table = (
        TABLES["sales"]
        .append_column("unlike", pa.nulls(len(ROWS), pa.string()))
        .append_column("cost", pa.nulls(len(ROWS), pa.float64()))
    )
    opened = engine_under_law().opened(tmp_path, {**POLICY, "tables": {"sales": sales}}, {"sales": table})
    fields = opened.catalog.tables["sales"].fields
    assert [field.name for field in fields if field.has_value_ranks] == ["price", "item"]
    opened.close()
