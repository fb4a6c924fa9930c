"""Read tables, columns and types of a source from names and headers, without reading values."""

import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from sfumato.engines.duckdb.connection import Connection, closed_connection, execute
from sfumato.engines.duckdb.duckdb_file import SOURCE, can_be_read, database_tables
from sfumato.engines.duckdb.file_listing import ENDINGS, LOGS, source_files
from sfumato.engines.duckdb.schemes import CSV, DUCKDB, FILES, PARQUET, SQLITE
from sfumato.engines.duckdb.source import SourceTable, attached, read_schema
from sfumato.engines.duckdb.sqlite_file import SqliteFile, SqliteTable, begins_as_sqlite
from sfumato.engines.duckdb.streamed import StreamedSource
from sfumato.engines.engine import Limits
from sfumato.engines.sql.column import TYPES, Kind, Stored
from sfumato.errors import BadParameter, BadPolicy, BadSource, quote_value
from sfumato.policy.entry import Entry, check_name
from sfumato.policy.policy import PLAIN, ColumnType, CsvFormat, Location, fold_name
from sfumato.policy.reading import read_policy
from sfumato.policy_draft.csv_form import infer_csv_form
from sfumato.policy_draft.naming import Names

_TYPES = {**TYPES, Kind.RAW: ColumnType.TEXT}
_SCALE = re.compile(r"(?:DECIMAL|NUMERIC)\(\d+,\s*(\d+)\)", re.IGNORECASE)
_PART = re.compile(r"(part|data|chunk|file)?[-_.]?\d.*|part-.*|[^=]+=.*", re.IGNORECASE)
"""Files and folders that are pieces of one table: part-0001.parquet, year=2024."""
_DATABASES = (".duckdb", ".db", ".ddb", ".sqlite", ".sqlite3", ".db3")
_WORKBOOKS = (".xlsx", ".xls", ".xlsm", ".ods")
_KINDS = (PARQUET.name, CSV.name)


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """A column of the source; its type is None where no policy can declare it, by its name or by what is stored."""

    name: str
    type: ColumnType | None
    stored: Kind
    step: Fraction | None = None
    """The grid of a decimal whose type names its places."""
    comment: str = ""
    """What the source's catalogue says about it."""
    values: tuple[str, ...] = ()
    """The labels of an enumerated type."""


@dataclass(frozen=True, slots=True)
class SchemaTable:
    """A table of the source."""

    name: str
    columns: tuple[SchemaColumn, ...]
    key: str | None = None
    """The column that the source declares to be the primary key, where it does."""
    stored: str | None = None
    """Name in the source, SCHEMA.TABLE, where the table name alone is ambiguous."""
    references: tuple[tuple[str, str, str], ...] = ()
    """Foreign keys that the source declares: the column here, the table and the column there."""
    comment: str = ""

    @property
    def names(self) -> Names:
        """Names of the table and its columns."""
        return Names(self.name, tuple(column.name for column in self.columns), self.key)

    def column(self, name: str) -> SchemaColumn | None:
        """Return the column of this name in any case, or None."""
        return next((column for column in self.columns if fold_name(column.name) == fold_name(name)), None)


@dataclass(frozen=True, slots=True)
class SourceSchema:
    """A source: how it is read, where it lies, and its tables."""

    scheme: str
    path: Path | None
    """None where the source is not a file or a folder."""
    tables: tuple[SchemaTable, ...]
    csv: CsvFormat = PLAIN
    """How its CSV files are written."""
    ignored: tuple[str, ...] = ()
    """Workbooks that lie among the files, and are not read."""
    unreadable: tuple[str, ...] = ()
    """Views of a database that name what is not there, and tables that may not be read."""
    other_schemas: tuple[str, ...] = ()
    """Other schemas of the same database that hold tables."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tables."""
        return tuple(table.name for table in self.tables)


