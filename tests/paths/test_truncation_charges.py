"""A question makes one charge: truncation losses are charged when a snapshot is taken, or by the next open."""

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from click.testing import CliRunner
from tests.paths.test_truncation import COUNT, _charged, _policy

import sfumato
from sfumato.cli import main
from sfumato.database import Database
from sfumato.opening import accounts, open_without_charge
from sfumato.planning.bounding.truncation import plan_truncation_release
from sfumato.planning.plan import Plan
from sfumato.policy.policy import Policy

PACKAGE = str(Path(sfumato.__file__).parent)
TOML = """
name = "clinic"
source = "csv:data"

[budget]
epsilon = 10
delta = 0
truncation = 0.5

[tables.visits]
unit = "who"
rows_per_unit = 2

[tables.visits.columns]
who = { type = "integer" }
dept = { type = "text", values = ["er", "icu"] }
cost = { type = "integer", bounds = [0, 20] }
"""


def test_it_is_measured_once_however_many_open_at_the_same_time(tmp_path: Path) -> None:
    policy = _policy(tmp_path)
    open_without_charge(policy).close()
    with ThreadPoolExecutor(4) as pool:
        handles = [one.result() for one in [pool.submit(sfumato.open, policy, analyst="press") for _ in range(4)]]
    assert len({one.ask(COUNT, epsilon="0.1").truncation_of("n") for one in handles}) == 1
    assert [len(_charged(one)) for one in handles] == [1] * 4
    for handle in handles:
        handle.close()


def test_what_an_earlier_version_published_is_read_and_not_paid_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until version 0.14 nobody counted the people who lost few rows."""
    policy = _policy(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("sfumato.dataset.plan_truncation_release", partial(_without_people, plan_truncation_release))
        with sfumato.open(policy) as before:
            cut = before.ask(COUNT, epsilon="0.1").truncation_of("n")
            assert len(_charged(before)) == 1
    with sfumato.open(policy) as now:
        assert len(_charged(now)) == 1
        assert now.ask(COUNT, epsilon="0.1").truncation_of("n") == cut is not None


def _without_people(plan: Callable[..., Plan | None], policy: Policy, *, counts_people: bool = False) -> Plan | None:
    del counts_people
    return plan(policy, counts_people=False)


POLICIES: dict[str, dict[str, Any]] = {
    "not measured": {"truncation": None},
    "measured": {},
    "not affordable": {"epsilon": 3, "truncation": 3},
    "with delta": {"delta": 0.001},
}


@pytest.mark.parametrize("opening", [sfumato.open, open_without_charge])
@pytest.mark.parametrize("account", [None, "press"])
@pytest.mark.parametrize("answers", ["own", "shared"])
@pytest.mark.parametrize("budget", POLICIES)
def test_a_question_makes_one_charge_and_a_quote_none(
    tmp_path: Path, budget: str, answers: str, account: str | None, opening: Callable[..., Database]
) -> None:
    """Whatever the policy pays for, and whoever has measured it or not."""
    policy = _policy(tmp_path, **POLICIES[budget])
    if policy["budget"]["truncation"] is None:
        del policy["budget"]["truncation"]
    if answers == "shared":
        policy["answers"] = answers
    if budget == "not affordable":
        with open_without_charge(policy) as database:
            database.ask(COUNT, epsilon="0.01")
    with opening(policy, analyst=account) as database:
        ledger = database.payer.ledger
        texts = (COUNT, "SELECT dept, SUM(cost) AS s FROM visits GROUP BY dept")
        asked: list[Callable[[], object]] = [partial(database.ask, sql, epsilon="0.1") for sql in texts]
        asked.append(partial(database.ask_all, [f"{COUNT} WHERE cost > 3", f"{COUNT} WHERE cost > 4"], epsilon="0.1"))
        for ask in asked:
            before = [entry.sequence for entry in ledger.history()]
            database.explain(COUNT, epsilon="0.2")
            assert [entry.sequence for entry in ledger.history()] == before
            ask()
            [entry, *others] = ledger.history()
            assert [other.sequence for other in others] == before
            assert (entry.account, entry.state) == (database.account, "settled")
            ask()
            assert len(ledger.history()) == len(before) + 1


def test_a_quote_takes_the_same_work_after_every_answer_also_where_the_measurement_is_not_affordable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.ledger.ledger.MAX_COMPARED_VIEWS", 8)  # more are not compared
    policy = _policy(tmp_path, epsilon=3, truncation=3)
    with open_without_charge(policy) as database:
        database.ask(COUNT, epsilon="0.01")
    with sfumato.open(policy) as database:
        database.explain(COUNT, epsilon="0.1")
        calls = []
        for answers in range(3):
            for place in range(8):
                sql = f"SELECT COUNT(*) AS n FROM visits WHERE cost + {8 * answers + place} > 9"  # noqa: S608
                database.ask(sql, epsilon="0.001")
            calls.append(_calls(lambda: database.explain(COUNT, epsilon="0.1")))
    assert calls[0] == calls[1] == calls[2]
    assert calls[0]["plan_truncation_release"] == 0
    assert calls[0]["answer"] <= 1  # one entry of the ledger, found by its index
    assert calls[0]["answered"] <= 2  # all names of the question, and of its refinement, found by the same index


def _calls(work: Callable[[], object]) -> Counter[str]:
    """Return how often each function of the package is called."""
    found: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and PACKAGE in frame.f_code.co_filename:
            found[frame.f_code.co_name] += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


KILLED = """
import os, signal, sys, json
from sfumato import opening
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.charge import Charge
from sfumato.engines.duckdb.engine import DuckDB

