"""Tables and views of a DuckDB file: attached for reading, found by name, described by their columns."""

from pathlib import Path

import duckdb

from sfumato.engines.duckdb.column import stored as as_stored
from sfumato.engines.duckdb.connection import execute
from sfumato.engines.duckdb.sqlite_file import begins_as_sqlite
from sfumato.engines.snapshot_paths import question_mark
from sfumato.engines.sql.builder import select
from sfumato.engines.sql.column import Stored
from sfumato.engines.sql.names import literal, quoted
from sfumato.errors import BadSource, EngineFailed
from sfumato.policy.policy import Table, fold_name

SOURCE = "source"
"""The name under which the file is attached."""


def attach(connection: duckdb.DuckDBPyConnection, place: Path) -> None:
    """Attach a file for reading, or refuse."""
    if "?" in str(place):
        raise question_mark("database")
    try:
        connection.execute(f"ATTACH {literal(str(place))} AS {SOURCE} (READ_ONLY)")
        return
    except duckdb.Error as error:
        refusal = _not_duckdb(place, str(error).lower())
    raise refusal


def _not_duckdb(place: Path, words: str) -> BadSource:
    """Return the refusal of a file that DuckDB does not open; its own words, which hold the path, only decide which."""
    if begins_as_sqlite(place):
        return BadSource(
            "The source is a SQLite database.",
            "The scheme duckdb: reads DuckDB files only.",
            "Write sqlite: instead of duckdb: in source.",
        )
    if "lock on file" in words:
        return BadSource(
            "Another program has the DuckDB file open for writing.",
            "DuckDB allows no other readers during that time.",
            "Close that program, or its connection, and try again; or let it write a copy: EXPORT DATABASE 'FOLDER' "
            "(FORMAT parquet), and name that folder.",
        )
    if "newer version" in words or "version number" in words:
        return BadSource(
            "The DuckDB file was written by another version of DuckDB than the one installed here.",
            f"DuckDB {duckdb.__version__} does not read its format.",
            "Install the newer version here; or write the file there for an older one: ATTACH 'FILE' (STORAGE_VERSION "
            "'v1.2.0'), then COPY FROM DATABASE.",
        )
    return BadSource(
        "The source is not a DuckDB database.",
        "The file is empty, damaged, encrypted or in another format.",
        "Check that DuckDB opens the file, and correct source.",
    )


def database_tables(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    """Return schema and name of every table and view of an attached database."""
    rows = execute(
        connection,
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = $1 ORDER BY ALL",
        [SOURCE],
    )
    return [(schema, name) for schema, name in rows]


def can_be_read(connection: duckdb.DuckDBPyConnection, schema: str, name: str) -> bool:
    """Tell whether a table or view of an attached database has columns; a view may name what is not there."""
    try:
        described(connection, f"{SOURCE}.{quoted(schema)}.{quoted(name)}", set())
    except EngineFailed:
        return False
    return True


def find_table(table: Table, tables: list[tuple[str, str]]) -> tuple[str, str]:
    """Return the table that a policy means: SCHEMA.TABLE, or the one of that name in main, or in any schema."""
    wanted = fold_name(table.stored or table.name)
    found = [path for path in tables if fold_name(".".join(path)) == wanted]
    found = found or [path for path in tables if path[0] == "main" and fold_name(path[1]) == wanted]
    found = found or [path for path in tables if fold_name(path[1]) == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        raise BadSource(
            f"tables.{table.name} is in the source more than once, in different schemas.",
            "A table is one table of the source; names are not case-sensitive.",
            f'Write from = "SCHEMA.TABLE" in [tables.{table.name}].',
        )
    raise BadSource(
        f"tables.{table.name} is not in the source.",
        "A table of a DuckDB file is looked for in its schema main, and then in the others.",
        'Correct the name, write from = "SCHEMA.TABLE", or remove the table from the policy.',
    )


def described(connection: duckdb.DuckDBPyConnection, relation: str, raw: set[str]) -> tuple[tuple[str, Stored], ...]:
    """Return the columns of a relation with the types that the engine sees; `raw` are texts not parsed yet."""
    rows = execute(connection, f"DESCRIBE {select('*', relation)}")
    return tuple((name, as_stored(quoted(name), kind, fold_name(name) in raw)) for name, kind, *_ in rows)
