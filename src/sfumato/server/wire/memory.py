"""Memory that sessions hold between messages: rows in portals and cursors, prepared statements, messages that wait.

Every piece is counted when it is made and given back when it is gone, per account and for the server. A limit is a
refusal that names it; the session goes on.
"""

from dataclasses import dataclass
from sys import getsizeof
from typing import Any

from sfumato.server.quota import ByteQuota
from sfumato.server.wire.sqlstates import WireError

POINTER_BYTES = 8
"""Memory of one place in a list."""


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
        self._quota = ByteQuota(self.limits.server, self.limits.account)
        self.of = self._quota.of
        self.give_back = self._quota.give_back

    @property
    def total(self) -> int:
        """The bytes that all sessions hold."""
        return self._quota.held

    def take(self, account: str, count: int) -> None:
        """Count bytes, or refuse them."""
        if self._quota.take(account, count):
            return
        if self.of(account) + count > self.limits.account:
            raise _full("The sessions of this account hold", self.limits.account)
        raise _full("The sessions of this server hold", self.limits.server)


def size_of(value: Any) -> int:
    """Return the memory of a value and of what it holds, in bytes."""
    if isinstance(value, list | tuple):
        return getsizeof(value) + sum(map(size_of, value))
    return getsizeof(value)


def _full(who: str, limit: int) -> WireError:
    return WireError(
        "53200",
        f"{who} too much memory.",
        f"The limit is {limit:,} bytes for open portals, cursors, prepared statements and waiting messages.",
        "Fetch or close portals and cursors, DEALLOCATE statements, or use LIMIT.",
    )
