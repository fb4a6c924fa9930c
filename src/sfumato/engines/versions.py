"""Which version of the data a copy was made of: a random id, given when the source is seen to change.

Never a digest of content: in a receipt that would tell whether one guessed a database. What is compared are the names,
sizes, times and inodes of the files, under a key, so that the manifest holds no name either.
"""

import hmac
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path

from sfumato.engines.private_file import write_whole
from sfumato.randomness.source import Source, read_exactly

FORMAT = 3
"""A new meaning of anything in a copy is a new format: copies of another one are built again."""
_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class Manifest:
    """Which copy is current, and of what it was made."""

    format: int
    version: str
    """The data version: random, public, in every receipt."""
    stamp: str
    tables: str
    """The hash of the tables that the policy declares."""
    copy: str
    """The name of the copy's file."""


def fresh_id(source: Source) -> str:
    """Return a new random id."""
    return read_exactly(source, _ID_BYTES).hex()


def stamp_of(files: Sequence[Path], salt: bytes) -> str:
    """Return what changes when a file is added, removed, replaced or written."""
    lines = []
    for path in files:
        status = path.stat()
        lines.append([str(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino])
    return hmac.new(salt, json.dumps(lines).encode("utf-8", "surrogateescape"), "sha256").hexdigest()


def read_manifest(path: Path) -> Manifest | None:
    """Return the manifest; None where there is none or it is not one of this format: then a copy is built."""
    try:
        fields = json.loads(path.read_bytes())
        manifest = Manifest(**fields)
    except (OSError, ValueError, TypeError):
        return None
    texts = (manifest.version, manifest.stamp, manifest.tables, manifest.copy)
    whole = manifest.format == FORMAT and all(isinstance(text, str) for text in texts)
    return manifest if whole and Path(manifest.copy).name == manifest.copy else None


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Make a copy the current one: this rename is the moment at which a build counts."""
    write_whole(path, json.dumps(asdict(manifest)).encode())


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that lets one process build while the others wait; the system lets go of it if we die."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        flock(descriptor, LOCK_EX)
        yield
    finally:
        os.close(descriptor)
