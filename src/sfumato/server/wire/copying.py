"""Rows as COPY writes them: text, CSV and binary, each in its messages."""

import re
import struct
from collections.abc import Iterable, Iterator, Sequence

from sfumato.server.wire.copy_statements import CopyFormat
from sfumato.server.wire.frames import frame
from sfumato.server.wire.oids import Column
from sfumato.server.wire.values import binary_of, text_of

_SIGNATURE = b"PGCOPY\n\xff\r\n\x00" + struct.pack(">ii", 0, 0)
_ESCAPES = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def copy_begin(columns: Sequence[Column], form: CopyFormat) -> bytes:
    """Return a CopyOutResponse, and the line of names that rows follow."""
    is_binary = int(form.kind == "binary")
    head = struct.pack(">bH", is_binary, len(columns)) + struct.pack(">h", is_binary) * len(columns)
    first = b""
    if form.header:
        names = [column.name for column in columns]
        first = frame(b"d", _line([_cell(name, name, form, True) for name in names], form))
    return frame(b"H", head) + first


def copy_rows(rows: Iterable[Sequence[object]], columns: Sequence[Column], form: CopyFormat) -> Iterator[bytes]:
    """Give a CopyData for each row."""
    for at, row in enumerate(rows):
        if form.kind == "binary":  # clients expect the signature and the first row in one message
            yield frame(b"d", (b"" if at else _SIGNATURE) + _binary_row(row, columns))
        else:
            cells = [_value(value, column, form) for value, column in zip(row, columns, strict=True)]
            if cells == ["\\."]:  # it would end the data for some readers
                cells = [f"{form.quote}\\.{form.quote}"] if form.kind == "csv" else cells
            yield frame(b"d", _line(cells, form))


def copy_end(form: CopyFormat, is_empty: bool) -> bytes:
    """Return what ends the rows."""
    if form.kind != "binary":
        return frame(b"c")
    return frame(b"d", (_SIGNATURE if is_empty else b"") + b"\xff\xff") + frame(b"c")


def _binary_row(row: Sequence[object], columns: Sequence[Column]) -> bytes:
    parts = [struct.pack(">h", len(columns))]
    for value, column in zip(row, columns, strict=True):
        written = binary_of(value, column.oid)
        parts += [b"\xff\xff\xff\xff"] if written is None else [struct.pack(">i", len(written)), written]
    return b"".join(parts)


def _value(value: object, column: Column, form: CopyFormat) -> str:
    written = text_of(value, column.oid)
    if written is None:
        return form.null
    return _cell(written.decode(), column.name, form, False)


def _cell(text: str, name: str, form: CopyFormat, is_header: bool) -> str:
    if form.kind == "text":
        escapes = _ESCAPES | ({} if form.delimiter in _ESCAPES else {form.delimiter: f"\\{form.delimiter}"})
        return "".join(escapes.get(letter, letter) for letter in text)
    is_forced = not is_header and (form.force_quote is None or name in form.force_quote)
    special = re.escape(f"{form.delimiter}{form.quote}\r\n")
    if is_forced or (text == form.null and not is_header) or re.search(f"[{special}]", text):
        marks = re.compile(f"[{re.escape(form.quote + form.escape)}]")
        quoted = marks.sub(lambda mark: form.escape + mark[0], text)
        return f"{form.quote}{quoted}{form.quote}"
    return text


def _line(cells: Sequence[str], form: CopyFormat) -> bytes:
    return (form.delimiter.join(cells) + "\n").encode()
