"""Evaluate free expressions of a sealed database (constants, declared cells) in an engine without data."""

import os
from contextlib import closing
from threading import Lock
from typing import Any

import duckdb

from sfumato.diagnostics import record_engine_failure
from sfumato.engines.duckdb.connection import closed_connection, execute
from sfumato.engines.engine import Limits
from sfumato.engines.time_limit import MAX_PUBLIC_RESULT_CHARS, MAX_PUBLIC_RESULT_ROWS, TimeLimit, too_long_an_answer
from sfumato.errors import EngineFailed

_INHERITED_CONNECTIONS: list[duckdb.DuckDBPyConnection] = []
"""Connections of a parent process: their threads do not exist here, so closing one could block forever."""


class FreeReader:
    """An empty database in memory; threads may share it, and a child process opens its own."""

    def __init__(self) -> None:
        self._open()

    def rows(self, statement: str, clock: TimeLimit | None = None) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows. The clock may stop it."""
        with closing(self._cursor()) as cursor, (clock or TimeLimit()).running(cursor.interrupt):
            return execute(cursor, statement)

    def free_rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows, within the limits of public results."""
        rows = self.rows(statement)
        size = sum(len(value) for row in rows for value in row if isinstance(value, str))
        if len(rows) > MAX_PUBLIC_RESULT_ROWS or size > MAX_PUBLIC_RESULT_CHARS:
            raise too_long_an_answer()
        return rows

    def close(self) -> None:
        """Close the connection, unless it belongs to a parent process."""
        if os.getpid() == self._process:
            self._connection.close()

    def _open(self) -> None:
        self._lock = Lock()
        self._connection = closed_connection([], Limits())
        self._process = os.getpid()

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        if os.getpid() != self._process:
            _INHERITED_CONNECTIONS.append(self._connection)
            self._open()
        try:
            with self._lock:
                return self._connection.cursor()
        except duckdb.Error as error:
            record_engine_failure(error)
        raise EngineFailed()
