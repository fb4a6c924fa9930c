"""A key of a path leads to one person, or there is no snapshot: a row never counts for several people."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from tests.engines.builds import SALT, bounded, policy_of
from tests.engines.reference import Row, bounded_reference, shares_a_key
from tests.engines.test_bounding_by_shuffle import ONE_PASS, copied_by
from tests.old_snapshot import told_of_the_old_snapshot

import sfumato
from sfumato.cli import main
from sfumato.engines.duckdb.build import Build
from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.opening import inspected
from sfumato.engines.sql.dialect import Dialect
from sfumato.errors import BadSource, NoSnapshot
from sfumato.policy.reading import read_policy

TABLES: dict[str, Any] = {
    "orders": {
        "unit": "who",
        "rows_per_unit": 2,
        "columns": {"who": {"type": "text"}, "number": {"type": "integer"}},
    },
    "lines": {
        "unit": "orders.who via number = number",
        "rows_per_unit": 3,
        "columns": {"number": {"type": "integer"}, "amount": {"type": "integer", "bounds": [0, 9]}},
    },
}
SCHEMAS = {
    "orders": pa.schema([("who", pa.string()), ("number", pa.int64())]),
    "lines": pa.schema([("number", pa.int64()), ("amount", pa.int64())]),
}
COUNT = "SELECT COUNT(*) AS n FROM lines"
Database = dict[str, list[Row]]


def _database(seed: int) -> Database:
    """Return a few orders of a few people, whose keys are theirs, shared, or missing; some people are missing, too."""
    draw = Random(seed)
    keys, people = draw.choice([4, 40]), [None, "a", "A", "é", "b", "b "]
    orders: list[Row] = [{"who": draw.choice(people), "number": draw.choice([None, *range(keys)])} for _ in range(8)]
    lines: list[Row] = [{"number": draw.choice([None, *range(keys)]), "amount": draw.randrange(10)} for _ in range(12)]
    return {"orders": orders, "lines": lines}


def _arrow(database: Database) -> dict[str, pa.Table]:
    return {name: pa.Table.from_pylist(rows, SCHEMAS[name]) for name, rows in database.items()}


@pytest.mark.usefixtures("every_engine")
@pytest.mark.parametrize("most", [1, 3])
def test_a_database_is_copied_exactly_if_no_key_leads_to_two_people(most: int) -> None:
    policy = policy_of({**TABLES, "lines": {**TABLES["lines"], "rows_per_unit": most}})
    refused = 0
    for seed in range(12):
        database = _database(seed)
        if shares_a_key(policy, database):
            refused += 1
            with pytest.raises(BadSource, match=r"A value of orders\.number leads to more than one person"):
                bounded(policy, _arrow(database))
            continue
        copy = bounded(policy, _arrow(database))
        assert copy == bounded_reference(policy, database, SALT)
        assert copy["lines"].total() <= len(database["lines"])
    assert 3 <= refused <= 9


@pytest.mark.parametrize("dialect", [DUCKDB, ONE_PASS], ids=["written", "one pass"])
def test_the_statement_gives_a_row_one_owner_even_if_nothing_is_refused(
    dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relation that rows are joined with holds a key once: the refusal does not have to keep rows from doubling."""
    found = Build.rows
    monkeypatch.setattr(Build, "rows", lambda build, query: [(0,)] if "<> other" in query else found(build, query))
    pairs = [*((who, 7) for who in "abcd"), ("a", 8)]
    database: Database = {
        "orders": [{"who": who, "number": number} for who, number in pairs],
        "lines": [{"number": number, "amount": 1} for number in (7, 8)],
    }
    copy = copied_by(dialect, policy_of(TABLES), _arrow(database))
    assert copy["lines"].total() == 1  # that of the key which is one person's


