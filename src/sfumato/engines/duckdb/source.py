"""Where the tables of a file source lie, and what columns they have: read from names and headers, never from rows."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

import duckdb

from sfumato.engines.duckdb.column import check_range
from sfumato.engines.duckdb.column import stored as as_stored
from sfumato.engines.duckdb.connection import STAGE, execute, starless
from sfumato.engines.duckdb.csv_records import Malformed, header
from sfumato.engines.sql.column import Part, Stored, check_type
from sfumato.engines.sql.names import literal, quoted
from sfumato.errors import BadSource, shown
from sfumato.policy.policy import Column, Location, Policy, Table, fold

ENDINGS = {"parquet": (".parquet",), "csv": (".csv", ".csv.gz")}
SOURCE = "source"
"""The name under which a DuckDB source is attached."""
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True, repr=False)
class SourceTable:
    """A table as the source has it."""

    relation: str
    """SQL that stands after FROM, with the types on which the engine lets all rows agree: for public tables."""
    columns: tuple[tuple[str, Stored], ...]
    parts: tuple[Part, ...]
    """The same rows, each with the type it is stored in: for people's, which are read one by one."""
    files: "Files | None" = None
    """None in a DuckDB file. A CSV table can be read when its files have been loaded: see `loading`."""

    def column(self, name: str) -> Stored | None:
        """Return the column of this name in any case, or None."""
        return next((stored for known, stored in self.columns if fold(known) == fold(name)), None)


@dataclass(frozen=True, slots=True, repr=False)
class Files:
    """The files of one table, in the order of their names."""

    root: Path
    paths: tuple[Path, ...]

    def name(self, path: Path) -> str:
        """Return what the owner calls a file: its path below the table's folder."""
        return shown(str(path.relative_to(self.root)))

    def partition(self, path: Path) -> dict[str, str | None]:
        """Return what the folders of a file say: names and values of its partition columns."""
        parts = [part.partition("=") for part in path.relative_to(self.root).parts[:-1] if "=" in part]
        return {key: None if value == _NO_VALUE else unquote(value) for key, _, value in parts}

    @property
    def partitions(self) -> set[tuple[str, ...]]:
        """The names of the partition columns, as each file's folders spell them."""
        return {
            tuple(part.partition("=")[0] for part in path.relative_to(self.root).parts[:-1] if "=" in part)
            for path in self.paths
        }


def check_place(location: Location) -> None:
    """Refuse a source that is not there."""
    _place(location)


def source_root(location: Location) -> Path:
    """Return the folder in which the files of the source have their names."""
    path = _place(location)
    return path if path.is_dir() else path.parent


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


def read_schema(
    connection: duckdb.DuckDBPyConnection, policy: Policy, instead: Mapping[str, Files] | None = None
) -> dict[str, SourceTable]:
    """Find every table of the policy in the source and check its columns, or refuse by the policy's own key.

    `instead` names other files to read than the source's, by table.
    """
    found = {}
    for table in policy.tables:
        if policy.source.scheme == "duckdb":
            source = _attached(connection, table)
        else:
            files = (instead or {}).get(table.name) or files_of(policy.source, table)
            source = _filed(connection, policy, table, files)
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
        for part in source.parts:
            check_type(table.name, column, part.column(column.name))
            check_range(table.name, column, part.column(column.name))


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
        raise BadSource("The source path does not exist.", "There is no data to protect.", "Check the path in source.")
    return location.path


