"""Where ciphertexts lie. A store inserts, removes and adds integers; it is given no key, no name and no condition."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.engines.duckdb.connection import closed_connection, execute
from sfumato.engines.engine import Limits
from sfumato.engines.sql.builder import delete, select
from sfumato.engines.sql.names import literal, quoted
from sfumato.errors import EngineFailed
from sfumato.policy.policy import Location
from sfumato.sealed.postgres_store import PostgresCipherStore

Stored = Mapping[str, npt.NDArray[np.int32]]
"""Columns by name: `t` the token of the cell, `b` the number of the batch, and limbs."""
PLACE = "j"
"""The number of a row within its cell and batch, in tables that are joined."""
JOINED_BY = ("k0", "k1", "k2", "k3")
"""128 bits that are equal for rows of one person, in tables that are joined."""
BATCH_BITS = 32
"""A place has fewer bits than this."""
_STORE = "store"


class CipherStore(Protocol):
    """A place for rows of integers."""

    def insert(self, table: str, columns: Stored) -> None:
        """Add rows in one transaction; the table is made where there is none."""

    def delete(self, table: str, batch: int) -> None:
        """Remove the rows of a batch."""

    def drop(self, table: str) -> None:
        """Remove a table."""

    def sums(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement of `sums_statement`."""


def sums_statement(table: str, limbs: Sequence[str]) -> str:
    """Return what a store is asked: every cell, whatever the question was.

    >>> sums_statement("visits 01", ["c0", "c1"])
    'SELECT t, SUM(c0), SUM(c1) FROM "visits 01" GROUP BY t'
    """
    return select(["t", *(f"SUM({limb})" for limb in limbs)], quoted(table), group_by="t")


def joined_statement(table: str, other: str, limbs: Sequence[str]) -> str:
    """Return what a store is asked about rows of `table` that meet rows of another one: all of them, by both cells.

    Pads cancel over whole cells only, so it also says which rows it added up: batch and place, as often as they met.
    """
    listed = ["a.t", "o.t", f"array_agg(CAST(a.b AS BIGINT) * {1 << BATCH_BITS} + a.{PLACE})"]
    listed += [f"SUM(a.{limb})" for limb in limbs]
    met = " AND ".join(f"a.{part} = o.{part}" for part in JOINED_BY)
    return select(listed, f"{quoted(table)} AS a JOIN {quoted(other)} AS o ON {met}", group_by="a.t, o.t")


def open_store(place: Location) -> CipherStore:
    """Return the store that a policy names. It connects when it is used."""
    return PostgresCipherStore(place.target) if place.path is None else DuckDBCipherStore(place.path)


class DuckDBCipherStore:
    """A DuckDB file, opened for each statement: the locks beside the key order who uses it."""

    def __init__(self, path: Path, limits: Limits | None = None) -> None:
        self._path = path
        self._limits = limits or Limits()

    def insert(self, table: str, columns: Stored) -> None:
        """Add rows in one transaction; the table is made where there is none."""
        self._make_folder()
        rows = pa.table({name: pa.array(column) for name, column in columns.items()})
        listed = ", ".join(f"{name} INTEGER" for name in columns)
        with self.opened() as connection:
            connection.register("given", rows)
            execute(connection, "BEGIN")
            execute(connection, f"CREATE TABLE IF NOT EXISTS {quoted(table)} ({listed})")
            execute(connection, f"INSERT INTO {quoted(table)} {select(columns, 'given')}")
            execute(connection, "COMMIT")
            execute(connection, "CHECKPOINT")

    def _make_folder(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return
        except OSError:
            pass
        raise EngineFailed()

    def delete(self, table: str, batch: int) -> None:
        """Remove the rows of a batch."""
        if self._path.exists():
            with self.opened() as connection:
                if self._has(connection, table):
                    execute(connection, delete(quoted(table), f"b = {int(batch)}"))
                    execute(connection, "CHECKPOINT")

    def drop(self, table: str) -> None:
        """Remove a table."""
        if self._path.exists():
            with self.opened() as connection:
                execute(connection, f"DROP TABLE IF EXISTS {quoted(table)}")
                execute(connection, "CHECKPOINT")

    def sums(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement of `sums_statement`."""
        with self.opened(" (READ_ONLY)") as connection:
            return execute(connection, statement)

    def _has(self, connection: duckdb.DuckDBPyConnection, table: str) -> bool:
        found = execute(connection, select("1", "duckdb_tables()", where=f"table_name = {literal(table)}"))
        return bool(found)

    def opened(self, how: str = "") -> duckdb.DuckDBPyConnection:
        """Return a connection to the file and to nothing else."""
        # a log may have been left by a process that was killed: whoever opens the file next takes it up
        logs = [Path(f"{self._path}{ending}") for ending in (".wal.checkpoint", ".wal.recovery")]
        connection = closed_connection([self._path, *logs], self._limits)
        try:
            execute(connection, f"ATTACH {literal(str(self._path))} AS {_STORE}{how}")
            execute(connection, f"USE {_STORE}")
        except EngineFailed:
            connection.close()
            raise
        return connection
