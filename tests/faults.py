"""Faults at every system call: each child does the same work, and is struck one call later than the one before.

`strace` counts the calls of every process for itself and strikes at a fixed count. A child that makes some calls of no
meaning first is struck that much earlier in its work, so one strace sweeps over every call of the path, for several
kinds of call. The program that runs under it is

    python -m MODULE FOLDER CALL:COUNT[:planted] …

where MODULE calls `run_children` with the work of one child.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

REACHED_THE_END = 0

Work = Callable[[Path, bool], None]
"""What a child does in its folder, and whether with the planted bug."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at the first, second, … and `count`-th call of a kind."""

    call: str
    what: str
    """`signal=SIGKILL`, or an error that stays from then on."""
    count: int
    """Beyond the last call of the path, so that none is missed: the last child reaches the end."""
    planted: bool = False
    """Plant a bug that must be found: something is shown before it is stored."""
    once: bool = False
    """Whether an error does not stay."""

    def __str__(self) -> str:
        return f"{self.call}:{self.count}{':planted' * self.planted}"

    def homes(self, folder: Path) -> list[Path]:
        return [folder / str(self) / f"{place:03}" for place in range(self.count)]


def sweep(module: str, folder: Path, faults: Sequence[Fault], prepare: Callable[[Path, bool], None]) -> None:
    """Inject these faults, of one kind and count per call, and leave each try in a folder of its own.

    `prepare` makes the folder; every other child finds work that was begun.
    """
    strace = shutil.which("strace")
    assert strace
    calls = {fault.call: fault for fault in faults}
    command = [strace, "-f", "-qqq", "-o", "/dev/null", "-e", f"trace={','.join(calls)}"]
    for call, fault in calls.items():
        command += [
            "-e",
            f"inject={call}:{fault.what}:when={fault.count}{'' if fault.once or 'signal' in fault.what else '+'}",
        ]
    for fault in faults:
        for place, home in enumerate(fault.homes(folder)):
            prepare(home, bool(place % 2))
    program = [sys.executable, "-m", module, str(folder), *map(str, faults)]
    subprocess.run([*command, *program], check=True, timeout=300)


def run_children(arguments: Sequence[str], work: Work) -> None:
    """Do the work once per call that is to be struck, each time in a child and a folder of its own."""
    folder, *names = arguments
    for name in names:
        call, count, *more = name.split(":")
        status = -1
        for place, home in enumerate(Fault(call, "", int(count), bool(more)).homes(Path(folder))):
            child = os.fork()
            if child == 0:
                _idle(call, int(count) - place - 1)
                try:
                    work(home, bool(more))
                finally:
                    os._exit(REACHED_THE_END)
            status = os.waitpid(child, 0)[1]
        if status != REACHED_THE_END:
            raise SystemExit(f"the sweep over {call} is too short")


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
                case "link":
                    os.link("no such file", "nor this")
                case "unlink":
                    os.unlink("no such file")
                case "ftruncate":
                    os.ftruncate(scratch, 0)
                case _:
                    raise AssertionError(call)
    os.close(scratch)


def left_by_sweeps(
    folder: Path, sweeps: Sequence[Sequence[Fault]], sweep_one: Callable[[Path, Sequence[Fault]], None]
) -> Path:
    """Run every sweep in a folder of its own; skip the tests where strace is missing, in CI fail them."""
    if shutil.which("strace") is None:
        assert not os.environ.get("CI"), "strace is needed to inject faults"
        pytest.skip("NO FAULT WAS INJECTED: strace is not installed")
    for index, faults in enumerate(sweeps):
        sweep_one(folder / str(index), faults)
    return folder


def every_fault(sweeps: Sequence[Sequence[Fault]]) -> pytest.MarkDecorator:
    """Run a test with `place`, the folder of a sweep, and each `fault` of it that is no planted bug."""
    return pytest.mark.parametrize(
        ("place", "fault"),
        [(str(index), fault) for index, faults in enumerate(sweeps) for fault in faults if not fault.planted],
        ids=lambda value: value if isinstance(value, str) else value.what,
    )
