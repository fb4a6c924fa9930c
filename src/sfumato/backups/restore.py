"""Restore a dataset from a backup. Existing files stay, and a ledger is never silently taken back."""

from dataclasses import dataclass
from pathlib import Path

from sfumato.backups.manifest import COHORTS, GRANTS, LEDGER, POLICY, SALT, SNAPSHOT, read_backup_manifest
from sfumato.engines.snapshot_paths import places_of
from sfumato.errors import BadParameter, BadSource
from sfumato.ledger.damage import unavailable
from sfumato.ledger.restoring import (
    Acceptance,
    LedgerBackup,
    RestoredLedger,
    acceptance_sentence,
    restore_ledger,
)
from sfumato.policy.policy import Policy
from sfumato.policy.reading import read_policy
from sfumato.secure_files import write_atomically
from sfumato.server.file_paths import sidecar_path


@dataclass(frozen=True, slots=True)
class Restore:
    """The result of a restore."""

    policy: Path
    ledger: RestoredLedger
    entries: int
    time: str
    sentence: str
    """The words that accept it."""
    kept: tuple[str, ...]
    """Existing files that differ from the backup: they were left alone."""
    has_grants: bool
    """Whether the backup has grants."""


def restore(folder: Path, into: Path | None, acceptance: Acceptance | None) -> Restore:
    """Restore the backup in a folder to where it came from, or into another folder.

    The ledger answers nothing afterwards until the owner accepts, in words, what it may have lost.
    """
    manifest = read_backup_manifest(folder)
    original = Path(manifest.policy)
    policy_file = original if into is None else into / original.name
    backup = LedgerBackup(manifest.id, (folder / LEDGER).absolute(), manifest.entries, manifest.head)
    try:
        policy_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = [] if _put(folder / POLICY, policy_file) else ["policy"]
        policy = read_policy(policy_file)
        if policy.name != manifest.dataset:
            raise BadParameter(
                "The policy in place is about another dataset than the backup.",
                "Its ledger would be replaced by that of another dataset.",
                "Nothing was changed. Restore into another folder: --into FOLDER.",
            )
        if policy.ledger.path is not None:
            policy.ledger.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # the ledger comes last: until it is there, nothing can be asked
        kept += _put_snapshot(folder, policy)
        has_grants = (folder / GRANTS).exists()
        if has_grants and not _put(folder / GRANTS, sidecar_path(policy, "grants", policy_file)):
            kept.append("grants")
        restored = restore_ledger(policy, backup, acceptance)
        if restored.is_at_cut and "snapshot" not in kept and not _put_cohorts(folder, policy):
            kept.append("cohorts")
        sentence = acceptance_sentence(manifest.entries)
        return Restore(policy_file, restored, manifest.entries, manifest.time, sentence, tuple(kept), has_grants)
    except OSError:
        pass  # the system's words hold paths
    raise unavailable("The backup could not be restored.", "Check rights and space, and restore again.")


def _put(source: Path, target: Path) -> bool:
    """Write a file where there is none; say whether the one in place has the same content."""
    content = source.read_bytes()
    if not target.exists():
        write_atomically(target, content)
    return target.read_bytes() == content


def _put_snapshot(folder: Path, policy: Policy) -> list[str]:
    """Write salt and snapshot manifest where there are none; they belong together."""
    if not (folder / SALT).exists() or not (folder / SNAPSHOT).exists():
        return []
    try:
        places = places_of(policy)
    except BadSource:
        return []
    same = _put(folder / SALT, places.sidecar("copy.salt"))
    return [] if same and _put(folder / SNAPSHOT, places.manifest) else ["snapshot"]


def _put_cohorts(folder: Path, policy: Policy) -> bool:
    """Write the kept cohorts where there are none, beside the ledger that they were kept with, and never before it.

    A ledger with later charges has people who came later: with these cohorts they could move to one that has not paid
    for them. The existing cohorts are of the same people, and perhaps of more.  Proof: proofs/cohorts.md
    """
    if not (folder / COHORTS).exists():
        return True
    try:
        return _put(folder / COHORTS, places_of(policy).sidecar("copy.cohorts"))
    except BadSource:
        return True
