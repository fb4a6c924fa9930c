"""A bounded copy that is open for reading: by many threads at once, and again after a fork."""

import os
from contextlib import closing
from threading import Lock
from typing import Any

import duckdb

from sfumato.engines.connection import Limits, execute, open_copy
from sfumato.engines.registration import Registered
from sfumato.errors import EngineFailed

_INHERITED: list[duckdb.DuckDBPyConnection] = []
"""Connections of a parent process: their threads do not exist here, so that even closing one could wait for ever."""


class Reader:
    """One open copy. Every statement has a cursor of its own, so that threads do not wait for each other."""

    def __init__(self, registered: Registered, limits: Limits) -> None:
        self._registered = registered
        self._limits = limits
        self._open()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows; a failure is one fixed sentence."""
        if os.getpid() != self._process:
            _INHERITED.append(self._connection)
            self._open()
        with closing(self._cursor()) as cursor:
            return execute(cursor, statement)

    def close(self) -> None:
        """Let go of the copy; in a child, of nothing that is the parent's."""
        if os.getpid() == self._process:
            self._connection.close()

    def _open(self) -> None:
        self._process = os.getpid()
        self._lock = Lock()  # another thread of the parent may have held the old one
        self._connection = open_copy(self._registered.path, self._limits)

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        try:
            with self._lock:
                return self._connection.cursor()
        except duckdb.Error:
            pass
        raise EngineFailed()
