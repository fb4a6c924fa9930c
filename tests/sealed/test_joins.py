"""Tables that were sealed to be joined: the sums of the plain database, and what the store is shown for them."""

import copy
import shutil
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.refusals import refusing
from tests.sealed.clinic import rows, sealed_policy
from tests.sealed.test_database import agree

import sfumato
from sfumato.errors import BadPolicy, StoreTampered
from sfumato.policy.canonical import policy_hash
from sfumato.policy.reading import read_policy
from sfumato.sealed.database import SealedDatabase, open_sealed, rotate, seal

JOINED = "FROM visits v JOIN people p ON v.patient_id = p.id"
ASKED = (
    f"SELECT COUNT(*) {JOINED}",
    f"SELECT v.dept, p.region, COUNT(*), SUM(v.cost), AVG(p.income) {JOINED} GROUP BY v.dept, p.region",
    f"SELECT p.region, VAR_POP(v.cost), SUM(v.score), COUNT(v.score) {JOINED} WHERE v.sex = 'f' GROUP BY p.region",
    f"SELECT SUM(p.income) FILTER (WHERE v.dept = 'er'), SUM(LENGTH(p.region)) {JOINED} AND p.region <> 'north'",
    "SELECT v.sex, AVG(p.income) FROM people p JOIN visits v ON p.id = v.patient_id GROUP BY v.sex",
    "SELECT COUNT(*), SUM(cost) FROM visits",
    "SELECT region, SUM(income) FROM people GROUP BY region",
)
ID = {"type": "integer", "join": "deterministic"}


def people(count: int = 24, twice: bool = True) -> pa.Table:
    """Return two rows of some people, one of most, none of a few."""
    dice = Random("people")
    found = [
        {"id": person, "region": dice.choice(["north", "south"]), "income": dice.randint(-5, 120)}
        for person in range(count)
        if person % 7
        for _ in range(1 + (twice and person % 3 == 0))
    ]
    return pa.Table.from_pylist(found)


def joined_policy(folder: Path, store: str = "") -> dict[str, Any]:
    policy = copy.deepcopy(sealed_policy(folder, store=store, cells=["dept", "sex"], splayed=[]))
    del policy["tables"]["visits"]["splayed"]
    policy["sealed"]["accept_leak"] = True
    policy["tables"]["visits"]["columns"]["patient_id"] = dict(ID)
    policy["tables"]["people"] = {
        "unit": "id",
        "rows_per_unit": 2,
        "cells": ["region"],
        "measures": ["income"],
        "capacity": 5000,
        "columns": {
            "id": dict(ID),
            "region": {"type": "text", "values": ["north", "south"]},
            "income": {"type": "integer", "bounds": [0, 100]},
        },
    }
    return policy


def plain(folder: Path, like: dict[str, Any], tables: dict[str, pa.Table]) -> dict[str, Any]:
    (folder / "plain" / "data").mkdir(parents=True)
    for name, table in tables.items():
        pq.write_table(table, folder / "plain" / "data" / f"{name}.parquet")
    found: dict[str, Any] = {}
    for name, words in like["tables"].items():
        known = {words["unit"], *words["cells"], *words["measures"]}
        columns = {one: kept for one, kept in words["columns"].items() if one in known}
        columns[words["unit"]] = {"type": "integer"}
        found[name] = {"unit": words["unit"], "rows_per_unit": words["rows_per_unit"], "columns": columns}
    ledger = f"sqlite:{folder / 'plain' / 'clinic.ledger'}"
    source = f"parquet:{folder / 'plain' / 'data'}"
    return {"name": "clinic", "source": source, "ledger": ledger, "budget": like["budget"], "tables": found}


def sealed_in(policy: dict[str, Any]) -> None:
    """Seal both tables, the visits in two batches."""
    everybody = rows(24)
    seal(policy, "visits", everybody.slice(0, 20))
    seal(policy, "visits", everybody.slice(20))
    seal(policy, "people", people())


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("joined")
    sealed_in(joined_policy(folder))
    return folder


@pytest.fixture
def folder(base: Path, tmp_path: Path) -> Path:
    shutil.copytree(base, tmp_path, dirs_exist_ok=True)
    return tmp_path


