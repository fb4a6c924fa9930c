"""A fault at each write, sync and rename of the path, and retries: one charge, one answer, a file that opens.

Faults are injected into the system calls by strace. Where there is none the tests are skipped, in CI they fail.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.faults import Fault, every_fault, left_by_sweeps
from tests.ledger.answering import ANSWERS, uncovered
from tests.ledger.injected import BUDGET, QUESTIONS, sweep

KILL = "signal=SIGKILL"
KILLS = (
    Fault("pwrite64", KILL, 54),
    Fault("fdatasync", KILL, 26),
    Fault("fsync", KILL, 12),
    Fault("rename", KILL, 8),
    Fault("write", KILL, 12),
)
ERRORS = (
    Fault("pwrite64", "error=ENOSPC", 54),
    Fault("fdatasync", "error=EIO", 26),
    Fault("fsync", "error=EIO", 12),
    Fault("rename", "error=EIO", 8),
    Fault("write", "error=ENOSPC", 12),
)
ONCE = tuple(replace(fault, once=True) for fault in ERRORS)
"""The same errors, each only once: the first retry meets a disk that works."""
SELDOM = {"fsync", "rename", "write"}
"""Calls when a ledger is made, opened and closed, and where the next anchor is not as long as the last one."""
TOO_EARLY = Fault("fdatasync", KILL, 26, planted=True)


SWEEPS = ((*KILLS, TOO_EARLY), ERRORS, ONCE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return left_by_sweeps(tmp_path_factory.mktemp("faults"), SWEEPS, sweep)


@every_fault(SWEEPS)
def test_after_a_fault_at_every_call_each_question_has_one_charge_and_one_answer(
    folder: Path, place: str, fault: Fault
) -> None:
    homes = fault.homes(folder / place)
    assert [found for home in homes for found in uncovered(home, BUDGET)] == []
    met = {_answers(home) for home in homes}
    if fault.once:
        assert max(met) == len(QUESTIONS)  # a retry is answered
    elif fault.call in SELDOM:
        assert {0, len(QUESTIONS)} <= met
    else:
        assert met == set(range(len(QUESTIONS) + 1))  # it met every part of the path


def test_answers_that_leave_before_the_charge_are_caught_unpaid(folder: Path) -> None:
    assert [found for home in TOO_EARLY.homes(folder / "0") for found in uncovered(home, BUDGET)] != []


def _answers(home: Path) -> int:
    path = home / ANSWERS
    return len(path.read_text().splitlines()) if path.exists() else 0
