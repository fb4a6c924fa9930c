"""Snapshots of the data: which one is current, and of what it was made.

A snapshot has a random id. Never a digest of content: in a receipt that would tell whether one guessed a database. The
comparison uses the names, sizes and times of the files, under a key, so that the manifest holds no name either.
"""

import hmac
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TypeVar

from sfumato.errors import BadSource
from sfumato.policy.policy import Location
from sfumato.secure_files import write_atomically

MAX_ATTEMPTS = 3
"""How often what changes while it is read is read again."""
Result = TypeVar("Result")
FORMAT_VERSION = 14
"""A new meaning of anything in a copy is a new format: copies of another one are built again."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Which copy is current, and of what it was made."""

    format: int
    version: str
    """The snapshot: random, public, in every receipt."""
    stamp: str
    """Its files, by name, size and time."""
    place: str
    """Where they lay."""
    tables: str
    """The hash of the tables that the policy declares."""
    copy: str
    """The name of the copy's file."""
    ledger: str
    """The ledger that pays for answers about it; empty where none was open."""
    cohorts: str = ""
    """The assignment of people to cohorts, and those that are open; empty where all people share one budget."""


def stamp_of(root: Path, files: Sequence[Path], salt: bytes) -> str:
    """Return what changes when a file is added, removed, renamed or written; not when all are moved or read."""
    lines = []
    for path in files:
        status = path.stat()
        lines.append([os.path.relpath(path, root), status.st_size, status.st_mtime_ns])
    return keyed_digest(salt, "stamp", lines)


def watch_of(files: Sequence[Path]) -> list[tuple[object, ...]]:
    """Return what changes with anything that happens to a file: a copy of half of a change is not kept."""
    found = [(str(path), path.stat()) for path in files]
    return [(name, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino) for name, status in found]


def read_files_while_unchanged(
    root: Path, files: Callable[[], Sequence[Path]], salt: bytes, work: Callable[[], Result]
) -> tuple[str, Result]:
    """Do what reads the files of a source that stays as it is meanwhile; return its stamp, and what was done."""

    def look() -> tuple[object, str]:
        found = files()
        return watch_of(found), stamp_of(root, found, salt)

    return read_while_unchanged(look, work)


def read_while_unchanged(look: Callable[[], tuple[object, str]], work: Callable[[], Result]) -> tuple[str, Result]:
    """Do what reads a source of which `look` sees the same before and after; return its stamp, and what was done."""
    for _ in range(MAX_ATTEMPTS):
        watched, stamp = look()
        done = work()
        if look()[0] == watched:
            return stamp, done
    raise BadSource(
        "The source changed while it was being read.",
        "A snapshot must show the data at one point in time.",
        "Take the snapshot again when no program is writing to the source.",
    )


def source_digest(source: Location, salt: bytes) -> str:
    """Return what changes when the policy names another source; the spelling of a path does not matter."""
    return keyed_digest(
        salt, "place", [source.scheme, source.target if source.path is None else str(source.path.resolve())]
    )


def keyed_digest(salt: bytes, purpose: str, content: object) -> str:
    """Return what changes with the content, and tells nothing of it to who does not know the salt."""
    return hmac.new(salt, json.dumps([purpose, content]).encode("utf-8", "surrogateescape"), "sha256").hexdigest()


def read_manifest(path: Path) -> Manifest | None:
    """Return the manifest; None where there is none or it is not one of this format: then a copy is built."""
    try:
        manifest = Manifest(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    texts = [getattr(manifest, field.name) for field in fields(Manifest) if field.name != "format"]
    whole = manifest.format == FORMAT_VERSION and all(isinstance(text, str) for text in texts)
    return manifest if whole and Path(manifest.copy).name == manifest.copy else None


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Make a copy the current one: this rename is the moment at which a build counts."""
    write_atomically(path, json.dumps(asdict(manifest)).encode())
