"""What `sfumato synthesize` writes: a table of synthetic rows, and a page about how far off they are."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, ipc, parquet

from sfumato.database import Database
from sfumato.errors import BadParameter, UnknownName, quote_value
from sfumato.ledger.budget import same_usage, used_text
from sfumato.policy.policy import Column, Table, fold_name
from sfumato.synthesis.report import MARK, page
from sfumato.synthesis.synthesize import synthesize
from sfumato.terminal.exports import check_apart

ENDINGS = (".parquet", ".csv", ".arrow")
_OURS = b"sfumato"


def write_synthetic(
    database: Database,
    table: str,
    columns: Sequence[str],
    epsilon: str,
    delta: str | None,
    rows: int | None,
    bins: int,
    output: Path,
    report: Path | None,
    nulls: Sequence[str] = (),
    ids: Sequence[str] = (),
    positions: Sequence[str] = (),
) -> str:
    """Synthesize a table into a file, write the page about it, and return what the command line prints."""
    paper = output.with_suffix(".html") if report is None else report
    check_files(database, output, paper)
    left_out = set(map(fold_name, ids))
    named = list(columns) or [name for name in measurable_columns(database, table) if fold_name(name) not in left_out]
    before = database.budget()
    price = database.policy.budget.query_delta if delta is None else delta
    synthetic = synthesize(
        database,
        table,
        columns=named,
        epsilon=epsilon,
        delta=price,
        rows=rows,
        bins=bins,
        nulls=nulls,
        ids=ids,
        positions=positions,
    )
    after = database.budget()
    drawn = synthetic.table()
    _write_table(output, drawn)
    try:
        paper.write_text(page(synthetic, table), encoding="utf-8")
    except OSError:
        raise _unwritable(paper) from None
    free = "It was measured before: nothing was charged. " if same_usage(before, after) else ""
    return "\n".join(
        [
            f"Measured {len(synthetic.marginals)} marginals of {', '.join(synthetic.columns)} once, with noise.",
            f"Wrote {output}: {drawn.num_rows:,} rows that are not people.",
            f"Wrote {paper}: which marginals, how far off, and pictures.",
            f"Cost: {synthetic.loss}. {free}The same again is free.",
            f"{used_text(after)}.",
        ]
    )


def measurable_columns(database: Database, table: str) -> list[str]:
    """Return the columns of a table with declared values or bounds, except its unit."""
    declared = database.visible_policy.table(table)
    if declared is None:
        raise UnknownName(
            f"There is no table {quote_value(table)} here.",
            "Only tables of the policy can be measured.",
            f"There are: {', '.join(sorted(other.name for other in database.visible_policy.tables)[:12])}.",
        )
    names = [column.name for column in declared.columns if _has_cells(declared, column)]
    if not names:
        raise BadParameter(
            f"No column of {quote_value(table)} has declared values or bounds.",
            "The policy declares what can be measured; it is never read from the data.",
            "Declare `values` or `bounds` for some of them.",
        )
    return names


def _has_cells(table: Table, column: Column) -> bool:
    return not table.names_people(column.name) and (column.values is not None or column.grid is not None)


def check_files(database: Database, output: Path, paper: Path) -> None:
    """Refuse files that could not or should not be written, before anything is charged."""
    if output.suffix.lower() not in ENDINGS:
        raise BadParameter(
            f"{quote_value(output.name)} does not say its format.",
            "The format is read from the end of the name.",
            f"End it in one of {', '.join(ENDINGS)}.",
        )
    for path in (output, paper):
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise _unwritable(path)
        check_apart(path, database.policy)
        if path.exists() and not _is_ours(path):
            raise BadParameter(
                f"{quote_value(str(path))} is already there.",
                "It was not written by this command, and is not written over.",
                "Name another file, or remove it.",
            )
    if output.resolve() == paper.resolve():
        raise BadParameter("The table and its page have one name.", "Each is a file.", "Give --report another name.")


def _is_ours(path: Path) -> bool:
    """Whether a file was written by this command before: only such a file is written over."""
    try:
        if path.suffix.lower() == ".parquet":
            return _OURS in (parquet.read_schema(path).metadata or {})
        if path.suffix.lower() == ".arrow":
            with ipc.open_file(path) as opened:
                return _OURS in (opened.schema.metadata or {})
        with path.open("rb") as opened:
            return MARK.encode() in opened.read(200)
    except (OSError, pa.ArrowException):
        return False


def _write_table(path: Path, table: pa.Table) -> None:
    marked = table.replace_schema_metadata({_OURS: b"synthetic rows"})
    try:
        match path.suffix.lower():
            case ".parquet":
                parquet.write_table(marked, path)
            case ".csv":
                csv.write_csv(table, path)
            case _:
                with ipc.new_file(path, marked.schema) as sink:
                    sink.write_table(marked)
    except OSError:
        raise _unwritable(path) from None


def _unwritable(path: Path) -> BadParameter:
    return BadParameter(
        f"{quote_value(str(path))} cannot be written.",
        "The folder is missing, or may not be written to.",
        "Name a file in a folder of yours; the same again is free.",
    )


WRITE = write_synthetic