def read_source_schema(path: Path, csv: Mapping[str, object] | None = None) -> SourceSchema:
    """Read names and types of a file, a folder, a DuckDB or a SQLite database. No row is read.

    `csv` is what the owner says about the form of CSV files; the rest of it is found.
    """
    with open_source(path, csv) as (schema, _, _):
        return schema


@contextmanager
def open_source(
    path: Path, csv: Mapping[str, object] | None = None
) -> Iterator[tuple[SourceSchema, Connection, dict[str, SourceTable]]]:
    """Give the schema together with a connection that can read this source and nothing else."""
    place = path.absolute()
    scheme = _scheme(place, path)
    location = Location(scheme, str(place), place)
    with closing(closed_connection([place], Limits())) as connection, attached(connection, location) as streams:
        names = _source_tables(connection, scheme, place, streams)
        if not names:
            raise _empty_source(path)
        policy = read_policy(  # every table as a public one: then its columns are whatever the source has
            {
                "source": f"{scheme}:{place}",
                "ledger": f"sqlite:{place}.ledger",
                "budget": {"epsilon": 1, "delta": 0},
                "tables": {name: {"public": True, **({"from": of} if of else {})} for name, of in names.items()},
            }
        )
        policy = replace(policy, csv=_csv_form(location, csv or {}))
        found = read_schema(connection, policy, streams)
        keys = _primary_keys(connection) if scheme == DUCKDB.name else {}
        tables = tuple(
            SchemaTable(
                name,
                tuple(map(schema_column, table.columns)),
                table.stream.key if isinstance(table.stream, SqliteTable) else keys.get(names[name] or f"main.{name}"),
                names[name],
            )
            for name, table in found.items()
        )
        unreadable = _unreadable(connection, scheme, streams)
        yield SourceSchema(scheme, place, tables, policy.csv, _workbooks(place), unreadable), connection, found


def _csv_form(location: Location, options: Mapping[str, object]) -> CsvFormat:
    """Return how the CSV files of a source are written; where there are none, nothing can be said of them."""
    files = [] if location.scheme in LOGS else source_files(location)
    written = [path for path in files if path.name.lower().endswith(ENDINGS[CSV.name])]
    if options and not written:
        raise no_csv(options)
    return infer_csv_form(written, options) if written else PLAIN


def no_csv(options: Mapping[str, object]) -> BadParameter:
    """Return the refusal of options about CSV files where there are none."""
    return BadParameter(
        f"--csv {next(iter(options))}=… has no effect.", "There is no CSV file in the data.", "Remove the option."
    )


def schema_column(column: tuple[str, Stored]) -> SchemaColumn:
    """Return what a policy can declare of a column of the source."""
    name, stored = column
    if not _can_be_declared(name):
        return SchemaColumn(name, None, stored.kind)
    scale = _SCALE.fullmatch(stored.type)
    if scale is not None and int(scale[1]) == 0:
        return SchemaColumn(name, ColumnType.INTEGER, stored.kind)
    step = Fraction(1, 10 ** int(scale[1])) if scale is not None and int(scale[1]) <= 18 else None
    return SchemaColumn(name, _TYPES.get(stored.kind), stored.kind, step)


def _can_be_declared(name: str) -> bool:
    try:
        check_name(Entry(name), name, "column")
    except BadPolicy:
        return False
    return True


def _scheme(place: Path, typed: Path) -> str:
    if place.is_file():
        lowered = place.name.lower()
        if begins_as_sqlite(place):
            return SQLITE.name
        if lowered.endswith(_DATABASES):
            return DUCKDB.name
        schemes = [scheme for scheme in _KINDS if lowered.endswith(ENDINGS[scheme])]
    elif place.is_dir():
        schemes = [scheme for scheme in _KINDS if _stems(place, ENDINGS[scheme])]
    else:
        raise BadSource(
            f"There is no file or folder {quote_value(str(typed))}.",
            "A policy describes existing data.",
            "Check the path.",
        )
    if not schemes:
        raise _excel(typed) if place.suffix.lower() in _WORKBOOKS else _empty_source(typed)
    return FILES.name if len(schemes) > 1 else schemes[0]


