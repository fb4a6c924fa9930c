"""The contents of a backup: one JSON file with its id, the ledger's last entry, and the digest of every other file."""

import json
from dataclasses import asdict, dataclass
from hashlib import file_digest
from pathlib import Path

from sfumato.errors import BackupDamaged

MANIFEST, LEDGER, POLICY = "backup.json", "ledger", "policy.toml"
SALT, SNAPSHOT, GRANTS, COHORTS = "salt", "snapshot.json", "grants", "cohorts"
_FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """The manifest of one backup."""

    format: int
    id: str
    """Random."""
    dataset: str
    time: str
    """When the ledger was read, in UTC."""
    policy: str
    """Where the policy file was when the backup was made."""
    entries: int
    head: str
    files: dict[str, str]
    """The SHA-256 of each file in the folder, by name."""


def write_backup_manifest(folder: Path, manifest: BackupManifest) -> None:
    """Write the manifest as the last file of a backup."""
    (folder / MANIFEST).write_text(json.dumps(asdict(manifest), indent=1), encoding="utf-8")
    (folder / MANIFEST).chmod(0o600)


def new_manifest(
    id: str, dataset: str, time: str, policy: str, entries: int, head: str, folder: Path
) -> BackupManifest:
    """Describe the files of a folder."""
    files = {path.name: _digest(path) for path in sorted(folder.iterdir()) if path.is_file() and path.name != MANIFEST}
    return BackupManifest(_FORMAT_VERSION, id, dataset, time, policy, entries, head, files)


def read_backup_manifest(folder: Path) -> BackupManifest:
    """Read the manifest and compare every file with it; a difference is refused."""
    try:
        manifest = BackupManifest(**json.loads((folder / MANIFEST).read_bytes()))
        whole = manifest.format == _FORMAT_VERSION and {LEDGER, f"{LEDGER}.anchor", POLICY} <= set(manifest.files)
        texts = (manifest.id, manifest.dataset, manifest.policy, manifest.head)
        whole = whole and all(isinstance(text, str) for text in texts) and isinstance(manifest.entries, int)
        whole = whole and all(Path(name).name == name for name in manifest.files)
        whole = whole and all(_digest(folder / name) == digest for name, digest in manifest.files.items())
    except (OSError, ValueError, TypeError, AttributeError):
        whole = False
    if not whole:
        raise BackupDamaged(
            "The folder is not a backup, or its files are not as they were written.",
            "A restore trusts only a backup whose files have the digests of its manifest.",
            "Nothing was changed. Give the folder that `sfumato backup` wrote, or another backup.",
        )
    return manifest


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()