def every_sum_agrees(policy: dict[str, Any], folder: Path) -> None:
    tables = {"visits": rows(24), "people": people()}
    with open_sealed(policy) as here, sfumato.open(plain(folder, policy, tables)) as there:
        for sql in ASKED:
            agree(here, there, sql)


def test_joined_sums_are_those_of_the_plain_database(folder: Path) -> None:
    every_sum_agrees(joined_policy(folder), folder)


def test_joined_sums_are_the_same_from_postgresql(address: str, tmp_path: Path) -> None:
    policy = joined_policy(tmp_path, store=address)
    sealed_in(policy)
    every_sum_agrees(policy, tmp_path)


def test_every_answer_and_every_price_says_what_the_store_learns(folder: Path) -> None:
    with open_sealed(joined_policy(folder)) as database:
        for sql in (ASKED[0], ASKED[-1]):
            assert any(
                "which rows of people, visits are of one person" in note for note in database.ask(sql, epsilon=1).notes
            )
            assert any("are of one person" in note for note in database.explain(sql, epsilon=1).notes)


def test_the_statement_shows_no_word_of_the_asker(folder: Path) -> None:
    with open_sealed(joined_policy(folder)) as database:
        first = database.statements(f"SELECT p.region, SUM(v.cost) {JOINED} WHERE v.dept = 'er' GROUP BY p.region")
        second = database.statements(f"SELECT v.sex, SUM(v.cost) {JOINED} GROUP BY v.sex")
    assert first == second
    assert "er" not in "".join(first).replace("people", "").replace("INTEGER", "").split()


def test_the_store_is_shown_who_has_how_many_rows_and_nobody_s_name(folder: Path) -> None:
    with duckdb.connect(str(folder / "store" / "clinic.duckdb")) as store:
        names = [name for (name,) in store.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()]
        found = [
            sorted(n for (n,) in store.execute(f'SELECT count(*) FROM "{name}" GROUP BY k0, k1, k2, k3').fetchall())  # noqa: S608
            for name in names
        ]
    kept = [people().column("id").to_pylist(), rows(24).column("patient_id").to_pylist()]
    for table, ids in zip(found, kept, strict=True):
        counts = sorted(ids.count(one) for one in set(ids))
        assert table[-len(counts) :] == counts  # the equality pattern, as the policy accepted; dummies meet nobody
        assert set(table[: -len(counts)]) <= {1}


def test_another_epoch_shows_other_codes_for_the_same_people(folder: Path) -> None:
    policy = joined_policy(folder)
    before = _codes(folder)
    rotate(policy, folder / "keys" / "clinic.key", {"visits": rows(24), "people": people()})
    assert before.isdisjoint(_codes(folder))


