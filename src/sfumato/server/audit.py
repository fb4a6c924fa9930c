"""The audit log: one line of JSON per request, in a file that only its owner can read, without any value of the data.

A line says when, by which way and from where, which account, what was wanted and what came of it. The text of a
question is not in it: the ledger has it for those that were charged.
"""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from sfumato.errors import LedgerUnavailable
from sfumato.policy.policy import Policy
from sfumato.server.places import beside

LARGEST = 64 << 20
"""A log of so many bytes is set aside as .1, in place of the one before it."""
_LONGEST = 200


def audit_path(policy: Policy, file: Path | None = None) -> Path:
    """Return where the log lies: beside the ledger, or beside the policy where the ledger is on a server."""
    return beside(policy, "audit", file)


class Audit:
    """The log of one dataset. Several servers may write the same file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = Lock()
        self._descriptor = -1
        self._inode = 0

    def write(
        self, channel: str, address: str, account: str | None, verb: str, outcome: str, receipt: str | None = None
    ) -> None:
        """Add one line. An account of None is somebody who was not let in; "" is the owner."""
        entry: dict[str, object] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "channel": channel,
            "address": address[:_LONGEST],
            "account": account,
            "verb": verb[:_LONGEST],
            "outcome": outcome[:_LONGEST],
        }
        if receipt is not None:
            entry["receipt"] = receipt
        self._append(f"{json.dumps(entry)}\n".encode())

    def close(self) -> None:
        """Let go of the file."""
        with self._writing:
            self._let_go()

    def _append(self, line: bytes) -> None:
        with self._writing:
            try:
                os.write(self._opened(), line)  # one write at the end of the file: lines of several servers stay whole
                return
            except OSError:
                self._let_go()  # the system's words hold the path
        raise LedgerUnavailable(
            "The audit log cannot be written.",
            "Every request is recorded, and what cannot be recorded is not answered.",
            "Ask the owner to look at the disk; asking again is free if it was charged.",
        )

    def _opened(self) -> int:
        if self._descriptor >= 0:
            status = os.fstat(self._descriptor)
            if status.st_nlink and status.st_size < LARGEST and _inode(self._path) == self._inode:
                return self._descriptor
            if _inode(self._path) == self._inode and status.st_size >= LARGEST:
                os.replace(self._path, self._path.with_name(f"{self._path.name}.1"))
            self._let_go()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._path, flags, 0o600)
        self._inode = os.fstat(self._descriptor).st_ino
        return self._descriptor

    def _let_go(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _inode(path: Path) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0
