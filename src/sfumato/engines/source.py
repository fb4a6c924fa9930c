"""Where the tables of a file source lie, and what columns they have: read from names and headers, never from rows."""

import csv
import gzip
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

from sfumato.engines.column_sql import Stored, check_range, check_type
from sfumato.engines.connection import execute, literal, quoted, starless
from sfumato.errors import BadSource
from sfumato.policy.policy import Column, Location, Policy, Table, fold

ENDINGS = {"parquet": (".parquet",), "csv": (".csv", ".csv.gz")}
SOURCE = "source"
"""The name under which a DuckDB source is attached."""
_LONGEST_HEADER = 2**20


@dataclass(frozen=True, slots=True, repr=False)
class SourceTable:
    """A table as the source has it."""

    relation: str
    """SQL that stands after FROM."""
    columns: tuple[tuple[str, Stored], ...]

    def column(self, name: str) -> Stored | None:
        """Return the column of this name in any case, or None."""
        return next((stored for known, stored in self.columns if fold(known) == fold(name)), None)


@dataclass(frozen=True, slots=True, repr=False)
class Files:
    """The files of one table, in the order of their names."""

    root: Path
    paths: tuple[Path, ...]

    @property
    def partitions(self) -> set[tuple[str, ...]]:
        """The names of the partition columns, as each file's folders spell them."""
        return {
            tuple(part.partition("=")[0] for part in path.relative_to(self.root).parts[:-1] if "=" in part)
            for path in self.paths
        }


def source_files(location: Location) -> list[Path]:
    """Return every file of the source, sorted; what another process does meanwhile is seen by their stamps."""
    path = _place(location)
    if location.scheme == "duckdb" or path.is_file():
        return [path, *(wal for wal in [path.with_name(f"{path.name}.wal")] if wal.exists())]
    return sorted(_data_files(path, ENDINGS[location.scheme]))


def attach_source(connection: duckdb.DuckDBPyConnection, location: Location) -> None:
    """Attach a DuckDB source for reading; the others are read file by file."""
    if location.scheme == "duckdb":
        execute(connection, f"ATTACH {literal(str(_place(location)))} AS {SOURCE} (READ_ONLY)")


def read_schema(connection: duckdb.DuckDBPyConnection, policy: Policy) -> dict[str, SourceTable]:
    """Find every table of the policy in the source and check its columns, or refuse by the policy's own key."""
    found = {}
    for table in policy.tables:
        source = _attached(connection, table) if policy.source.scheme == "duckdb" else _filed(connection, policy, table)
        for column in table.columns:
            _check(table, column, source)
        for key in _foreign_keys(policy, table):
            if source.column(key) is None:
                raise _no_column(table, key)
        found[table.name] = source
    return found


def _foreign_keys(policy: Policy, table: Table) -> list[str]:
    """Return the columns of a public table that others take their keys from: it may leave them undeclared."""
    columns = [column for other in policy.tables for column in other.columns]
    values = [column.values for column in columns if column.values is not None and not isinstance(column.values, tuple)]
    return [reference.column for reference in values if fold(reference.table) == fold(table.name)]


def _check(table: Table, column: Column, source: SourceTable) -> None:
    stored = source.column(column.name)
    if stored is None:
        raise _no_column(table, column.name)
    check_type(table.name, column, stored)
    if not table.public:
        check_range(table.name, column, stored)


def _no_column(table: Table, column: str) -> BadSource:
    return BadSource(
        f"tables.{table.name}.columns.{column} is not in the source.",
        "A declared column must exist in every file of its table.",
        "Correct the name, or remove it from the policy.",
    )


def _place(location: Location) -> Path:
    if location.path is None or location.scheme not in (*ENDINGS, "duckdb"):
        raise BadSource(
            f"source starts with {location.scheme}:.",
            "This engine reads files.",
            "Write parquet:, csv: or duckdb: with a path.",
        )
    if not location.path.exists() or (location.scheme == "duckdb" and not location.path.is_file()):
        raise BadSource("source names nothing that exists.", "There is no data to protect.", "Check the path.")
    return location.path


