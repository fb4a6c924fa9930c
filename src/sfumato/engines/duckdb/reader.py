"""A bounded copy that is open for reading: by many threads at once, and again after a fork."""

import os
from collections.abc import Iterator
from contextlib import closing
from shutil import rmtree
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import duckdb

from sfumato.diagnostics import record_engine_failure
from sfumato.engines.duckdb.connection import (
    execute,
    execute_in_batches,
    execute_in_columns,
    execute_in_parts,
    open_copy,
)
from sfumato.engines.duckdb.spilling import spill_folder
from sfumato.engines.engine import Limits
from sfumato.engines.snapshots import Registered
from sfumato.engines.time_limit import MAX_PUBLIC_RESULT_CHARS, MAX_PUBLIC_RESULT_ROWS, TimeLimit, too_long_an_answer
from sfumato.errors import EngineFailed

if TYPE_CHECKING:
    import pyarrow as pa

_INHERITED: list[duckdb.DuckDBPyConnection] = []
"""Connections of a parent process: their threads do not exist here, so that even closing one could wait for ever."""


class Reader:
    """One open copy. Every statement has a cursor of its own, so that threads do not wait for each other."""

    def __init__(self, registered: Registered, limits: Limits) -> None:
        self._registered = registered
        self._limits = limits
        self._lock = Lock()
        self._open()
        _READERS.add(self)

    def ready(self) -> None:
        """Open the copy again in a process that was forked: before a charge, so that a failure costs nothing."""
        if os.getpid() != self._process:
            with self._lock:
                if os.getpid() != self._process:
                    _INHERITED.append(self._connection)
                    self._open()

    def rows(self, statement: str, clock: TimeLimit | None = None) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows; a failure is one fixed sentence. The clock may stop it."""
        with closing(self._cursor()) as cursor:
            if clock is None:
                return execute(cursor, statement)
            with clock.running(cursor.interrupt):
                return execute(cursor, statement)

    def columns(self, statement: str) -> list[Any]:
        """Run one query that may return very many rows and return its columns."""
        with closing(self._cursor()) as cursor:
            return execute_in_columns(cursor, statement)

    def batches(self, statement: str) -> Iterator["pa.RecordBatch"]:
        """Run one query that may return all rows of a table and give them some at a time, in columns."""
        with closing(self._cursor()) as cursor:
            yield from execute_in_batches(cursor, statement)

    def free_rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement that costs nothing and return its rows: not too many, not too long, not for too long."""
        found: list[tuple[Any, ...]] = []
        with closing(self._cursor()) as cursor, TimeLimit().running(cursor.interrupt):
            size = 0
            for part in execute_in_parts(cursor, statement):
                found += part
                size += sum(len(value) for row in part for value in row if isinstance(value, str))
                if len(found) > MAX_PUBLIC_RESULT_ROWS or size > MAX_PUBLIC_RESULT_CHARS:
                    raise too_long_an_answer()
        return found

    def parts(self, statement: str) -> Iterator[list[tuple[Any, ...]]]:
        """Run one statement and give its rows some at a time."""
        with closing(self._cursor()) as cursor:
            yield from execute_in_parts(cursor, statement)

    def close(self) -> None:
        """Let go of the copy; in a child, of nothing that is the parent's."""
        if os.getpid() == self._process:
            self._connection.close()
            rmtree(self._spill, ignore_errors=True)
        else:
            _INHERITED.append(self._connection)
        self._registered.use.close()

    def _open(self) -> None:
        """Open the copy. The reader is this process's when that has succeeded, not before."""
        spill = spill_folder(self._registered.path, self._limits.temp)
        try:
            connection = open_copy(self._registered.path, self._limits, spill)
        except BaseException:
            rmtree(spill, ignore_errors=True)
            raise
        self._spill, self._connection = spill, connection
        self._process = os.getpid()

    def after_fork(self) -> None:
        """Forget the parent's lock: a thread that does not exist here may have held it."""
        self._lock = Lock()

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        self.ready()
        try:
            with self._lock:
                return self._connection.cursor()
        except duckdb.Error as error:
            record_engine_failure(error)
        raise EngineFailed()


_READERS: WeakSet[Reader] = WeakSet()


def _after_fork() -> None:
    for reader in list(_READERS):
        reader.after_fork()


os.register_at_fork(after_in_child=_after_fork)
