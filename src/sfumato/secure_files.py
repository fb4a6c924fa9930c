"""Files that only their owner may read: they appear whole or not at all, and are locked while a process uses them.

The operating system lets go of a lock when its process ends, however it ends.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from struct import pack, unpack_from
from weakref import WeakSet

from sfumato.errors import LedgerUnavailable, Refusal

try:
    _locks = import_module("fcntl")
    F_OFD_GETLK, F_OFD_SETLK, F_UNLCK, F_WRLCK = (
        *(_locks.F_OFD_GETLK, _locks.F_OFD_SETLK),  # of Linux alone
        *(_locks.F_UNLCK, _locks.F_WRLCK),
    )
except (ImportError, AttributeError):  # every way to data passes here, and none goes around a lock
    raise LedgerUnavailable(
        "sfumato cannot open data on this system.",
        "Its ledger needs locks of Linux: without them two processes could spend the same budget.",
        "Use Linux, a Linux container or WSL 2. To ask a server elsewhere, use sfumato.connect.",
    ) from None
fcntl, flock = _locks.fcntl, _locks.flock
LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN = _locks.LOCK_EX, _locks.LOCK_NB, _locks.LOCK_SH, _locks.LOCK_UN

_SUFFIX = ".aside"


def path_refusal(failure: OSError, kind: type[Refusal]) -> Refusal | OSError:
    """Return the refusal of a path that the operating system does not take; another failure is returned as it is.

    No message repeats the path: the reader may not have typed it.
    """
    if failure.filename is None:
        return failure
    return kind(
        "A file or folder cannot be used.",
        f"The operating system says: {failure.strerror}.",
        "Check the paths that were written: this user needs the right to use them, and a name has at most 255 bytes.",
    )


@contextmanager
def refusing_paths(kind: type[Refusal]) -> Iterator[None]:
    """Refuse a path that the operating system does not take; also a decorator of functions that take one."""
    try:
        yield
        return
    except OSError as error:
        failure = path_refusal(error, kind)
    raise failure


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the path, make it durable, then rename: a reader sees the old file or the new one."""
    aside = path.with_name(path.name + _SUFFIX)
    aside.unlink(missing_ok=True)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    aside.replace(path)
    sync_folder(path.parent)


def publish(built: Path, path: Path) -> None:
    """Move a finished file to its place: readable by its owner only, on the disk before it has its name."""
    built.chmod(0o600)
    descriptor = os.open(built, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    built.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, wait: bool) -> Iterator[bool]:
    """Hold the lock that lets one process build, and say whether we have it; the system lets go of it if we die.

    Without `wait`, the lock of another process yields False. A lock whose file was removed meanwhile locks nothing:
    then it is taken again.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                flock(descriptor, LOCK_EX if wait else LOCK_EX | LOCK_NB)
            except BlockingIOError:
                yield False
                return
            if os.fstat(descriptor).st_nlink:
                yield True
                return
        finally:
            os.close(descriptor)


class SharedFileLock:
    """A copy in use: as long as this exists, its file is not removed. A forked process uses it too."""

    __slots__ = ("_descriptor",)

    def __init__(self, path: Path) -> None:
        self._descriptor = -1
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            flock(descriptor, LOCK_SH)
            if not os.fstat(descriptor).st_nlink:
                raise FileNotFoundError
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def close(self) -> None:
        """Use it no longer. Closing twice is fine."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


def remove_unused(path: Path) -> None:
    """Remove a copy unless it is in use."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
        path.unlink(missing_ok=True)
    except OSError:
        pass  # it is in use
    finally:
        os.close(descriptor)


class FileLock:
    """One lock for the writer, and one mark per charge that is being answered.

    Both belong to this object, not to the process: two ledgers opened in one process exclude each other too.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        _OPEN.add(self)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait until no other holder writes, then hold the lock."""
        flock(self._descriptor, LOCK_EX)
        try:
            yield
        finally:
            flock(self._descriptor, LOCK_UN)

    def mark(self, place: int) -> bool:
        """Mark a place; False where another holder has marked it."""
        try:
            fcntl(self._descriptor, F_OFD_SETLK, _one_byte(F_WRLCK, place))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def is_marked(self, place: int) -> bool:
        """Tell whether another holder has marked a place. It takes no mark, so two who ask do not see each other."""
        found = fcntl(self._descriptor, F_OFD_GETLK, _one_byte(F_WRLCK, place))
        return int(unpack_from("h", found)[0]) != int(F_UNLCK)

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
