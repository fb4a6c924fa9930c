"""Check every theorem and evaluate every fixture again: python -m tests.proofs.check [--keep]

Compares what Rocq says with what is kept in the repository, and fails where they differ. `--keep` writes what Rocq
says now: run it after a change in proofs/rocq, and commit the result with it.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.proofs.cases import FIXTURE_OF, Fixture
from tests.proofs.rocq import (
    ALLOWED,
    Record,
    assumptions,
    compiled,
    digest,
    files,
    missing_programs,
    rechecked,
    version,
)

CORES = 2


def main(keep: bool) -> int:
    """Return 0 if all theorems hold without other axioms, and what is kept is what Rocq says."""
    if missing := missing_programs():
        print(f"{', '.join(missing)} not found. The proofs need Rocq. Install the Debian package coq (8.16).")
        return 2
    started = time.monotonic()
    with compiled() as folder, ThreadPoolExecutor(CORES) as cores:
        _say(started, f"{len(files())} files compiled")
        checked = cores.submit(rechecked, folder)
        assumed = cores.submit(assumptions, folder)
        evaluated = {name: cores.submit(evaluate, folder) for name, evaluate in FIXTURE_OF.items()}
        found = Record(version(), {path.name: digest(path) for path in files()}, assumed.result())
        _say(started, f"{len(found.theorems)} theorems, their axioms listed")
        fixtures = {name: fixture.result() for name, fixture in evaluated.items()}
        _say(started, f"{sum(len(fixture.cases) for fixture in fixtures.values())} cases evaluated")
        checked.result()
        _say(started, "compiled files checked again by coqchk, with the library that they use")
    broken = [
        f"{name} rests on {axiom}, which is not allowed."
        for name, axioms in found.theorems.items()
        for axiom in axioms
        if axiom not in ALLOWED
    ]
    broken += _kept(found, fixtures) if keep else _differences(found, fixtures)
    for line in broken:
        print(line)
    return 1 if broken else 0


def _kept(found: Record, fixtures: dict[str, Fixture]) -> list[str]:
    found.write()
    for name, fixture in fixtures.items():
        fixture.write(name)
    return []


def _differences(found: Record, fixtures: dict[str, Fixture]) -> list[str]:
    broken = [] if Record.read() == found else ["proofs/rocq/checked.json is not what Rocq says."]
    broken += [
        f"tests/proofs/fixtures/{name}.json is not what Rocq says."
        for name, fixture in fixtures.items()
        if Fixture.read(name) != fixture
    ]
    return [f"{line} Run with --keep, and look at the difference." for line in broken]


def _say(started: float, what: str) -> None:
    print(f"{time.monotonic() - started:5.0f} s  {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main("--keep" in sys.argv[1:]))
