"""How the tables of a PostgreSQL server are copied: into tables of random names, in a schema of our own."""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.engines.cohort_set import CohortSet
from sfumato.engines.duckdb.shape import read_shape
from sfumato.engines.engine import Limits, Progress
from sfumato.engines.postgres.build import ServerBuild, public_rows, relation
from sfumato.engines.postgres.cohorts import write_cohorts
from sfumato.engines.postgres.connection import SCHEMA, close, connect, execute
from sfumato.engines.postgres.source import ServerTable, check_own_schema, read_schema
from sfumato.engines.public_store import write_public_store
from sfumato.engines.snapshot_manifest import keyed_digest
from sfumato.engines.snapshot_paths import places_of
from sfumato.engines.snapshots import BuildDirectory, identity_of
from sfumato.engines.sql.bounded_copy import CopiedTable
from sfumato.engines.sql.builder import select
from sfumato.engines.sql.names import literal, quoted
from sfumato.engines.sql.private_tables import write_private_tables
from sfumato.errors import Refusal
from sfumato.policy.policy import Policy

MARKER = "m"
"""The table with one row by which we see that a crash of the server has not emptied a copy."""


@dataclass(slots=True, repr=False)
class _Built:
    """A copy in a transaction that has not been committed: if we die, the server throws it away."""

    stamp: str
    file: Path
    connection: Any
    cohorts: CohortSet | None = None

    def commit(self) -> None:
        """Make the tables of the copy durable."""
        try:
            execute(self.connection, "COMMIT")
        finally:
            close(self.connection)

    def discard(self) -> None:
        """Throw the tables away unless they were committed: the server does when the connection ends."""
        close(self.connection)


@dataclass(frozen=True, slots=True)
class ServerCopying:
    """`snapshots.Copying` of tables on a PostgreSQL server."""

    policy: Policy = field(repr=False)
    limits: Limits
    stamps_tell_all: bool = False
    """The server's counters of changes lag, and begin anew."""

    def check_place(self) -> None:
        """Refuse a source that is not there."""
        close(connect(self.policy.source.target)[0])

    def stamp(self, salt: bytes) -> str:
        """Return which tables there are and how often each was changed, as far as the server has counted."""
        connection, schema = connect(self.policy.source.target)
        try:
            return _stamp(connection, read_schema(connection, schema, self.policy), salt)
        finally:
            close(connection)

    def build(self, aside: BuildDirectory, salt: bytes, progress: Progress) -> _Built:
        """Build the copy in one transaction, over one snapshot of all tables; a server does not tell what is new."""
        connection, schema = connect(self.policy.source.target)
        try:
            check_own_schema(connection)
            sources = read_schema(connection, schema, self.policy)
            execute(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ")
            execute(connection, "SET LOCAL lock_timeout = '10s'")
            # Sorting runs that fit into the processor's memory and merging them is quicker than sorting all at once;
            # each of a few processes holds one or two of these at a time, which a small server can spare.
            execute(connection, "SET LOCAL work_mem = '16MB'")
            # what a worker hands over costs less than the values that it computes; the planner takes them for cheap
            execute(connection, "SET LOCAL parallel_tuple_cost = 0.01")
            execute(connection, "SET LOCAL jit = off")  # compiling our long expressions takes longer than running them
            stamp = _stamp(connection, sources, salt)
            aside.folder.mkdir(mode=0o700)
            copied, cohorts = self._tables(connection, aside.identity, sources, salt, progress)
            write_public_store(
                aside.folder / "copy", copied, public_rows(connection, self.policy, sources), self.limits
            )
        except BaseException:
            close(connection)
            raise
        return _Built(stamp, aside.folder / "copy", connection, cohorts)

    def _tables(
        self, connection: Any, identity: str, sources: dict[str, ServerTable], salt: bytes, progress: Progress
    ) -> tuple[list[CopiedTable], CohortSet | None]:
        counts = {
            name: execute(connection, select("count(*)", source.part.relation))[0][0]
            for name, source in sources.items()
        }
        build = ServerBuild(connection, identity, self.policy, sources, counts)
        build.bring_salt(salt)
        copied = write_private_tables(build, progress)
        cohorts = None if self.policy.cohort is None else write_cohorts(build, salt)
        build.drop(["salt"])
        build.create_table_as(relation(identity, MARKER), "SELECT 1 AS here")
        execute(connection, f"COMMENT ON TABLE {relation(identity, MARKER)} IS {literal(self._dataset(salt))}")
        return copied, cohorts

    def shape(self, file: Path) -> tuple[CopiedTable, ...] | None:
        """Return what is public about a copy; None where the server has lost it."""
        tables = read_shape(file, self.limits)
        connection, _ = connect(self.policy.source.target)
        try:
            return tables if is_whole(connection, identity_of(file)) else None
        finally:
            close(connection)

    def sweep(self, salt: bytes, kept: Collection[str]) -> None:
        """Drop the tables of copies of this dataset whose files are gone."""
        connection, _ = connect(self.policy.source.target)
        try:
            execute(connection, "SET lock_timeout = '2s'")
            for (name,) in execute(
                connection,
                "SELECT c.relname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n "
                "ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r' AND c.relname LIKE 'c\\_%%\\_m' "
                "AND pg_catalog.obj_description(c.oid, 'pg_class') = %s",
                [SCHEMA, self._dataset(salt)],
            ):
                if name.split("_")[1] not in kept:
                    _drop(connection, name.split("_")[1])
        finally:
            close(connection)

    def _dataset(self, salt: bytes) -> str:
        """Return a name that tells our copies from those of other datasets in the schema. It reveals nothing."""
        return keyed_digest(salt, "dataset", str(places_of(self.policy).ledger.resolve()))[:32]


def is_whole(connection: Any, identity: str) -> bool:
    """Tell whether a copy is still there: who made the tables unlogged has none left after a crash."""
    try:
        return execute(connection, select("here", relation(identity, MARKER))) == [(1,)]
    except Refusal:
        return False


def _drop(connection: Any, identity: str) -> None:
    names = execute(
        connection,
        "SELECT c.relname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relkind = 'r' AND starts_with(CAST(c.relname AS text), %s)",
        [SCHEMA, f"c_{identity}_"],
    )
    if names:
        listed = ", ".join(f"{SCHEMA}.{quoted(name)}" for (name,) in names)
        execute(connection, f"DROP TABLE IF EXISTS {listed}")


def _stamp(connection: Any, sources: dict[str, ServerTable], salt: bytes) -> str:
    lines = [
        execute(
            connection,
            "SELECT c.oid, c.relfilenode, pg_catalog.pg_stat_get_tuples_inserted(c.oid), "
            "pg_catalog.pg_stat_get_tuples_updated(c.oid), pg_catalog.pg_stat_get_tuples_deleted(c.oid) "
            "FROM pg_catalog.pg_class AS c WHERE c.oid = %s",
            [sources[name].oid],
        )
        for name in sorted(sources)
    ]
    return keyed_digest(salt, "stamp", lines)
