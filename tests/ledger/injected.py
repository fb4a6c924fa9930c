"""Questions that are answered while system calls fail, see `tests/faults.py`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from tests import faults
from tests.faults import Fault
from tests.ledger.accounts import policy_in
from tests.ledger.answering import answer_in

from sfumato.ledger.opening import open_ledger

QUESTIONS = ("a", "b")
BUDGET = 1


def sweep(folder: Path, injected: Sequence[Fault]) -> None:
    """Inject these faults; every other child finds a ledger, the rest create one."""

    def prepare(home: Path, begun: bool) -> None:
        home.mkdir(parents=True)
        if begun:
            open_ledger(policy_in(home, BUDGET)).close()

    faults.sweep("tests.ledger.injected", folder, injected, prepare)


def _answer(home: Path, planted: bool) -> None:
    answer_in(home, BUDGET, QUESTIONS, answer_first=planted)


if __name__ == "__main__":
    faults.run_children(sys.argv[1:], _answer)
