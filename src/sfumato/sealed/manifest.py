"""The manifest beside the key: the sealed batches with their nonces and padded sizes.

It is written atomically and authenticated under its own key. A batch is recorded before its rows are in the store, so a
crash leaves an intended batch: the next sealing removes its rows and keeps its sizes.
"""

import hmac
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from hashlib import sha256
from pathlib import Path

from sfumato.diagnostics import record_engine_failure
from sfumato.errors import EngineFailed, StoreTampered, WrongKey
from sfumato.randomness.source import read_exactly, system_source
from sfumato.sealed.keys import Key, read_key
from sfumato.secure_files import write_atomically

NONCE_BYTES = 32
_MAX_MANIFEST_BYTES = 1 << 30


class BatchState(StrEnum):
    """State of a batch."""

    INTENDED = "intended"
    """Its rows may be in the store."""
    COMMITTED = "committed"
    ABORTED = "aborted"
    """Its rows were removed; the store may have seen its sizes."""


@dataclass(frozen=True, slots=True)
class SealedBatch:
    """One attempt to seal rows."""

    number: int
    nonce: str
    state: BatchState
    digest: str
    """Keyed digest of the rows: the same rows get the same sizes again."""
    sizes: tuple[int, ...]
    """Rows per cell, dummies included."""


@dataclass(frozen=True, slots=True)
class SealedEpoch:
    """One table in one epoch."""

    words: str
    """Digest of the policy entries of the table: its bounds, cells and the price of its sizes."""
    batches: tuple[SealedBatch, ...] = ()

    @property
    def committed(self) -> tuple[SealedBatch, ...]:
        """The batches whose rows are in the store."""
        return tuple(batch for batch in self.batches if batch.state is BatchState.COMMITTED)

    @property
    def counted(self) -> tuple[SealedBatch, ...]:
        """The batches whose rows count against contribution bounds, including aborted ones."""
        return tuple(batch for batch in self.batches if batch.state is not BatchState.INTENDED)


@dataclass(frozen=True, slots=True)
class SealedManifest:
    """Everything that was sealed with one key, in one epoch."""

    dataset: str
    epoch: str
    version: str
    """A random id that changes with each batch."""
    attempts: int = 0
    tables: Mapping[str, SealedEpoch] | None = None
    old: tuple[str, ...] = ()
    """Tables of earlier epochs in the store."""
    ledger: str = ""
    """Identity of the ledger charged for the sizes."""
    rotated: bool = False
    """Whether another key has replaced this one."""

    def table(self, name: str) -> SealedEpoch | None:
        """Return the epoch of a table, by its folded name."""
        return (self.tables or {}).get(name)

    def with_table(self, name: str, table: SealedEpoch) -> "SealedManifest":
        """Return the manifest with one table replaced."""
        return replace(self, tables={**(self.tables or {}), name: table})

    @property
    def unfinished(self) -> bool:
        """Whether a batch was intended and not committed."""
        return any(
            batch.state is BatchState.INTENDED for table in (self.tables or {}).values() for batch in table.batches
        )


def fresh_hex(count: int = 16) -> str:
    """Return random bytes of the system as text. They cannot be set, so that no pad repeats."""
    return read_exactly(system_source(), count).hex()


