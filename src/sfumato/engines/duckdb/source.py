"""Places of the tables of a file source, and their columns: read from names and headers, never from rows."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.engines.duckdb.column import alone, check_range, said, written_as
from sfumato.engines.duckdb.column import stored as as_stored
from sfumato.engines.duckdb.connection import STAGE, execute, registered, starless
from sfumato.engines.duckdb.csv_records import Malformed, beginning, header, likely_delimiter
from sfumato.engines.duckdb.duckdb_file import SOURCE, attach, can_be_read, database_tables, described, find_table
from sfumato.engines.duckdb.file_listing import ENDINGS, data_files, source_path
from sfumato.engines.duckdb.frames import Frames
from sfumato.engines.duckdb.sqlite_file import opened
from sfumato.engines.duckdb.streamed import StreamedColumn, StreamedSource, StreamedTable
from sfumato.engines.sql.builder import select
from sfumato.engines.sql.column import Kind, Part, Stored, check_type
from sfumato.engines.sql.names import literal, quoted
from sfumato.errors import BadSource, EngineFailed, quote_value
from sfumato.policy.policy import Column, Location, Policy, Table, by_folded_name, fold_name

LOADED_SCHEMA = "loaded"
"""How the tables of the stage begin that files and batches are loaded into."""
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
    stream: StreamedTable | None = None
    """Where rows come as batches: it can be read when they have been loaded."""
    _named: Mapping[str, Stored] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_named", by_folded_name(self.columns))

    def column(self, name: str) -> Stored | None:
        """Return the column of this name in any case, or None."""
        return self._named.get(fold_name(name))


@dataclass(frozen=True, slots=True, repr=False)
class Files:
    """The files of one table, in the order of their names."""

    root: Path
    paths: tuple[Path, ...]

    @property
    def csv(self) -> bool:
        """Whether the files are CSV; a table is of one kind."""
        return not self.paths[0].name.lower().endswith(ENDINGS["parquet"])

    def name(self, path: Path) -> str:
        """Return what the owner calls a file: its path below the table's folder."""
        return quote_value(str(path.relative_to(self.root)))

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


@contextmanager
def attached(connection: duckdb.DuckDBPyConnection, location: Location) -> Iterator[StreamedSource | None]:
    """Attach a DuckDB source for reading, or give one whose rows come as batches; others are read file by file."""
    if location.scheme == "frames":
        yield Frames(location)
    elif location.scheme == "sqlite":
        with opened(source_path(location)) as file:
            yield file
    else:
        if location.scheme == "duckdb":
            attach(connection, source_path(location))
        yield None


def read_schema(
    connection: duckdb.DuckDBPyConnection,
    policy: Policy,
    streams: StreamedSource | None = None,
    instead: Mapping[str, Files] | None = None,
) -> dict[str, SourceTable]:
    """Find every table of the policy in the source and check its columns, or refuse by the policy's own key.

    `streams` is what `attached` gave; `instead` names other files to read than the source's, by table.
    """
    found = {}
    for table in policy.tables:
        if streams is not None:
            source = _streamed_table(connection, policy, table, streams.table(table))
        elif policy.source.scheme == "duckdb":
            source = _attached_table(connection, table)
        else:
            files = (instead or {}).get(table.name) or files_of(policy.source, table)
            source = _file_table(connection, policy, table, files, LOADED_SCHEMA)
        source = _as_written(policy, table, source)
        for column in table.columns:
            if source.column(column.name) is None:
                raise _other_delimiter(policy, table, source) or no_column(table, column.name)
            _check(table, column, source)
        for key in foreign_keys(policy, table):
            if source.column(key) is None:
                raise no_column(table, key)
        found[table.name] = source
    return found


