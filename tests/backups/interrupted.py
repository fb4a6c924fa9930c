"""Backups and restores that are killed at a system call, see `tests/faults.py`."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tests import faults
from tests.backups.clinic import answer_in, write_policy
from tests.faults import Fault

from sfumato.backups.backup import back_up
from sfumato.backups.restore import restore


def sweep(folder: Path, injected: Sequence[Fault]) -> None:
    """Kill at each call; every other child finds a damaged ledger in place, the rest find none."""
    templates = {damaged: _template(folder / f"template {damaged}", damaged) for damaged in (True, False)}

    def prepare(home: Path, damaged: bool) -> None:
        shutil.copytree(templates[damaged], home)

    faults.sweep("tests.backups.interrupted", folder, injected, prepare)


def _template(home: Path, damaged: bool) -> Path:
    policy_file = write_policy(home)
    answer_in(policy_file, "a")
    back_up(policy_file, home / "backup")
    answer_in(policy_file, "b")
    ledger = policy_file.with_name("clinic.ledger")
    ledger.write_bytes(ledger.read_bytes()[:-4096])
    if not damaged:
        ledger.unlink()
        policy_file.with_name("clinic.ledger.anchor").unlink()
    return home


def _restore(home: Path, _: bool) -> None:
    restore(home / "backup", home, None)


if __name__ == "__main__":
    faults.run_children(sys.argv[1:], _restore)
