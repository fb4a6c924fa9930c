"""One build of a bounded copy in PostgreSQL: in one transaction, over one snapshot of the source."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sfumato.diagnostics import record_engine_failure
from sfumato.engines.postgres.column import READING
from sfumato.engines.postgres.connection import SCHEMA, copy_in, execute, is_of_the_server
from sfumato.engines.postgres.dialect import POSTGRES
from sfumato.engines.postgres.source import ServerTable
from sfumato.engines.public_store import PublicBatches, declared_columns
from sfumato.engines.sql.build_protocol import copied_name, source_table
from sfumato.engines.sql.builder import insert_select, select, subquery
from sfumato.engines.sql.column import Kind, Part, Stored, ValueForms
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.names import quoted
from sfumato.errors import EngineFailed
from sfumato.policy.policy import Policy, Table

_FETCH_ROWS = 10_000
_PUBLIC = {
    Kind.INTEGER: "BIGINT",
    Kind.DECIMAL: "DOUBLE",
    Kind.FLOATING: "DOUBLE",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.CLOCK: "TIMESTAMP",
    Kind.TEXT: "VARCHAR",
}
"""What the columns of public tables become beside the ledger; those of another kind do not exist for a query."""


_READ_WHOLE = ("rows", "chosen", "lost")
"""Intermediate tables of which the planner need not know more than their size."""
_PARTITION_SETTINGS = {
    "min_parallel_table_scan_size": "'4TB'",  # a part is the work of one process, which reads all of the source
    "enable_hashagg": "off",  # the planner does not know how many groups there are: nearly as many as rows
}
"""Settings of the statement that draws rows, part of the people by part, so that each part is given to a process."""
_PRECISE = re.compile(r"numeric\((\d+),(-?\d+)\)")
_DIGITS = 38


def relation(identity: str, name: str) -> str:
    """Return a table of a copy: its name is the copy's random id and what it is to us, never a name of the source."""
    return f"{SCHEMA}.{quoted(f'c_{identity}_{name}')}"


@dataclass(frozen=True, slots=True, repr=False)
class ServerBuild:
    """`sql.copy.Building`: a connection in a transaction, the source's schema, and the salt in a table of its own."""

    connection: Any
    identity: str
    policy: Policy
    sources: Mapping[str, ServerTable]
    read: Mapping[str, int]
    dialect: Dialect = POSTGRES
    reading: ValueForms = READING
    salt_join: str = ""

    @property
    def salt_sql(self) -> str:
        """The salt is read where it lies: literals and parameters are logged."""
        return subquery(select("salt", self.stage("salt")))

    def bring_salt(self, salt: bytes) -> None:
        """Send the salt by COPY: its data is in no log."""
        execute(self.connection, f"CREATE UNLOGGED TABLE {self.stage('salt')} (salt text)")
        copy_in(self.connection, self.stage("salt"), iter([(salt.hex(),)]))

    def source(self, name: str) -> ServerTable:
        """Return the source's table of this name."""
        return source_table(self.sources, name)

    def parts(self, table: str) -> Sequence[Part]:
        """Return the rows of a table of the source: they are all stored alike."""
        return [self.source(table).part]

    def new_files(self, table: str) -> None:
        """Return nothing: a server does not tell which rows are new, so that every table is written anew."""

    def before(self, table: str) -> str:
        """Refuse: no table is carried over."""
        raise AssertionError(f"{table} is written again")

    def stage(self, name: str) -> str:
        """Return how an intermediate table is named; none of them outlives the transaction."""
        return relation(self.identity, f"s_{name}")

    def copy_relation(self, table: str) -> str:
        """Return how a table of the copy is named."""
        return relation(self.identity, copied_name(self.policy, table))

    def create_table_as(self, relation: str, query: str, *, salted: bool = False) -> None:
        """Write the rows of a query, in its order, into a new table with statistics for the planner."""
        parted = relation == self.stage("chosen")
        for setting, value in _PARTITION_SETTINGS.items() if parted else ():
            execute(self.connection, f"SET LOCAL {setting} = {value}")
        execute(self.connection, f"CREATE UNLOGGED TABLE {relation} AS {query}")
        for setting in _PARTITION_SETTINGS if parted else ():
            execute(self.connection, f"SET LOCAL {setting} TO DEFAULT")
        if relation not in map(self.stage, _READ_WHOLE):
            execute(self.connection, f"ANALYZE {relation}")

    def append_rows(self, relation: str, query: str) -> None:
        """Write the rows of a query, in its order, behind those of a table of the copy."""
        execute(self.connection, insert_select(relation, query))

    def is_carried_over(self, relation: str) -> bool:
        """Tell that no table is: each is written anew."""
        return False

    def delete_rows(self, relation: str, where: str) -> None:
        """Refuse: no table is carried over."""
        raise AssertionError(f"{relation} is written again")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query about the build itself."""
        return execute(self.connection, query)

    def drop(self, names: Sequence[str]) -> None:
        """Throw intermediate tables away that there may be."""
        for name in names:
            execute(self.connection, f"DROP TABLE IF EXISTS {self.stage(name)}")


def public_rows(connection: Any, policy: Policy, sources: Mapping[str, ServerTable]) -> PublicBatches:
    """Return the public tables of the source, as texts that are read again beside the ledger."""
    return {table.name: _public(connection, table, sources[table.name]) for table in policy.tables if table.public}


def _public(connection: Any, table: Table, source: ServerTable) -> tuple[dict[str, str], pa.RecordBatchReader]:
    columns = declared_columns(table, [column for column in source.part.columns if column[1].kind in _PUBLIC])
    names = [f"c{at}" for at in range(len(columns))]
    listed = [f"{_as_text(stored)} AS {name}" for name, (_, stored) in zip(names, columns, strict=True)]
    query = select(listed or "0", source.part.relation)
    schema = pa.schema([(name, pa.string()) for name in names or ["c0"]])
    read = {
        name: f"TRY_CAST({at} AS {_public_type(stored)})" for at, (name, stored) in zip(names, columns, strict=True)
    }
    batches = _batches(connection, query, schema, f"public{source.oid}")
    return read, pa.RecordBatchReader.from_batches(schema, batches)


def _public_type(stored: Stored) -> str:
    """Return the type beside the ledger: a numeric of few enough digits stays exact, or an integer."""
    precise = _PRECISE.fullmatch(stored.type)
    if precise and 0 <= int(precise[2]) <= int(precise[1]) <= _DIGITS:
        return f"DECIMAL({precise[1]},{precise[2]})" if int(precise[2]) else "HUGEINT"
    return _PUBLIC[stored.kind]


def _as_text(stored: Stored) -> str:
    zoned = stored.type.endswith("with time zone")
    value = f"({stored.sql} AT TIME ZONE 'UTC')" if zoned else stored.sql
    return f"CAST(CAST({value} AS text) AS text)"


def _batches(connection: Any, query: str, schema: pa.Schema, name: str) -> Iterator[pa.RecordBatch]:
    try:
        with connection.cursor(name=name) as cursor:
            cursor.execute(query)
            while rows := cursor.fetchmany(_FETCH_ROWS):
                yield pa.record_batch([_texts(rows, at) for at in range(len(schema))], schema=schema)
        return
    except Exception as error:
        if not is_of_the_server(error):
            raise
        record_engine_failure(error, query)
    raise EngineFailed()


def _texts(rows: list[tuple[Any, ...]], at: int) -> pa.Array:
    return pa.array([None if row[at] is None else str(row[at]) for row in rows], pa.string())
