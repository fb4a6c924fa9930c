"""The audit log as a hash chain: each line names the SHA-256 of the line before it, also across files and servers.

A line that is changed, removed, inserted or moved is found by `verify_audit`, unless SHA-256 collides. A log that was
cut at its end, or written anew as a whole, is found only by comparing with a copy that was sent elsewhere: see
`audit_copies`.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Lock

from sfumato.errors import AuditDamaged
from sfumato.secure_files import locked

NO_LINE = "0" * 64
"""The hash that the first line names as that of the line before it."""
_TAIL_BYTES = 1 << 16
"""More than the longest line."""


@dataclass(frozen=True, slots=True)
class VerifiedAudit:
    """What an audit log holds after every hash was computed again."""

    lines: int
    head: str
    """The hash of its last line."""


class ChainedLog:
    """The audit log of accounts with a grant. Several servers may write one; none of its lines is ever removed."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._writing = Lock()
        self._known: tuple[int, int, str, int] | None = None
        """Inode and size of the file after our last line, its hash and its sequence: no other server has written."""

    def append(self, entry: dict[str, object]) -> bytes | None:
        """Add an entry behind the last line; return the line, or None where it could not be written."""
        with self._writing:
            try:
                with locked(self._path.with_name(f"{self._path.name}.lock"), wait=True):
                    return self._append(entry)
            except OSError:
                self._known = None  # the system's words hold the path
                return None

    def _append(self, entry: dict[str, object]) -> bytes:
        if _size(self._path) >= self._max_bytes:
            self._path.rename(self._path.with_name(f"{self._path.name}.{_set_aside(self._path) + 1}"))
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path, flags, 0o600)
        try:
            status = os.fstat(descriptor)
            if self._known is not None and self._known[:2] == (status.st_ino, status.st_size):
                previous, sequence, gap = self._known[2], self._known[3], b""
            else:
                previous, sequence, gap = _end_of(descriptor, status.st_size)
                if not status.st_size:
                    previous, sequence = _end_of_file(
                        self._path.with_name(f"{self._path.name}.{_set_aside(self._path)}")
                    )
            line = json.dumps({"sequence": sequence + 1, **entry, "previous": previous}).encode()
            if os.write(descriptor, gap + line + b"\n") != len(gap) + len(line) + 1:
                raise OSError
            self._known = (status.st_ino, os.fstat(descriptor).st_size, _hash(line), sequence + 1)
            return line
        finally:
            os.close(descriptor)


def verify_audit(path: Path) -> VerifiedAudit:
    """Compute every hash of an audit log again, from its oldest file to its newest; refuse what does not follow.

    Lines of versions without a chain may stand before the first line with one.
    """
    files = [path.with_name(f"{path.name}.{number}") for number in range(1, _set_aside(path) + 1)]
    head, sequence, lines = NO_LINE, 0, 0
    for line in (line for file in (*files, path) if file.exists() for line in _lines(file)):
        found = _parse_line(line)
        chained = "previous" in found
        if chained and (found["previous"] != head or found.get("sequence") != sequence + 1):
            raise _audit_damaged(lines + 1)
        if not chained and sequence and found:
            raise _audit_damaged(lines + 1)  # an incomplete line, which a crash leaves, is no entry and is in the chain
        head, sequence, lines = _hash(line), sequence + chained, lines + 1
    return VerifiedAudit(lines, head)


def _audit_damaged(line: int) -> AuditDamaged:
    return AuditDamaged(
        f"Line {line:,} of the audit log does not follow from the line before it.",
        "A line was changed, removed or inserted.",
        "Compare it with a copy that was sent elsewhere (`--audit-copy`). Keep the file as it is.",
    )


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        for line in stream:
            yield line.removesuffix(b"\n")


def _parse_line(line: bytes) -> dict[str, object]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _hash(line: bytes) -> str:
    return sha256(line).hexdigest()


def _end_of(descriptor: int, size: int) -> tuple[str, int, bytes]:
    """Return the hash of the last line, the last sequence, and what ends a line that a crash has cut off."""
    tail = os.pread(descriptor, _TAIL_BYTES, max(size - _TAIL_BYTES, 0))
    if not tail:
        return NO_LINE, 0, b""
    lines = tail.removesuffix(b"\n").split(b"\n")
    sequences = (_parse_line(line).get("sequence") for line in reversed(lines))
    sequence = next((found for found in sequences if isinstance(found, int)), 0)
    return _hash(lines[-1]), sequence, b"" if tail.endswith(b"\n") else b"\n"


def _end_of_file(path: Path) -> tuple[str, int]:
    """Return the same of a file that was set aside, if there is one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return NO_LINE, 0
    try:
        return _end_of(descriptor, os.fstat(descriptor).st_size)[:2]
    finally:
        os.close(descriptor)


def _set_aside(path: Path) -> int:
    """Return how many files were set aside."""
    number = 0
    while os.path.lexists(path.with_name(f"{path.name}.{number + 1}")):
        number += 1
    return number


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
