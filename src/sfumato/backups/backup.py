"""Back up a dataset while it runs: ledger, policy, salt, kept cohorts, snapshot manifest and grants.

Proof: proofs/ledger.md §7

The bounded copy is not in it: it is built again from the data, with the same salt.
"""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree

from sfumato.backups.manifest import (
    COHORTS,
    GRANTS,
    LEDGER,
    POLICY,
    SALT,
    SNAPSHOT,
    new_manifest,
    write_backup_manifest,
)
from sfumato.engines.snapshot_paths import SnapshotPaths, places_of
from sfumato.errors import BadParameter, BadSource
from sfumato.ledger.anchor import Anchor
from sfumato.ledger.backup import cut_ledger
from sfumato.ledger.damage import unavailable
from sfumato.policy.policy import Policy
from sfumato.policy.reading import read_policy
from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import system_source
from sfumato.secure_files import sync_folder
from sfumato.server.grants import copy_grants

_MAX_CUTS = 5
"""How often the ledger is read again when a snapshot was taken meanwhile."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was written."""

    entries: int
    head: str
    files: tuple[str, ...]


def back_up(policy_file: Path, folder: Path) -> Backup:
    """Write a backup of a policy's dataset into a new folder; questions go on meanwhile.

    The folder gets its name when everything in it is durable. Only its owner can read it.
    """
    policy = read_policy(policy_file)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadParameter(
            "The folder of the backup exists and is not empty.",
            "A backup never overwrites another one.",
            "Name a new folder.",
        )
    identity = fresh_id(system_source())
    aside = folder.absolute().with_name(f".{folder.absolute().name}.{identity[:16]}")
    try:
        try:
            aside.mkdir(mode=0o700, parents=False)
            written = _write(policy, policy_file, aside, identity)
            aside.rename(folder)
            sync_folder(folder.absolute().parent)
            return written
        finally:
            rmtree(aside, ignore_errors=True)
    except OSError:
        pass  # the system's words hold paths
    raise unavailable("The backup could not be written.", "Check that the folder above it exists and has space.")


def _write(policy: Policy, policy_file: Path, folder: Path, identity: str) -> Backup:
    anchor = _cut(policy, folder)
    _copy_file(policy_file, folder / POLICY)
    copy_grants(policy, policy_file, folder / GRANTS)
    (folder / f"{GRANTS}.lock").unlink(missing_ok=True)
    time = datetime.now(UTC).isoformat(timespec="seconds")
    (folder / f"{LEDGER}.lock").unlink(missing_ok=True)
    place = str(policy_file.absolute())
    manifest = new_manifest(identity, policy.name, time, place, anchor.sequence, anchor.head, folder)
    write_backup_manifest(folder, manifest)
    for path in folder.iterdir():
        _synchronise(path)
    sync_folder(folder)
    return Backup(anchor.sequence, anchor.head, tuple(manifest.files))


def _cut(policy: Policy, folder: Path) -> Anchor:
    """Write ledger, salt, cohorts and snapshot manifest as of one moment: the same ones before and after the ledger."""
    places = _snapshot_paths(policy)
    for _ in range(_MAX_CUTS):
        before, cohorts = _snapshot_files(places)
        (folder / LEDGER).unlink(missing_ok=True)
        anchor = cut_ledger(policy, folder / LEDGER)
        if anchor is None:
            raise BadParameter(
                "There is no ledger yet.", "A backup is a copy of the ledger.", "Ask a question first, then back up."
            )
        if (before, cohorts) == _snapshot_files(places):
            break
    else:
        raise unavailable("Snapshots were taken all the time.", "No backup was written. Try again later.")
    if places is not None and before is not None:
        _write_private(folder / SNAPSHOT, before)
        _copy_file(places.sidecar("copy.salt"), folder / SALT)
        if cohorts is not None:
            _write_private(folder / COHORTS, cohorts)
    return anchor


def _snapshot_files(places: SnapshotPaths | None) -> tuple[bytes | None, bytes | None]:
    """Return the manifest of the snapshot, and the file of the cohorts that registrations have seen."""
    if places is None:
        return None, None
    return _content(places.manifest), _content(places.sidecar("copy.cohorts"))


def _snapshot_paths(policy: Policy) -> SnapshotPaths | None:
    try:
        return places_of(policy)
    except BadSource:
        return None


def _content(path: Path | None) -> bytes | None:
    return path.read_bytes() if path is not None and path.exists() else None


def _copy_file(source: Path, target: Path) -> None:
    _write_private(target, source.read_bytes())


def _write_private(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)


def _synchronise(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
