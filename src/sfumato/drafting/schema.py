"""What data says about itself without a look at it: tables, columns and types, from names and headers."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from sfumato.drafting.naming import Names
from sfumato.engines.duckdb.connection import Connection, closed_connection, execute
from sfumato.engines.duckdb.source import ENDINGS, SOURCE, SourceTable, attach_source, read_schema
from sfumato.engines.engine import Limits
from sfumato.engines.sql.column import TYPES, Kind, Stored
from sfumato.errors import BadPolicy, BadSource, shown
from sfumato.policy.entry import Entry, check_name
from sfumato.policy.policy import ColumnType, fold
from sfumato.policy.reading import read_policy

_TYPES = {**TYPES, Kind.RAW: ColumnType.TEXT}
_SCALE = re.compile(r"DECIMAL\(\d+,\s*(\d+)\)")
_PART = re.compile(r"(part|data|chunk|file)?[-_.]?\d.*|part-.*|[^=]+=.*", re.IGNORECASE)
"""Files and folders that are pieces of one table: part-0001.parquet, year=2024."""
_DATABASES = (".duckdb", ".db", ".ddb")


@dataclass(frozen=True, slots=True)
class SeenColumn:
    """A column of the source; its type is None where no policy can declare it, by its name or by what is stored."""

    name: str
    type: ColumnType | None
    stored: Kind
    step: Fraction | None = None
    """The grid of a decimal whose type names its places."""


@dataclass(frozen=True, slots=True)
class SeenTable:
    """A table of the source."""

    name: str
    columns: tuple[SeenColumn, ...]
    key: str | None = None
    """The column that the source declares to be the primary key, where it does."""

    @property
    def names(self) -> Names:
        """What the table and its columns are called."""
        return Names(self.name, tuple(column.name for column in self.columns), self.key)

    def column(self, name: str) -> SeenColumn | None:
        """Return the column of this name in any case, or None."""
        return next((column for column in self.columns if fold(column.name) == fold(name)), None)


@dataclass(frozen=True, slots=True)
class Seen:
    """A source: how it is read, where it lies, and its tables."""

    scheme: str
    path: Path
    tables: tuple[SeenTable, ...]


def see(path: Path) -> Seen:
    """Read names and types of a file, a folder or a DuckDB database. No row is read."""
    with connected(path) as (seen, _, _):
        return seen


@contextmanager
def connected(path: Path) -> Iterator[tuple[Seen, Connection, dict[str, SourceTable]]]:
    """Give the schema together with a connection that can read this source and nothing else."""
    place = path.absolute()
    scheme = _scheme(place, path)
    connection = closed_connection([place], Limits())
    try:
        names = _database_tables(connection, place) if scheme == "duckdb" else _file_tables(place, ENDINGS[scheme])
        if not names:
            raise _nothing(path)
        policy = read_policy(  # every table as a public one: then its columns are whatever the source has
            {
                "source": f"{scheme}:{place}",
                "ledger": f"sqlite:{place}.ledger",
                "budget": {"epsilon": 1, "delta": 0},
                "tables": {name: {"public": True} for name in names},
            }
        )
        if scheme == "duckdb":
            execute(connection, f"DETACH {SOURCE}")
            attach_source(connection, policy.source)
        found = read_schema(connection, policy)
        keys = _primary_keys(connection) if scheme == "duckdb" else {}
        tables = tuple(
            SeenTable(name, tuple(map(_column, table.columns)), keys.get(name)) for name, table in found.items()
        )
        yield Seen(scheme, place, tables), connection, found
    finally:
        connection.close()


def _column(column: tuple[str, Stored]) -> SeenColumn:
    name, stored = column
    if not _can_be_declared(name):
        return SeenColumn(name, None, stored.kind)
    scale = _SCALE.fullmatch(stored.type)
    if scale is not None and int(scale[1]) == 0:
        return SeenColumn(name, ColumnType.INTEGER, stored.kind)
    step = Fraction(1, 10 ** int(scale[1])) if scale is not None and int(scale[1]) <= 18 else None
    return SeenColumn(name, _TYPES.get(stored.kind), stored.kind, step)


def _can_be_declared(name: str) -> bool:
    try:
        check_name(Entry(name), name, "column")
    except BadPolicy:
        return False
    return True


def _scheme(place: Path, typed: Path) -> str:
    if place.is_file():
        lowered = place.name.lower()
        if lowered.endswith(_DATABASES):
            return "duckdb"
        found = [scheme for scheme, endings in ENDINGS.items() if lowered.endswith(endings)]
    elif place.is_dir():
        found = [scheme for scheme, endings in ENDINGS.items() if _file_tables(place, endings)]
    else:
        raise BadSource(
            f"There is no file or folder {shown(str(typed))}.", "A policy is about data.", "Check the path."
        )
    if len(found) > 1:
        raise BadSource(
            f"The folder {shown(str(typed))} holds Parquet and CSV files.",
            "A source is read in one way.",
            "Move one kind into a folder of its own.",
        )
    if not found:
        raise _nothing(typed)
    return found[0]


def _file_tables(place: Path, endings: tuple[str, ...]) -> list[str]:
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


def _database_tables(connection: Connection, place: Path) -> list[str]:
    escaped = str(place).replace("'", "''")
    execute(connection, f"ATTACH '{escaped}' AS {SOURCE} (READ_ONLY)")
    rows = execute(
        connection,
        "SELECT table_name FROM information_schema.tables "
        "WHERE table_catalog = $1 AND table_schema = 'main' ORDER BY table_name",
        [SOURCE],
    )
    return [name for (name,) in rows]


def _primary_keys(connection: Connection) -> dict[str, str]:
    """Return the primary keys of one column, by table: a declaration, not a value."""
    rows = execute(
        connection,
        "SELECT table_name, constraint_column_names FROM duckdb_constraints() "
        "WHERE database_name = $1 AND schema_name = 'main' AND constraint_type = 'PRIMARY KEY'",
        [SOURCE],
    )
    return {name: columns[0] for name, columns in rows if len(columns) == 1}


def _nothing(typed: Path) -> BadSource:
    return BadSource(
        f"There is no table in {shown(str(typed))}.",
        "A table is a Parquet or CSV file, a folder of such files, or a table of a DuckDB file.",
        "Name a file that ends in .parquet, .csv, .csv.gz or .duckdb, or a folder that holds some.",
    )