def _other_delimiter(policy: Policy, table: Table, source: SourceTable) -> BadSource | None:
    """Return the refusal of a CSV table whose first line has another delimiter than the policy says; else None."""
    if source.files is None or not source.files.csv:
        return None
    for path in source.files.paths:
        try:
            likely = likely_delimiter(beginning(path))
            names = header(path, replace(policy.csv, delimiter=likely, decimal="."))
        except Malformed:
            continue
        if likely != policy.csv.delimiter and len(names) > 1:
            tab = "\\t" if likely == "\t" else likely
            return BadSource(
                f"tables.{table.name} has fields that are not separated by "
                f"{'a comma' if policy.csv.delimiter == ',' else quote_value(policy.csv.delimiter)}.",
                f"The first line of its file uses {'tabs' if likely == chr(9) else quote_value(likely)}.",
                f'Write in the policy: [csv] delimiter = "{tab}".',
            )
    return None


def read_files(
    connection: duckdb.DuckDBPyConnection, policy: Policy, table: Table, files: Files, loaded: str = LOADED_SCHEMA
) -> SourceTable:
    """Return what some files of a table hold; `loaded` is how tables begin that CSV files will be loaded into."""
    return _as_written(policy, table, _file_table(connection, policy, table, files, loaded))


def _as_written(policy: Policy, table: Table, source: SourceTable) -> SourceTable:
    """Return the table with its texts read in the forms that the policy names: dates, numbers, truth values."""

    def changed(columns: tuple[tuple[str, Stored], ...]) -> tuple[tuple[str, Stored], ...]:
        return tuple(
            (name, stored if (column := table.column(name)) is None else written_as(column, stored, policy.csv))
            for name, stored in columns
        )

    parts = tuple(replace(part, columns=changed(part.columns)) for part in source.parts)
    return replace(source, columns=changed(source.columns), parts=parts)


def foreign_keys(policy: Policy, table: Table) -> list[str]:
    """Return the columns of a public table that others take their keys from: it may leave them undeclared."""
    columns = [column for other in policy.tables for column in other.columns]
    values = [column.values for column in columns if column.values is not None and not isinstance(column.values, tuple)]
    return [reference.column for reference in values if fold_name(reference.table) == fold_name(table.name)]


def _check(table: Table, column: Column, source: SourceTable) -> None:
    stored = source.column(column.name)
    if stored is None:
        raise no_column(table, column.name)
    check_type(table.name, column, stored)
    if not table.public:
        for part in source.parts:
            check_type(table.name, column, part.column(column.name))
            check_range(table.name, column, part.column(column.name))


def no_column(table: Table, column: str) -> BadSource:
    """Return the refusal of a column that the source does not have."""
    return BadSource(
        f"tables.{table.name}.columns.{column} is not in the source.",
        "A declared column must exist in every file of its table; the index of a pandas frame is not a column.",
        "Correct the name, or remove it from the policy; reset_index() makes columns of an index.",
    )


def _file_table(
    connection: duckdb.DuckDBPyConnection, policy: Policy, table: Table, files: Files, loaded: str
) -> SourceTable:
    partitions = files.partitions
    if len(partitions) > 1:
        raise BadSource(
            f"tables.{table.name} has files with different partition columns.",
            "All files of a table must lie at the same depth, in folders with the same names.",
            "Move the files that differ.",
        )
    keys = next(iter(partitions))
    if any(replace(files, paths=(path,)).csv != files.csv for path in files.paths):
        raise BadSource(
            f"tables.{table.name} has Parquet and CSV files.",
            "A table must use one format; otherwise the type of a value would depend on its file.",
            "Move one kind into a separate folder.",
        )
    if files.csv:
        return _csv(policy, table, files, keys, loaded)
    everything = _checked_parquet(connection, table, files, keys)
    alike = _stored_alike(connection, files)
    parts = tuple(_parquet(connection, group, keys) for group in alike) if len(alike) > 1 else (everything,)
    # where files disagree, the column is what the first of them that knows says
    columns = {fold_name(name): (name, stored) for part in reversed(parts) for name, stored in part.columns}
    return SourceTable(everything.relation, tuple(columns.values()), parts, files)


