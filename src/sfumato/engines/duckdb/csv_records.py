"""CSV as in RFC 4180: separate records, any content within quotation marks. Malformed files are refused.

The policy says which character separates fields, how letters are stored and what means NULL: `CsvFormat`. In every
encoding that it can name, a byte below 128 means the same wherever it stands, so no record changes how another is read.

The structure of a file is checked here, byte by byte, before anything parses it: quotation marks, the ends of records
and the number of fields. Only whole records that have passed go on to Arrow's parser, which is fast and, in files that
are not well-formed, kind. Every value stays text; nothing is guessed, and no value decides how another one is read.
Proof: proofs/bounded_copy.md §0.
"""

import csv
import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from sfumato.policy.keys import DELIMITERS
from sfumato.policy.policy import PLAIN, CsvFormat

_CODECS = {"latin-1": "latin-1", "windows-1252": "cp1252"}
_CHUNK_BYTES = 1 << 24
_MAX_RECORD_BYTES = 1 << 28
_MAX_HEADER_BYTES = 1 << 20
_MAX_SCALAR_BYTES = 1000
"""The most bytes of a number, a date or a truth value; longer ones are absent."""
_QUOTE, _LF, _CR = b'"\n\r'
_MARK = b"\xef\xbb\xbf"
_UNREADABLE = (OSError, EOFError, zlib.error, pa.ArrowException)
_SEPARATOR = re.compile(rb"sep=(.)\r?\n")
"""The line that Excel understands before the names."""
_OTHERS = {
    b"\xff\xfe": 'it is UTF-16; save it as "CSV UTF-8"',
    b"\xfe\xff": 'it is UTF-16; save it as "CSV UTF-8"',
    b"PK\x03\x04": 'it is an Excel workbook or another archive; open it and save it as "CSV UTF-8"',
    b"\xd0\xcf\x11\xe0": 'it is an Excel workbook; open it and save it as "CSV UTF-8"',
    b"PAR1": "it is a Parquet file; let its name end in .parquet",
    b"\x1f\x8b": "it is compressed by gzip; let its name end in .gz",
    b"\x28\xb5\x2f\xfd": "it is compressed by zstd; let its name end in .zst",
}
"""How files begin that are something else."""