@pytest.mark.parametrize("dialect", [DUCKDB, ONE_PASS], ids=["written", "one pass"])
def test_rows_that_come_out_of_a_path_are_counted_again(dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the relation of owners held a key twice, the copy would not be kept."""
    made = Build.create_table_as

    def twice(build: Build, relation: str, query: str, *, salted: bool = False) -> None:
        again = f"{query} UNION ALL {query}" if relation == build.stage("owners") else query
        made(build, relation, again, salted=salted)

    monkeypatch.setattr(Build, "create_table_as", twice)
    database: Database = {"orders": [{"who": "a", "number": 8}], "lines": [{"number": 8, "amount": 1}]}
    with pytest.raises(BadSource, match="not every row of the source was accounted for"):
        copied_by(dialect, policy_of(TABLES), _arrow(database))


class Shop:
    """A shop on disk, whose files are added one by one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.orders(0, ["ann", "bob"], [1, 2])
        self._write("lines", 0, pa.table({"number": [1, 1, 2], "amount": [3, 4, 5]}))

    def _write(self, table: str, at: int, rows: pa.Table) -> None:
        path = self.folder / "data" / table / f"{at}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, path)

    def orders(self, at: int, who: list[str | None], numbers: list[int | None]) -> None:
        self._write("orders", at, pa.table({"who": who, "number": pa.array(numbers, pa.int64())}))

    def words(self, refresh: str = "manual") -> dict[str, Any]:
        return {
            "name": "shop",
            "source": f"parquet:{self.folder}/data",
            "ledger": f"sqlite:{self.folder}/shop.ledger",
            "refresh": refresh,
            "budget": {"epsilon": 100, "delta": 0},
            "tables": TABLES,
            "analysts": {"research": {"epsilon": 50}},
        }


SHARED: dict[str, Callable[[Shop], None]] = {
    "an added file": lambda shop: shop.orders(1, ["zoe"], [1]),
    "a file written anew": lambda shop: shop.orders(0, ["ann", "bob", "zoe"], [1, 2, 1]),
}


@pytest.mark.parametrize("refresh", ["manual", "on-change"])
@pytest.mark.parametrize("share", SHARED.values(), ids=SHARED)
def test_only_the_owner_sees_that_a_key_became_shared(
    tmp_path: Path, share: Callable[[Shop], None], refresh: str
) -> None:
    shop = Shop(tmp_path)
    with sfumato.open(shop.words(refresh), analyst="research") as database:
        first = database.ask(COUNT, epsilon=1)
        quote = str(database.explain(COUNT, epsilon=2))
    share(shop)
    with sfumato.open(shop.words(refresh), analyst="research") as database:
        again = database.ask(COUNT, epsilon=1)
        assert (again.rows(), again.receipt) == (first.rows(), first.receipt)
        assert str(database.explain(COUNT, epsilon=2)) == quote
    with told_of_the_old_snapshot(refresh, r"orders\.number"), sfumato.open(shop.words(refresh)) as database:
        with pytest.raises(BadSource, match=r"orders\.number"):
            database.refresh()
        assert database.ask(COUNT, epsilon=3).receipt.version == first.receipt.version
    shop.orders(0, ["ann", "bob", "zoe"], [1, 2, None])  # NULL is no key
    shop.orders(1, [None, "ann"], [1, 1])  # and names nobody
    with sfumato.open(shop.words(refresh)) as database:
        database.refresh()
        assert database.ask(COUNT, epsilon=3).receipt.version != first.receipt.version


def test_a_first_snapshot_with_a_shared_key_is_refused_to_everybody(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.orders(1, ["zoe"], [2])
    with pytest.raises(NoSnapshot) as told:
        sfumato.open(shop.words(), analyst="research")
    assert "orders" not in str(told.value)
    with pytest.raises(BadSource) as refused:
        sfumato.open(shop.words())
    assert "orders.number" in str(refused.value)
    assert "zoe" not in str(refused.value)
    assert not list(tmp_path.glob("*.build-*"))


def test_frames_are_refused_alike(tmp_path: Path) -> None:
    frames = {
        "orders": pa.table({"who": ["a", "b"], "number": [1, 1]}),
        "lines": pa.table({"number": [1], "amount": [1]}),
    }
    words = {**Shop(tmp_path).words(), "source": frames}
    with pytest.raises(BadSource, match=r"orders\.number"):
        sfumato.open(words)


def test_check_counts_shared_keys_before_a_snapshot_is_taken(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    policy = tmp_path / "shop.toml"
    policy.write_text(
        'source = "parquet:data"\n[budget]\nepsilon = 1\ndelta = 0\n'
        '[tables.orders]\nunit = "who"\nrows_per_unit = 2\n[tables.orders.columns]\n'
        'who = { type = "text" }\nnumber = { type = "integer" }\n'
        '[tables.lines]\nunit = "orders.who via number = number"\nrows_per_unit = 3\n[tables.lines.columns]\n'
        'number = { type = "integer" }\namount = { type = "integer", bounds = [0, 9] }\n',
        encoding="utf-8",
    )
    assert "will be refused" not in CliRunner().invoke(main, ["check", str(policy)]).output
    shop.orders(1, ["zoe", "zoe", "ann", None], [1, 3, 2, 3])
    shown = CliRunner().invoke(main, ["check", str(policy)])
    assert shown.exit_code == 0, shown.output
    assert "The next snapshot will be refused. 2 values of orders.number lead to more than one person" in shown.output
    found = inspected(read_policy(policy))
    assert found is not None
    assert Counter({table.table: table.shared_keys for table in found.tables}) == Counter({"lines": 2})
    refused = CliRunner().invoke(main, ["refresh", str(policy)])
    assert refused.exit_code == 2
    assert "orders.number" in refused.output
