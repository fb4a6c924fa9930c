"""The public side of a copy whose private tables lie in another engine: in a DuckDB file beside the ledger.

Whatever is known before a charge, and exact answers over public tables, are computed here, the same for every engine;
no question about public rows reaches the engine that holds people's rows. Public rows that meet people's rows are
computed here once, and brought there.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, finalize

from sfumato.analysis.catalog import Catalog
from sfumato.engines.build_catalog import build_catalog
from sfumato.engines.duckdb.connection import COPY, closed_connection, execute
from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.duckdb.file_digests import MarkedFiles, write_marks
from sfumato.engines.duckdb.reader import Reader
from sfumato.engines.duckdb.shape import write_shape
from sfumato.engines.duckdb.tables import DuckDBTables
from sfumato.engines.engine import Limits
from sfumato.engines.snapshots import Registered
from sfumato.engines.sql.bounded_copy import CopiedColumn, CopiedTable
from sfumato.engines.sql.builder import aliased, create_table_as, select
from sfumato.engines.sql.column import Stored
from sfumato.engines.sql.names import RANK, literal, quoted
from sfumato.engines.sql.public import MaterializedTable, PublicTables
from sfumato.engines.sql.statements import Rows, query_columns
from sfumato.language.facts import Facts
from sfumato.language.rel_nodes import MaterializedNode, ProjectNode
from sfumato.policy.policy import Policy, Table, fold_name

if TYPE_CHECKING:
    import pyarrow as pa

SHELF = "memory.main"
"""Where public rows are kept that were computed once: beside the copy, in memory."""

PublicBatches = Mapping[str, tuple[Mapping[str, str], "pa.RecordBatchReader"]]
"""For each public table the SQL of its columns, and rows over which that SQL is read."""


def write_public_store(
    file: Path,
    private: Sequence[CopiedTable],
    public: PublicBatches,
    limits: Limits,
    made_of: tuple[MarkedFiles, Mapping[str, int]] = ({}, {}),
) -> None:
    """Write the file of a copy: its public tables, and the shape of all. Its folder is its owner's alone.

    `made_of`: the files of the source, where it has any, and how many rows each table has.
    """
    copied = list(private)
    with closing(closed_connection([file.parent], limits, file.parent / "spill")) as connection:
        execute(connection, f"ATTACH {literal(str(file))} AS {COPY}")
        for name, (columns, rows) in public.items():
            listed = aliased({quoted(column): sql for column, sql in columns.items()})
            target = f"{COPY}.main.{quoted(name)}"
            connection.register("rows", rows)
            execute(connection, create_table_as(target, select(listed, "rows")))
            connection.unregister("rows")
            described = execute(connection, f"DESCRIBE {target}")
            copied.append(CopiedTable(name, tuple(CopiedColumn(column, kind) for column, kind, *_ in described), None))
        write_shape(connection, copied)
        write_marks(connection, *made_of)
        execute(connection, f"DETACH {COPY}")


def declared_columns(table: Table, columns: Sequence[tuple[str, Stored]]) -> list[tuple[str, Stored]]:
    """Return the columns of a public table that the policy declares, by its names for them; all where it names none."""
    declared = {fold_name(column.name): column.name for column in table.columns}
    if not declared:
        return list(columns)
    return [(declared[fold_name(name)], stored) for name, stored in columns if fold_name(name) in declared]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class _RemoteRows:
    """Public rows that lie in the other engine, too: the same that were priced."""

    relation: str


class RemoteTables:
    """Public rows that another engine can read, each written there once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._written: WeakKeyDictionary[MaterializedTable, _RemoteRows] = WeakKeyDictionary()
        self.unused: deque[str] = deque()
        """Relations of rows that no question can read any more."""

    def bring(self, kept: MaterializedNode, write: Callable[[MaterializedTable, list[Facts]], str]) -> MaterializedNode:
        """Return a node that reads the same rows in the other engine; `write` returns the relation that it writes."""
        rows = kept.rows
        if not isinstance(rows, MaterializedTable):
            raise AssertionError("public rows are kept beside the ledger")
        with self._lock:
            found = self._written.get(rows)
            if found is None:
                found = self._written[rows] = _RemoteRows(write(rows, [item.scalar.facts for item in kept.columns]))
                finalize(rows, self.unused.append, found.relation).atexit = False
        return replace(kept, rows=found)

    def relations(self) -> list[str]:
        """Return every relation that may be there."""
        return [rows.relation for rows in self._written.values()] + list(self.unused)


class PublicStore:
    """The catalog, and what is public, of one registered source. Threads may share it, and forked processes."""

    catalog: Catalog
    version: str
    public: PublicTables

    def __init__(self, policy: Policy, registered: Registered, limits: Limits) -> None:
        self._reader = Reader(registered, limits)
        tables = DuckDBTables(policy, registered.tables, self._reader.rows, elsewhere=True)
        self._tables, _ = tables.relations()
        self.version = registered.version
        self.public = PublicTables(self._tables, self._reader.rows, DUCKDB, SHELF, brought=True)
        self.catalog = build_catalog(policy, tables, self.public)

    def ready(self) -> None:
        """Open the file again in a process that was forked."""
        self._reader.ready()

    def exact(self, show: ProjectNode) -> list[list[int | float | str | bool | None]]:
        """Return the columns of a query that reads public tables alone."""
        self.public.check(show)
        return query_columns(show, self._tables, DUCKDB, self._reader.free_rows)

    def rows(self, kept: MaterializedTable, width: int) -> Iterator[Rows]:
        """Give public rows that were computed once, some at a time: the columns by their places, and their rank."""
        listed = [*(f"c{at}" for at in range(width)), quoted(RANK)]
        return self._reader.parts(select(listed, kept.relation))

    def close(self) -> None:
        """Let go of the file."""
        self._reader.close()
