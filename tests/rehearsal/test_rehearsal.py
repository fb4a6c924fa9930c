"""A rehearsal answers every question of the real dataset, opens neither its source nor its ledger, and is marked."""

import gc
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.made_up_clinic import fresh_clinic
from tests.server.running import Running

import sfumato
from sfumato.cli import main
from sfumato.demo.tour import QUESTIONS
from sfumato.errors import BadPolicy, EngineFailed
from sfumato.policy.policy import Location, Sealing
from sfumato.policy.reading import read_policy
from sfumato.rehearsal.policy import REHEARSAL_NOTE, rehearsal_policy
from sfumato.rehearsal.rows import synthetic_tables

BUDGET = {"epsilon": 10, "delta": 1e-6}
POLICIES: dict[str, tuple[Mapping[str, Any], str]] = {
    "rows": (
        {"votes": {"unit": "rows", "columns": {"party": {"type": "text"}, "age": {"type": "integer"}}}},
        "SELECT party, COUNT(*) AS n FROM votes GROUP BY party",
    ),
    "bounds of each type": (
        {
            "t": {
                "unit": "who",
                "rows_per_unit": 7,
                "columns": {
                    "who": {"type": "text"},
                    "n": {"type": "integer", "bounds": [-5, 5]},
                    "x": {"type": "decimal", "bounds": [0, 1], "step": 0.25},
                    "b": {"type": "boolean"},
                    "day": {"type": "date", "bounds": [date(2024, 2, 1), date(2024, 3, 1)]},
                    "at": {"type": "timestamp", "bounds": [datetime(2024, 2, 1), datetime(2024, 2, 2)]},
                    "k": {"type": "text", "values": ["a", "b"]},
                    "free": {"type": "decimal"},
                    "short": {"type": "text", "length": 3},
                },
            }
        },
        "SELECT k, b, SUM(n) AS n, AVG(x) AS x, COUNT(free) AS f FROM t WHERE day >= DATE '2024-02-02' GROUP BY k, b",
    ),
    "a path to the person": (
        {
            "customers": {"unit": "c", "columns": {"c": {"type": "integer", "unique": True}}},
            "orders": {
                "unit": "cust",
                "rows_per_unit": 3,
                "columns": {"o": {"type": "integer", "unique": True}, "cust": {"type": "integer"}},
            },
            "items": {
                "unit": "orders.cust via ord = o",
                "rows_per_unit": 9,
                "columns": {"ord": {"type": "integer"}, "price": {"type": "integer", "bounds": [0, 9]}},
            },
        },
        "SELECT SUM(price) AS s FROM items",
    ),
    "values of a public table": (
        {
            "depts": {"public": True, "columns": {"d": {"type": "text"}, "floor": {"type": "integer"}}},
            "stays": {
                "unit": "who",
                "rows_per_unit": 2,
                "columns": {"who": {"type": "integer"}, "d": {"type": "text", "values": "depts.d"}},
            },
        },
        "SELECT depts.floor, COUNT(*) AS n FROM stays JOIN depts ON stays.d = depts.d GROUP BY depts.floor",
    ),
}


def _policy(tables: Mapping[str, Any], folder: Path) -> dict[str, object]:
    return {"name": "t", "source": f"parquet:{folder / 'nowhere'}", "budget": BUDGET, "tables": dict(tables)}


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_every_shape_of_policy_can_be_rehearsed_without_its_source(name: str, neighbours: str, tmp_path: Path) -> None:
    tables, question = POLICIES[name]
    policy = _policy(tables, tmp_path) | {"neighbours": neighbours}
    with sfumato.open(policy, rehearsal=True) as database:
        release = database.ask(question, epsilon="1")
        assert len(release) > 0
        assert release.notes[0] == REHEARSAL_NOTE
        assert database.verify().entries > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", POLICIES)
def test_synthetic_rows_are_within_their_bounds_and_the_same_each_time(name: str, tmp_path: Path) -> None:
    policy = read_policy(_policy(POLICIES[name][0], tmp_path))
    made = synthetic_tables(policy)
    assert all(made[name].equals(table) for name, table in synthetic_tables(policy).items())
    for table in policy.tables:
        for column in table.columns:
            values = made[table.name].column(column.name).to_pylist()
            assert values
            if isinstance(column.values, tuple):
                assert set(values) <= set(column.values)
            elif column.bounds is not None:
                low, high = column.bounds.low, column.bounds.high
                assert all(low <= value <= high for value in values)


