"""Check every theorem and evaluate every fixture again: python -m tests.proofs.check [--keep]

Compares what Rocq says with what is kept in the repository, and fails where they differ. `--keep` writes what Rocq
says now: run it after a change in proofs/rocq, and commit the result with it.
"""

import sys
import time

from tests.proofs.cases import FIXTURE_OF, Fixture
from tests.proofs.rocq import (
    ALLOWED,
    RECORD,
    Record,
    assumptions,
    compiled,
    digest,
    files,
    missing_programs,
    rechecked,
    version,
)


def main(keep: bool) -> int:
    """Return 0 if all theorems hold without other axioms, and what is kept is what Rocq says."""
    if missing := missing_programs():
        print(f"{', '.join(missing)} not found. The proofs need Rocq. Install the Debian package coq (8.16).")
        return 2
    started, broken = time.monotonic(), []
    with compiled() as folder:
        _say(started, f"{len(files())} files compiled")
        found = Record(version(), {path.name: digest(path) for path in files()}, assumptions(folder))
        _say(started, f"{len(found.theorems)} theorems, their axioms listed")
        broken += [
            f"{name} rests on {axiom}, which is not allowed."
            for name, axioms in found.theorems.items()
            for axiom in axioms
            if axiom not in ALLOWED
        ]
        rechecked(folder)
        _say(started, "compiled files checked again by coqchk")
        if keep:
            found.write()
        elif not RECORD.exists() or Record.read() != found:
            broken.append(
                "proofs/rocq/checked.json is not what Rocq says. Run with --keep, and look at the difference."
            )
        for name, evaluate in FIXTURE_OF.items():
            fixture = evaluate(folder)
            _say(started, f"{name}: {len(fixture.cases)} cases")
            if keep:
                fixture.write(name)
            elif Fixture.read(name) != fixture:
                broken.append(f"tests/proofs/fixtures/{name}.json is not what Rocq says. Run with --keep.")
    for line in broken:
        print(line)
    return 1 if broken else 0


def _say(started: float, what: str) -> None:
    print(f"{time.monotonic() - started:5.0f} s  {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main("--keep" in sys.argv[1:]))
