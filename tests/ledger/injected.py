"""Run under strace: each child does the same work, and the fault meets it one system call later than the one before.

`strace` counts the calls of every process for itself and strikes at a fixed count. A child that makes some calls of no
meaning first is struck that much earlier in its work, so one strace sweeps over every call of the path.

    python -m tests.ledger.injected CALL COUNT FOLDER [answer-first]
"""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.ledger.accounts import policy_in
from tests.ledger.answering import answer_in

from sfumato.ledger.opening import open_ledger

QUESTIONS = ("a", "b")
BUDGET = 1
REACHED_THE_END = 0


def sweep(call: str, fault: str, count: int, folder: Path, *more: str) -> list[Path]:
    """Inject a fault at the first, second, … such call of the path; return the folders that it leaves.

    The count must be beyond the last call of the path, so that none is missed: the last child reaches the end.
    """
    strace = shutil.which("strace")
    assert strace
    command = [strace, "-f", "-qqq", "-o", "/dev/null", "-e", f"trace={call}"]
    command += ["-e", f"inject={call}:{fault}:when={count}{'' if 'signal' in fault else '+'}"]
    program = [sys.executable, "-m", "tests.ledger.injected", call, str(count), str(folder), *more]
    homes = [folder / f"{place:03}" for place in range(count)]
    for place, home in enumerate(homes):
        home.mkdir()
        if place % 2:  # every other child finds a ledger, the rest create one
            open_ledger(policy_in(home, BUDGET)).close()
    subprocess.run([*command, *program], check=True, timeout=300)
    return homes


def _idle(call: str, times: int) -> None:
    """Make calls that mean nothing."""
    scratch = os.open(
        os.devnull if call in ("write", "pwrite64") else ".", os.O_RDWR if "write" in call else os.O_RDONLY
    )
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


def main(call: str, count: int, folder: Path, answer_first: bool) -> None:
    finished = False
    for place in range(count):
        child = os.fork()
        if child == 0:
            _idle(call, count - place - 1)
            try:
                answer_in(folder / f"{place:03}", BUDGET, QUESTIONS, answer_first)
            finally:
                os._exit(REACHED_THE_END)
        finished = os.waitpid(child, 0)[1] == REACHED_THE_END
    if not finished:
        raise SystemExit("the sweep is too short")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), "answer-first" in sys.argv[4:])
