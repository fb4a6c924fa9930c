"""Kill sealers at random moments, again and again: python -m tests.sealed.torture [ROUNDS]

After each kill the store is checked cell by cell, nonces are compared, and the rows are sealed again: they must get the
sizes that were drawn before, where any were.
"""

import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from tests.sealed.clinic import rows, sealed_policy
from tests.sealed.test_crashes import count, sealed_of

from sfumato.sealed.database import seal
from sfumato.sealed.manifest import BatchState


def main() -> None:
    """Run the rounds, and say how many of the kills fell where."""
    rounds, dice = int(sys.argv[1]) if len(sys.argv) > 1 else 50, Random("torture")
    policy = sealed_policy(Path(tempfile.mkdtemp()), capacity=1_000_000)
    expected = seal(policy, "visits", rows(5)).kept
    nonces, fell = set[str](), {"before the intent": 0, "before the commit": 0, "after it": 0}
    for at in range(1, rounds + 1):
        more = rows(4, first=100 * at)
        child = os.fork()
        if child == 0:
            try:
                seal(policy, "visits", more)
            finally:
                os._exit(0)
        time.sleep(dice.random() * 0.5)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        committed = len(sealed_of(policy).committed) == at + 1
        assert count(policy) == expected + (more.num_rows if committed else 0)
        aborted = [batch for batch in sealed_of(policy).batches if batch.state is BatchState.ABORTED]
        fell["after it" if committed else "before the commit" if aborted else "before the intent"] += 1
        if not committed:
            seal(policy, "visits", more)
            again = sealed_of(policy).batches[-1]
            assert all(batch.sizes == again.sizes and batch.nonce != again.nonce for batch in aborted)
        expected += more.num_rows
        assert count(policy) == expected
        known = sealed_of(policy).batches
        nonces |= {batch.nonce for batch in (*known, *aborted)}
        assert len({batch.nonce for batch in known}) == len(known) == at + 1
    assert len(nonces) == rounds + 1 + fell["before the commit"]
    print(f"{rounds} kills: {fell}; {len(nonces)} nonces, all different")


if __name__ == "__main__":
    main()
