"""Do the laws hold for examples nobody has seen? python -m tests.longer [rounds] [paths …]

Runs every test that draws examples, `rounds` times (20 if not given), each time with other examples. The first round
that fails ends the run and prints its seed; keep what was found as an `@example` beside the test.
"""

import os
import random
import subprocess
import sys

from tests.conftest import RANDOM

ROUNDS = 20


def main(rounds: int, paths: list[str]) -> int:
    """Return 0 if every round passed, else the status of the first one that did not."""
    for place in range(1, rounds + 1):
        seed = random.SystemRandom().getrandbits(32)
        print(f"round {place} of {rounds}, seed {seed}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-m", "hypothesis", f"--hypothesis-seed={seed}", *paths]
        status = subprocess.run(command, env=os.environ | {RANDOM: "1"}, check=False).returncode
        if status:
            print(f"Once more: {RANDOM}=1 python -m pytest -m hypothesis --hypothesis-seed={seed} {' '.join(paths)}")
            return status
    return 0


if __name__ == "__main__":
    first = sys.argv[1:2]
    counted = bool(first) and first[0].isdigit()
    sys.exit(main(int(first[0]) if counted else ROUNDS, sys.argv[1 + counted :]))