def _source_tables(
    connection: Connection, scheme: str, place: Path, streams: StreamedSource | None
) -> dict[str, str | None]:
    """Return the tables of the source, each with what the source calls it where that is another name."""
    if isinstance(streams, SqliteFile):
        return dict.fromkeys(name for name in streams.names() if name not in _unreadable(connection, scheme, streams))
    return _database_tables(connection) if scheme == DUCKDB.name else _file_tables(place, ENDINGS[scheme])


def _unreadable(connection: Connection, scheme: str, streams: StreamedSource | None) -> tuple[str, ...]:
    """Return the views of a database that name what is not there."""
    if isinstance(streams, SqliteFile):
        return tuple(name for name in streams.names() if not streams.can_be_read(name))
    tables = database_tables(connection) if scheme == DUCKDB.name else []
    return tuple(name for schema, name in tables if not can_be_read(connection, schema, name))


def _file_tables(place: Path, endings: tuple[str, ...]) -> dict[str, str | None]:
    return dict.fromkeys(_stems(place, endings))


def _stems(place: Path, endings: tuple[str, ...]) -> list[str]:
    if place.is_file():
        return [_stem(place, endings)]
    entries = sorted(entry for entry in place.iterdir() if not entry.name.startswith((".", "_")))
    files = [entry for entry in entries if entry.is_file() and entry.name.lower().endswith(endings)]
    folders = [entry for entry in entries if entry.is_dir() and _holds(entry, endings)]
    pieces = [*files, *folders]
    if pieces and all(_PART.fullmatch(entry.name) for entry in pieces):
        return [place.name]
    return sorted({_stem(file, endings) for file in files} | {folder.name for folder in folders})


def _holds(folder: Path, endings: tuple[str, ...]) -> bool:
    return any(path.name.lower().endswith(endings) for path in folder.rglob("*") if path.is_file())


def _stem(path: Path, endings: tuple[str, ...]) -> str:
    ending = max((ending for ending in endings if path.name.lower().endswith(ending)), key=len)
    return path.name[: -len(ending)]


def _database_tables(connection: Connection) -> dict[str, str | None]:
    """Return the tables of all schemas; where two have one name, each is called after its schema, too."""
    readable = [table for table in database_tables(connection) if can_be_read(connection, *table)]
    names = [fold_name(name) for _, name in readable]
    return {
        name if names.count(fold_name(name)) == 1 or schema == "main" else f"{schema}_{name}": None
        if names.count(fold_name(name)) == 1 or schema == "main"
        else f"{schema}.{name}"
        for schema, name in readable
    }


def _primary_keys(connection: Connection) -> dict[str, str]:
    """Return the primary keys of one column, by table: a declaration, not a value."""
    rows = execute(
        connection,
        "SELECT schema_name || '.' || table_name, constraint_column_names FROM duckdb_constraints() "
        "WHERE database_name = $1 AND constraint_type = 'PRIMARY KEY'",
        [SOURCE],
    )
    return {name: columns[0] for name, columns in rows if len(columns) == 1}


def _empty_source(typed: Path) -> BadSource:
    return BadSource(
        f"There is no table in {quote_value(str(typed))}.",
        "A table is a Parquet or CSV file, a folder of such files, or a table of a DuckDB or SQLite file.",
        "Name a file that ends in .parquet, .csv, .tsv (also .gz or .zst) or .duckdb, a SQLite file, or a folder that "
        "holds some.",
    )


def _workbooks(place: Path) -> tuple[str, ...]:
    entries = sorted(place.iterdir()) if place.is_dir() else []
    return tuple(entry.name for entry in entries if entry.suffix.lower() in _WORKBOOKS)


def _excel(typed: Path) -> BadSource:
    return BadSource(
        f"{quote_value(str(typed))} is a workbook.",
        "A workbook has sheets, formulas and formats; what one cell means can depend on others.",
        'Save each sheet as "CSV UTF-8" under the name of its table, and name that file or its folder.',
    )