def _data_files(folder: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    for parent, below, names in os.walk(folder):
        below[:] = [name for name in below if not name.startswith((".", "_"))]
        for name in names:
            if name.lower().endswith(endings) and not name.startswith((".", "_")):
                yield Path(parent) / name


def _filed(connection: duckdb.DuckDBPyConnection, policy: Policy, table: Table) -> SourceTable:
    files = _files_of(policy.source, table)
    partitions = files.partitions
    if len(partitions) > 1:
        raise BadSource(
            f"tables.{table.name} has files with different partition columns.",
            "Every file of a table lies equally deep, below folders of the same names.",
            "Move the files that differ.",
        )
    keys = next(iter(partitions))
    if policy.source.scheme == "csv":
        return _csv(table, files, keys)
    options = "hive_partitioning = true, hive_types_autocast = false" if keys else "hive_partitioning = false"
    relation = f"read_parquet({_listed(files)}, union_by_name = true, {options})"
    raw = {fold(key) for key in keys}
    return SourceTable(relation, _described(connection, relation, raw))


def _files_of(location: Location, table: Table) -> Files:
    path, endings = _place(location), ENDINGS[location.scheme]
    if path.is_file():
        found = [Files(path.parent, (path,))] if _stem(path, endings) == fold(table.name) else []
    else:
        entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith((".", "_")))
        found = [Files(path, (entry,)) for entry in entries if _is_table(entry, table, endings)]
        folders = [entry for entry in entries if entry.is_dir() and fold(entry.name) == fold(table.name)]
        if not found and not folders and fold(path.name) == fold(table.name):
            folders = [path]
        found += [Files(folder, tuple(sorted(_data_files(folder, endings)))) for folder in folders]
    found = [files for files in found if files.paths]
    if len(found) == 1:
        return found[0]
    if found:
        raise BadSource(
            f"tables.{table.name} is in the source more than once.",
            "A table is one file or one folder of files; names match whatever their case.",
            "Keep one of them.",
        )
    raise BadSource(
        f"tables.{table.name} is not in the source.",
        f"A table is a file called NAME{endings[0]}, or a folder NAME of such files.",
        "Correct the name, or remove the table from the policy.",
    )


def _is_table(entry: Path, table: Table, endings: tuple[str, ...]) -> bool:
    return entry.is_file() and entry.name.lower().endswith(endings) and _stem(entry, endings) == fold(table.name)


def _stem(path: Path, endings: tuple[str, ...]) -> str:
    ending = max((ending for ending in endings if path.name.lower().endswith(ending)), key=len, default="")
    return fold(path.name[: len(path.name) - len(ending)] if ending else path.stem)


def _listed(files: Files) -> str:
    return f"[{', '.join(literal(starless(path)) for path in files.paths)}]"


def _csv(table: Table, files: Files, keys: tuple[str, ...]) -> SourceTable:
    """Read CSV as text in one fixed dialect: what an engine guesses from rows would depend on people."""
    headers = {_header(table, path) for path in files.paths}
    if len(headers) > 1:
        raise BadSource(
            f"tables.{table.name} has files with different headers.",
            "Every file of a table has the same columns in the same order.",
            "Give them the same first line.",
        )
    names = next(iter(headers))
    if len({fold(name) for name in (*names, *keys)}) != len(names) + len(keys) or "" in names:
        raise BadSource(
            f"tables.{table.name} has a header with an empty or a repeated name.",
            "The first line names the columns; names match whatever their case.",
            "Name every column once.",
        )
    types = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
    relation = (
        f"read_csv({_listed(files)}, columns = {{{types}}}, auto_detect = false, header = true, delim = ',', "
        "quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = false, null_padding = true, "
        f"ignore_errors = true, strict_mode = false, {'hive_types_autocast = false, ' if keys else ''}"
        f"hive_partitioning = {'true' if keys else 'false'})"
    )
    return SourceTable(relation, tuple((name, Stored(quoted(name), "VARCHAR", raw=True)) for name in (*names, *keys)))


def _header(table: Table, path: Path) -> tuple[str, ...]:
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as stream:
            return tuple(next(csv.reader([stream.readline(_LONGEST_HEADER)], strict=True), ()))
    except (OSError, ValueError, EOFError, csv.Error):
        raise BadSource(
            f"tables.{table.name} has a file that cannot be read as CSV.",
            "It is UTF-8 text, separated by commas, with the names of the columns in its first line.",
            "Convert the file, and check that it can be read.",
        ) from None


def _attached(connection: duckdb.DuckDBPyConnection, table: Table) -> SourceTable:
    names = execute(
        connection,
        "SELECT table_name FROM information_schema.tables WHERE table_catalog = $1 AND table_schema = 'main'",
        [SOURCE],
    )
    found = [name for (name,) in names if fold(name) == fold(table.name)]
    if not found:
        raise BadSource(
            f"tables.{table.name} is not in the source.",
            "A table of a DuckDB file is one of its schema main.",
            "Correct the name, or remove the table from the policy.",
        )
    relation = f"{SOURCE}.main.{quoted(found[0])}"
    return SourceTable(relation, _described(connection, relation, set()))


def _described(connection: duckdb.DuckDBPyConnection, relation: str, raw: set[str]) -> tuple[tuple[str, Stored], ...]:
    rows = execute(connection, f"DESCRIBE SELECT * FROM {relation}")  # noqa: S608
    return tuple((name, Stored(quoted(name), kind, fold(name) in raw)) for name, kind, *_ in rows)
