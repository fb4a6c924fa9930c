"""Of which files a copy was made: a mark of each, kept in the copy, so that the next one can tell what arrived.

A mark is a file's name, size and time under the salt, never a digest of what is in it. Where a file vanished or has
another mark, or where others say whose the rows of a table are, the table is written anew (proofs/bounded_copy.md §5d).
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sfumato.engines.duckdb.connection import COPY, Connection, execute
from sfumato.engines.duckdb.file_listing import source_root
from sfumato.engines.duckdb.shape import SHAPE
from sfumato.engines.duckdb.source import Files, files_of
from sfumato.engines.snapshot_manifest import keyed_digest
from sfumato.engines.sql.builder import insert, select
from sfumato.planning.bounding.truncation import CUT
from sfumato.policy.canonical import referenced_tables
from sfumato.policy.policy import Location, Policy, Table, UnitPath, fold_name

_FILES = f"{SHAPE}.files"
_COUNTS = f"{SHAPE}.counted"
MarkedFiles = Mapping[str, Mapping[str, Path]]
"""The files of every table by their marks, under the folded name of the table."""


@dataclass(frozen=True, slots=True, repr=False)
class PreviousCopy:
    """The earlier copy's record of its source; all names of tables are folded."""

    marks: Mapping[str, frozenset[str]]
    rows: Mapping[str, int]
    """How many rows each table had."""
    copied: frozenset[str]
    """The tables of the copy, those of losses among them."""


NO_PREVIOUS_COPY = PreviousCopy({}, {}, frozenset())
"""Of a copy that there is not, or that does not say of what it was made."""


def digest_files(policy: Policy, location: Location, salt: bytes) -> MarkedFiles:
    """Return the files of a source that is a file or a folder, as they are now."""
    root = source_root(location)
    return {fold_name(table.name): _files_by_digest(root, files_of(location, table), salt) for table in policy.tables}


def _files_by_digest(root: Path, files: Files, salt: bytes) -> dict[str, Path]:
    found = {}
    for path in files.paths:
        status = path.stat()
        found[keyed_digest(salt, "file", [os.path.relpath(path, root), status.st_size, status.st_mtime_ns])] = path
    return found


def write_marks(connection: Connection, marks: MarkedFiles, rows: Mapping[str, int]) -> None:
    """Write down of which files the copy is made, and how many rows each table has: the shape is there already."""
    execute(connection, f"CREATE TABLE {COPY}.{_FILES} (tab VARCHAR, mark VARCHAR)")
    execute(connection, f"CREATE TABLE {COPY}.{_COUNTS} (tab VARCHAR, n BIGINT)")
    for table, files in marks.items():
        execute(connection, insert(f"{COPY}.{_COUNTS}", ["$1", "$2"]), [table, rows[table]])
        execute(connection, f"INSERT INTO {COPY}.{_FILES} SELECT $1, unnest($2)", [table, list(files)])


def read_marks(connection: Connection, database: str) -> PreviousCopy:
    """Return what a copy that is attached says of its source."""
    known = (
        "SELECT count(*) FROM duckdb_tables() WHERE database_name = $1 AND schema_name || '.' || table_name IN ($2, $3)"
    )
    if execute(connection, known, [database, _FILES, _COUNTS]) != [(2,)]:
        return NO_PREVIOUS_COPY
    files = execute(connection, select("tab, list(mark)", f"{database}.{_FILES}", group_by="tab"))
    rows = execute(connection, select("tab, n", f"{database}.{_COUNTS}"))
    copied = execute(connection, select("DISTINCT tab", f"{database}.{SHAPE}.columns"))
    return PreviousCopy(
        {table: frozenset(marks) for table, marks in files},
        {table: int(n) for table, n in rows},
        frozenset(fold_name(name) for (name,) in copied),
    )


def added_files(policy: Policy, before: PreviousCopy, now: MarkedFiles) -> dict[str, tuple[Path, ...]]:
    """Return the files that were added, maybe none, of each private table that need not be written anew."""
    grown = {name: _grown(before.marks.get(name, frozenset()), files) for name, files in now.items()}
    added = {}
    for table in policy.tables:
        new = grown.get(fold_name(table.name))
        losses = policy.budget.truncation is None or fold_name(table.name + CUT) in before.copied
        if new is not None and not (table.public or table.has_two_owners) and losses and _is_alone(table, grown):
            added[fold_name(table.name)] = tuple(sorted(new))
    return added


def _grown(before: frozenset[str], now: Mapping[str, Path]) -> list[Path] | None:
    """Return the files that were added; None where one of the others is not as it was."""
    if not before or not before <= now.keys():
        return None
    return [path for mark, path in now.items() if mark not in before]


def _is_alone(table: Table, grown: Mapping[str, list[Path] | None]) -> bool:
    """Tell whether the tables are as they were that say whose the rows of a table are, or which keys it has."""
    others = [*referenced_tables(table), *([table.name] if isinstance(table.unit, UnitPath) else [])]
    return all(grown[fold_name(name)] == [] for name in others)
