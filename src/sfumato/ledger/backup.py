"""A backup of a ledger: its rows as of one moment, as a ledger file. Proof: proofs/ledger.md §7

The file has one form whatever store the rows came from, so that the second reader can verify it and either store can
be restored from it.
"""

from pathlib import Path

from sfumato.ledger.anchor import Anchor
from sfumato.ledger.opening import existing_ledger
from sfumato.ledger.sqlite_store import read_rows, write_file
from sfumato.ledger.verifying import verify_rows
from sfumato.policy.policy import Policy


def cut_ledger(policy: Policy, path: Path) -> Anchor | None:
    """Write the rows of a policy's ledger into a new file, verify it, and return its last entry; None without a ledger.

    Questions go on meanwhile: the rows are those of one moment after the call.
    """
    ledger = existing_ledger(policy)
    if ledger is None:
        return None
    try:
        with ledger.rows() as rows:
            anchor = write_file(path, rows)
    finally:
        ledger.close()
    with read_rows(path) as rows:
        verify_rows(rows, (anchor.sequence, anchor.head, None))
    return anchor
