"""What the data owner sees of the path: statements before they run, log records without values, engine messages."""

import ast
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.paths.worlds import a_world, policy, write

import sfumato
from sfumato import diagnostics
from sfumato.engines.duckdb.connection import (
    closed_connection,
    execute,
    execute_in_batches,
    execute_in_columns,
    execute_in_parts,
)
from sfumato.engines.engine import Limits
from sfumato.errors import BadParameter, EngineFailed

QUESTIONS = (
    "SELECT COUNT(*) AS n FROM visits",
    "SELECT dept, AVG(cost) AS x, COUNT(*) AS n FROM visits GROUP BY dept",
    "SELECT MEDIAN(cost) AS x FROM visits",
    "SELECT COUNT(DISTINCT dept) AS n FROM visits WHERE cost > 3",
    "SELECT a.n, b.n AS m FROM (SELECT COUNT(*) AS n FROM visits) a, (SELECT SUM(age) AS n FROM visits) b",
)
PERSON = "Ms Vermeer"


@pytest.fixture
def database(tmp_path: Path) -> sfumato.Database:
    write(tmp_path, a_world(1))
    return sfumato.open(policy(tmp_path, analysts={"ada": {"epsilon": 100}}))


def _record_statements(database: sfumato.Database, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    reader: Any = database.engine._reader  # type: ignore[attr-defined]
    ran: list[str] = []
    for name in ("rows", "columns", "batches"):
        real = getattr(type(reader), name)

        def run(self: Any, statement: str, *more: Any, real: Any = real) -> Any:
            ran.append(statement)
            return real(self, statement, *more)

        monkeypatch.setattr(type(reader), name, run)
    return ran


@pytest.mark.parametrize("sql", QUESTIONS)
def test_the_statements_of_a_question_are_those_that_run(
    database: sfumato.Database, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database:
        ran = _record_statements(database, monkeypatch)
        listed = database.statements(sql, epsilon=1)
        assert ran == []
        assert database.history() == ()
        database.ask(sql, epsilon=1)
        assert [one.sql for one in listed] == ran != []
        assert all(one.label in str(one) and one.label == diagnostics.statement_label(one.sql) for one in listed)


def test_where_bounds_are_selected_the_statements_that_count_people_run_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "visits.csv").write_text("who,cost\n" + "".join(f"{at % 5},{at}\n" for at in range(20)))
    columns: dict[str, object] = {"who": {"type": "integer"}, "cost": {"type": "integer", "bounds": [0, 64]}}
    table: dict[str, object] = {"unit": "who", "rows_per_unit": {"most": 8, "choose": "private"}, "columns": columns}
    choosing: dict[str, object] = {
        "name": "clinic",
        "source": f"csv:{tmp_path}/visits.csv",
        "ledger": f"sqlite:{tmp_path}/clinic.ledger",
        "budget": {"epsilon": 100, "delta": 0},
        "tables": {"visits": table},
    }
    sql = "SELECT cost > 9 AS high, COUNT(*) AS n FROM visits GROUP BY cost > 9"
    with sfumato.open(choosing) as database:
        ran = _record_statements(database, monkeypatch)
        listed = database.statements(sql, epsilon=1)
        database.ask(sql, epsilon=1)
    counting = [one.sql for one in listed if one.purpose.startswith("count people")]
    assert counting == ran[: len(counting)] != []
    assert len(listed) == len(ran) == len(counting) + 1
    assert listed[-1].purpose.endswith("at every candidate bound")


def test_statements_need_no_price_because_they_are_not_charged(database: sfumato.Database) -> None:
    with database:
        for sql in QUESTIONS:
            assert [one.sql for one in database.statements(sql)] == [
                one.sql for one in database.statements(sql, epsilon=1)
            ]
        assert database.statements("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5) COUNT(*) FROM visits")
        assert database.history() == ()


def test_statements_are_for_the_owner(database: sfumato.Database) -> None:
    with database, database.as_analyst("ada") as ada, pytest.raises(BadParameter, match="analyst cannot see"):
        ada.statements(QUESTIONS[0], epsilon=1)


def _fail(kind: str) -> None:
    connection = closed_connection((), Limits(threads=1))
    statement = f"SELECT CAST('{PERSON}' AS INTEGER) AS x"
    with pytest.raises(EngineFailed) as refused:
        KINDS[kind](connection, statement)
    assert refused.value.__context__ is None
    assert PERSON not in str(refused.value)


KINDS: dict[str, Callable[[Any, str], object]] = {
    "rows": execute,
    "columns": execute_in_columns,
    "parts": lambda connection, statement: list(execute_in_parts(connection, statement)),
    "batches": lambda connection, statement: list(execute_in_batches(connection, statement)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_message_is_kept_in_the_debug_file_and_nowhere_else(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "clinic.debug"
    monkeypatch.setenv(diagnostics.DEBUG_FILE_VARIABLE, str(path))
    with caplog.at_level(logging.DEBUG):
        _fail(kind)
    (line,) = path.read_text(encoding="utf-8").splitlines()
    kept = json.loads(line)
    assert PERSON in kept["message"]
    assert kept["label"] == diagnostics.statement_label(kept["statement"])
    assert path.stat().st_mode & 0o777 == 0o600
    assert [record.sfumato["statement"] for record in caplog.records] == [kept["label"]]  # type: ignore[attr-defined]
    assert PERSON not in caplog.text + str([vars(record) for record in caplog.records])


def test_there_is_no_debug_file_unless_the_owner_names_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(diagnostics.DEBUG_FILE_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    _fail("rows")
    assert list(tmp_path.iterdir()) == []


def test_the_debug_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "clinic.debug"
    monkeypatch.setenv(diagnostics.DEBUG_FILE_VARIABLE, str(path))
    monkeypatch.setattr(diagnostics, "MAX_DEBUG_FILE_BYTES", 60_000)
    for at in range(40):
        diagnostics.record_engine_failure(ValueError(f"{at} " + "é\n" * 10_000), "SELECT 1" * 10_000)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["clinic.debug", "clinic.debug.1"]
    assert max(file.stat().st_size for file in files) <= 60_000
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[-1])["message"].startswith("39 ")
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_a_line_that_fits_no_file_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "clinic.debug"
    monkeypatch.setenv(diagnostics.DEBUG_FILE_VARIABLE, str(path))
    monkeypatch.setattr(diagnostics, "MAX_DEBUG_FILE_BYTES", 10)
    diagnostics.record_engine_failure(ValueError("long"), "SELECT 1")
    assert not path.exists() or path.read_bytes() == b""


@pytest.mark.parametrize("kind", ["readable", "link", "folder", "pipe", "nowhere"])
def test_a_debug_file_that_others_could_read_is_not_written(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, target = tmp_path / "clinic.debug", tmp_path / "target"
    if kind == "readable":
        path.touch()
        path.chmod(0o644)
    elif kind == "link":
        target.touch(0o600)
        path.symlink_to(target)
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path = tmp_path / "nowhere" / "clinic.debug"
    monkeypatch.setenv(diagnostics.DEBUG_FILE_VARIABLE, str(path))
    _fail("rows")  # refused as without a debug file
    assert not path.is_file() or path.read_bytes() == b""


def test_records_of_the_path_hold_no_data_value(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, a_world(1))
    with caplog.at_level(logging.INFO, "sfumato"), sfumato.open(policy(tmp_path)) as database:
        release = database.ask(QUESTIONS[0], epsilon=1)
        database.ask(QUESTIONS[0], epsilon=1)
        database.refresh()
    events = [record.sfumato for record in caplog.records if record.name == "sfumato"]  # type: ignore[attr-defined]
    assert [event["event"] for event in events] == ["opened", "charged", "stored", "repeated", "snapshot"]
    assert {event["receipt"] for event in events if "receipt" in event} == {release.receipt.id}
    allowed = {"event", "dataset", "account", "version", "receipt", "loss"}
    assert all(set(event) <= allowed for event in events)


def test_importing_and_asking_print_nothing_and_change_no_limit_at_import() -> None:
    program = (
        "import logging, sys\n"
        "before = sys.getrecursionlimit(), logging.root.manager.disable\n"
        "import sfumato.database, sfumato.server.serving, sfumato.query.parse\n"
        "from sfumato.diagnostics import log_event, record_engine_failure\n"
        "assert (sys.getrecursionlimit(), logging.root.manager.disable) == before\n"
        "record_engine_failure(ValueError('secret'), 'SELECT 1')\n"
        "log_event('charged', receipt='r')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


SIMULATED = frozenset({"lab/audits/ledger.py"})
"""Failures that an audit plays itself."""
WORDED = frozenset({"engines/resource_failures.py"})
"""What gives failures their words: whoever calls it has recorded them."""


def unrecorded_failures(tree: ast.Module) -> list[int]:
    """Return the lines that make an EngineFailed in a function that has not recorded its cause before."""
    found = []
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
        called: dict[str, list[int]] = {"EngineFailed": [], "failure_of": [], "record_engine_failure": []}
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                called.get(name, []).append(node.lineno)
        recorded = min(called["record_engine_failure"], default=10**9)
        found += [line for line in (*called["EngineFailed"], *called["failure_of"]) if line < recorded]
    return found


def test_every_failure_of_an_engine_is_recorded_where_it_is_raised() -> None:
    package = Path(diagnostics.__file__).parent
    raises, unrecorded = 0, []
    for path in sorted(package.rglob("*.py")):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(package).as_posix()
        raises += text.count("EngineFailed(")
        if name not in SIMULATED | WORDED:
            unrecorded += [f"{name}:{line}" for line in unrecorded_failures(ast.parse(text))]
    assert raises > 30
    assert unrecorded == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("def f():\n    raise EngineFailed()\n", [2]),
        ("def f():\n    raise errors.EngineFailed('a')\n", [2]),
        ("def f():\n    failure = failure_of(error, False)\n    raise failure\n", [2]),
        ("def f():\n    raise EngineFailed()\n    record_engine_failure(error)\n", [2]),
        ("def f():\n    record_engine_failure(error)\n    raise EngineFailed()\n", []),
        ("def f():\n    def g():\n        record_engine_failure(error)\n    raise EngineFailed()\n", []),
    ],
)
def test_a_planted_failure_without_a_record_is_found(text: str, lines: list[int]) -> None:
    assert unrecorded_failures(ast.parse(text)) == lines


def test_a_failure_without_an_exception_is_recorded_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(diagnostics.DEBUG_FILE_VARIABLE, str(tmp_path / "debug"))
    diagnostics.record_engine_failure("The copy is gone.")
    assert '"error": "", "message": "The copy is gone."' in (tmp_path / "debug").read_text(encoding="utf-8")