def _codes(folder: Path) -> set[tuple[int, ...]]:
    with duckdb.connect(str(folder / "store" / "clinic.duckdb")) as store:
        names = [name for (name,) in store.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        asked = [f'SELECT k0, k1, k2, k3 FROM "{name}"' for name in names]  # noqa: S608
        return {row for statement in asked for row in store.execute(statement).fetchall()}


LIES = {
    "a row more often than its person has rows there": lambda row: (row[0], row[1], [*row[2], *row[2] * 2], *row[3:]),
    "a row that was never sealed": lambda row: (row[0], row[1], [*row[2][:-1], row[2][-1] + 4000], *row[3:]),
    "a batch that was never sealed": lambda row: (row[0], row[1], [9 << 32 | 1], *row[3:]),
    "another sum": lambda row: (*row[:3], row[3] + 1, *row[4:]),
    "fewer rows than were added up": lambda row: (row[0], row[1], row[2][1:], *row[3:]),
    "a cell that is none": lambda row: (99, *row[1:]),
    "no list of rows": lambda row: (*row[:2], 3, *row[3:]),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=list(LIES))
def test_a_store_that_lies_about_a_join_is_not_believed_again(folder: Path, lie: Any) -> None:
    with open_sealed(joined_policy(folder)) as database:
        honest = database._vault.store.sums

        def changed(statement: str) -> list[tuple[Any, ...]]:
            found = sorted(honest(statement), key=lambda row: -len(row[2]) if isinstance(row[2], list) else 0)
            return [lie(found[0]), *found[1:]] if " JOIN " in statement else found

        database._vault.store.sums = changed  # type: ignore[method-assign]
        with pytest.raises(StoreTampered):
            database.ask(ASKED[0], epsilon=1)
        database._vault.store.sums = honest  # type: ignore[method-assign]
        with pytest.raises(StoreTampered):
            database.ask(ASKED[-1], epsilon=1)


def test_rows_that_were_dropped_from_a_joined_table_are_noticed(folder: Path) -> None:
    with duckdb.connect(str(folder / "store" / "clinic.duckdb")) as store:
        names = [name for (name,) in store.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()]
        store.execute(f'DELETE FROM "{names[0]}" WHERE rowid = 0')  # noqa: S608
    with open_sealed(joined_policy(folder)) as database, pytest.raises(StoreTampered):
        database.ask(ASKED[0], epsilon=1)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM visits v LEFT JOIN people p ON v.patient_id = p.id",
        "SELECT COUNT(*) FROM visits v JOIN people p ON v.patient_id = p.id JOIN people q ON q.id = p.id",
        "SELECT SUM(v.cost * p.income) FROM visits v JOIN people p ON v.patient_id = p.id",
        "SELECT COUNT(*) FROM visits v JOIN people p ON v.patient_id = p.id AND v.age < p.income",
        "SELECT COUNT(DISTINCT v.patient_id) FROM visits v JOIN people p ON v.patient_id = p.id",
    ],
)
def test_what_pairs_of_cells_cannot_tell_is_refused_before_it_is_charged(folder: Path, sql: str) -> None:
    with open_sealed(joined_policy(folder)) as database:
        spent = database.budget().spent
        assert _code(database, sql) == "unsupported_sql"
        assert database.budget().spent == spent


def _code(database: SealedDatabase, sql: str) -> str:
    with refusing() as refused:
        database.ask(sql, epsilon=1)
    return refused.value.code


def test_tables_that_were_not_sealed_to_be_joined_are_not(tmp_path: Path) -> None:
    policy = joined_policy(tmp_path)
    policy["tables"]["people"]["columns"]["id"] = {"type": "integer"}
    sealed_in(policy)
    with open_sealed(policy) as database:
        assert _code(database, ASKED[0]) == "unsupported_sql"


def test_a_join_is_accepted_by_its_owner_or_not_at_all(tmp_path: Path) -> None:
    policy = joined_policy(tmp_path)
    accepted = policy_hash(read_policy(policy))
    del policy["sealed"]["accept_leak"]
    with pytest.raises(BadPolicy, match=r"shows the store which rows are of one person.*accept_leak = true"):
        read_policy(policy)
    for table, name in (("visits", "patient_id"), ("people", "id")):
        policy["tables"][table]["columns"][name] = {"type": "integer"}
    assert policy_hash(read_policy(policy)) != accepted


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: p["tables"]["people"]["columns"]["region"].update(join="deterministic"), "names no person"),
        (
            lambda p: p["tables"]["people"]["columns"]["id"].update(join="ordered"),
            "The possible values are: deterministic",
        ),
        (lambda p: p["tables"]["people"]["columns"]["id"].update(join=True), "The possible values are: deterministic"),
        (lambda p: p["tables"]["visits"].update(splayed=["hiv"]), "splayed columns"),
        (lambda p: p["tables"]["visits"].update(capacity=10**9), "capacity"),
    ],
)
def test_a_join_that_cannot_be_sealed_is_refused(tmp_path: Path, change: Any, words: str) -> None:
    policy = joined_policy(tmp_path)
    change(policy)
    with pytest.raises(BadPolicy, match=words):
        open_sealed(policy)


def test_a_plain_policy_joins_without_saying_so(tmp_path: Path) -> None:
    policy = plain(tmp_path, joined_policy(tmp_path), {"visits": rows(24), "people": people()})
    policy["tables"]["people"]["columns"]["id"] = dict(ID)
    with pytest.raises(BadPolicy, match="without \\[sealed\\]"):
        read_policy(policy)
