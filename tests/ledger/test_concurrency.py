"""The cap holds exactly: a budget for m questions answers m, whoever asks, at whatever moment they are killed."""

import os
import random
import tempfile
from pathlib import Path

from tests.ledger.accounts import policy_in
from tests.ledger.answering import crowd, crowds, killed_at_random, uncovered

from sfumato.ledger.opening import open_ledger
from sfumato.policy.policy import Policy

KILLS = 30


def threads_share_one_ledger(folder: Path, fits: int, asks: int) -> None:
    leave, path = tempfile.mkstemp(dir=folder)
    policy = policy_in(folder, f"{fits}/100")  # each question costs a hundredth
    refused = crowd(policy, 64, asks, "thread", leave)
    os.close(leave)
    assert (len(Path(path).read_text().splitlines()), refused) == (fits, 64 * asks - fits)
    assert_exactly_spent(policy, fits)


def processes_share_one_file(folder: Path, fits: int, asks: int) -> None:
    found = crowds(f"sqlite:{folder / 'clinic.ledger'}", f"{fits}/100", 2, 32, asks)
    assert found == (fits, 64 * asks - fits)
    assert_exactly_spent(policy_in(folder, f"{fits}/100"), fits)


def assert_exactly_spent(policy: Policy, fits: int) -> None:
    ledger = open_ledger(policy)
    assert ledger.verify().spent.epsilon == ledger.budget().total.epsilon
    assert [entry.state for entry in ledger.history()] == ["settled"] * fits
    ledger.close()


def test_of_64_threads_with_50_questions_each_exactly_as_many_are_answered_as_fit(tmp_path: Path) -> None:
    threads_share_one_ledger(tmp_path, 1000, 50)


def test_of_two_processes_exactly_as_many_questions_are_answered_as_fit(tmp_path: Path) -> None:
    processes_share_one_file(tmp_path, 200, 10)


def test_a_process_that_is_killed_at_any_moment_leaves_no_unpaid_answer(tmp_path: Path) -> None:
    open_ledger(policy_in(tmp_path, 10**6)).close()
    moments = random.Random(22)
    for _ in range(KILLS):
        killed_at_random(tmp_path, 10**6, moments.uniform(0, 0.1))
    assert uncovered(tmp_path, 10**6) == []
    assert (tmp_path / "answers").stat().st_size > 0


def test_a_process_that_is_killed_while_it_creates_a_ledger_leaves_one_that_opens(tmp_path: Path) -> None:
    for place in range(10):
        folder = tmp_path / str(place)
        folder.mkdir()
        killed_at_random(folder, 1, place / 1000)
        assert uncovered(folder, 1) == []
