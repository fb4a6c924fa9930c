"""Stores of ciphertexts. A store inserts, deletes and adds integers; it gets no key, name or condition."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.diagnostics import record_engine_failure
from sfumato.engines.duckdb.connection import closed_connection, execute
from sfumato.engines.engine import Limits
from sfumato.engines.sql.builder import delete, select
from sfumato.engines.sql.names import literal, quoted
from sfumato.errors import EngineFailed
from sfumato.policy.policy import Location
from sfumato.sealed.postgres_store import PostgresCipherStore

StoredColumns = Mapping[str, npt.NDArray[np.int32]]
"""Columns by name: `t` the token of the cell, `b` the number of the batch, and limbs."""
ROW_NUMBER = "j"
"""The number of a row within its cell and batch, in tables that are joined."""
JOIN_COLUMNS = ("k0", "k1", "k2", "k3")
"""128 bits that are equal for rows of one unit, in tables that are joined."""
BATCH_BITS = 32
"""Row numbers have fewer bits than this."""
_STORE = "store"


class CipherStore(Protocol):
    """A store for rows of integers."""

    def insert(self, table: str, columns: StoredColumns) -> None:
        """Add rows in one transaction; the table is made where there is none."""

    def delete(self, table: str, batch: int) -> None:
        """Remove the rows of a batch."""

    def drop(self, table: str) -> None:
        """Remove a table."""

    def sums(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement of `sums_statement`."""


def sums_statement(table: str, limbs: Sequence[str]) -> str:
    """Return the statement for a store: every cell, for every query.

    >>> sums_statement("visits 01", ["c0", "c1"])
    'SELECT t, SUM(c0), SUM(c1) FROM "visits 01" GROUP BY t'
    """
    return select(["t", *(f"SUM({limb})" for limb in limbs)], quoted(table), group_by="t")


def joined_statement(table: str, other: str, limbs: Sequence[str]) -> str:
    """Return the statement for all rows of `table` joined with rows of another table, by both cells.

    Pads cancel over whole cells only, so it also returns the batch and number of each added row, once per match.
    """
    items = ["a.t", "o.t", f"array_agg(CAST(a.b AS BIGINT) * {1 << BATCH_BITS} + a.{ROW_NUMBER})"]
    items += [f"SUM(a.{limb})" for limb in limbs]
    equal = " AND ".join(f"a.{part} = o.{part}" for part in JOIN_COLUMNS)
    joined = f"{quoted(table)} AS a JOIN {quoted(other)} AS o ON {equal}"
    return select(items, joined, group_by="a.t, o.t")


def open_store(location: Location) -> CipherStore:
    """Return the store that a policy names; it connects when it is used."""
    return PostgresCipherStore(location.target) if location.path is None else DuckDBCipherStore(location.path)


class DuckDBCipherStore:
    """A DuckDB file, opened for each statement under the locks beside the key."""

    def __init__(self, path: Path, limits: Limits | None = None) -> None:
        self._path = path
        self._limits = limits or Limits()

    def insert(self, table: str, columns: StoredColumns) -> None:
        """Add rows in one transaction; the table is made where there is none."""
        self._make_folder()
        rows = pa.table({name: pa.array(column) for name, column in columns.items()})
        column_list = ", ".join(f"{name} INTEGER" for name in columns)
        with self.open_connection() as connection:
            connection.register("given", rows)
            execute(connection, "BEGIN")
            execute(connection, f"CREATE TABLE IF NOT EXISTS {quoted(table)} ({column_list})")
            execute(connection, f"INSERT INTO {quoted(table)} {select(columns, 'given')}")
            execute(connection, "COMMIT")
            execute(connection, "CHECKPOINT")

    def _make_folder(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return
        except OSError as error:
            record_engine_failure(error)
        raise EngineFailed()

    def delete(self, table: str, batch: int) -> None:
        """Remove the rows of a batch."""
        if self._path.exists():
            with self.open_connection() as connection:
                if self._has_table(connection, table):
                    execute(connection, delete(quoted(table), f"b = {int(batch)}"))
                    execute(connection, "CHECKPOINT")

    def drop(self, table: str) -> None:
        """Remove a table."""
        if self._path.exists():
            with self.open_connection() as connection:
                execute(connection, f"DROP TABLE IF EXISTS {quoted(table)}")
                execute(connection, "CHECKPOINT")

    def sums(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement of `sums_statement`."""
        with self.open_connection(" (READ_ONLY)") as connection:
            return execute(connection, statement)

    def _has_table(self, connection: duckdb.DuckDBPyConnection, table: str) -> bool:
        rows = execute(connection, select("1", "duckdb_tables()", where=f"table_name = {literal(table)}"))
        return bool(rows)

    def open_connection(self, how: str = "") -> duckdb.DuckDBPyConnection:
        """Return a connection that can access this file only."""
        # a killed process may have left a log, which the next connection replays
        logs = [Path(f"{self._path}{ending}") for ending in (".wal.checkpoint", ".wal.recovery")]
        connection = closed_connection([self._path, *logs], self._limits)
        try:
            execute(connection, f"ATTACH {literal(str(self._path))} AS {_STORE}{how}")
            execute(connection, f"USE {_STORE}")
        except EngineFailed:
            connection.close()
            raise
        return connection
