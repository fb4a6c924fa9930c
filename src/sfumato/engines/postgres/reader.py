"""A bounded copy on a server that is open for reading: by many threads at once, and again after a fork."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any
from weakref import WeakSet, finalize

from sfumato.diagnostics import record_engine_failure
from sfumato.engines.postgres.connection import close, connect, execute
from sfumato.engines.postgres.registration import is_whole
from sfumato.engines.sql.statements import Rows
from sfumato.errors import BadSource, EngineFailed

_BEGIN = "BEGIN READ ONLY; SET LOCAL statement_timeout = '600s'; SET LOCAL lock_timeout = '10s'"
_MAX_IDLE_CONNECTIONS = 4
"""Maximum number of idle connections that are kept for the next question."""
_INHERITED_CONNECTIONS: list[Any] = []
"""Connections of a parent process: ending one here would end the parent's session, so they are kept for ever."""


class ServerReader:
    """Connections to one copy. Each question has one of its own, in a transaction that cannot write."""

    def __init__(self, url: str, identity: str) -> None:
        self._url = url
        self._identity = identity
        self._lock = Lock()
        self._idle: list[Any] = []
        self._closed = False
        finalize(self, _close_all, self._idle)
        _READERS.add(self)

    def after_fork(self) -> None:
        """Forget the parent's lock, which a thread that does not exist here may have held, and its connections."""
        self._lock = Lock()
        _INHERITED_CONNECTIONS.extend(self._idle)
        self._idle.clear()

    @contextmanager
    def asking(self) -> Iterator[Callable[[str], Rows]]:
        """Give the one way to read the copy, in one transaction; a failure is one fixed sentence."""
        connection = self._begun()
        try:
            yield lambda statement: execute(connection, statement)
            execute(connection, "COMMIT")
        except BaseException:
            close(connection)
            raise
        self._give_back(connection)

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """Give a connection that may write into the schema of our own: public rows, before a question is asked."""
        connection = self._connection()
        try:
            yield connection
        except BaseException:
            close(connection)
            raise
        self._give_back(connection)

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            self._closed = True
            _close_all(self._idle)

    def _begun(self) -> Any:
        """Return a connection in a transaction. One that was kept may have been cut: then there is another."""
        connection = self._connection()
        try:
            execute(connection, _BEGIN)
        except EngineFailed:
            close(connection)
        else:
            return connection
        connection = self._open_connection()
        execute(connection, _BEGIN)
        return connection

    def _connection(self) -> Any:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self._open_connection()

    def _open_connection(self) -> Any:
        connection = None
        with suppress(BadSource):  # it could be reached when it was opened: now that is a failure like any other
            connection, _ = connect(self._url)
        if connection is not None and not self._closed and is_whole(connection, self._identity):
            return connection
        close(connection)
        record_engine_failure("The server cannot be reached, the reader is closed, or the bounded copy is gone.")
        raise EngineFailed()

    def _give_back(self, connection: Any) -> None:
        with self._lock:
            if len(self._idle) < _MAX_IDLE_CONNECTIONS and not self._closed and not connection.closed:
                self._idle.append(connection)
                return
        close(connection)


def _close_all(connections: list[Any]) -> None:
    while connections:
        close(connections.pop())


_READERS: WeakSet[ServerReader] = WeakSet()


def _after_fork() -> None:
    for reader in list(_READERS):
        reader.after_fork()


os.register_at_fork(after_in_child=_after_fork)
