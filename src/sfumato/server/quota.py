"""Bytes that the server holds for clients, counted per account and in total."""

from collections import deque
from threading import Lock
from typing import Protocol


class ByteQuota:
    """Counts held bytes; threads may share it."""

    def __init__(self, total: int, per_account: int) -> None:
        self.total = total
        self.per_account = per_account
        self._sum = 0
        self._held: dict[str | None, int] = {}
        self._returned: deque[tuple[str | None, int]] = deque()
        """Bytes given back and not yet counted. The garbage collector gives back too, in any thread at any time,
        so that nothing is locked for it."""
        self._lock = Lock()

    @property
    def held(self) -> int:
        """How many bytes are held now."""
        with self._lock:
            self._settle()
            return self._sum

    def of(self, account: str | None) -> int:
        """Return how many bytes an account holds now."""
        with self._lock:
            self._settle()
            return self._held.get(account, 0)

    def take(self, account: str | None, count: int) -> bool:
        """Hold more bytes for an account, or say that there is no room for them."""
        with self._lock:
            self._settle()
            if self._held.get(account, 0) + count > self.per_account or self._sum + count > self.total:
                return False
            self._add(account, count)
            return True

    def give_back(self, account: str | None, count: int) -> None:
        """Give back a number of bytes."""
        self._returned.append((account, count))

    def _settle(self) -> None:
        while self._returned:
            account, count = self._returned.popleft()
            self._add(account, -count)

    def _add(self, account: str | None, count: int) -> None:
        self._sum += count
        self._held[account] = self._held.get(account, 0) + count
        if not self._held[account]:
            del self._held[account]


class RefusingQuota(Protocol):
    """A quota that refuses in its own words."""

    def take(self, account: str, count: int) -> None:
        """Count bytes, or refuse them."""

    def give_back(self, account: str, count: int) -> None:
        """Count bytes that are free again."""


class Holding:
    """The bytes of one thing that is held for an account; they are given back at the latest when the thing is gone."""

    __slots__ = ("_account", "_quota", "size")

    def __init__(self, quota: RefusingQuota, account: str) -> None:
        self._quota = quota
        self._account = account
        self.size = 0

    def add(self, count: int) -> None:
        """Count more bytes, or refuse them."""
        self._quota.take(self._account, count)
        self.size += count

    def release(self) -> None:
        """Give all bytes back."""
        size, self.size = self.size, 0
        if size:
            self._quota.give_back(self._account, size)

    def __del__(self) -> None:
        self.release()
