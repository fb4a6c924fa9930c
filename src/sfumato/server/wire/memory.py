"""Memory that sessions hold between messages: rows in portals, prepared statements, messages that wait.

Every piece is counted when it is made and given back when it is gone, per account and for the server. A limit is a
refusal that names it; the session goes on.
"""

from collections import deque
from dataclasses import dataclass
from sys import getsizeof
from threading import Lock
from typing import Any

from sfumato.server.wire.sqlstates import WireError


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Maximum memory that sessions hold, in bytes."""

    account: int = 64 << 20
    """Of all sessions of one account."""
    server: int = 256 << 20
    """Of all sessions of a server."""


class SessionMemory:
    """The memory that the sessions of one server hold; threads may share it."""

    def __init__(self, limits: MemoryLimits | None = None) -> None:
        self.limits = limits or MemoryLimits()
        self._total = 0
        self._accounts: dict[str, int] = {}
        self._returned: deque[tuple[str, int]] = deque()
        """What was given back and is not yet counted. The garbage collector gives back too, in any thread at any time,
        so that nothing is locked for it."""
        self._lock = Lock()

    @property
    def total(self) -> int:
        """What all sessions hold, in bytes."""
        with self._lock:
            self._settle()
            return self._total

    def of(self, account: str) -> int:
        """Return what the sessions of an account hold, in bytes."""
        with self._lock:
            self._settle()
            return self._accounts.get(account, 0)

    def take(self, account: str, count: int) -> None:
        """Count bytes, or refuse them."""
        with self._lock:
            self._settle()
            if self._accounts.get(account, 0) + count > self.limits.account:
                raise _full("The sessions of this account hold", self.limits.account)
            if self._total + count > self.limits.server:
                raise _full("The sessions of this server hold", self.limits.server)
            self._add(account, count)

    def give_back(self, account: str, count: int) -> None:
        """Count bytes that are free again."""
        self._returned.append((account, count))

    def _settle(self) -> None:
        while self._returned:
            account, count = self._returned.popleft()
            self._add(account, -count)

    def _add(self, account: str, count: int) -> None:
        self._total += count
        self._accounts[account] = self._accounts.get(account, 0) + count
        if not self._accounts[account]:
            del self._accounts[account]


class Holding:
    """The bytes of one thing that a session keeps; they are given back at the latest when the thing is gone."""

    __slots__ = ("_account", "_memory", "size")

    def __init__(self, memory: SessionMemory, account: str) -> None:
        self._memory = memory
        self._account = account
        self.size = 0

    def add(self, count: int) -> None:
        """Count more bytes, or refuse them."""
        self._memory.take(self._account, count)
        self.size += count

    def release(self) -> None:
        """Give all bytes back."""
        size, self.size = self.size, 0
        if size:
            self._memory.give_back(self._account, size)

    def __del__(self) -> None:
        self.release()


def size_of(value: Any) -> int:
    """Return the memory of a value and of what it holds, in bytes."""
    if isinstance(value, list | tuple):
        return getsizeof(value) + sum(map(size_of, value))
    return getsizeof(value)


def _full(who: str, limit: int) -> WireError:
    return WireError(
        "53200",
        f"{who} too much memory.",
        f"The limit is {limit:,} bytes for open portals, prepared statements and waiting messages.",
        "Fetch or close portals, DEALLOCATE statements, or use LIMIT.",
    )
