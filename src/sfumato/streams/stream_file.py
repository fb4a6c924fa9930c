"""The file of a stream: an append-only log behind a short block that holds its valid length.

A step is appended and made durable; then the block, which lies within one sector, is overwritten and made durable; only
then has the step happened. Each record is chained to all before it by SHA-256, and the block holds the last link: a
file that was cut or edited anywhere is refused. The file holds private data: only the data owner may read it.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from weakref import WeakSet, finalize

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from sfumato.errors import BadParameter, StreamDamaged, StreamUnavailable, quote_value
from sfumato.randomness.source import read_exactly, system_source
from sfumato.secure_files import sync_folder

_MAGIC = b"sfumato stream 1"
_BLOCK = struct.Struct("<16sQQ32s32s")  # magic, time, end, last link, key; then the SHA-256 of these
_BLOCK_SIZE = _BLOCK.size + 32
_LENGTH = struct.Struct("<Q")
_MARK_BYTES = 16
_LINK_BYTES = 32
_KEY_BYTES = 32
_ASIDE = ".aside"


class _Block(NamedTuple):
    time: int
    end: int
    link: bytes
    key: bytes
    """Decrypts the state of the last record. Overwriting it makes the earlier state unreadable."""


class StreamFile:
    """The one handle of a stream's file."""

    def __init__(self, path: Path, descriptor: int, head: bytes, block: _Block) -> None:
        self._path = path.absolute()  # the process may change its directory
        self._descriptor = descriptor
        self.head = head
        self._block = block
        self._process = os.getpid()
        self._failed = False
        self._closing = finalize(self, os.close, descriptor)
        """Closes the file when the handle is garbage-collected."""
        _OPEN.add(self)

    @classmethod
    def create(cls, path: Path, head: bytes) -> "StreamFile":
        """Create a file without steps, atomically, and refuse an existing path."""
        require_absent(path)
        aside = path.with_name(path.name + _ASIDE)
        with _refuse_system_errors():
            aside.unlink(missing_ok=True)
            descriptor = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with _refuse_system_errors():
                flock(descriptor, LOCK_EX | LOCK_NB)
                begun = _LENGTH.pack(len(head)) + head
                block = _Block(0, _BLOCK_SIZE + len(begun), sha256(begun).digest(), bytes(_KEY_BYTES))
                _write(descriptor, _pack_block(block) + begun, 0)
                os.fsync(descriptor)
                try:
                    os.link(aside, path)
                except FileExistsError:
                    raise _path_exists(path) from None
                finally:
                    aside.unlink(missing_ok=True)
                sync_folder(path.parent)
            return cls(path, descriptor, head, block)
        except BaseException:
            os.close(descriptor)
            raise

    @classmethod
    def open(cls, path: Path) -> tuple["StreamFile", list[bytes]]:
        """Return the file and the payloads of all its steps, or refuse it."""
        with _refuse_system_errors():
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            except FileNotFoundError:
                raise BadParameter(
                    f"There is no stream {quote_value(str(path))}.", "The file does not exist.", "Create it first."
                ) from None
        try:
            with _refuse_system_errors():
                _lock(descriptor)
                path.with_name(path.name + _ASIDE).unlink(missing_ok=True)  # a crash may have left the first name
                with os.fdopen(os.dup(descriptor), "rb") as reading:
                    data = reading.read()
                block = _read_block(data)
                head, payloads = _read_records(data, block)
                _require_torn(data, block)
                # a crash may have left the last block in memory only: it counts once it is durable
                _write(descriptor, _pack_block(block), 0)
                os.ftruncate(descriptor, block.end)
                os.fsync(descriptor)
            return cls(path, descriptor, head, block), payloads
        except BaseException:
            os.close(descriptor)
            raise

    @property
    def time(self) -> int:
        """Number of durable steps."""
        return self._block.time

    @property
    def is_open(self) -> bool:
        """Whether this handle is open in this process."""
        return self._descriptor >= 0

    def require_usable(self) -> None:
        """Refuse a handle that was closed or forked, that failed, or whose file was replaced."""
        if not self.is_open or self._process != os.getpid():
            raise BadParameter(
                "This stream is closed.", "Its file is closed, or belongs to another process.", "Open it again."
            )
        if self._failed:
            raise stream_unavailable("An earlier step could not be completed.", "Close the stream and open it again.")
        with _refuse_system_errors():
            try:
                current = os.stat(self._path)
            except FileNotFoundError:
                current = None
            mine = os.fstat(self._descriptor)
        if current is None or (current.st_dev, current.st_ino) != (mine.st_dev, mine.st_ino):
            raise stream_damaged("Its file was replaced or removed while it was in use.")

    def commit(self, payload: bytes, state: bytes = b"") -> None:
        """Append a step. It is durable when this returns; after an error this handle refuses further use."""
        key = read_exactly(system_source(), _KEY_BYTES) if state else bytes(_KEY_BYTES)
        self._failed = True
        record_body = payload + (_encrypt_or_decrypt(state, key) if state else b"")
        link = sha256(self._block.link + record_body).digest()
        record = _next_mark(self._block.link) + _LENGTH.pack(len(record_body)) + record_body + link
        block = _Block(self._block.time + 1, self._block.end + len(record), link, key)
        with _refuse_system_errors():
            _write(self._descriptor, record, self._block.end)
            os.fdatasync(self._descriptor)
            _write(self._descriptor, _pack_block(block), 0)
            os.fdatasync(self._descriptor)
        self._block = block
        self._failed = False

    def fail(self) -> None:
        """Refuse further use of this handle: its state may differ from the stored one."""
        self._failed = True

    def open_state(self, payload: bytes, size: int) -> bytes:
        """Decrypt the state at the end of the last payload with the last key."""
        return _encrypt_or_decrypt(payload[len(payload) - size :], self._block.key)

    def close(self) -> None:
        """Let go of the file. Closing twice is fine."""
        _OPEN.discard(self)
        self._descriptor = -1
        self._closing()