class Malformed(Exception):  # noqa: N818
    """A file is not CSV, and in which line; the caller says which file, to its owner."""

    def __init__(self, why: str, line: int | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.line = line


@dataclass(frozen=True, slots=True)
class _Records:
    """Whole records at the beginning of a buffer: how many bytes, how many records, how many lines."""

    size: int
    count: int
    lines: int


@dataclass(frozen=True, slots=True)
class _Form:
    """What holds for all records: the names of the fields, and the bytes between them and at their end."""

    names: tuple[str, ...]
    end: int
    between: int
    null: tuple[str, ...]


def header(path: Path, written: CsvFormat = PLAIN) -> tuple[str, ...]:
    """Return the names in the first record."""
    with _open_utf8(path, written) as stream:
        return _header(_first(stream), written)[0].names


def beginning(path: Path) -> bytes:
    """Return the first bytes of a file as they are, for a policy draft, which must say how files are written."""
    with _open_utf8(path, PLAIN) as stream:
        return _read(stream, _MAX_HEADER_BYTES)


def likely_delimiter(start: bytes) -> str:
    """Return the most frequent delimiter of the first line, outside quotation marks; a comma where there is none."""
    line = start.removeprefix(_MARK).replace(b"\r", b"\n").split(b"\n", 1)[0]
    if line.startswith(b"sep=") and line[4:5].decode("ascii", "replace") in DELIMITERS:
        return line[4:5].decode()
    outside = b"".join(line.split(b'"')[::2]).decode("latin-1")
    counts = {delimiter: outside.count(delimiter) for delimiter in DELIMITERS if delimiter != ":"}
    return max(counts, key=lambda delimiter: counts[delimiter]) if any(counts.values()) else ","


def record_batches(
    path: Path, wanted: dict[str, int | None], written: CsvFormat = PLAIN
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the wanted columns as text, a part of the file at a time, and how many records each part has.

    A column has the most characters that its values keep, or None where they stay whole; `0` marks values that are no
    text: those of more than a thousand bytes are absent. Unquoted and empty is NULL, and so is what is not UTF-8.
    """
    with _open_utf8(path, written) as stream:
        buffer = _first(stream)
        form, start, line = _header(buffer, written)
        buffer, final = buffer[start:], False
        while not final:
            more = _read(stream, max(_CHUNK_BYTES - len(buffer), len(buffer), 1))
            final = not more
            buffer += more
            records = _check_records(buffer, form, line, final)
            if records.size:
                yield _parse_batch(buffer, records, form, wanted, line), records.count
            buffer, line = buffer[records.size :], line + records.lines
            if len(buffer) > _MAX_RECORD_BYTES:
                raise Malformed(f"a record has more than {_MAX_RECORD_BYTES:,} bytes", line)


class _Transcoded:
    """A stream of a one-byte encoding as UTF-8; a byte without a letter stays as it is, so that it is none in UTF-8."""

    def __init__(self, stream: Any, encoding: str) -> None:
        self._stream, self._encoding = stream, encoding

    def read(self, size: int) -> bytes:
        part: bytes = self._stream.read(size)
        return part.decode(self._encoding, "surrogateescape").encode("utf-8", "surrogateescape")


def _open_compressed(path: Path, name: str) -> Any:
    if name.endswith(".zst"):
        return pa.input_stream(str(path), compression="zstd")
    return gzip.open(path, "rb") if name.endswith(".gz") else path.open("rb")


@contextmanager
def _open_utf8(path: Path, written: CsvFormat) -> Iterator[Any]:
    """Open a file as bytes of UTF-8, whatever compresses or encodes it."""
    name = path.name.lower()
    try:
        opened = _open_compressed(path, name)
    except _UNREADABLE:
        raise Malformed("it cannot be opened") from None
    with opened:
        yield opened if written.encoding == "utf-8" else _Transcoded(opened, _CODECS[written.encoding])


def _read(stream: Any, size: int) -> bytes:
    """Read `size` bytes, or fewer only at the end."""
    parts, missing = [], size
    try:
        while missing > 0 and (part := stream.read(missing)):
            parts.append(part)
            missing -= len(part)
    except _UNREADABLE:
        raise Malformed("it is damaged: it cannot be read to its end") from None
    return b"".join(parts)


def _first(stream: Any) -> bytes:
    """Read enough for the first record, without the mark of UTF-8 that some programs put before it."""
    buffer = _read(stream, _MAX_HEADER_BYTES + len(_MARK))
    if not buffer.strip():
        raise Malformed("it is empty")
    for beginning, what in _OTHERS.items():
        if buffer.startswith((beginning, beginning.decode("latin-1").encode())):
            raise Malformed(what)
    if buffer.startswith(_MARK.decode("latin-1").encode()):
        raise Malformed('it begins with the mark of UTF-8; write encoding = "utf-8" in [csv], or leave it out')
    return buffer.removeprefix(_MARK)


def _header(buffer: bytes, written: CsvFormat) -> tuple[_Form, int, int]:
    """Read the first record: what it says, where the next one begins, and in which line."""
    separator = _SEPARATOR.match(buffer)
    if separator is not None:
        if separator[1] != written.delimiter.encode():
            raise Malformed("its first line uses another delimiter than [csv]", 1)
        form, start, line = _header(buffer[separator.end() :], written)
        return form, start + separator.end(), line + 1
    quoted = False
    index = 0
    for index, byte in enumerate(buffer):  # noqa: B007
        if byte == _QUOTE:
            quoted = not quoted
        elif byte in (_LF, _CR) and not quoted:
            break
    else:
        index = len(buffer)
        if quoted or index >= _MAX_HEADER_BYTES:
            raise Malformed("its first record does not end", 1)
    end = _CR if buffer[index : index + 1] == b"\r" and buffer[index + 1 : index + 2] != b"\n" else _LF
    after = index + (2 if buffer[index : index + 2] == b"\r\n" else 1)
    first = buffer[:index]
    try:
        names = tuple(next(csv.reader([first.decode()], strict=True, delimiter=written.delimiter), ()))
    except UnicodeDecodeError:
        raise Malformed(f"its first record is not {written.encoding.upper()}", 1) from None
    except csv.Error:
        raise Malformed("its first record is not a list of names", 1) from None
    form = _Form(names, end, ord(written.delimiter), written.null)
    return form, after, 1 + buffer[:after].count(b"\r" if end == _CR else b"\n")


def _check_records(buffer: bytes, form: _Form, line: int, final: bool) -> _Records:
    """Return how far the buffer holds whole records, all well-formed, or refuse by line."""
    data = np.frombuffer(buffer, np.uint8)
    found = (data == form.between) | (data == _LF)
    for byte in (_QUOTE, _CR):
        if bytes([byte]) in buffer:
            found |= data == byte
    places = np.flatnonzero(found)
    codes = data[places]
    marks = places[codes == _QUOTE]
    if marks.size:
        # an escaped mark closes and opens again, so that only the parity matters [RFC 4180, §2.7]
        outside = ((np.cumsum(codes == _QUOTE, dtype=np.uint8) & 1) == 0) & (codes != _QUOTE)
        places, codes = places[outside], codes[outside]
    ending = places[codes == form.end]
    size = int(ending[-1]) + 1 if ending.size else 0
    if final:
        if marks.size % 2:
            raise Malformed("a quotation mark is opened and never closed", _line(buffer, int(marks[-1]), form, line))
        size = len(buffer)  # the last record may end without a line end
    _check_quotes(buffer, data[:size], marks[: np.searchsorted(marks, size)], form, line)
    _check_line_ends(buffer, places[: np.searchsorted(places, size)], form, line)
    kept = (codes == form.end) | (codes == form.between)
    places, codes = places[kept], codes[kept]
    if size and (not ending.size or ending[-1] + 1 < size):
        places, codes = np.append(places, size), np.append(codes, np.uint8(form.end))
    ends = np.flatnonzero(codes == form.end)
    return _Records(size, _check_fields(buffer, places, ends, form, line), buffer.count(bytes([form.end]), 0, size))


def _check_quotes(buffer: bytes, data: NDArray[np.uint8], marks: NDArray[np.intp], form: _Form, line: int) -> None:
    """A mark opens at the beginning of a field and closes at its end; within one, marks come in pairs."""
    if not marks.size:
        return
    opening, closing = marks[0::2], marks[1::2]
    before = data[np.maximum(opening - 1, 0)]
    wrong = opening[~((opening == 0) | (before == form.between) | (before == form.end) | (before == _QUOTE))]
    last = data.size - 1
    after = data[np.minimum(closing + 1, last)]
    ended = (after == form.between) | (after == _LF) | (after == _CR) | (after == _QUOTE)
    wrong = np.append(wrong, closing[~((closing == last) | ended)])
    if wrong.size:
        raise Malformed(
            "a quotation mark stands inside a field; a field that holds one is quoted, and the mark is doubled",
            _line(buffer, int(wrong.min()), form, line),
        )


def _check_line_ends(buffer: bytes, places: NDArray[np.intp], form: _Form, line: int) -> None:
    """Outside quotation marks a carriage return belongs to the end of a record."""
    data = np.frombuffer(buffer, np.uint8)
    if form.end == _LF:
        found = places[data[places] == _CR]
        found = found[(found + 1 == data.size) | (data[np.minimum(found + 1, data.size - 1)] != _LF)]
    else:
        found = places[data[places] == _LF]
    if found.size:
        what = "carriage return" if form.end == _LF else "line feed"
        raise Malformed(f"a {what} stands outside quotation marks", _line(buffer, int(found[0]), form, line))


def _check_fields(buffer: bytes, places: NDArray[np.intp], ends: NDArray[np.intp], form: _Form, line: int) -> int:
    """Return how many records there are; all have as many fields as the first. An empty line is none."""
    fields = np.diff(ends, prepend=-1)
    if len(form.names) == 1:
        blank = np.zeros(fields.size, bool)
    else:
        stops = places[ends]
        widths = np.diff(stops, prepend=-1) - 1
        blank = widths == 0
        if form.end == _LF:
            ones = np.flatnonzero(widths == 1)
            blank[ones[[buffer[stop - 1] == _CR for stop in stops[ones]]]] = True
    wrong = np.flatnonzero((fields != len(form.names)) & ~blank)
    if wrong.size:
        first = int(wrong[0])
        start = int(places[ends[first - 1]]) + 1 if first else 0
        raise Malformed(
            f"a record has {fields[first]} fields, and the first one has {len(form.names)}",
            _line(buffer, start, form, line),
        )
    return int(fields.size - np.count_nonzero(blank))


def _line(buffer: bytes, place: int, form: _Form, line: int) -> int:
    return line + buffer.count(bytes([form.end]), 0, place)


def _parse_batch(
    buffer: bytes, records: _Records, form: _Form, wanted: dict[str, int | None], line: int
) -> pa.RecordBatch:
    whole = memoryview(buffer)[: records.size]
    try:
        table = _table(whole, records, form, list(wanted), pa.string())
    except pa.ArrowInvalid:  # a value is not UTF-8: then each is checked separately
        table = _table(whole, records, form, list(wanted), pa.binary())
    if table.num_rows != records.count:
        raise Malformed("its records cannot be separated", line)
    columns = [_text(table.column(name), most) for name, most in wanted.items()]
    return pa.record_batch(columns, names=list(wanted))


def _table(whole: memoryview, records: _Records, form: _Form, wanted: list[str], kind: pa.DataType) -> pa.Table:
    if not records.count:
        return pa.table({name: pa.array([], kind) for name in wanted})
    return arrow_csv.read_csv(
        pa.BufferReader(pa.py_buffer(whole)),
        arrow_csv.ReadOptions(column_names=list(form.names), block_size=records.size + 1),
        _parsing(form),
        arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(form.names, kind),
            include_columns=wanted,
            null_values=["", *form.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _parsing(form: _Form) -> arrow_csv.ParseOptions:
    lone = len(form.names) == 1  # then an empty line is a record
    return arrow_csv.ParseOptions(delimiter=chr(form.between), newlines_in_values=True, ignore_empty_lines=not lone)


def _text(column: pa.ChunkedArray, most: int | None) -> Any:
    values = column.combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks)
    if values.type == pa.binary():
        values = pa.array([_decode(value) for value in values.to_pylist()], pa.string())
    if most is None:
        return values
    longest = pc.max(pc.binary_length(values)).as_py() or 0
    if longest <= (most or _MAX_SCALAR_BYTES):
        return values
    if most:
        return pc.utf8_slice_codeunits(values, 0, most)
    return pc.if_else(pc.less_equal(pc.binary_length(values), _MAX_SCALAR_BYTES), values, None)


def _decode(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