class Keyring:
    """A key and the files beside it, readable by the data owner only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.key: Key = read_key(path, "that [sealed] names")
        self._manifest = _sidecar(path, "manifest")
        self._mark = _sidecar(path, "tampered")
        self._known: tuple[tuple[int, int, int], SealedManifest] | None = None

    def read(self, dataset: str) -> SealedManifest:
        """Return the manifest, or refuse: there is none, or another key wrote it."""
        try:
            status = os.stat(self._manifest)
            stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
            if self._known is None or self._known[0] != stamp:
                self._known = (stamp, self._parse_manifest(self._manifest.read_bytes()[:_MAX_MANIFEST_BYTES]))
        except OSError:
            raise WrongKey(
                "Nothing was sealed with the key that [sealed] names.",
                "There is no manifest beside it, which says what lies in the store.",
                "Name the key that was used, or seal rows first: sfumato.sealed.database.seal.",
            ) from None
        manifest = self._known[1]
        if manifest.rotated:
            raise WrongKey(
                "The key that [sealed] names was rotated.",
                "Everything was sealed again with another key.",
                "Name the new key in [sealed].",
            )
        if manifest.dataset != dataset:
            raise WrongKey(
                "The key that [sealed] names seals another dataset.",
                "One key belongs to one dataset, because its manifest lies beside it.",
                "Make another key for this one with create_key.",
            )
        return manifest

    def is_rotated(self) -> bool:
        """Tell whether another key has replaced this one."""
        return self._known is not None and self._known[1].rotated

    def exists(self) -> bool:
        """Tell whether anything was sealed with this key."""
        return self._manifest.exists()

    def write(self, manifest: SealedManifest) -> None:
        """Write the manifest durably and atomically."""
        text = json.dumps(_to_json(manifest), separators=(",", ":"))
        fingerprint = self.key.derive("fingerprint").hex()
        code = hmac.new(self.key.derive("manifest"), f"{fingerprint}\n{text}".encode(), sha256).hexdigest()
        _write(self._manifest, f"{fingerprint}\n{code}\n{text}".encode())
        self._known = None

    def _parse_manifest(self, content: bytes) -> SealedManifest:
        fingerprint, _, rest = content.decode("utf-8", "replace").partition("\n")
        code, _, text = rest.partition("\n")
        if not hmac.compare_digest(fingerprint.encode(), self.key.derive("fingerprint").hex().encode()):
            raise WrongKey(
                "The key that [sealed] names is not the one that this database was sealed with.",
                "The manifest beside it was written with another key.",
                "Restore the key. Without it nothing that was sealed can be read.",
            )
        expected = hmac.new(self.key.derive("manifest"), f"{fingerprint}\n{text}".encode(), sha256).hexdigest()
        if not hmac.compare_digest(code.encode(), expected.encode()):
            raise WrongKey(
                "The manifest beside the key is damaged.",
                "It is not what was written with this key.",
                "Restore it from a backup, or seal the rows again: sfumato.sealed.database.rotate.",
            )
        return _from_json(json.loads(text))

    def mark_tampered(self, epoch: str) -> None:
        """Block all queries of this epoch."""
        _write(self._mark, epoch.encode())

    def require_untampered(self, epoch: str) -> None:
        """Refuse an epoch whose store was once found to be changed."""
        try:
            marked = self._mark.read_text(encoding="utf-8")
        except OSError:
            return
        if marked == epoch:
            raise store_tampered()

    def write_units(self, nonce: str, counts: Mapping[bytes, int]) -> None:
        """Write the number of rows of each unit in a batch, by keyed hashes."""
        content = b"".join(unit + count.to_bytes(8, "big") for unit, count in counts.items())
        _write(_sidecar(self.path, f"{nonce[:16]}.units"), content)

    def read_units(self, nonce: str) -> bytes:
        """Return the bytes of `write_units`."""
        try:
            return _sidecar(self.path, f"{nonce[:16]}.units").read_bytes()
        except OSError:
            raise WrongKey(
                "A file of units beside the key is missing.",
                "Without it the number of rows per person in the store is unknown.",
                "Restore it from a backup, or seal the rows again: sfumato.sealed.database.rotate.",
            ) from None

    def forget_units(self, nonce: str) -> None:
        """Remove the file of a batch that is no longer in the manifest."""
        _sidecar(self.path, f"{nonce[:16]}.units").unlink(missing_ok=True)

    @contextmanager
    def sealing(self, wait: bool = True) -> Iterator[bool]:
        """Hold the exclusive sealing lock; without waiting, yield False while another process holds it."""
        with _file_lock(_sidecar(self.path, "sealing"), LOCK_EX if wait else LOCK_EX | LOCK_NB) as held:
            yield held

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the exclusive store lock while store and manifest differ."""
        with _file_lock(_sidecar(self.path, "lock"), LOCK_EX):
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold the shared store lock: store and manifest agree."""
        with _file_lock(_sidecar(self.path, "lock"), LOCK_SH):
            yield


def store_tampered() -> StoreTampered:
    """Return the refusal of a store that differs from what was sealed."""
    return StoreTampered(
        "The sealed store is not what was sealed.",
        "A row was dropped, repeated, moved or changed, or the store is an older one. Its answers are not used.",
        "Nothing was released, and the store is no longer queried. The owner must seal the rows again: "
        "sfumato.sealed.database.rotate.",
    )


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically; errors of the system may contain a path and are not repeated."""
    try:
        write_atomically(path, content)
        return
    except OSError as error:
        failure = _files_unusable(error)
    raise failure


def _files_unusable(error: OSError) -> EngineFailed:
    record_engine_failure(error)
    return EngineFailed(
        "The files beside the key cannot be read or written.",
        "They say what lies in the store, and are written before it is.",
        "Check that there is disk, and that the folder of the key is yours to write to.",
    )


def _sidecar(key: Path, what: str) -> Path:
    return key.with_name(f"{key.name}.{what}")


@contextmanager
def _file_lock(path: Path, operation: int) -> Iterator[bool]:
    """Hold a file lock that the system releases when the process ends."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise _files_unusable(error) from None
    try:
        try:
            flock(descriptor, operation)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def _to_json(manifest: SealedManifest) -> dict[str, object]:
    tables = {
        name: [table.words, [[b.number, b.nonce, b.state, b.digest, b.sizes] for b in table.batches]]
        for name, table in (manifest.tables or {}).items()
    }
    return {
        "dataset": manifest.dataset,
        "epoch": manifest.epoch,
        "version": manifest.version,
        "attempts": manifest.attempts,
        "tables": tables,
        "old": manifest.old,
        "ledger": manifest.ledger,
        "rotated": manifest.rotated,
    }


def _from_json(data: dict[str, object]) -> SealedManifest:
    tables = data["tables"]
    if not isinstance(tables, dict):
        raise AssertionError("its code is right, so its form is")
    tables_read = {
        name: SealedEpoch(
            words,
            tuple(
                SealedBatch(number, nonce, BatchState(state), digest, tuple(sizes))
                for number, nonce, state, digest, sizes in batches
            ),
        )
        for name, (words, batches) in tables.items()
    }
    return SealedManifest(
        str(data["dataset"]),
        str(data["epoch"]),
        str(data["version"]),
        int(str(data["attempts"])),
        tables_read,
        tuple(str(name) for name in data["old"]),  # type: ignore[attr-defined]
        str(data["ledger"]),
        bool(data["rotated"]),
    )