def kill(*_arguments, **_options):
    os.kill(os.getpid(), signal.SIGKILL)

owner, name = {"charge": (Ledger, "charge"), "run": (DuckDB, "run"), "settle": (Charge, "settle")}[sys.argv[2]]
setattr(owner, name, kill)
opening.refreshed(json.loads(sys.argv[1]))
"""


@pytest.mark.parametrize(("step", "charged"), [("charge", 1), ("run", 2), ("settle", 2)])
def test_a_process_that_is_killed_before_it_has_measured_is_completed_by_the_next_open(
    tmp_path: Path, step: str, charged: int
) -> None:
    """Killed before the charge, after it, and after the noise; never completed by a question, nor charged twice."""
    policy = _policy(tmp_path)
    with sfumato.open(policy) as database:
        first = database.version
        command = [sys.executable, "-c", KILLED, json.dumps(policy), step]
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
        asked = database.ask(COUNT, epsilon="0.1")
        assert asked.receipt.version != first
        assert asked.intervals(bias=True) == [{"n": (None, None)}]
        assert "is not known" in str(database.explain(COUNT, epsilon="0.2"))
        assert len(_charged(database)) == charged
        with sfumato.open(policy, analyst="press") as other:
            assert len(_charged(other)) == 2
            assert other.version == asked.receipt.version
        assert [entry.state for entry in _charged(database)] == ["settled"] * 2
        again = database.ask(COUNT, epsilon="0.1")
        assert again.rows() == asked.rows()
        assert None not in again.intervals(bias=True)[0]["n"]  # what the other process published
        assert database.budget().spent.epsilon == Fraction(11, 10)


@pytest.mark.parametrize("arguments", [("check",), ("explain", COUNT, "--epsilon", "1"), ("tune", COUNT)])
def test_commands_that_are_free_leave_the_measurement_to_the_next_open(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    policy = tmp_path / "clinic.toml"
    _policy(tmp_path)
    policy.write_text(TOML, encoding="utf-8")
    name, *rest = arguments
    result = CliRunner().invoke(main, [name, str(policy), *rest])
    assert result.exit_code == 0, result.output
    with accounts(policy) as found:
        assert not found.history()
    with sfumato.open(policy) as database:
        assert len(_charged(database)) == 1