def _checked_parquet(connection: duckdb.DuckDBPyConnection, table: Table, files: Files, keys: tuple[str, ...]) -> Part:
    try:
        return _parquet(connection, files, keys)
    except EngineFailed as failure:
        refusal = next((found for path in files.paths if (found := not_parquet(table, files, path))), failure)
    raise refusal


def not_parquet(table: Table, files: Files, path: Path) -> BadSource | None:
    """Return the refusal of a file without a valid footer. Errors further inside are found when rows are read."""
    try:
        empty = path.stat().st_size == 0
        pq.read_metadata(path)
        return None
    except (pa.ArrowException, OSError, ValueError):
        pass
    return BadSource(
        f"tables.{table.name}: the file {files.name(path)} is {'empty' if empty else 'not a Parquet file'}.",
        "The file is incomplete, damaged or in another format.",
        "Write the file again, or remove it.",
    )


def _parquet(connection: duckdb.DuckDBPyConnection, files: Files, keys: tuple[str, ...]) -> Part:
    options = "hive_partitioning = true, hive_types_autocast = false" if keys else "hive_partitioning = false"
    relation = f"read_parquet({_file_list(files)}, union_by_name = true, {options})"
    return Part(relation, described(connection, relation, {fold_name(key) for key in keys}))


def _stored_alike(connection: duckdb.DuckDBPyConnection, files: Files) -> list[Files]:
    """Put the files together that have the same columns of the same types: in which type a value lies is its own."""
    if len(files.paths) == 1:
        return [files]
    fields = "name, type, type_length, num_children, converted_type, scale, precision, logical_type"
    listed = f"file_name, list_sort(list(row({fields})::VARCHAR))::VARCHAR"
    schemas = dict(execute(connection, select(listed, f"parquet_schema({_file_list(files)})", group_by="file_name")))
    groups: dict[str | None, list[Path]] = {}
    for path in files.paths:
        groups.setdefault(schemas.get(str(path)), []).append(path)
    return [replace(files, paths=tuple(paths)) for paths in groups.values()]


def files_of(location: Location, table: Table) -> Files:
    """Find the files of one table, or refuse."""
    path, endings, name = source_path(location), ENDINGS[location.scheme], fold_name(table.stored or table.name)
    if path.is_file():
        found = [Files(path.parent, (path,))] if _stem(path, endings) == name else []
    else:
        entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith((".", "_")))
        found = [Files(path, (entry,)) for entry in entries if _is_table(entry, name, endings)]
        folders = [entry for entry in entries if entry.is_dir() and fold_name(entry.name) == name]
        if not found and not folders and fold_name(path.name) == name:
            folders = [path]
        found += [Files(folder, tuple(sorted(data_files(folder, endings)))) for folder in folders]
    found = [files for files in found if files.paths]
    if len(found) == 1:
        return found[0]
    if found:
        raise BadSource(
            f"tables.{table.name} is in the source more than once.",
            "A table is one file or one folder of files; names are not case-sensitive.",
            "Keep one of them.",
        )
    raise BadSource(
        f"tables.{table.name} is not in the source.",
        f"A table is a file called NAME{endings[0]}, or a folder NAME of such files.",
        "Correct the name, or remove the table from the policy.",
    )


def _is_table(entry: Path, name: str, endings: tuple[str, ...]) -> bool:
    return entry.is_file() and entry.name.lower().endswith(endings) and _stem(entry, endings) == name


def _stem(path: Path, endings: tuple[str, ...]) -> str:
    ending = max((ending for ending in endings if path.name.lower().endswith(ending)), key=len, default="")
    return fold_name(path.name[: len(path.name) - len(ending)] if ending else path.stem)


def _file_list(files: Files) -> str:
    return f"[{', '.join(literal(starless(path)) for path in files.paths)}]"


