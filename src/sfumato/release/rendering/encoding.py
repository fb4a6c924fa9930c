"""An answer as text or bytes for other programs: JSON, CSV, Arrow, Parquet, Markdown, a table."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from importlib import import_module
from typing import Any

from sfumato.errors import BadParameter, Refusal
from sfumato.release.intervals.confidence import LEVEL
from sfumato.release.release import Release
from sfumato.release.rendering.documents import release_document
from sfumato.release.rendering.escaping import escape_unprintable, for_csv, for_markdown, to_json
from sfumato.release.rendering.table import format_value

FORMATS = ("table", "json", "csv", "arrow", "parquet", "markdown")
_CSV_ROWS = 1000
"""Rows of CSV that are written as one piece."""


def encoded(release: Release, form: str, level: object = LEVEL) -> bytes:
    """Return an answer in one of FORMATS, with its intervals. A failure is a refusal: the answer was charged.

    The level is that of the intervals for programs; what people read in tables has 95 %.
    """
    try:
        return _ENCODERS[form](release, level)
    except Refusal:
        raise  # a level that is none
    except Exception:  # noqa: S110 - whatever a library says, the answer itself is shown instead
        pass
    raise BadParameter(
        f"The answer could not be written as {form}.",
        "The library that writes this format failed.",
        "The answer itself is kept: ask the same again at no cost, in another format.",
    )


def _table(release: Release, _level: object) -> bytes:
    return f"{release.to_text(None)}\n".encode()


def _json(release: Release, level: object) -> bytes:
    return f"{to_json(release_document(release, level))}\n".encode()


def csv_pieces(release: Release, level: object = LEVEL) -> Iterator[bytes]:
    """Give an answer as CSV, piece by piece: the line of names first, then rows with the ends of their intervals."""
    columns = release.typed_columns(True, level)
    yield _csv_lines([[for_csv(column.name) for column in columns]])
    for first in range(0, len(release), _CSV_ROWS):
        cells = [map(_csv_value, column.values[first : first + _CSV_ROWS]) for column in columns]
        yield _csv_lines(list(zip(*cells, strict=True)))


def _csv_lines(rows: Sequence[Sequence[object]]) -> bytes:
    written = io.StringIO(newline="")
    csv.writer(written, lineterminator="\n").writerows(rows)
    return written.getvalue().encode()


def _csv(release: Release, level: object) -> bytes:
    return b"".join(csv_pieces(release, level))


def _csv_value(value: object) -> object:
    if isinstance(value, str):
        return for_csv(value)
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date | datetime) else value


def _arrow(release: Release, level: object) -> bytes:
    pa: Any = import_module("pyarrow")
    table = release.to_arrow(intervals=True, level=level)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _parquet(release: Release, level: object) -> bytes:
    pa: Any = import_module("pyarrow")
    sink = pa.BufferOutputStream()
    import_module("pyarrow.parquet").write_table(release.to_arrow(intervals=True, level=level), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _markdown(release: Release, _level: object) -> bytes:
    lines = [_row(release.columns), "|" + " --- |" * len(release.columns)]
    for row, ends, marks in zip(release.rows(), release.intervals(), release.marks(), strict=True):
        pairs = {name: end if isinstance(end, tuple) else None for name, end in ends.items()}
        lines.append(
            _row([format_value(row[name], pairs[name], marked=marks.get(name, False)) for name in release.columns])
        )
    lines += ["", f"cost: {release.loss}; ± at 95 %", *release.legend()]
    lines += [*(f"note: {escape_unprintable(note)}" for note in release.notes)]
    return ("\n".join(lines) + "\n").encode()


def _row(cells: tuple[str, ...] | list[str]) -> str:
    return "".join(f"| {for_markdown(cell)} " for cell in cells) + "|"


_ENCODERS: dict[str, Callable[[Release, object], bytes]] = {
    "table": _table,
    "json": _json,
    "csv": _csv,
    "arrow": _arrow,
    "parquet": _parquet,
    "markdown": _markdown,
}
