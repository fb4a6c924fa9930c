"""The trace of one question: which functions of which files run, in which order, and which calls go up the layers.

`python -m tests.paths.path_trace` prints the table of ARCHITECTURE.md with every file that a question runs.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any

from tests.paths.worlds import a_world, policy, write
from tests.test_architecture import LAYERS, PATH

import sfumato

PACKAGE = f"{Path(sfumato.__file__).parent}/"
CHARGE = ("ledger/payer.py", "charge_and_publish")
SQL = "SELECT dept, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY dept"


@dataclass
class Trace:
    """What ran during some work."""

    calls: list[tuple[str, str, bool]] = field(default_factory=list)
    """The first call of each function: its file, its name, and whether it ran inside the charge."""
    upward: set[tuple[str, str, str, bool]] = field(default_factory=set)
    """Calls from a lower layer of the path: both files, the function, and whether it ran inside the charge."""

    def files(self) -> list[str]:
        """Return the files in the order of their first call."""
        return list(dict.fromkeys(file for file, _, _ in self.calls))


def layer_of(file: str) -> str:
    """Return the layer of a file of the package."""
    return file.split("/")[0].removesuffix(".py")


def _file(code: CodeType) -> str:
    """Return the path of a file below the package; empty for code of others."""
    return code.co_filename.removeprefix(PACKAGE) if code.co_filename.startswith(PACKAGE) else ""


def trace(work: Callable[[], object]) -> Trace:
    """Run some work and return its trace."""
    found, seen = Trace(), set()
    depth = 0

    def follow(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal depth
        code = frame.f_code
        file = _file(code)
        if not file or event not in ("call", "return"):
            return
        if (file, code.co_name) == CHARGE:
            depth += 1 if event == "call" else -1
        if event == "return":
            return
        if (file, code.co_qualname) not in seen:
            seen.add((file, code.co_qualname))
            found.calls.append((file, code.co_name, depth > 0))
        above = frame.f_back
        while above is not None and not _file(above.f_code):
            above = above.f_back
        caller = "" if above is None else _file(above.f_code)
        if caller and layer_of(caller) in PATH and LAYERS.index(layer_of(file)) > LAYERS.index(layer_of(caller)):
            found.upward.add((caller, file, code.co_qualname, depth > 0))

    sys.setprofile(follow)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def trace_question(folder: Path, visits: dict[str, Any]) -> Trace:
    """Return the trace of one question, asked for the first time, of a policy with these words about visits."""
    write(folder, a_world(1))
    with sfumato.open(policy(folder, visits=visits)) as database:
        return trace(lambda: database.ask(SQL, epsilon=1))


def main() -> None:
    """Print every file that one question runs."""
    with TemporaryDirectory() as folder:
        for number, file in enumerate(trace_question(Path(folder), {}).files(), 1):
            print(f"{number:4} {layer_of(file):12} {file}")


if __name__ == "__main__":
    main()
