"""The anchor: the last sequence and head, in a file of its own, so that a ledger that was cut or rewound is noticed.

One line: sequence, head, and after a clean close the SHA-256 of the whole ledger file (the seal), or a dash. It is
short enough to be restored by hand from the last receipt: `17 6f1c… -`.
"""

import os
import re
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path

from sfumato.ledger.damage import RESTORE_ANCHOR, damaged

_LINE = re.compile(r"([1-9][0-9]{0,17}) ([0-9a-f]{64}) ([0-9a-f]{64}|-)\n")
_NO_SEAL = "-"


@dataclass(frozen=True, slots=True)
class Anchor:
    """The last row that was durable when this was written. A ledger may be longer, never shorter."""

    sequence: int
    head: str
    seal: str | None = None
    """The hash of the ledger file as it lay closed; None while it is in use."""


def read_anchor(path: Path) -> Anchor | None:
    """Read the anchor; None where there is no file, damage where it is not one line as above."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    found = _LINE.fullmatch(text.decode("ascii", "replace"))
    if found is None:
        raise damaged("Its anchor is not one line of sequence, head and seal.", RESTORE_ANCHOR)
    return Anchor(int(found[1]), found[2], None if found[3] == _NO_SEAL else found[3])


def write_anchor(path: Path, anchor: Anchor) -> None:
    """Replace the anchor: after a crash the old one or the new one is there, and either is true."""
    _write_aside(path, _line(anchor)).replace(path)


class NextAnchor:
    """An anchor that only has to be put into its place; close it in any case.

    One that is as long as the last one is written over it: fewer bytes than a sector, by one call, so that a crash
    leaves the one or the other. Any other is written aside, synchronised, and renamed. Nothing else is synchronised:
    an older anchor protects a little less and refuses nothing that is sound. Proof: proofs/ledger.md, §4a
    """

    def __init__(self, path: Path, anchor: Anchor) -> None:
        self._path = path
        self._line = _line(anchor)
        self._over = _opened_of_length(path, len(self._line))
        self._aside = None if self._over is not None else _write_aside(path, self._line)

    def put_in_place(self) -> None:
        """Let it be the anchor."""
        if self._aside is not None:
            self._aside.replace(self._path)
        elif self._over is None or os.pwrite(self._over, self._line, 0) != len(self._line):
            raise OSError("the anchor was not written")

    def close(self) -> None:
        """Let go of the file."""
        if self._over is not None:
            os.close(self._over)
            self._over = None


def _line(anchor: Anchor) -> bytes:
    return f"{anchor.sequence} {anchor.head} {anchor.seal or _NO_SEAL}\n".encode()


def _opened_of_length(path: Path, length: int) -> int | None:
    """Open a file of this length for writing; None where there is none. Another process may have renamed one there."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    if os.fstat(descriptor).st_size == length:
        return descriptor
    os.close(descriptor)
    return None


def _write_aside(path: Path, line: bytes) -> Path:
    """Write a line aside and synchronise it; return the file.

    No reader looks at it, so one that a crash has left means nothing. The caller holds the ledger's lock, so no other
    process writes aside.
    """
    aside = path.with_name(path.name + ".aside")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(line)
        stream.flush()
        os.fsync(stream.fileno())
    return aside


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()
