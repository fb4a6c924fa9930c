"""An answer as text or bytes for other programs: JSON, CSV, Arrow, Markdown, a table."""

import csv
import io
from collections.abc import Callable
from datetime import date, datetime

import pyarrow as pa

from sfumato.errors import BadParameter, Refusal
from sfumato.release.intervals.confidence import LEVEL
from sfumato.release.release import Release
from sfumato.release.rendering.documents import release_document
from sfumato.release.rendering.escaping import escape_unprintable, for_csv, for_markdown, to_json
from sfumato.release.rendering.table import shown_value

FORMATS = ("table", "json", "csv", "arrow", "markdown")


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


def _csv(release: Release, level: object) -> bytes:
    table = release.to_arrow(intervals=True, level=level)
    written = io.StringIO(newline="")
    lines = csv.writer(written, lineterminator="\n")
    lines.writerow(map(for_csv, table.column_names))
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        lines.writerow([_csv_value(value) for value in row])
    return written.getvalue().encode()


def _csv_value(value: object) -> object:
    if isinstance(value, str):
        return for_csv(value)
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date | datetime) else value


def _arrow(release: Release, level: object) -> bytes:
    table = release.to_arrow(intervals=True, level=level)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _markdown(release: Release, _level: object) -> bytes:
    lines = [_row(release.columns), "|" + " --- |" * len(release.columns)]
    for row, ends in zip(release.rows(), release.intervals(), strict=True):
        pairs = {name: end if isinstance(end, tuple) else None for name, end in ends.items()}
        lines.append(
            _row([shown_value(row[name], pairs[name], release.truncation_of(name)) for name in release.columns])
        )
    lines += ["", f"cost: {release.loss}; ± at 95 %", *(f"note: {escape_unprintable(note)}" for note in release.notes)]
    return ("\n".join(lines) + "\n").encode()


def _row(cells: tuple[str, ...] | list[str]) -> str:
    return "".join(f"| {for_markdown(cell)} " for cell in cells) + "|"


_ENCODERS: dict[str, Callable[[Release, object], bytes]] = {
    "table": _table,
    "json": _json,
    "csv": _csv,
    "arrow": _arrow,
    "markdown": _markdown,
}
