"""A fault at each write, sync and rename of the path: no answer leaves without a durable charge, the file opens.

Faults are injected into the system calls by strace. Where there is none the tests are skipped, in CI they fail.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.ledger.answering import ANSWERS, uncovered
from tests.ledger.injected import BUDGET, QUESTIONS, sweep

KILL = "signal=SIGKILL"
FAULTS = (
    ("pwrite64", KILL, 54),
    ("fdatasync", KILL, 26),
    ("fsync", KILL, 12),
    ("rename", KILL, 10),
    ("write", KILL, 14),
    ("pwrite64", "error=ENOSPC", 54),
    ("fdatasync", "error=EIO", 26),
    ("write", "error=ENOSPC", 14),
)


@pytest.fixture(scope="module", autouse=True)
def strace() -> None:
    if shutil.which("strace") is None and os.environ.get("CI") and os.geteuid() == 0:
        subprocess.run(["apt-get", "install", "-y", "-q", "strace"], check=True, capture_output=True, timeout=300)
    if shutil.which("strace") is None:
        assert not os.environ.get("CI"), "strace is needed to inject faults"
        pytest.skip("NO FAULT WAS INJECTED: strace is not installed")


@pytest.mark.parametrize(("call", "fault", "count"), FAULTS)
def test_a_fault_at_every_call_leaves_no_unpaid_answer(call: str, fault: str, count: int, tmp_path: Path) -> None:
    homes = sweep(call, fault, count, tmp_path)
    assert [found for home in homes for found in uncovered(home, BUDGET)] == []
    left = {_answers(home) for home in homes}
    assert left == set(range(len(QUESTIONS) + 1))  # the faults met every part of the path


def test_answers_that_leave_before_the_charge_are_caught_unpaid(tmp_path: Path) -> None:
    homes = sweep("fdatasync", KILL, 26, tmp_path, "answer-first")
    assert [found for home in homes for found in uncovered(home, BUDGET)] != []


def _answers(home: Path) -> int:
    path = home / ANSWERS
    return len(path.read_text().splitlines()) if path.exists() else 0