def test_every_answer_and_quote_is_marked(tmp_path: Path) -> None:
    policy = fresh_clinic(tmp_path)
    with sfumato.open(policy, rehearsal=True) as database, database.as_analyst("research") as research:
        question = "SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex"
        first = research.ask(question, epsilon="0.1")
        marked: list[Any] = [
            first,
            research.ask(question, epsilon="0.1"),
            database.ask("SELECT COUNT(*) AS n FROM departments"),
            *database.ask_all([question, "SELECT COUNT(*) AS n FROM visits"], epsilon="0.1"),
            database.explain(question, epsilon="0.2"),
        ]
        marked.append(research.reopen(first.receipt.id))
        assert all(shown.notes[0] == REHEARSAL_NOTE for shown in marked)
        assert REHEARSAL_NOTE in str(marked[0])
        assert "rehearsal=True" in repr(research)


def test_prices_and_margins_are_those_of_the_real_dataset(tmp_path: Path) -> None:
    policy = fresh_clinic(tmp_path)
    question = "SELECT sex, COUNT(*) AS n, COUNT(DISTINCT born) AS b FROM patients GROUP BY sex"
    with sfumato.open(policy) as real, sfumato.open(policy, rehearsal=True) as rehearsed:
        for price in ({"epsilon": "0.3"}, {"share": "2%"}):
            quotes = [database.explain(question, **price) for database in (real, rehearsed)]
            assert quotes[0].loss == quotes[1].loss
            assert quotes[0].margins == quotes[1].margins
        assert real.budget().total == rehearsed.budget().total


def test_nothing_is_charged_to_the_real_budget(tmp_path: Path) -> None:
    policy = fresh_clinic(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with sfumato.open(policy, rehearsal=True) as database:
        database.ask("SELECT COUNT(*) AS n FROM visits", epsilon="3")
        folder = database.policy.ledger.path
        assert folder is not None
        assert folder.parent.stat().st_mode & 0o077 == 0
    del database
    gc.collect()
    assert not folder.parent.exists()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def _outcome(database: sfumato.Database, question: str) -> str:
    try:
        return str(database.explain(question, epsilon="0.1").loss)
    except EngineFailed:
        raise
    except sfumato.Refusal as refusal:
        return refusal.code


def test_a_rehearsal_refuses_exactly_what_the_real_dataset_refuses(tmp_path: Path) -> None:
    policy = fresh_clinic(tmp_path)
    with sfumato.open(policy) as real, sfumato.open(policy, rehearsal=True) as rehearsed:
        for question in QUESTIONS:
            if "departments" not in question.sql:  # the policy does not declare the columns of this public table
                assert _outcome(real, question.sql) == _outcome(rehearsed, question.sql)
        assert _outcome(rehearsed, "SELECT patient_id FROM visits") == _outcome(real, "SELECT patient_id FROM visits")


def test_a_sealed_policy_is_refused(tmp_path: Path) -> None:
    policy = read_policy(_policy(POLICIES["rows"][0], tmp_path))
    nowhere = Location("file", "", None)
    sealed = replace(policy, sealed=Sealing(nowhere, nowhere, policy.budget.epsilon, policy.budget.delta, 40))
    with pytest.raises(BadPolicy):
        rehearsal_policy(sealed, tmp_path)


def test_the_command_asks_synthetic_rows(tmp_path: Path) -> None:
    policy = fresh_clinic(tmp_path)
    run = CliRunner().invoke(main, ["rehearse", str(policy), "SELECT COUNT(*) AS n FROM visits", "--epsilon", "1"])
    assert run.exit_code == 0, run.output
    assert REHEARSAL_NOTE in run.output


def test_a_server_rehearses_with_the_tokens_of_the_real_one(tmp_path: Path) -> None:
    policy = fresh_clinic(tmp_path)
    shutil.rmtree(tmp_path / "data")
    with Running(policy, ("--rehearsal",)) as server:
        assert "Rehearsal" in server.out
        with sfumato.connect(server.url, token=server.token()) as remote:
            release = remote.ask("SELECT COUNT(*) AS n FROM visits", epsilon="0.1")
            assert release.notes[0] == REHEARSAL_NOTE
    assert not (tmp_path / "clinic.ledger").exists()


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_no_system_call_names_the_source_or_the_ledger(tmp_path: Path) -> None:
    """Law: the rehearsal's process opens, reads and asks about nothing in the folder of the data or of the ledger."""
    policy = fresh_clinic(tmp_path)
    traced = tmp_path.parent / f"{tmp_path.name}.strace"
    command = [sys.executable, "-m", "sfumato", "rehearse", str(policy), "SELECT COUNT(*) AS n FROM visits"]
    run = subprocess.run(
        ["strace", "-f", "-qq", "-e", "trace=%file,%network", "-o", str(traced), *command, "--epsilon", "1"],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert run.returncode == 0, run.stderr
    calls = [line for line in traced.read_text(errors="replace").splitlines() if str(tmp_path) in line]
    assert any(str(policy) in line for line in calls)  # strace sees the policy being read
    assert [line for line in calls if f'"{policy}"' not in line] == []
