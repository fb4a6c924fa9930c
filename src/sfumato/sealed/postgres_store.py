"""Store ciphertexts in PostgreSQL: one table of 32-bit integers, no index, sums on 64-bit accumulators."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sfumato.diagnostics import record_engine_failure
from sfumato.engines.sql.builder import delete
from sfumato.engines.sql.names import quoted
from sfumato.errors import BadParameter, EngineFailed

Answer = TypeVar("Answer")
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"


class PostgresCipherStore:
    """A PostgreSQL server, connected to for each statement. It needs the extra `postgres`."""

    def __init__(self, url: str) -> None:
        self._url = url

    def insert(self, table: str, columns: Mapping[str, npt.NDArray[np.int32]]) -> None:
        """Add rows in one transaction; the table is made where there is none."""
        column_list = ", ".join(f"{name} integer NOT NULL" for name in columns)

        def run(cursor: Any) -> None:
            cursor.execute(f"CREATE TABLE IF NOT EXISTS {quoted(table)} ({column_list})")
            with cursor.copy(f"COPY {quoted(table)} ({', '.join(columns)}) FROM STDIN (FORMAT binary)") as copy:
                copy.write(_HEADER)
                copy.write(_pack_copy_rows(list(columns.values())))
                copy.write(_TRAILER)

        self._in_transaction(run)

    def delete(self, table: str, batch: int) -> None:
        """Remove the rows of a batch."""

        def run(cursor: Any) -> None:
            if cursor.execute("SELECT to_regclass(%s)", (quoted(table),)).fetchone()[0] is not None:
                cursor.execute(delete(quoted(table), f"b = {int(batch)}"))

        self._in_transaction(run)

    def drop(self, table: str) -> None:
        """Remove a table."""
        self._in_transaction(lambda cursor: cursor.execute(f"DROP TABLE IF EXISTS {quoted(table)}"))

    def sums(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement of `sums_statement`."""
        rows: list[tuple[Any, ...]] = self._in_transaction(lambda cursor: cursor.execute(statement).fetchall())
        return rows

    def _in_transaction(self, run: Callable[[Any], Answer]) -> Answer:
        """Run in one transaction; a failure is one fixed sentence, as the server's message may contain a path."""
        psycopg = _import_psycopg()
        try:
            with psycopg.connect(self._url) as connection, connection.cursor() as cursor:
                return run(cursor)
        except (psycopg.Error, OSError) as error:
            record_engine_failure(error)
        raise EngineFailed()


def _pack_copy_rows(columns: list[npt.NDArray[np.int32]]) -> bytes:
    """Encode rows for COPY: the number of fields, then length and value of each, big-endian."""
    fields: list[tuple[str, str]] = [("fields", ">i2")]
    for index in range(len(columns)):
        fields += [(f"length{index}", ">i4"), (f"value{index}", ">i4")]
    rows = np.zeros(len(columns[0]), dtype=fields)
    rows["fields"] = len(columns)
    for index, column in enumerate(columns):
        rows[f"length{index}"], rows[f"value{index}"] = 4, column
    return rows.tobytes()


def _import_psycopg() -> Any:
    try:
        return import_module("psycopg")
    except ImportError:
        raise BadParameter(
            "A store on PostgreSQL needs psycopg, which is not installed.",
            "It comes with the extra `postgres`.",
            "Install it: pip install 'sfumato[postgres]'.",
        ) from None
