"""Run under strace: each child feeds a stream, and the fault meets it one system call later than the one before.

`strace` strikes at a fixed count of calls in every process. A child that makes some calls of no meaning first is struck
that much earlier in its work, so one strace sweeps over every call of the path.

    python -m tests.streams.injected FOLDER CALL:COUNT[:early] …
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

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
REACHED_THE_END = 0


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at the first, second, … and `count`-th call of a kind; the last child must reach the end."""

    call: str
    what: str
    count: int
    early: bool = False
    """Plant a bug that must be found: a step is shown before it is stored."""

    def __str__(self) -> str:
        return f"{self.call}:{self.count}{':early' * self.early}"

    def homes(self, folder: Path) -> list[Path]:
        return [folder / str(self) / f"{place:03}" for place in range(self.count)]


def sweep(folder: Path, faults: Sequence[Fault]) -> None:
    """Inject these faults, one per call, and leave each try in a folder of its own, with a stream of one step."""
    strace = shutil.which("strace")
    assert strace
    calls = {fault.call: fault for fault in faults}
    command = [strace, "-f", "-qqq", "-o", "/dev/null", "-e", f"trace={','.join(calls)}"]
    empty, begun = folder / "empty", folder / "begun"
    empty.mkdir(parents=True)
    open_ledger(policy_in(empty, 1)).close()
    shutil.copytree(empty, begun)
    feed(begun, 1)
    for fault in calls.values():
        when = f"when={fault.count}{'' if 'signal' in fault.what else '+'}"
        command += ["-e", f"inject={fault.call}:{fault.what}:{when}"]
    for fault in faults:
        for place, home in enumerate(fault.homes(folder)):
            shutil.copytree(begun if place % 2 else empty, home)  # every other child finds a stream
    program = [sys.executable, "-m", "tests.streams.injected", str(folder), *map(str, faults)]
    subprocess.run([*command, *program], check=True, timeout=300)


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


def _idle(call: str, times: int) -> None:
    """Make calls that mean nothing."""
    scratch = os.open(os.devnull, os.O_WRONLY) if call == "pwrite64" else os.open(".", os.O_RDONLY)
    for _ in range(times):
        with suppress(OSError):
            match call:
                case "pwrite64":
                    os.pwrite(scratch, b"x", 0)
                case "fsync":
                    os.fsync(scratch)
                case "fdatasync":
                    os.fdatasync(scratch)
                case "link":
                    os.link("no such file", "nor this")
                case "ftruncate":
                    os.ftruncate(scratch, 0)
                case _:
                    raise AssertionError(call)
    os.close(scratch)


def main(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        call, count, *more = name.split(":")
        status = -1
        for place, home in enumerate(Fault(call, "", int(count), bool(more)).homes(folder)):
            child = os.fork()
            if child == 0:
                _idle(call, int(count) - place - 1)
                with suppress(Refusal):
                    feed(home, STEPS, early=bool(more))
                os._exit(REACHED_THE_END)
            status = os.waitpid(child, 0)[1]
        if status != REACHED_THE_END:
            raise SystemExit(f"the sweep over {call} is too short")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
