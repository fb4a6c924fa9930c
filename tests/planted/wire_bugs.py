"""Bugs of the wire protocol to plant again: effort and memory that nobody counts, and a salt that tells names."""

from tests.planted.bug import Bug, planned

_EFFORT = "tests/server/wire/test_effort.py"
_MEMORY = "tests/server/wire/test_memory.py"
_SANDBOX = "tests/server/wire/test_sandbox.py"
_STARTING = "tests/server/wire/test_starting.py"

WIRE_BUGS: tuple[Bug, ...] = (
    planned(
        "letters that LIKE compares are not counted",
        _EFFORT,
        ("server/wire/pg_catalog/operators.py", "    run.spend(1 + len(part))\n    return all(", "    return all("),
    ),
    planned(
        "instructions of the catalogue's evaluator are not counted",
        _SANDBOX,
        (
            "server/wire/pg_catalog/sandbox.py",
            "            self._run.spend(_CHECK_INSTRUCTIONS * STEPS_PER_INSTRUCTION)\n",
            "            pass\n",
        ),
    ),
    planned(
        "EXECUTE computes its values on the event loop",
        _EFFORT,
        (
            "server/wire/answers.py",
            "            return await self._gate.work(self._caller, compute)\n",
            "            return compute()\n",
        ),
    ),
    planned(
        "rows that wait in portals are not counted",
        _MEMORY,
        (
            "server/wire/answers.py",
            "                holding.add(getsizeof(message) + POINTER_BYTES)\n",
            "",
        ),
    ),
    planned(
        "the salt of an unknown name depends on its spelling",
        _STARTING,
        ("server/grants.py", "no_verifier(access.secret, account)", "no_verifier(access.secret, user)"),
    ),
)