def _data_files(folder: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    for parent, below, names in os.walk(folder):
        below[:] = [name for name in below if not name.startswith((".", "_"))]
        for name in names:
            if name.lower().endswith(endings) and not name.startswith((".", "_")):
                path = Path(parent) / name
                if not path.is_file():  # whoever opened a pipe would wait for ever
                    raise BadSource(
                        "source holds something that is called like a file of data and is none.",
                        "A link that leads nowhere, or a pipe, cannot be read like a file.",
                        "Remove it, or put the file in its place.",
                    )
                yield path


def _filed(connection: duckdb.DuckDBPyConnection, policy: Policy, table: Table, files: Files) -> SourceTable:
    partitions = files.partitions
    if len(partitions) > 1:
        raise BadSource(
            f"tables.{table.name} has files with different partition columns.",
            "Every file of a table lies equally deep, below folders of the same names.",
            "Move the files that differ.",
        )
    keys = next(iter(partitions))
    if policy.source.scheme == "csv":
        return _csv(policy, table, files, keys)
    everything = _parquet(connection, files, keys)
    alike = _stored_alike(connection, files)
    parts = tuple(_parquet(connection, group, keys) for group in alike) if len(alike) > 1 else (everything,)
    # where files disagree, the column is what the first of them that knows says
    columns = {fold(name): (name, stored) for part in reversed(parts) for name, stored in part.columns}
    return SourceTable(everything.relation, tuple(columns.values()), parts, files)


def _parquet(connection: duckdb.DuckDBPyConnection, files: Files, keys: tuple[str, ...]) -> Part:
    options = "hive_partitioning = true, hive_types_autocast = false" if keys else "hive_partitioning = false"
    relation = f"read_parquet({_listed(files)}, union_by_name = true, {options})"
    return Part(relation, _described(connection, relation, {fold(key) for key in keys}))


def _stored_alike(connection: duckdb.DuckDBPyConnection, files: Files) -> list[Files]:
    """Put the files together that have the same columns of the same types: in which type a value lies is its own."""
    if len(files.paths) == 1:
        return [files]
    fields = "name, type, type_length, num_children, converted_type, scale, precision, logical_type"
    found = execute(
        connection,
        f"SELECT file_name, list_sort(list(row({fields})::VARCHAR))::VARCHAR "  # noqa: S608
        f"FROM parquet_schema({_listed(files)}) GROUP BY file_name",
    )
    schemas = dict(found)
    groups: dict[str | None, list[Path]] = {}
    for path in files.paths:
        groups.setdefault(schemas.get(str(path)), []).append(path)
    return [replace(files, paths=tuple(paths)) for paths in groups.values()]


def files_of(location: Location, table: Table) -> Files:
    """Find the files of one table, or refuse."""
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


def _csv(policy: Policy, table: Table, files: Files, keys: tuple[str, ...]) -> SourceTable:
    """Name the table that the files will be loaded into: as text, in one dialect. A guess would depend on people."""
    headers = {_header(table, files, path) for path in files.paths}
    if len(headers) > 1:
        raise BadSource(
            f"tables.{table.name} has files with different headers.",
            "Every file of a table has the same columns in the same order.",
            "Give them the same first line.",
        )
    names = next(iter(headers))
    if len({fold(name) for name in (*names, *keys)}) != len(names) + len(keys) or "" in names or not names:
        raise BadSource(
            f"tables.{table.name} has a header with an empty or a repeated name.",
            "The first line names the columns; names match whatever their case.",
            "Name every column once.",
        )
    relation = f"{STAGE}.csv{policy.tables.index(table)}"
    columns = tuple((name, as_stored(quoted(name), "VARCHAR", raw=True)) for name in (*names, *keys))
    return SourceTable(relation, columns, (Part(relation, columns),), files)


def _header(table: Table, files: Files, path: Path) -> tuple[str, ...]:
    try:
        return header(path)
    except Malformed as malformed:
        refusal = not_csv(table.name, files, path, malformed)
    raise refusal


def not_csv(table: str, files: Files, path: Path, malformed: Malformed) -> BadSource:
    """Return the refusal of a file that is not CSV: it is its owner who reads this, and nobody else."""
    where = "" if malformed.line is None else f" in line {malformed.line}"
    return BadSource(
        f"tables.{table}: the file {files.name(path)} cannot be read as CSV{where}: {malformed.why}.",
        "A CSV file is UTF-8 text with commas, the names of the columns in its first line, and quotation marks around "
        "fields that hold commas, line ends or quotation marks. One wrong record would change how others are read.",
        "Correct that line, or write the file again with a program that quotes such fields.",
    )


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
    columns = _described(connection, relation, set())
    return SourceTable(relation, columns, (Part(relation, columns),))


def _described(connection: duckdb.DuckDBPyConnection, relation: str, raw: set[str]) -> tuple[tuple[str, Stored], ...]:
    rows = execute(connection, f"DESCRIBE SELECT * FROM {relation}")  # noqa: S608
    return tuple((name, as_stored(quoted(name), kind, fold(name) in raw)) for name, kind, *_ in rows)
