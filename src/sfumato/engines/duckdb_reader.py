"""A bounded copy that is open for reading: by many threads at once, and again after a fork."""

import os
import re
from contextlib import closing
from pathlib import Path
from shutil import rmtree
from threading import Lock
from typing import Any

import duckdb

from sfumato.engines.connection import Limits, execute, open_copy
from sfumato.engines.registration import Registered
from sfumato.engines.versions import fresh_id
from sfumato.errors import EngineFailed
from sfumato.randomness.source import system_source

_SPILL = re.compile(r"\.spill-(\d+)-[0-9a-f]{32}$")
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
            rmtree(self._spill, ignore_errors=True)
        self._registered.use.close()

    def _open(self) -> None:
        self._process = os.getpid()
        self._lock = Lock()  # another thread of the parent may have held the old one
        self._spill = spill_folder(self._registered.path)
        self._connection = open_copy(self._registered.path, self._limits, self._spill)

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        try:
            with self._lock:
                return self._connection.cursor()
        except duckdb.Error:
            pass
        raise EngineFailed()


def spill_folder(copy: Path) -> Path:
    """Make the folder for what does not fit into memory: beside the copy, and only its owner may enter.

    What processes left behind that were killed is removed first.
    """
    try:
        for folder in copy.parent.iterdir():
            left = _SPILL.search(folder.name)
            if left is not None and folder.is_dir() and not _alive(int(left[1])):
                rmtree(folder, ignore_errors=True)
        made = copy.with_name(f"{copy.name}.spill-{os.getpid()}-{fresh_id(system_source())}")
        made.mkdir(mode=0o700)
    except OSError:
        pass  # the system's words hold the path
    else:
        return made
    raise EngineFailed()


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it is somebody else's
    return True
