"""Run under strace: each child does the same work, and the fault meets it one system call later than the one before.

`strace` counts the calls of every process for itself and strikes at a fixed count. A child that makes some calls of no
meaning first is struck that much earlier in its work, so one strace sweeps over every call of the path, for several
kinds of call.

    python -m tests.ledger.injected FOLDER CALL:COUNT[:answer-first] …
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.ledger.accounts import policy_in
from tests.ledger.answering import answer_in

from sfumato.ledger.opening import open_ledger

QUESTIONS = ("a", "b")
BUDGET = 1
REACHED_THE_END = 0


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at the first, second, … and `count`-th call of a kind."""

    call: str
    what: str
    """`signal=SIGKILL`, or an error that stays from then on."""
    count: int
    """Beyond the last call of the path, so that none is missed: the last child reaches the end."""
    answer_first: bool = False
    """Plant a bug that must be found."""

    def __str__(self) -> str:
        return f"{self.call}:{self.count}{':answer-first' * self.answer_first}"

    def homes(self, folder: Path) -> list[Path]:
        return [_home(folder, str(self), place) for place in range(self.count)]


def sweep(folder: Path, faults: Sequence[Fault]) -> None:
    """Inject these faults, of one kind and count per call, and leave each try in a folder of its own."""
    strace = shutil.which("strace")
    assert strace
    calls = {fault.call: fault for fault in faults}
    command = [strace, "-f", "-qqq", "-o", "/dev/null", "-e", f"trace={','.join(calls)}"]
    for call, fault in calls.items():
        command += ["-e", f"inject={call}:{fault.what}:when={fault.count}{'' if 'signal' in fault.what else '+'}"]
    for fault in faults:
        for place, home in enumerate(fault.homes(folder)):
            home.mkdir(parents=True)
            if place % 2:  # every other child finds a ledger, the rest create one
                open_ledger(policy_in(home, BUDGET)).close()
    program = [sys.executable, "-m", "tests.ledger.injected", str(folder), *map(str, faults)]
    subprocess.run([*command, *program], check=True, timeout=300)


def _home(folder: Path, name: str, place: int) -> Path:
    return folder / name / f"{place:03}"


def _idle(call: str, times: int) -> None:
    """Make calls that mean nothing."""
    writes = call in ("write", "pwrite64")
    scratch = os.open(os.devnull if writes else ".", os.O_WRONLY if writes else os.O_RDONLY)
    for _ in range(times):
        with suppress(OSError):
            match call:
                case "write":
                    os.write(scratch, b"x")
                case "pwrite64":
                    os.pwrite(scratch, b"x", 0)
                case "fsync":
                    os.fsync(scratch)
                case "fdatasync":
                    os.fdatasync(scratch)
                case "rename":
                    os.rename("no such file", "nor this")
                case "unlink":
                    os.unlink("no such file")
                case "ftruncate":
                    os.ftruncate(scratch, 0)
                case _:
                    raise AssertionError(call)
    os.close(scratch)


def main(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        call, count, *more = name.split(":")
        status = -1
        for place in range(int(count)):
            child = os.fork()
            if child == 0:
                _idle(call, int(count) - place - 1)
                try:
                    answer_in(_home(folder, name, place), BUDGET, QUESTIONS, answer_first=bool(more))
                finally:
                    os._exit(REACHED_THE_END)
            status = os.waitpid(child, 0)[1]
        if status != REACHED_THE_END:
            raise SystemExit(f"the sweep over {call} is too short")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
