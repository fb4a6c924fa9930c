"""What arrived since the copy before: files that were added to tables of which every other file is as it was.

A copy holds a mark of each file that it was made of: name, size and time under the salt, never a digest of what is in
it. Where a file vanished or differs, or where others say whose the rows of a table are, the table is written anew.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sfumato.engines.duckdb.connection import BEFORE, COPY, Connection, execute
from sfumato.engines.duckdb.loading import load_table
from sfumato.engines.duckdb.shape import SHAPE
from sfumato.engines.duckdb.source import Files, SourceTable, files_of, read_files, source_root
from sfumato.engines.engine import Progress
from sfumato.engines.sql.column import Part
from sfumato.engines.versions import keyed
from sfumato.errors import EngineFailed
from sfumato.planning.cut_off import CUT
from sfumato.policy.canonical import leads_to
from sfumato.policy.policy import Policy, Table, UnitPath, fold

_MARKS = f"{SHAPE}.files"
_COUNTS = f"{SHAPE}.counted"
MarkedFiles = Mapping[str, Mapping[str, Path]]
"""The files of every table by their marks, under the folded name of the table."""


def marked(policy: Policy, salt: bytes) -> MarkedFiles:
    """Return the files of a source that is a file or a folder, as they are now."""
    root = source_root(policy.source)
    return {fold(table.name): _marked(root, files_of(policy.source, table), salt) for table in policy.tables}


def _marked(root: Path, files: Files, salt: bytes) -> dict[str, Path]:
    found = {}
    for path in files.paths:
        status = path.stat()
        found[keyed(salt, "file", [os.path.relpath(path, root), status.st_size, status.st_mtime_ns])] = path
    return found


def write_marks(connection: Connection, marks: MarkedFiles, rows: Mapping[str, int]) -> None:
    """Write down of which files the copy is made, and how many rows each table had: the shape is there already."""
    execute(connection, f"CREATE TABLE {COPY}.{_MARKS} (tab VARCHAR, mark VARCHAR)")
    execute(connection, f"CREATE TABLE {COPY}.{_COUNTS} (tab VARCHAR, n BIGINT)")
    for table, files in marks.items():
        execute(connection, f"INSERT INTO {COPY}.{_COUNTS} VALUES ($1, $2)", [table, rows[table]])  # noqa: S608
        execute(connection, f"INSERT INTO {COPY}.{_MARKS} SELECT $1, unnest($2)", [table, list(files)])


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
    """Make every table readable whose rows will be read; the copy before is attached, or an empty database is."""
    before = {table: int(n) for table, n in _said(connection, _COUNTS, "tab, n")}
    added = _added(connection, policy, found, now)
    anew = [table for table in policy.tables if fold(table.name) not in added]
    wanted = {fold(name) for table in anew for name in leads_to(table)}
    loaded = Arrivals(dict(found), {}, dict(before), {})
    for table in policy.tables:
        name, source = fold(table.name), found[table.name]
        new = added.get(name)
        if new is None:
            loaded.read[table.name] = loaded.rows[name] = load_table(connection, policy, table, source, progress)
            continue
        loaded.read[table.name], loaded.added[name] = 0, ()
        old = replace(new, paths=tuple(path for path in _all(source).paths if path not in new.paths))
        if new.paths:
            then = read_files(connection, policy, table, old)
            arrived = read_files(connection, policy, table, new, "added")
            loaded.read[table.name] = load_table(connection, policy, table, arrived, progress)
            loaded.rows[name] += loaded.read[table.name]
            loaded.added[name] = arrived.parts
            loaded.sources[table.name] = replace(source, parts=(*then.parts, *arrived.parts))
            source = then
        if (new.paths or name in wanted or not old.csv) and (  # the footers of Parquet say it at once
            load_table(connection, policy, table, source, progress) != before[name]
        ):
            raise EngineFailed()  # a file differs although its mark does not: everything is read again
    return loaded


def _all(source: SourceTable) -> Files:
    if source.files is None:
        raise AssertionError("it lies in files")
    return source.files


def _said(connection: Connection, relation: str, columns: str) -> list[tuple[str, str]]:
    """Return what the copy before says of its source; nothing where it does not."""
    known = "SELECT count(*) FROM duckdb_tables() WHERE database_name = $1 AND schema_name || '.' || table_name = $2"
    if execute(connection, known, [BEFORE, relation]) == [(0,)]:
        return []
    return [(table, value) for table, value in execute(connection, f"SELECT {columns} FROM {BEFORE}.{relation}")]  # noqa: S608


def _added(
    connection: Connection, policy: Policy, found: Mapping[str, SourceTable], now: MarkedFiles
) -> dict[str, Files]:
    """Return the files that were added, maybe none, of each private table that need not be written anew."""
    before: dict[str, set[str]] = {}
    for name, mark in _said(connection, _MARKS, "tab, mark"):
        before.setdefault(name, set()).add(mark)
    grown = {name: _grown(before.get(name, set()), files) for name, files in now.items()}
    main = "SELECT table_name FROM duckdb_tables() WHERE database_name = $1 AND schema_name = 'main'"
    copied = {fold(name) for (name,) in execute(connection, main, [BEFORE])}
    added = {}
    for table in policy.tables:
        new = grown.get(fold(table.name))
        losses = policy.budget.truncation is None or fold(table.name + CUT) in copied
        if new is not None and not table.public and losses and _is_alone(table, grown):
            added[fold(table.name)] = replace(_all(found[table.name]), paths=tuple(sorted(new)))
    return added


def _grown(before: set[str], now: Mapping[str, Path]) -> list[Path] | None:
    """Return the files that were added; None where one of the others is not as it was."""
    if not before or not before <= now.keys():
        return None
    return [path for mark, path in now.items() if mark not in before]


def _is_alone(table: Table, grown: Mapping[str, list[Path] | None]) -> bool:
    """Tell whether the tables are as they were that say whose the rows of a table are, or which keys it has."""
    others = [*leads_to(table), *([table.name] if isinstance(table.unit, UnitPath) else [])]
    return all(grown[fold(name)] == [] for name in others)
