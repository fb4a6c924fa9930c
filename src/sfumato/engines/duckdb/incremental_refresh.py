"""What arrived since the copy before: the rows of files that were added to a table, read apart from the others."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sfumato.analysis.catalog import REMOVED
from sfumato.diagnostics import record_engine_failure
from sfumato.engines.duckdb.connection import BEFORE, COPY, Connection, execute
from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.duckdb.file_digests import MarkedFiles, added_files, read_marks
from sfumato.engines.duckdb.loading import load_table
from sfumato.engines.duckdb.shape import SHAPE
from sfumato.engines.duckdb.source import Files, SourceTable, read_files
from sfumato.engines.engine import Progress
from sfumato.engines.sql.bounded_copy import hidden_columns, unit_column
from sfumato.engines.sql.column import Part
from sfumato.engines.sql.names import quoted
from sfumato.errors import EngineFailed
from sfumato.planning.bounding.truncation import CUT
from sfumato.policy.canonical import referenced_tables
from sfumato.policy.policy import Policy, Table, fold_name


@dataclass(frozen=True, slots=True, repr=False)
class Arrivals:
    """The tables of a source, ready to be read, and what arrived in those that are not written anew."""

    sources: dict[str, SourceTable]
    read: dict[str, int]
    """How many rows there are; of a table that is not written anew, how many arrived."""
    rows: dict[str, int]
    """How many rows there are, by the folded name of every table."""
    added: dict[str, tuple[Part, ...]]
    """The rows that arrived, maybe none, by the folded name of each table that is not written anew."""


def load_arrivals(
    connection: Connection, policy: Policy, found: Mapping[str, SourceTable], now: MarkedFiles, progress: Progress
) -> Arrivals:
    """Make every table readable whose rows will be read; the copy before, if there is one, is attached."""
    before = read_marks(connection, BEFORE)
    added = added_files(policy, before, now)
    added = {name: new for name, new in added.items() if _has_all_columns(connection, policy.table(name))}
    anew = [table for table in policy.tables if fold_name(table.name) not in added]
    wanted = {fold_name(name) for table in anew for name in referenced_tables(table)}
    loaded = Arrivals(dict(found), {}, dict(before.rows), {})
    for table in policy.tables:
        name, source = fold_name(table.name), found[table.name]
        new = added.get(name)
        if new is None:
            loaded.read[table.name] = loaded.rows[name] = load_table(connection, policy, table, source, progress)
            continue
        loaded.read[table.name], loaded.added[name] = 0, ()
        old, files = _split_files(source, new)
        if new:
            source = read_files(connection, policy, table, old)
            arrived = read_files(connection, policy, table, files, "added")
            loaded.read[table.name] = load_table(connection, policy, table, arrived, progress)
            loaded.rows[name] += loaded.read[table.name]
            loaded.added[name] = arrived.parts
            loaded.sources[table.name] = replace(found[table.name], parts=(*source.parts, *arrived.parts))
        if (new or name in wanted or not old.csv) and (  # the footers of Parquet say it at once
            load_table(connection, policy, table, source, progress) != before.rows[name]
        ):
            record_engine_failure("A file differs although its mark does not: everything is read again.")
            raise EngineFailed()
    return loaded


def _has_all_columns(connection: Connection, table: Table | None) -> bool:
    """Whether the copy before has every column that a row gets now: that of an older version may have fewer."""
    if table is None:
        return False
    found = {name for name, *_ in execute(connection, f"DESCRIBE {BEFORE}.main.{quoted(table.name)}")}
    return found >= set(hidden_columns(DUCKDB, table))


def carried_tables(policy: Policy, loaded: Arrivals) -> frozenset[str]:
    """Return the tables of a copy that are those of the copy before, except for people with new rows.

    Where each row is a person, rows lie in the order of their values, so that the table is written again.
    """
    names = [
        table.name
        for table in policy.tables
        if fold_name(table.name) in loaded.added and unit_column(table) is not None
    ]
    endings = ("", REMOVED, *(() if policy.budget.truncation is None else (CUT,)))
    return frozenset(f"{COPY}.main.{quoted(name + ending)}" for name in names for ending in endings)


def drop_all_but(connection: Connection, carried: frozenset[str]) -> None:
    """Leave only these tables in the file that is attached as the copy."""
    names = execute(connection, "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = $1", [COPY])
    for relation in (f"{COPY}.{schema}.{quoted(name)}" for schema, name in names):
        if relation not in carried:
            execute(connection, f"DROP TABLE {relation}")
    execute(connection, f"DROP SCHEMA IF EXISTS {COPY}.{SHAPE}")


def _split_files(source: SourceTable, new: tuple[Path, ...]) -> tuple[Files, Files]:
    """Return the files of a table that were there, and those that were added."""
    if source.files is None:
        raise AssertionError("it lies in files")
    old = tuple(path for path in source.files.paths if path not in new)
    return replace(source.files, paths=old), replace(source.files, paths=new)
