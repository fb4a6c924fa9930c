"""Prove the auditor: bugs are planted one by one in a copy of the source, and the audits have to notice each of them.

`python -m tests.planted` prints the table of docs/audits.md; `python -m tests.planted clean 100` audits the source
without bugs a hundred times, with other people and other queries each time.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from tests.planted.bug import Bug
from tests.planted.bugs import BUGS

from sfumato.lab.audits import end_to_end, enumeration, fuzzing, ledger, replay, sampling
from sfumato.lab.audits.alarm import Finding
from sfumato.lab.audits.audit import AUDITS
from sfumato.lab.generators.clinic import clinic
from sfumato.lab.generators.scratch import scratch

_REPOSITORY = Path(__file__).resolve().parents[2]
_PACKAGE = _REPOSITORY / "src" / "sfumato"
_PATIENCE = 900.0
_TURNS = ("COUNT", "SUM", "GROUP BY", "JOIN", "AVG")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a planted bug; `audit` is None where no audit noticed."""

    bug: Bug
    audit: str | None
    what: str
    seconds: float


def planted(bug: Bug, folder: Path) -> None:
    """Copy the package into a folder and plant a bug there; a text that is not there exactly once is a broken plan."""
    package = folder / "sfumato"
    shutil.copytree(_PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    for edit in bug.edits:
        path = package / edit.file
        text = path.read_text(encoding="utf-8")
        if text.count(edit.old) != 1:
            raise ValueError(f"{bug.name}: {edit.file} holds the text to change {text.count(edit.old)} times")
        path.write_text(text.replace(edit.old, edit.new), encoding="utf-8")


def outcome(bug: Bug, seed: object = "bugs") -> Outcome:
    """Run the audits against the package with the bug, the one that should notice first, until one does; or its law."""
    begun = monotonic()
    with scratch() as folder:
        planted(bug, folder)
        if bug.by_law:
            what = _broken_law(bug, folder)
            return Outcome(bug, bug.first if what else None, what, monotonic() - begun)
        names = sorted(AUDITS, key=lambda name: name != bug.first)
        done = _run(folder, folder, ["-m", "sfumato.lab.audits.audit", str(seed), *names])
    try:
        alarms = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise ValueError(f"{bug.name}: the audits did not run: {done.stderr[-400:]}") from None
    audit, what = alarms[0] if alarms else (None, "")
    return Outcome(bug, audit, what, monotonic() - begun)


def _broken_law(bug: Bug, folder: Path) -> str:
    """Return the first law that fails in a package with the bug, or nothing. It needs the tests of the repository."""
    options = ["-q", "-x", "-p", "no:cacheprovider", "--no-header", "--tb=no"]
    done = _run(folder, _REPOSITORY, ["-m", "pytest", *options, *bug.first.split()])
    if done.returncode not in (0, 1):
        raise ValueError(f"{bug.name}: the law did not run: {done.stdout[-400:]}{done.stderr[-400:]}")
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].partition(" - ")[0].partition("::")[2].replace("_", " ") if failed else ""


def _run(package: Path, where: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=where,
        env={**os.environ, "PYTHONPATH": f"{package}{os.pathsep}{where}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )


def table(outcomes: Iterable[Outcome]) -> str:
    """Return the outcomes as a table in Markdown."""
    lines = ["| planted bug | caught by | what it said | seconds |", "|---|---|---|---:|"]
    for one in outcomes:
        said = one.what.replace("|", "\\|")
        said = said if len(said) <= 150 else f"{said[:149]}…"
        lines.append(f"| {one.bug.name} | {one.audit or '**not caught**'} | {said} | {one.seconds:.0f} |")
    return "\n".join(lines)


def clean(times: int, first: int = 0) -> int:
    """Audit the package as it is, with other people and questions each time; return how many runs raised an alarm.

    The exact audit says the same every time, so it is run once; replays take their questions and neighbours by turns.
    """
    alarming = int(_alarmed("exact", enumeration.run()))
    for seed in range(first, first + times):
        with scratch() as folder:
            alarms = sampling.run(seed)
            alarms += ledger.run(seed, folder / "books")
            alarms += replay.audit(clinic(), folder / "replay", seed, _TURNS[seed % len(_TURNS)], seed)
            alarms += end_to_end.run(seed, folder / "whole", (12, 60))
            alarms += fuzzing.run(seed, folder / "fuzzing", 1.0)
        alarming += _alarmed(f"run {seed}", alarms)
    return alarming


def _alarmed(name: str, alarms: list[Finding]) -> bool:
    sys.stdout.write("".join(f"{name}: {alarm}\n" for alarm in alarms))
    sys.stdout.flush()
    return bool(alarms)


def main(arguments: Sequence[str]) -> None:
    """Print the table of all planted bugs, of those whose name holds a text, or audit the package as it is."""
    if arguments[:1] == ["clean"]:
        times, first = int(arguments[1]), int(arguments[2]) if len(arguments) > 2 else 0
        sys.stdout.write(f"{clean(times, first)} of {times} clean runs raised an alarm\n")
        return
    chosen = [bug for bug in BUGS if not arguments or arguments[0] in bug.name]
    found = []
    for bug in chosen:
        found.append(outcome(bug))
        sys.stderr.write(f"{len(found)} of {len(chosen)}: {bug.name}: {found[-1].audit or 'not caught'}\n")
    sys.stdout.write(f"{table(found)}\n")
