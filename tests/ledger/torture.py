"""Everything that takes long: python -m tests.ledger.torture [rounds]

Twenty crowds of threads, processes and servers in a row, every byte flipped, every call of the path met by every
fault, and thousands of kills.
"""

import random
import sys
import tempfile
from pathlib import Path

from tests.faults import Fault
from tests.ledger.accounts import policy_in
from tests.ledger.answering import crowds, killed_at_random, uncovered
from tests.ledger.injected import BUDGET, sweep
from tests.ledger.postgres import binaries, server
from tests.ledger.test_concurrency import processes_share_one_file, threads_share_one_ledger
from tests.ledger.test_damage import ask, flipped_bytes_are_noticed, said

from sfumato.ledger.opening import open_ledger

ROUNDS = 20
KILLS_PER_ROUND = 200
CALLS = (
    ("pwrite64", 60),
    ("fdatasync", 30),
    ("fsync", 20),
    ("rename", 20),
    ("write", 20),
    ("unlink", 20),
    ("ftruncate", 10),
)
FAULTS = ("signal=SIGKILL", "error=EIO", "error=ENOSPC")


def main(rounds: int) -> None:
    for place in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            threads_share_one_ledger(Path(folder), 1000, 50)
        with tempfile.TemporaryDirectory() as folder:
            processes_share_one_file(Path(folder), 1000, 50)
        if (programs := binaries()) is not None:
            with server(programs) as url:
                assert crowds(url, "10", 2, 32, 50) == (1000, 2200)
        with tempfile.TemporaryDirectory() as folder:
            open_ledger(policy_in(Path(folder), 10**6)).close()
            for _ in range(KILLS_PER_ROUND):
                killed_at_random(Path(folder), 10**6, random.uniform(0, 0.1))
            assert uncovered(Path(folder), 10**6) == []
        print(f"round {place + 1}: exactly 1000 of 3200, by threads, processes and servers; kills left nothing unpaid")
    for what in FAULTS:
        faults = [Fault(call, what, count) for call, count in CALLS]
        with tempfile.TemporaryDirectory() as folder:
            sweep(Path(folder), faults)
            homes = [home for fault in faults for home in fault.homes(Path(folder))]
            assert [found for home in homes for found in uncovered(home, BUDGET)] == []
        print(f"every call of the path met {what}")
    with tempfile.TemporaryDirectory() as folder:
        policy = policy_in(Path(folder))
        ledger = open_ledger(policy)
        ask(ledger, policy, "a", "b", "c")
        ledger.close()
        flipped_bytes_are_noticed(Path(folder) / "clinic.ledger", lambda: said(policy) is None, 1)
    print("every flipped byte was refused")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
