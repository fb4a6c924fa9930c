"""The sandbox: SQLite reads tables of ours and calls functions of ours, and every instruction is counted."""

from collections.abc import Iterator

import pytest
from tests.server.wire.served import make_clinic

import sfumato
from sfumato.server.wire.pg_catalog.catalogue import Catalogue
from sfumato.server.wire.pg_catalog.compiled import MAX_STEPS, Execution
from sfumato.server.wire.pg_catalog.sandbox import Sandbox
from sfumato.server.wire.pg_catalog.session_facts import SessionFacts
from sfumato.server.wire.pg_catalog.stored_values import StoredValues
from sfumato.server.wire.settings import Settings
from sfumato.server.wire.sqlstates import WireError


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalogue]:
    with sfumato.open(make_clinic(tmp_path_factory.mktemp("sandbox"))) as database:
        yield Catalogue(database.policy, database.columns(), "research")


def execution() -> Execution:
    return Execution(SessionFacts("research", "clinic", 1, "127.0.0.1", 5432, False, Settings("research", ())), {})


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT load_extension('x')",
        "SELECT randomblob(10)",
        "SELECT printf('%1000000d', 1)",
        'SELECT group_concat(n) FROM ".numbers"',
        "SELECT name FROM sqlite_master",
        "SELECT * FROM pragma_database_list",
        "SELECT * FROM json_each('[1]')",
        "PRAGMA hard_heap_limit = 1",
        "ATTACH ':memory:' AS other",
        "VACUUM INTO 'copy'",
        "CREATE TABLE t1 (n)",
        "CREATE TEMP VIEW t1 AS SELECT 1",
        'INSERT INTO ".numbers" VALUES (-1)',
        'DELETE FROM ".numbers"',
        'DROP TABLE ".numbers"',
        "SELECT 1; SELECT 2",
    ],
)
def test_sqlite_is_allowed_nothing_but_our_tables_and_functions(shown: Catalogue, sql: str) -> None:
    sandbox = Sandbox(shown.shadow)
    numbers = frozenset({("", "numbers")})
    assert list(sandbox.rows('SELECT max(n) FROM ".numbers"', (), numbers, (20,), execution())) == [(99_999,)]
    with pytest.raises(WireError):
        list(sandbox.rows(sql, (), numbers, (25,), execution()))
    assert list(sandbox.rows('SELECT count(n) FROM ".numbers"', (), numbers, (20,), execution())) == [(100_000,)]
    sandbox.close()


def test_instructions_of_sqlite_are_counted(shown: Catalogue) -> None:
    plan = shown.plan("SELECT count(*) FROM pg_class a, pg_class b, pg_class c WHERE a.oid <> b.oid", {})
    assert plan is not None
    run = execution()
    with pytest.raises(WireError) as refused:
        plan.rows(run)
    assert (refused.value.reported.sqlstate, run.steps < 0) == ("54000", True)
    run = execution()
    short = shown.plan("SELECT count(*) > 200 FROM pg_class", {})
    assert short is not None
    assert short.rows(run) == [(True,)]
    assert MAX_STEPS - run.steps < 100_000


def test_equal_values_have_one_short_name_and_come_back() -> None:
    shared = StoredValues()
    first = shared.encode("é" * 5000)
    values = StoredValues(shared)
    for value in ("é" * 5000, "x" * 65, ["a", None, "b" * 100], [], 10**30, "short"):
        name = values.encode(value)
        assert name == values.encode(value)
        assert len(str(name).encode()) <= 64
        assert values.decode(name, 25) == value
    assert values.encode("é" * 5000) == first
    names = {values.encode("x" * 64 + letter) for letter in "abc"}
    assert len(names) == 3
