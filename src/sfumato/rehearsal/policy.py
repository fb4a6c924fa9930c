"""The policy of a rehearsal: the same tables, budget and accounts, over synthetic rows and with a ledger of its own."""

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from weakref import finalize

from sfumato.errors import BadPolicy
from sfumato.policy.locations import file_ledger
from sfumato.policy.policy import PLAIN, Location, Policy, Refresh

REHEARSAL_NOTE = (
    "Rehearsal: this answer comes from synthetic rows that follow the policy alone. It says nothing about the data, "
    "and nothing was charged to the real budget."
)
"""The first note of every answer and quote of a rehearsal."""


def rehearsal_policy(policy: Policy, folder: Path) -> Policy:
    """Return the policy with synthetic rows as its source, and a ledger in this folder."""
    from sfumato.rehearsal.rows import synthetic_tables

    if policy.sealed is not None:
        raise BadPolicy(
            "A sealed database cannot be rehearsed.",
            "Its store holds ciphertexts, and questions to it are not SQL over rows.",
            "Rehearse a policy with a source.",
        )
    tables = tuple(replace(table, stored=None) for table in policy.tables)
    bare = replace(policy, tables=tables, refresh=Refresh.MANUAL, csv=PLAIN)
    source = Location("frames", "", None, synthetic_tables(bare))
    return replace(bare, source=source, ledger=file_ledger(folder / "rehearsal.ledger"))


def temporary_folder() -> Path:
    """Return a folder of a rehearsal that only this user can read."""
    return Path(tempfile.mkdtemp(prefix="sfumato-rehearsal-"))


def delete_with(owner: object, folder: Path) -> None:
    """Delete the folder when its owner is no longer used, or when the process ends."""
    finalize(owner, _delete, folder, os.getpid())


def _delete(folder: Path, process: int) -> None:
    if os.getpid() == process:  # a forked child that ends leaves the folder to its parent
        shutil.rmtree(folder, ignore_errors=True)
