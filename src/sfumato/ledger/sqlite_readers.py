"""Connections that only read a SQLite file: one that is free serves the next reader."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_MAX_IDLE_READERS = 4


class Readers:
    """The read-only connections of one file. Threads may share them; each reader has one of its own."""

    def __init__(self, path: Path) -> None:
        self._address = f"{path.as_uri()}?mode=ro"
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    @contextmanager
    def reading(self, *, keep: bool, one_moment: bool) -> Iterator[sqlite3.Connection]:
        """Give a connection; without `keep` a new one, for this reader alone.

        With `one_moment` all its statements see one state of the file, otherwise each the state when it runs.
        """
        connection = self._take_connection() if keep else self._connect()
        try:
            if one_moment:
                connection.execute("BEGIN")
            yield connection
            if one_moment:
                connection.execute("ROLLBACK")  # one that stays in its transaction keeps the log from being folded
        except BaseException:
            connection.close()
            raise
        if keep and not self._closed and len(self._idle) < _MAX_IDLE_READERS:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Close the idle connections; the others are closed by their readers."""
        self._closed = True
        for connection in self.abandon():
            with suppress(sqlite3.Error):
                connection.close()

    def abandon(self) -> list[sqlite3.Connection]:
        """Return the idle connections, and forget them."""
        idle, self._idle = self._idle, []
        return idle

    def _take_connection(self) -> sqlite3.Connection:
        with suppress(IndexError):  # another thread may take the last one
            return self._idle.pop()
        return self._connect()

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._address, uri=True, isolation_level=None, check_same_thread=False)
