"""One build of a bounded copy in DuckDB: the source, the database `stage` of what is thrown away, and `copy`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb

from sfumato.engines.duckdb.column import AS_TYPES, READING
from sfumato.engines.duckdb.connection import BEFORE, COPY, STAGE, execute
from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.duckdb.source import SourceTable
from sfumato.engines.engine import Progress
from sfumato.engines.sql.bounded_copy import CopiedColumn, CopiedTable, count_rows, require_all
from sfumato.engines.sql.build_protocol import source_table
from sfumato.engines.sql.builder import create_table_as, delete, insert_select, select
from sfumato.engines.sql.column import Kind, Part, Stored, ValueForms
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.names import quoted
from sfumato.engines.sql.private_tables import write_private_table
from sfumato.policy.policy import Column, Policy, Table, fold_name


@dataclass(frozen=True, slots=True, repr=False)
class Build:
    """One build under way: a connection with `copy` and `stage` attached, the source's schema, the salt."""

    connection: duckdb.DuckDBPyConnection
    policy: Policy
    sources: dict[str, SourceTable]
    salt: bytes
    read: Mapping[str, int]
    """How many rows each table of the source has, by those who count them without reading them: see `loading`."""
    added: Mapping[str, Sequence[Part]] = field(default_factory=dict)
    """The rows that arrived since the copy before, by the folded name of each table that is not written anew."""
    carried: frozenset[str] = frozenset()
    """The tables that the file of the copy has from the copy before."""
    dialect: Dialect = DUCKDB
    reading: ValueForms = READING
    salt_sql: str = "$salt"
    """A parameter: nothing that is logged or fails here holds its value."""
    salt_join: str = ""
    staging: str = STAGE
    """The database of intermediate tables: in a file, or in memory, where nothing is compressed to be read once."""

    def source(self, name: str) -> SourceTable:
        """Return the source's table of this name."""
        return source_table(self.sources, name)

    def parts(self, table: str) -> Sequence[Part]:
        """Return the rows of a table of the source, those together that are stored alike."""
        return self.source(table).parts

    def new_files(self, table: str) -> Sequence[Part] | None:
        """Return the rows of a private table that were added since the copy before; None: it is written anew."""
        return self.added.get(fold_name(table))

    def before(self, table: str) -> str:
        """Return how a table of the copy before is named."""
        return f"{BEFORE}.main.{quoted(table)}"

    def stage(self, name: str) -> str:
        """Return how an intermediate table is named."""
        return f"{self.staging}.{name}"

    def copy_relation(self, table: str) -> str:
        """Return how a table of the copy is named."""
        return f"{COPY}.main.{quoted(table)}"

    def create_table_as(self, relation: str, query: str, *, salted: bool = False) -> None:
        """Write the rows of a query, in its order, into a new table; `salted`: the query holds `salt_sql`."""
        execute(self.connection, create_table_as(relation, query), {"salt": self.salt.hex()} if salted else None)

    def append_rows(self, relation: str, query: str) -> None:
        """Write the rows of a query, in its order, behind those of a table of the copy."""
        execute(self.connection, insert_select(relation, query))

    def is_carried_over(self, relation: str) -> bool:
        """Whether a table of the copy holds what the copy before has of it; else it does not exist yet."""
        return relation in self.carried

    def delete_rows(self, relation: str, where: str) -> None:
        """Remove rows of a table that was carried over."""
        execute(self.connection, delete(relation, where))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query about the build itself."""
        return execute(self.connection, query)

    def drop(self, names: Sequence[str]) -> None:
        """Throw intermediate tables away that there may be."""
        for name in names:
            execute(self.connection, f"DROP TABLE IF EXISTS {self.stage(name)}")


def build_table(build: Build, table: Table, progress: Progress) -> list[CopiedTable]:
    """Write one table of the copy, and what belongs to it."""
    if table.public:
        progress("copy", table.name)
        return [_public(build, table)]
    return write_private_table(build, table, progress)


def _public(build: Build, table: Table) -> CopiedTable:
    source = build.source(table.name)
    stored_columns = {fold_name(name): stored for name, stored in source.columns}
    columns = [(name, stored.sql) for name, stored in source.columns]
    if table.columns:
        columns = [
            (column.name, _as_declared(column, stored_columns[fold_name(column.name)])) for column in table.columns
        ]
    target = build.copy_relation(table.name)
    build.create_table_as(target, select([f"{sql} AS {quoted(name)}" for name, sql in columns], source.relation))
    require_all(table, build.read[table.name] == count_rows(build, target))
    described = build.rows(f"DESCRIBE {target}")
    return CopiedTable(table.name, tuple(CopiedColumn(name, kind) for name, kind, *_ in described), None)


def _as_declared(column: Column, stored: Stored) -> str:
    """Return a public value as it is; text of a CSV file is read as what it was declared."""
    if stored.kind is Kind.EACH:
        stored = replace(stored, sql=f"CAST({stored.sql} AS VARCHAR)")
    elif stored.kind is not Kind.RAW:
        return stored.sql
    return f"TRY_CAST({stored.sql} AS {AS_TYPES[column.type]})"