def require_absent(path: Path) -> None:
    """Refuse a path at which no stream can be created."""
    if os.path.lexists(path):
        raise _path_exists(path)
    if not path.parent.is_dir():
        raise BadParameter(
            f"There is no folder for {quote_value(str(path))}.",
            "A stream is one file in a folder.",
            "Make the folder first.",
        )


def stream_damaged(why: str) -> StreamDamaged:
    """Return the refusal of a file that differs from what was written."""
    return StreamDamaged(
        "The stream is damaged.",
        why,
        "Nothing was released. Restore the newest copy of the file; a step that was shown is never drawn again.",
    )


def stream_unavailable(why: str, remedy: str = "") -> StreamUnavailable:
    """Return the refusal of a file that cannot be used now."""
    return StreamUnavailable(
        "The stream cannot be used now.",
        why,
        remedy or "The step does not count. Check disk and rights, and try again.",
    )


def _path_exists(path: Path) -> BadParameter:
    return BadParameter(
        f"There is something at {quote_value(str(path))} already.",
        "A stream begins with a new file, so that no other is lost.",
        "Open it with Stream.open, or name another path.",
    )


def _lock(descriptor: int) -> None:
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        raise stream_unavailable(
            "It is open already, and two handles would draw two noises.", "Close the other one."
        ) from None


def _pack_block(block: _Block) -> bytes:
    packed = _BLOCK.pack(_MAGIC, *block)
    return packed + sha256(packed).digest()


def _read_block(data: bytes) -> _Block:
    packed = data[: _BLOCK.size]
    if len(data) < _BLOCK_SIZE or sha256(packed).digest() != data[_BLOCK.size : _BLOCK_SIZE]:
        raise stream_damaged("It does not begin as a stream.")
    magic, *fields = _BLOCK.unpack(packed)
    if magic != _MAGIC:
        raise stream_damaged("It was written in a form that this program does not know.")
    return _Block(*fields)


def _read_records(data: bytes, block: _Block) -> tuple[bytes, list[bytes]]:
    offset = _BLOCK_SIZE + _LENGTH.size
    if block.end > len(data) or block.end < offset:
        raise stream_damaged("A part of it is missing.")
    (length,) = _LENGTH.unpack_from(data, _BLOCK_SIZE)
    head = data[offset : offset + length]
    link = sha256(data[_BLOCK_SIZE : offset + length]).digest()
    offset += length
    payloads = []
    for _ in range(block.time):
        start = offset + _MARK_BYTES + _LENGTH.size
        if start > block.end or data[offset : offset + _MARK_BYTES] != _next_mark(link):
            raise stream_damaged("A step is not what was written.")
        (length,) = _LENGTH.unpack_from(data, offset + _MARK_BYTES)
        offset = start + length + _LINK_BYTES
        payload = data[start : start + length]
        link = sha256(link + payload).digest()
        if offset > block.end or data[offset - _LINK_BYTES : offset] != link:
            raise stream_damaged("A step is not what was written.")
        payloads.append(payload)
    if offset != block.end or link != block.link:
        raise stream_damaged("It ends elsewhere than it should.")
    return head, payloads


def _require_torn(data: bytes, block: _Block) -> None:
    """Refuse bytes behind the end, other than the start of a step that a crash cut off: its mark, or zeros."""
    torn = data[block.end :]
    if torn[:_MARK_BYTES] != _next_mark(block.link)[: len(torn)] and any(torn):
        raise stream_damaged("There is something behind its end.")


def _next_mark(link: bytes) -> bytes:
    return sha256(b"next" + link).digest()[:_MARK_BYTES]


def _encrypt_or_decrypt(state: bytes, key: bytes) -> bytes:
    """Encrypt or decrypt: each key is used once, for one state."""
    return Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor().update(state)


def _write(descriptor: int, data: bytes, offset: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[written:], offset + written


@contextmanager
def _refuse_system_errors() -> Iterator[None]:
    """Turn errors of the system into a refusal: their text may hold a path."""
    try:
        yield
    except OSError:
        failure = stream_unavailable("The file could not be read or written durably.")
    else:
        return
    raise failure from None


_OPEN: WeakSet[StreamFile] = WeakSet()


def _close_all() -> None:
    """Close inherited handles in a child: the lock must end with the parent."""
    for handle in list(_OPEN):
        with suppress(OSError):
            handle.close()


os.register_at_fork(after_in_child=_close_all)
