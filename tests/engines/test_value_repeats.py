"""People by undeclared keys, counted by what the copy says of repeated values: the same numbers as counting ids."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.engines import DuckDBUnderLaw
from tests.engines.planned import plan_of, without_hidden_columns
from tests.engines.test_incremental_refresh import TABLES as FILES
from tests.engines.test_incremental_refresh import VISITS, Place

import sfumato
from sfumato.engines.aggregates import GroupAggregates
from sfumato.engines.engine import Engine
from sfumato.engines.sql.names import RANK, quoted, value_multiplicity_column
from sfumato.engines.sql.statements import Statements

COLUMNS = {
    "who": {"type": "integer"},
    "item": {"type": "text"},
    "code": {"type": "integer"},
    "price": {"type": "integer", "bounds": [0, 9]},
}
POLICY: dict[str, Any] = {
    "name": "small",
    "budget": {"epsilon": 10, "delta": 0.001},
    "tables": {
        "sales": {"unit": "who", "rows_per_unit": 12, "columns": COLUMNS},
        "towns": {"public": True},
    },
}
_RANDOM = Random(7)
ROWS = [
    {
        "who": who,
        "item": _RANDOM.choice(["tea", "bread", None, f"item {at % 5}"]),
        "code": _RANDOM.choice([None, 1, 2, who]),
        "price": _RANDOM.randint(0, 3),
    }
    for who in range(60)
    for at in range(_RANDOM.randint(1, 20))  # of those with more than 12 some are removed
]
ROWS += [{"who": who, "item": "tea", "code": 1, "price": 2} for who in range(55, 65) for _ in range(3)]  # equal rows
TABLES = {
    "sales": pa.Table.from_pylist(ROWS),
    "towns": pa.table({"item": ["tea", "bread"], "town": ["a", "b"]}),
}
BY_A_FILTER = (
    "SELECT item, COUNT(*) FROM sales GROUP BY item",
    "SELECT code, COUNT(DISTINCT who), SUM(price) FROM sales GROUP BY code",
    "SELECT i, COUNT(*) FROM (SELECT item AS i, price + 1 AS p FROM sales) t GROUP BY i",
)
IN_PART = (
    "SELECT item, COUNT(*) FROM sales WHERE price < 2 GROUP BY item",
    "SELECT item, code, COUNT(*) FROM sales GROUP BY item, code",
    "SELECT code, COUNT(DISTINCT who) FILTER (WHERE price > 1) FROM sales GROUP BY code",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 4) item, COUNT(*) FROM sales GROUP BY item",
)
BY_IDS = (
    "SELECT UPPER(item) AS i, COUNT(*) FROM sales GROUP BY i",
    "SELECT s.item, COUNT(DISTINCT s.who) FROM sales s JOIN sales t ON s.who = t.who GROUP BY s.item",
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    opened = DuckDBUnderLaw().opened(tmp_path_factory.mktemp("repeats"), POLICY, TABLES)
    yield opened
    opened.close()


def _shown(group: GroupAggregates) -> dict[object, list[int]]:
    columns = [*group.columns.values(), *([] if group.units is None else [group.units])]
    return {key: [int(values[at]) for values in columns] for at, key in enumerate(group.keys)}


@pytest.mark.parametrize("sql", [*BY_A_FILTER, *IN_PART, *BY_IDS])
def test_people_are_counted_as_by_their_ids(engine: Engine, sql: str) -> None:
    plan = plan_of(engine, POLICY, sql)
    (one,) = plan.groups
    assert not one.group.public_keys
    old = without_hidden_columns(plan, "multiplied")
    jobs = [engine.prepare(each) for each in (plan, old)]
    texts = [job.statements[0] or "" for job in jobs if isinstance(job, Statements)]
    assert ["DISTINCT" in text for text in texts] == [sql not in BY_A_FILTER, True]
    assert ["alike" in text for text in texts] == [sql not in BY_IDS, False]
    (now,), (before,) = (engine.run(job).groups for job in jobs)
    assert _shown(now) == _shown(before)
    assert sum(values[-1] for values in _shown(now).values()) > 20


@pytest.mark.parametrize("rows_per_unit", [2, 12, {"most": 40, "choose": "private"}])
def test_the_first_row_with_a_value_says_how_many_there_are(tmp_path: Path, rows_per_unit: object) -> None:
    tables = {"sales": {**POLICY["tables"]["sales"], "rows_per_unit": rows_per_unit}}
    DuckDBUnderLaw().opened(tmp_path, {**POLICY, "tables": tables}, {"sales": TABLES["sales"]}).close()
    hidden = [quoted(value_multiplicity_column(name)) for name in ("item", "code")]
    with duckdb.connect(_copy(tmp_path), read_only=True) as copy:
        found = copy.execute(
            f"SELECT who, item, code, {', '.join(hidden)} FROM sales ORDER BY who, {quoted(RANK)}"  # noqa: S608
        ).fetchall()
    for place in (1, 2):
        rows: dict[object, list[int]] = defaultdict(list)
        for row in found:
            if row[place] is None:
                assert row[place + 2] == 1
            else:
                rows[row[0], row[place]].append(row[place + 2])
        assert all(numbers == [len(numbers), *[0] * (len(numbers) - 1)] for numbers in rows.values())
        assert max(map(len, rows.values())) > 1


def _copy(root: Path) -> str:
    """Return the file of the newest copy."""
    found = [path for path in root.glob("*.copy-*") if path.is_file()]
    return str(max(found, key=lambda path: path.stat().st_mtime_ns))


def _forget_multiplicities(root: Path) -> None:
    """Make the copy one of a version that did not write them."""
    with duckdb.connect(_copy(root)) as copy:
        for name in ("item", "code"):
            copy.execute(f"ALTER TABLE sales DROP COLUMN {quoted(value_multiplicity_column(name))}")


def _hidden(root: Path) -> set[str]:
    with duckdb.connect(_copy(root), read_only=True) as copy:
        found = copy.execute("SELECT column_name FROM duckdb_columns() WHERE table_name = 'sales'").fetchall()
    return {name for (name,) in found if "alike" in name}


def test_a_copy_of_an_older_version_answers_until_a_refresh_writes_it_anew(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "sales"
    folder.mkdir(parents=True)
    pq.write_table(TABLES["sales"], folder / "0.parquet")
    tables = {"sales": POLICY["tables"]["sales"]}
    policy = {
        **POLICY,
        "source": f"parquet:{tmp_path}/data",
        "ledger": f"sqlite:{tmp_path}/small.ledger",
        "tables": tables,
        "budget": {"epsilon": 10**5, "delta": 0.001, "truncation": "0.1"},
    }
    sql = "SELECT item, COUNT(*) AS n FROM sales GROUP BY item"
    with sfumato.open(policy) as database:
        first, spent = database.ask(sql, epsilon=500), database.budget().spent
    assert _hidden(tmp_path) == {'"alike" item', '"alike" code'}
    _forget_multiplicities(tmp_path)
    with sfumato.open(policy) as database:
        assert database.ask(sql, epsilon=500).rows() == first.rows()
        assert database.budget().spent == spent
        assert database.ask("SELECT code, COUNT(*) AS n FROM sales GROUP BY code", epsilon=500).rows()
        assert not _hidden(tmp_path)
        pq.write_table(TABLES["sales"].slice(0, 40), folder / "1.parquet")
        database.refresh()
        assert _hidden(tmp_path) == {'"alike" item', '"alike" code'}
        assert database.ask(sql, epsilon=500).rows()


class _Words(Place):
    tables: ClassVar = {
        **FILES,
        "visits": {
            "unit": "person",
            "rows_per_unit": 3,
            "columns": {
                **VISITS["columns"],
                "visit": {"type": "integer"},
                "cost": {"type": "decimal", "bounds": [0, 5], "step": "0.5"},
                "dept": {"type": "text"},
            },
        },
    }


def test_a_refresh_says_of_repeated_values_what_a_registration_says(tmp_path: Path) -> None:
    place = _Words(tmp_path / "here", "parquet")
    place.fill([(1, 11, 1.0, "er"), (1, 12, 1.0, "er"), (2, 21, 3.0, "icu"), (3, 31, 9.0, None)])
    place.refreshed()
    place.visits(
        1, [(2, 22, 3.0, "icu"), (2, 23, 0.5, "icu"), (4, 41, 1.0, "er"), (4, 42, 1.0, "er"), (4, 42, 1.0, "er")]
    )
    place.visits(2, [(4, 43, 1.0, "er"), (5, 51, 2.0, "lab")])
    assert place.refreshed() == place.anew()
    assert place.read_again() == {"visits", "notes"}
