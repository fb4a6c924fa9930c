"""A stream that is fed while system calls fail, see `tests/faults.py`."""

import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from fractions import Fraction
from pathlib import Path

from tests import faults
from tests.faults import Fault
from tests.ledger.accounts import policy_in

from sfumato.accounting.event import Neighbours
from sfumato.errors import Refusal
from sfumato.ledger.opening import open_ledger
from sfumato.streams.plans import TreeSums
from sfumato.streams.stored_plan import step_from_bytes
from sfumato.streams.stream import Stream
from sfumato.streams.toeplitz import Floats

PLAN = TreeSums(4, Fraction(30), Neighbours.ADD_REMOVE, cells=2, pan_private=True)
STREAM, SHOWN = "visits.stream", "shown"
STEPS = 2


def sweep(folder: Path, injected: Sequence[Fault]) -> None:
    """Inject these faults; every other child finds a stream of one step, the rest create one."""
    empty, begun = folder / "empty", folder / "begun"
    empty.mkdir(parents=True)
    open_ledger(policy_in(empty, 1)).close()
    shutil.copytree(empty, begun)
    feed(begun, 1)

    def prepare(home: Path, further: bool) -> None:
        shutil.copytree(begun if further else empty, home)

    faults.sweep("tests.streams.injected", folder, injected, prepare)


def feed(home: Path, steps: int, early: bool = False) -> None:
    """Go on until there are so many steps, and write down what was shown, right after it was."""

    def note(time: int, estimate: Floats) -> None:
        with (home / SHOWN).open("a") as lines:
            lines.write(f"{time} {estimate.tobytes().hex()}\n")

    ledger = open_ledger(policy_in(home, 1))
    path = home / STREAM
    with Stream.open(path, ledger=ledger) if path.exists() else Stream.create(path, PLAN, ledger=ledger) as stream:
        if early:
            _show_before_storing(stream, note)
        while stream.time < steps:
            shown = stream.observe([stream.time, 10])
            if not early:
                note(shown.time, shown.estimate)
    ledger.close()


def _show_before_storing(stream: Stream, note: Callable[[int, Floats], None]) -> None:
    store = stream._file.commit

    def commit(payload: bytes, state: bytes = b"") -> None:
        step = step_from_bytes(payload + state, PLAN.cells, stream._process, state)
        note(stream.time + 1, deepcopy(stream._process).accept(step))
        store(payload, state)

    stream._file.commit = commit  # type: ignore[method-assign]


def shown_in(home: Path) -> list[tuple[int, str]]:
    """Return what anybody saw: time and estimate."""
    path = home / SHOWN
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(time), estimate) for time, estimate in (line.split(" ") for line in lines)]


def _feed(home: Path, planted: bool) -> None:
    with suppress(Refusal):
        feed(home, STEPS, early=planted)


if __name__ == "__main__":
    faults.run_children(sys.argv[1:], _feed)
