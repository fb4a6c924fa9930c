"""The audit log: one line of JSON per request, in a file that only its owner can read, without any value of the data.

A line says when, by which way and from where, which account, what was wanted and what came of it. The text of a
question is not in it: the ledger has it for those that were charged.

Requests of accounts with a grant are evidence: each line names the hash of the line before (`audit_chain`), a log that
has grown is set aside under the next number, and none is ever removed or written over. Requests without a grant go to a
log of their own, which is bounded in size and rate. They cannot erase a line of evidence or fill the disk.
"""

import json
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from logging import Handler
from pathlib import Path
from threading import Lock
from time import monotonic

from sfumato.diagnostics import log_event
from sfumato.errors import LedgerUnavailable
from sfumato.policy.policy import Policy
from sfumato.secure_files import locked
from sfumato.server.audit_chain import ChainedLog
from sfumato.server.audit_copies import AuditCopy
from sfumato.server.file_paths import sidecar_path
from sfumato.server.metrics import Metrics
from sfumato.server.rate_limit import AddressBuckets, TokenBucket

MAX_LOG_BYTES = 64 << 20
"""Size at which a log is set aside as .1, .2, and so on."""
MAX_ANONYMOUS_BYTES = 4 << 20
"""Size at which the anonymous log is set aside as .1, in place of the one before it."""
ANONYMOUS_LINES_PER_SECOND, ANONYMOUS_BURST = 2.0, 60.0
"""Lines about one address without a grant; more are counted, not written."""
ALL_ANONYMOUS_LINES_PER_SECOND, ALL_ANONYMOUS_BURST = 50.0, 1000.0
"""Lines about all addresses without a grant."""
_MAX_FIELD_CHARS = 200


def audit_path(policy: Policy, file: Path | None = None) -> Path:
    """Return where the log lies: beside the ledger, or beside the policy where the ledger is on a server."""
    return sidecar_path(policy, "audit", file)


def anonymous_path(audit: Path) -> Path:
    """Return where the log of requests without a grant lies: beside the audit log."""
    return audit.with_name(f"{audit.name}.anonymous")


class Audit:
    """The log of one dataset. Several servers may write the same file."""

    def __init__(self, path: Path, clock: Callable[[], float] = monotonic, copies: Sequence[AuditCopy] = ()) -> None:
        self._evidence = ChainedLog(path, MAX_LOG_BYTES)
        self._anonymous = _Log(anonymous_path(path), MAX_ANONYMOUS_BYTES)
        self._rate = _AnonymousRate(clock)
        self._copies = tuple(copies)
        self.metrics = Metrics()

    def write(
        self,
        channel: str,
        address: str,
        account: str | None,
        verb: str,
        outcome: str,
        receipt: str | None = None,
        person: str = "",
    ) -> None:
        """Add one line. An account of None was not authenticated; "" is the owner, and `person` tells which one."""
        entry: dict[str, object] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "channel": channel,
            "address": address[:_MAX_FIELD_CHARS],
            "account": account,
            "verb": verb[:_MAX_FIELD_CHARS],
            "outcome": outcome[:_MAX_FIELD_CHARS],
        }
        if receipt is not None:
            entry["receipt"] = receipt
        if person:
            entry["person"] = person
        self.metrics.count(channel, account, verb, outcome)
        if account is None:
            self._write_anonymous(address, entry)
            return
        log_event("request", channel=channel, account=account, verb=verb[:_MAX_FIELD_CHARS], outcome=outcome)
        line = self._evidence.append(entry)
        if line is None:
            raise LedgerUnavailable(
                "The audit log cannot be written.",
                "Every request must be recorded before it is answered.",
                "Ask the owner to look at the disk; asking again is free if it was charged.",
            )

        for send in self._copies:
            try:
                send(line)
            except OSError:  # the file is the record, and has the line
                self.metrics.count_copy_failure()

    def close(self) -> None:
        """Let go of the files."""
        self._anonymous.close()
        for copy in self._copies:
            if isinstance(copy, Handler):
                copy.close()

    def _write_anonymous(self, address: str, entry: dict[str, object]) -> None:
        """Add a line about a request without a grant, if the rate allows it."""
        allowed, unwritten = self._rate.take(address)
        if allowed:
            self._anonymous.append(_line(entry | {"unwritten": unwritten} if unwritten else entry))


class _AnonymousRate:
    """Decides which requests without a grant are written down, and counts the others."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._deciding = Lock()
        self._per_address = AddressBuckets(ANONYMOUS_LINES_PER_SECOND, ANONYMOUS_BURST, clock)
        self._all = TokenBucket(ALL_ANONYMOUS_LINES_PER_SECOND, ALL_ANONYMOUS_BURST, clock)
        self._unwritten = 0

    def take(self, address: str) -> tuple[bool, int]:
        """Tell whether a line is written, and how many were not since the last one."""
        with self._deciding:
            if not (self._per_address.take_now(address) and self._all.take_now()):
                self._unwritten += 1
                return False, 0
            unwritten, self._unwritten = self._unwritten, 0
            return True, unwritten


class _Log:
    """One file that grows at its end; lines of several servers stay whole. A file that has grown replaces the last."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._writing = Lock()
        self._descriptor = -1
        self._inode = 0

    def append(self, line: bytes) -> bool:
        """Add a line; say whether it could be written."""
        with self._writing:
            try:
                return os.write(self._open_file(), line) == len(line)
            except OSError:
                self._let_go()  # the system's words hold the path
                return False

    def close(self) -> None:
        """Let go of the file."""
        with self._writing:
            self._let_go()

    def _open_file(self) -> int:
        if self._descriptor >= 0:
            status = os.fstat(self._descriptor)
            if status.st_nlink and status.st_size < self._max_bytes and _inode(self._path) == self._inode:
                return self._descriptor
            if status.st_size >= self._max_bytes:
                self._set_aside()
            self._let_go()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._path, flags, 0o600)
        self._inode = os.fstat(self._descriptor).st_ino
        return self._descriptor

    def _set_aside(self) -> None:
        with locked(self._path.with_name(f"{self._path.name}.lock"), wait=True):
            if _inode(self._path) == self._inode:  # another server may have done it
                os.rename(self._path, self._path.with_name(f"{self._path.name}.1"))

    def _let_go(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _line(entry: dict[str, object]) -> bytes:
    return f"{json.dumps(entry)}\n".encode()


def _inode(path: Path) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0