def _csv(policy: Policy, table: Table, files: Files, keys: tuple[str, ...], loaded: str) -> SourceTable:
    """Name the table that the files will be loaded into: as text, in one dialect. A guess would depend on people."""
    headers = {_header(policy, table, files, path) for path in files.paths}
    if len(headers) > 1:
        raise BadSource(
            f"tables.{table.name} has files with different headers.",
            "Every file of a table has the same columns in the same order.",
            "Give them the same first line.",
        )
    names = next(iter(headers))
    if len({fold_name(name) for name in (*names, *keys)}) != len(names) + len(keys) or "" in names or not names:
        raise BadSource(
            f"tables.{table.name} has a header with an empty or a repeated name.",
            "The first line names the columns; names are not case-sensitive.",
            "Name every column once.",
        )
    relation = f"{STAGE}.{loaded}{policy.tables.index(table)}"
    columns = tuple((name, as_stored(quoted(name), "VARCHAR", raw=True)) for name in (*names, *keys))
    return SourceTable(relation, columns, (Part(relation, columns),), files)


def _header(policy: Policy, table: Table, files: Files, path: Path) -> tuple[str, ...]:
    try:
        return header(path, policy.csv)
    except Malformed as malformed:
        refusal = not_csv(table.name, files, path, malformed)
    raise refusal


def not_csv(table: str, files: Files, path: Path, malformed: Malformed) -> BadSource:
    """Return the refusal of a file that is not CSV. Only the data owner reads it."""
    where = "" if malformed.line is None else f" in line {malformed.line}"
    return BadSource(
        f"tables.{table}: the file {files.name(path)} cannot be read as CSV{where}: {malformed.why}.",
        "A CSV file is text, UTF-8 with commas unless [csv] in the policy says otherwise; its first line names the "
        "columns, and a field that holds a delimiter, a line end or a quotation mark is quoted. One wrong record would "
        "change how others are read.",
        "Correct the file, write it again with a program that quotes such fields, or say in [csv] how it is written.",
    )


def _streamed_table(
    connection: duckdb.DuckDBPyConnection, policy: Policy, table: Table, stream: StreamedTable
) -> SourceTable:
    """Name the table that the batches will be loaded into."""
    typed = [(column.name, column.type) for column in stream.columns if column.kind is None and column.read]
    types = {}
    if typed:
        with registered(connection, pa.schema(typed).empty_table()) as name:
            types = dict(described(connection, name, set()))
    declared = [column for column in stream.columns if column.kind is not Kind.OTHER or table.column(column.name)]
    columns = tuple((column.name, _stored_as(column, types)) for column in declared)
    relation = f"{STAGE}.{LOADED_SCHEMA}{policy.tables.index(table)}"
    return SourceTable(relation, columns, (Part(relation, columns),), stream=stream)


def _stored_as(column: StreamedColumn, types: Mapping[str, Stored]) -> Stored:
    if column.kind is Kind.EACH:
        return alone(quoted(column.name))
    if not column.read:
        return Stored("NULL", "NULL", column.kind or Kind.NOTHING)
    return said(quoted(column.name), column.said) if column.kind is Kind.RAW else types[column.name]


def _attached_table(connection: duckdb.DuckDBPyConnection, table: Table) -> SourceTable:
    schema, name = find_table(table, database_tables(connection))
    relation = f"{SOURCE}.{quoted(schema)}.{quoted(name)}"
    if not can_be_read(connection, schema, name):
        raise BadSource(
            f"tables.{table.name} is a view that cannot be read.",
            "A view of the source may read only tables of the same file: no other files or databases, no extensions.",
            "Make a table of it in the source, with CREATE TABLE … AS, and name that.",
        )
    columns = tuple((name, _by_code_points(column)) for name, column in described(connection, relation, set()))
    return SourceTable(relation, columns, (Part(relation, columns),))


def _by_code_points(column: Stored) -> Stored:
    """Return a text that is equal to the same text alone, whatever collation the file declares for its column.

    A collation such as NOCASE stays with a text wherever it goes. Then 'a' and 'A' would be one key, which of the two
    would be shown would depend on single rows, and conditions that exclude each other would hold of the same row.
    Proof: proofs/total_scalars.md
    """
    return replace(column, sql=f"({column.sql} COLLATE C)") if column.type == "VARCHAR" else column
