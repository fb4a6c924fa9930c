"""A restore that is killed at any of its system calls leaves a ledger that answers nothing, and can be repeated."""

import os
import shutil
from pathlib import Path

import pytest
from tests.backups.clinic import answer_in, write_policy
from tests.backups.interrupted import sweep
from tests.faults import Fault

from sfumato.backups.backup import back_up
from sfumato.backups.restore import restore
from sfumato.errors import LedgerDamaged, LedgerRestored
from sfumato.ledger.opening import existing_ledger
from sfumato.ledger.restoring import RestoreOutcome
from sfumato.policy.reading import read_policy

KILLS = (Fault("rename", "signal=SIGKILL", 9), Fault("fsync", "signal=SIGKILL", 14))


def test_after_a_kill_at_every_call_nothing_is_answered_and_the_restore_can_be_repeated(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        assert not os.environ.get("CI"), "strace is needed"
        pytest.skip("NO FAULT WAS TRIED: strace is not installed")
    sweep(tmp_path, KILLS)
    closed = 0
    for home in (home for kill in KILLS for home in kill.homes(tmp_path)):
        policy_file = home / "clinic.toml"
        ledger = home / "clinic.ledger"
        if ledger.exists() or ledger.with_name("clinic.ledger.anchor").exists():
            with pytest.raises((LedgerDamaged, LedgerRestored)):
                answer_in(policy_file, "c")
            closed += 1
        assert restore(home / "backup", home, None).ledger.outcome is RestoreOutcome.WAITING
        with pytest.raises(LedgerRestored):
            answer_in(policy_file, "c")
        found = existing_ledger(read_policy(policy_file))
        assert found is not None
        assert found.verify().spent.epsilon > 0
        found.close()
    assert closed > len(KILLS)


def test_a_backup_that_is_interrupted_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy_file = write_policy(tmp_path / "here")
    answer_in(policy_file, "a")
    synchronise, calls = os.fsync, 0

    def fail_at(place: int) -> None:
        nonlocal calls
        calls = 0

        def fail(descriptor: int) -> None:
            nonlocal calls
            calls += 1
            if calls == place:
                raise KeyboardInterrupt
            synchronise(descriptor)

        monkeypatch.setattr(os, "fsync", fail)

    place = 1
    while True:
        fail_at(place)
        try:
            back_up(policy_file, tmp_path / "backup")
            break
        except KeyboardInterrupt:
            if (tmp_path / "backup").exists():  # everything was durable but for the name
                shutil.rmtree(tmp_path / "backup")
            assert [path.name for path in tmp_path.iterdir()] == ["here"]
        place += 1
    assert place > 5
