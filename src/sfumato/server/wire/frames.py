"""Frames: a byte for the kind, four for the length, a body. Both directions, with limits."""

import asyncio
import struct
from collections.abc import Sequence

from sfumato.server.quota import Holding
from sfumato.server.wire import oids
from sfumato.server.wire.oids import Column
from sfumato.server.wire.sqlstates import Reported, WireError, too_large, violation
from sfumato.server.wire.values import binary_of, text_of

MAX_FRAME_BYTES = 1 << 20
"""A larger one is read past, and refused."""
MAX_SKIPPED_BYTES = 1 << 30
SECONDS_PER_FRAME = 60.0
"""A frame that has begun is complete after so long."""
_CHUNK_BYTES = 1 << 16

_Row = Sequence[object]


class TooLarge(Exception):  # noqa: N818  (it is answered, not raised to anybody)
    """A frame beyond a limit; all of it was read past."""

    def __init__(self, kind: bytes, error: WireError) -> None:
        super().__init__(kind)
        self.kind = kind
        self.error = error


async def read_frame(
    reader: asyncio.StreamReader, kind: bytes, holding: Holding | None = None, largest: int | None = None
) -> tuple[bytes, bytes]:
    """Return a frame's kind, which was read, and its body; a large body is counted as memory while it is read.

    With `largest`, a longer frame is a violation and nothing of it is read.
    """
    async with asyncio.timeout(SECONDS_PER_FRAME):
        (length,) = struct.unpack(">I", await reader.readexactly(4))
        if length < 4 or length > (MAX_SKIPPED_BYTES if largest is None else largest + 4):
            raise violation("The length of a message is impossible.")
        if length - 4 > MAX_FRAME_BYTES:
            await skip(reader, length - 4)
            raise TooLarge(kind, too_large("A message is larger than a mebibyte.", "Ask a shorter question."))
        try:
            if holding is not None and length > _CHUNK_BYTES:
                holding.add(2 * length)
        except WireError as full:
            await skip(reader, length - 4)
            raise TooLarge(kind, full) from None
        return kind, await reader.readexactly(length - 4)


async def skip(reader: asyncio.StreamReader, count: int) -> None:
    """Read past `count` bytes, and keep none of them."""
    while count:
        piece = await reader.read(min(_CHUNK_BYTES, count))
        if not piece:
            raise asyncio.IncompleteReadError(b"", count)
        count -= len(piece)


class Body:
    """A body that is read from its beginning; whatever does not fit is a violation of the protocol."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def text(self) -> str:
        """Return the text up to its closing zero."""
        end = self._data.find(b"\x00", self._at)
        if end < 0:
            raise violation("A text in a message is not closed.", fatal=False)
        raw, self._at = self._data[self._at : end], end + 1
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise _encoding() from None

    def number(self, layout: str) -> int:
        """Return a number of struct's layout."""
        try:
            (value,) = struct.unpack_from(layout, self._data, self._at)
        except struct.error:
            raise violation("A message ends before its content does.", fatal=False) from None
        self._at += struct.calcsize(layout)
        return int(value)

    def count(self, layout: str = ">h") -> int:
        """Return how many things follow; none of them is less than two bytes."""
        count = self.number(layout)
        if count < 0 or count > len(self._data) - self._at:
            raise violation("A message names more parts than it has.", fatal=False)
        return count

    def raw(self, count: int) -> bytes:
        """Return `count` bytes."""
        if count < 0 or count > len(self._data) - self._at:
            raise violation("A message ends before its content does.", fatal=False)
        self._at += count
        return self._data[self._at - count : self._at]

    def value(self) -> bytes | None:
        """Return bytes with their length before them; None for NULL."""
        length = self.number(">i")
        return None if length == -1 else self.raw(length)

    def end(self) -> None:
        """Refuse a body that goes on."""
        if self._at != len(self._data):
            raise violation("A message is longer than its content.", fatal=False)


def _encoding() -> Exception:
    made = violation("A text is not UTF-8.", fatal=False)
    return type(made)("22021", "A text is not UTF-8.", "Texts are sent in UTF-8.", "Set client_encoding to UTF8.")


def frame(kind: bytes, body: bytes = b"") -> bytes:
    """Return a frame."""
    return kind + struct.pack(">I", len(body) + 4) + body


def zero_ended(text: str) -> bytes:
    """Return a text as messages carry it; a zero inside would end it early."""
    return text.replace("\x00", "").encode("utf-8", "replace") + b"\x00"


def error_frame(error: Reported) -> bytes:
    """Return an ErrorResponse."""
    return frame(b"E", _fields(error))


def notice_frame(notice: Reported) -> bytes:
    """Return a NoticeResponse."""
    return frame(b"N", _fields(notice))


def _fields(error: Reported) -> bytes:
    parts = {
        b"S": error.severity,
        b"V": error.severity,
        b"C": error.sqlstate,
        b"M": error.message,
        b"D": error.detail,
        b"H": error.hint,
        b"P": "" if error.position is None else str(error.position),
        b"R": error.routine,
    }
    return b"".join(key + zero_ended(text) for key, text in parts.items() if text) + b"\x00"


def row_description(columns: Sequence[Column], formats: Sequence[int]) -> bytes:
    """Return a RowDescription; `formats` has one number for each column."""
    parts = [struct.pack(">H", len(columns))]
    for column, form in zip(columns, formats, strict=True):
        length = oids.LENGTHS.get(column.oid, -1)
        parts += [zero_ended(column.name), struct.pack(">IHIhih", 0, 0, column.oid, length, -1, form)]
    return frame(b"T", b"".join(parts))


def data_row(row: _Row, columns: Sequence[Column], formats: Sequence[int]) -> bytes:
    """Return a DataRow."""
    parts = [struct.pack(">H", len(columns))]
    for value, column, form in zip(row, columns, formats, strict=True):
        written = binary_of(value, column.oid) if form else text_of(value, column.oid)
        parts += [b"\xff\xff\xff\xff"] if written is None else [struct.pack(">i", len(written)), written]
    return frame(b"D", b"".join(parts))


def parameter_description(types: Sequence[int]) -> bytes:
    """Return a ParameterDescription."""
    return frame(b"t", struct.pack(">H", len(types)) + b"".join(struct.pack(">I", oid) for oid in types))


def parameter_status(name: str, value: str) -> bytes:
    """Return a ParameterStatus."""
    return frame(b"S", zero_ended(name) + zero_ended(value))


def ready(status: bytes) -> bytes:
    """Return a ReadyForQuery: I outside a block, T in one, E in a failed one."""
    return frame(b"Z", status)


def command_complete(tag: str) -> bytes:
    """Return a CommandComplete."""
    return frame(b"C", zero_ended(tag))
