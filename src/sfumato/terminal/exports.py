"""An answer as text or bytes for other programs, and as a picture."""

import csv
import io
import json
import math
from collections.abc import Callable
from datetime import date, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from sfumato.errors import BadParameter, shown
from sfumato.policy.policy import Policy
from sfumato.release.harmless import for_csv, for_markdown, to_json, visible
from sfumato.release.receipt import receipt_to_json
from sfumato.release.release import Release
from sfumato.release.table import shown_value

FORMATS = ("table", "json", "csv", "arrow", "markdown")
ENDINGS = {".json": "json", ".csv": "csv", ".arrow": "arrow", ".feather": "arrow", ".md": "markdown", ".txt": "table"}
PICTURES = (".svg", ".png", ".pdf", ".html", ".json")


def encoded(release: Release, form: str) -> bytes:
    """Return an answer in one of FORMATS, with its intervals. A failure is a refusal: the answer was charged."""
    try:
        return _ENCODERS[form](release)
    except Exception:  # noqa: S110 - whatever a library says, the answer itself is shown instead
        pass
    raise BadParameter(
        f"The answer could not be written as {form}.",
        "The program that writes this format gave up.",
        "The answer itself is kept: ask the same again at no cost, in another format.",
    )


def format_of(output: Path | None, form: str | None) -> str:
    """Return the format that was asked for, or the one that the name of the file means."""
    if form is not None:
        return form
    if output is None:
        return "table"
    if output.suffix.lower() in ENDINGS:
        return ENDINGS[output.suffix.lower()]
    raise BadParameter(
        f"{shown(output.name)} does not say its format.",
        "The format is read from the end of the name.",
        f"End it in one of {', '.join(ENDINGS)}, or add --format.",
    )


def check_writable(path: Path) -> None:
    """Refuse a place that cannot be written to, before anything is charged; only answers are written over."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise _not_written(path)
    if path.exists() and path.suffix.lower() not in (*ENDINGS, *PICTURES):
        raise _somebody_elses(path)


def check_apart(path: Path, policy: Policy) -> None:
    """Refuse to write among the data, where an answer could take the place of a table or become one."""
    source = policy.source.path
    if source is not None and path.resolve().is_relative_to(source.resolve()):
        raise _somebody_elses(path)


def check_plot(path: Path) -> None:
    """Refuse a picture that could not be drawn, before anything is charged."""
    if path.suffix.lower() not in PICTURES:
        raise BadParameter(
            f"{shown(path.name)} names no kind of picture.",
            "The kind is read from the end of the name.",
            f"End it in one of {', '.join(PICTURES)}.",
        )
    if find_spec("altair") is None or find_spec("vl_convert") is None:
        raise BadParameter("No picture can be drawn.", "Altair is not installed.", "Run: pip install 'sfumato[plot]'.")
    check_writable(path)


class Drawn(Protocol):
    """Whatever can be drawn: a release, or what a workshop found."""

    def plot(self) -> Any:
        """Return a chart."""


def write_plot(answer: Drawn, path: Path) -> None:
    """Draw the answer into a file. It was shown before: whatever goes wrong here does not lose it."""
    chart = answer.plot()
    failure = _not_drawn(path)
    try:
        chart.save(str(path))
        return
    except (KeyboardInterrupt, SystemExit):
        raise
    except OSError:
        failure = _not_written(path)
    except BaseException:  # noqa: S110 - the converter is written in Rust: its panics are no Exceptions
        pass
    raise failure


def write_file(content: bytes, path: Path) -> None:
    """Write an answer into a file."""
    try:
        path.write_bytes(content)
    except OSError:
        raise _not_written(path) from None


def _somebody_elses(path: Path) -> BadParameter:
    return BadParameter(
        f"{shown(str(path))} is no place for an answer.",
        "It is among the data, or a file that is no answer, and neither is written over.",
        "Name another file.",
    )


def _not_written(path: Path) -> BadParameter:
    return BadParameter(
        f"{shown(str(path))} cannot be written.",
        "The folder is missing, or may not be written to.",
        "Name a file in a folder of yours; asking the same again is free.",
    )


def _not_drawn(path: Path) -> BadParameter:
    return BadParameter(
        f"{shown(str(path))} could not be drawn.",
        "The program that makes pictures gave up.",
        "The answer itself is kept: ask the same again at no cost, with --format or another kind of picture.",
    )


def _table(release: Release) -> bytes:
    return f"{release}\n".encode()


def _json(release: Release) -> bytes:
    content = {
        "columns": list(release.columns),
        "rows": [{name: _plain(value) for name, value in row.items()} for row in release.rows()],
        "level": 0.95,
        "intervals": [{name: _plain(value) for name, value in row.items()} for row in release.intervals()],
        "loss": {"epsilon": str(release.loss.epsilon), "delta": str(release.loss.delta)},
        "notes": list(release.notes),
        "receipt": json.loads(receipt_to_json(release.receipt)),
    }
    return f"{to_json(content)}\n".encode()


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(end) for end in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return value.isoformat() if isinstance(value, date | datetime) else str(value)


def _csv(release: Release) -> bytes:
    table = release.to_arrow(with_intervals=True)
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


def _arrow(release: Release) -> bytes:
    table = release.to_arrow(with_intervals=True)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _markdown(release: Release) -> bytes:
    lines = [_row(release.columns), "|" + " --- |" * len(release.columns)]
    for row, ends in zip(release.rows(), release.intervals(), strict=True):
        pairs = {name: end if isinstance(end, tuple) else None for name, end in ends.items()}
        lines.append(_row([shown_value(row[name], pairs[name]) for name in release.columns]))
    lines += ["", f"cost: {release.loss}; ± at 95 %", *(f"note: {visible(note)}" for note in release.notes)]
    return ("\n".join(lines) + "\n").encode()


def _row(cells: tuple[str, ...] | list[str]) -> str:
    return "".join(f"| {for_markdown(cell)} " for cell in cells) + "|"


_ENCODERS: dict[str, Callable[[Release], bytes]] = {
    "table": _table,
    "json": _json,
    "csv": _csv,
    "arrow": _arrow,
    "markdown": _markdown,
}
