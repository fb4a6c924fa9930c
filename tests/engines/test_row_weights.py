"""Quantiles whose rows are counted and added up in arrays: the same weights as a window over ids, and as by hand."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.engines import DuckDBUnderLaw
from tests.engines.planned import plan_of, without_hidden_columns

import sfumato
from sfumato.engines.aggregates import BucketWeights
from sfumato.engines.duckdb import connection
from sfumato.engines.engine import Engine
from sfumato.engines.sql import row_weights
from sfumato.engines.sql.names import PERSON, quoted
from sfumato.engines.sql.row_weights import MAX_PEOPLE, with_counts
from sfumato.engines.sql.statements import Statements
from sfumato.errors import EngineFailed
from sfumato.mechanisms.spacing import Spacing
from sfumato.planning.plan import Plan

COLUMNS = {
    "who": {"type": "integer"},
    "shop": {"type": "text", "values": ["nord", "ost", "sued"]},
    "town": {"type": "text"},
    "price": {"type": "integer", "bounds": [0, 9]},
    "paid": {"type": "integer", "bounds": [-20000, 40000]},
    "far": {"type": "integer", "bounds": [-(2**40), 2**40]},
}
LINES = {"number": {"type": "integer"}, "size": {"type": "integer", "bounds": [-3, 40]}}
POLICY: dict[str, Any] = {
    "name": "small",
    "budget": {"epsilon": 10**6, "delta": 0.001},
    "tables": {
        "sales": {"unit": "who", "rows_per_unit": 300, "columns": {**COLUMNS, "number": {"type": "integer"}}},
        "lines": {"unit": "sales.who via number = number", "rows_per_unit": 40, "columns": LINES},
        "people": {"unit": "who", "rows_per_unit": 1, "columns": COLUMNS},
        "rows": {"unit": "rows", "columns": COLUMNS},
        "towns": {"public": True},
    },
}
IN_ROWS = (
    "SELECT MEDIAN(price) FROM sales",
    "SELECT MODE(price) FROM sales WHERE shop = 'nord'",
    "SELECT MEDIAN(paid) FROM sales WHERE price > 4",
    "SELECT MEDIAN(paid), QUANTILE_DISC(paid, 0.9), MIN(paid) FROM sales WHERE price > 4",
    "SELECT MEDIAN(paid) FILTER (WHERE price IN (1, 7)) FROM sales",
    "SELECT MEDIAN(far) FROM sales WHERE paid <> 17",
    "SELECT MEDIAN(price + paid) FROM sales WHERE town = 'a'",
    "SELECT MEDIAN(CASE WHEN price > 4 THEN paid END) FROM sales",
    "SELECT MEDIAN(p) FROM (SELECT paid AS p FROM sales WHERE price < 5) t WHERE p > 0",
    "SELECT MEDIAN(s.paid) FROM sales s JOIN towns t ON s.town = t.town",
    "SELECT MEDIAN(s.price) FROM sales s JOIN sales o ON s.who = o.who AND o.price = 3 WHERE s.price < 2",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 5) MEDIAN(price) FROM sales",
    "SELECT MEDIAN(size) FROM lines WHERE size <> 5",
    "SELECT MEDIAN(price) FROM sales WHERE paid = 1",
    "SELECT MEDIAN(paid) FROM people WHERE price > 4",
    "SELECT MEDIAN(paid) FROM rows WHERE price > 4",
)
IN_LISTS = (
    "SELECT shop, MEDIAN(price) FROM sales WHERE paid > 0 GROUP BY shop",
    "SELECT town, MEDIAN(paid) FROM sales WHERE price > 4 GROUP BY town",
    "SELECT shop, MEDIAN(paid), MAX(paid) FROM sales WHERE price > 4 GROUP BY shop",
    "SELECT shop, town, QUANTILE_DISC(price + paid, 0.25) FROM sales GROUP BY shop, town",
)


def _tables(seed: int) -> dict[str, pa.Table]:
    """Return rows of people who have few, of some who have 128 and more, and of one who has more than count."""
    draw = Random(seed)
    often = {who: draw.choice([1, 1, 2, 3, 7]) for who in range(50)} | {50: 128, 51: 129, 52: 255, 53: 400, None: 6}
    sales = [
        {
            "who": who,
            "shop": draw.choice(["nord", "nord", "sued", "nowhere", None]),
            "town": draw.choice(["a", "b", f"town {who}", None]),
            "price": draw.choice([None, 10**9, *range(10)]),
            "paid": draw.choice([None, -20000, 0, 17, 30000, 40000, -(10**9), draw.randrange(40000)]),
            "far": draw.choice([None, -(2**60), 2**40, draw.randrange(2**40)]),
        }
        for who, times in often.items()
        for _ in range(times)
    ]
    draw.shuffle(sales)
    for at, row in enumerate(sales):
        row["number"] = at
    lines = [{"number": draw.choice([None, *range(500)]), "size": draw.randrange(-5, 45)} for _ in range(900)]
    alone = [{**row, "who": at} for at, row in enumerate(sales[:200])]
    found = {"sales": sales, "lines": lines, "people": alone, "rows": alone}
    return {name: pa.Table.from_pylist(rows) for name, rows in found.items()} | {"towns": pa.table({"town": ["a"]})}


@pytest.fixture(scope="module", params=(1, 2))
def tables(request: pytest.FixtureRequest) -> dict[str, pa.Table]:
    return _tables(request.param)


@pytest.fixture(scope="module")
def engine(tables: dict[str, pa.Table], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    opened = DuckDBUnderLaw().opened(tmp_path_factory.mktemp("weights"), POLICY, tables)
    yield opened
    opened.close()


HeldCell = tuple[str, list[int], list[int]]
"""The key of a cell, its buckets and their weights."""


def _held(engine: Engine, plan: Plan) -> tuple[list[str], list[list[HeldCell]]]:
    """Return the statements, and what each cell holds by its key: a statement returns cells in any order."""
    job = engine.prepare(plan)
    assert isinstance(job, Statements)
    (group,) = engine.run(job).groups
    found: list[list[HeldCell]] = []
    for held in group.held.values():
        assert isinstance(held, BucketWeights)
        cells = [(key, *held.for_cell(place)) for place, key in enumerate(group.keys)]
        found.append(sorted((repr(key), one.tolist(), other.tolist()) for key, one, other in cells))
    return list(job.histograms[0].values()), found


@pytest.mark.parametrize("sql", [*IN_ROWS, *IN_LISTS])
def test_rows_weigh_what_a_window_over_ids_gives_them(engine: Engine, sql: str) -> None:
    plan = plan_of(engine, POLICY, sql)
    old = without_hidden_columns(plan, "people", "counted")
    with patch.object(row_weights, "MAX_ADDED_VALUES", 0):  # and buckets come from the engine
        by_bucket = _held(engine, plan)
    (texts, held), (old_texts, old_held) = _held(engine, plan), _held(engine, old)
    assert held == by_bucket[1] == old_held
    several = plan.groups[0].group.contribution.rows > 1
    assert all(("OVER (PARTITION BY u)" in text) == several for text in old_texts)
    assert not any("OVER (PARTITION BY u)" in text for text in texts)
    assert ["list(" in text for text in texts] == [sql in IN_LISTS] * len(texts)
    assert [text.startswith("SELECT v0, beside FROM") for text in texts] == [several and sql in IN_ROWS] * len(texts)


@pytest.mark.parametrize(("kept", "batch"), [(0, 100), (150, 100), (1 << 23, 7)])
def test_rows_that_are_not_remembered_are_read_again(engine: Engine, kept: int, batch: int) -> None:
    plan = plan_of(engine, POLICY, "SELECT MEDIAN(paid) FROM sales WHERE price > 4")
    at_once = _held(engine, plan)
    with patch.object(row_weights, "KEPT_ROWS", kept), patch.object(connection, "_BATCH_ROWS", batch):
        assert _held(engine, plan) == at_once


def _by_hand(rows: list[dict[str, Any]], weight: int, passes: Callable[[dict[str, Any]], bool]) -> Counter[int]:
    """Return what weighs at each price: the parts of everybody's rows that count."""
    own = defaultdict(list)
    for row in rows:
        if row["who"] is not None and row["price"] is not None and passes(row):
            own[row["who"]].append(min(row["price"], 9))
    found: Counter[int] = Counter()
    for values in own.values():
        found.update({value: values.count(value) * (weight // len(values)) for value in set(values)})
    return found


def test_each_person_weighs_as_much_as_any_other(engine: Engine, tables: dict[str, pa.Table]) -> None:
    others = [row for row in tables["sales"].to_pylist() if row["who"] != 53]  # of whom only some rows are kept
    plan = plan_of(engine, POLICY, "SELECT MODE(price) FROM sales WHERE far > 5")
    weight = plan.groups[0].chosen[0].weight
    _, ((cell,),) = _held(engine, plan)
    _, buckets, weights = cell
    expected = _by_hand(others, weight, lambda row: row["far"] is not None and row["far"] > 5)
    rest = dict(zip(buckets, weights, strict=True))
    more = {value: rest.get(value, 0) - expected[value] for value in range(10)}
    assert min(more.values()) >= 0
    assert weight - 300 < sum(more.values()) <= weight  # the one who has too many rows has a weight like any other


def test_numbers_of_buckets_are_those_that_the_engine_computes() -> None:
    for low, high in ((0, 9), (-20000, 40000), (-(2**19), 2**19 - 1), (100_000, 900_000)):
        spacing = Spacing(low, high)
        numbers = spacing.numbers(np.arange(low, high + 1))
        assert numbers[0] == 0
        assert numbers[-1] == spacing.buckets - 1
        assert set(np.unique(np.diff(numbers)).tolist()) <= {0, 1}


def test_numbers_beyond_all_people_fail_instead_of_filling_the_memory() -> None:
    own = with_counts(np.zeros(0, dtype=np.int64), np.array([3, 0, 3], dtype=np.uint32))
    assert own[:4].tolist() == [1, 0, 0, 2]
    with pytest.raises(EngineFailed):
        with_counts(own, np.array([MAX_PEOPLE], dtype=np.uint32))


def _copy(root: Path) -> str:
    """Return the file of the newest copy."""
    found = [path for path in root.glob("*.copy-*") if path.is_file()]
    return str(max(found, key=lambda path: path.stat().st_mtime_ns))


def _numbers(root: Path) -> list[tuple[int, int]] | None:
    """Return the people of the copy, by the least number of rows and with their numbers; None where it has none."""
    with duckdb.connect(_copy(root), read_only=True) as copy:
        columns = [name for name, *_ in copy.execute("DESCRIBE sales").fetchall()]
        if PERSON not in columns:
            return None
        number = quoted(PERSON)
        return copy.execute(f"SELECT DISTINCT who, {number} FROM sales ORDER BY ALL").fetchall()  # noqa: S608


def test_a_copy_of_an_older_version_answers_until_a_refresh_writes_it_anew(tmp_path: Path) -> None:
    """A refresh of a copy with numbers leaves them to those who have some, and numbers the others after them."""
    tables = _tables(4)
    folder = tmp_path / "data" / "sales"
    folder.mkdir(parents=True)
    sales = tables["sales"]
    pq.write_table(sales.slice(0, 300), folder / "0.parquet")
    policy = {
        **POLICY,
        "source": f"parquet:{tmp_path}/data",
        "ledger": f"sqlite:{tmp_path}/small.ledger",
        "tables": {"sales": POLICY["tables"]["sales"]},
    }
    sql = "SELECT MEDIAN(price) AS m FROM sales WHERE paid > 0"
    with sfumato.open(policy) as database:
        first, spent = database.ask(sql, epsilon=500), database.budget().spent
    with duckdb.connect(_copy(tmp_path)) as copy:
        copy.execute(f"ALTER TABLE sales DROP COLUMN {quoted(PERSON)}")
    with sfumato.open(policy) as database:
        assert database.ask(sql, epsilon=500).rows() == first.rows()
        assert database.budget().spent == spent
        assert database.ask(sql, epsilon=501).rows()
        assert _numbers(tmp_path) is None
        pq.write_table(sales.slice(300, 100), folder / "1.parquet")
        database.refresh()
        before = _numbers(tmp_path) or []
        assert len({number for _, number in before}) == len({who for who, _ in before}) == len(before)
        pq.write_table(sales.slice(400), folder / "2.parquet")
        database.refresh()
        after = _numbers(tmp_path) or []
        assert set(before) < set(after)
        assert len({number for _, number in after}) == len({who for who, _ in after}) == len(after)
        assert database.ask(sql, epsilon=500).rows()
