"""Locks on a file beside the ledger, which the operating system lets go of when their process ends, however it ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import F_OFD_SETLK, F_UNLCK, F_WRLCK, LOCK_EX, LOCK_UN, fcntl, flock
from pathlib import Path
from struct import pack
from weakref import WeakSet


class FileLock:
    """One lock for whoever writes, and one mark per charge that is being answered.

    Both belong to this object, not to the process: two ledgers opened in one process exclude each other too.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        _OPEN.add(self)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait until nobody else writes, and hold that."""
        flock(self._descriptor, LOCK_EX)
        try:
            yield
        finally:
            flock(self._descriptor, LOCK_UN)

    def mark(self, place: int) -> bool:
        """Mark a place; False where somebody else has marked it."""
        try:
            fcntl(self._descriptor, F_OFD_SETLK, _one_byte(F_WRLCK, place))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def unmark(self, place: int) -> None:
        """Take the mark back."""
        fcntl(self._descriptor, F_OFD_SETLK, _one_byte(F_UNLCK, place))

    def close(self) -> None:
        """Let go of everything."""
        _OPEN.discard(self)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _one_byte(kind: int, place: int) -> bytes:
    """Return the `struct flock` of 64-bit Linux: kind, from the file's beginning, place, length 1, no process."""
    return pack("hhqqi4x", kind, os.SEEK_SET, place, 1, 0)


_OPEN: WeakSet[FileLock] = WeakSet()


def _close_all() -> None:
    """Close the locks that a child inherited: they must end with the parent, though the child lives on."""
    for lock in list(_OPEN):
        lock.close()


os.register_at_fork(after_in_child=_close_all)
