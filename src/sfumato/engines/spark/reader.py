"""A bounded copy of Spark's that is open for reading: the views of its folder, in whichever session there is."""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa

from sfumato.diagnostics import record_engine_failure
from sfumato.engines.engine import Limits
from sfumato.engines.spark.connection import execute, execute_in_columns, guarded, session
from sfumato.engines.spark.registration import is_whole
from sfumato.engines.sql.statements import Rows
from sfumato.errors import BadSource, EngineFailed


class SparkReader:
    """One copy. Threads may share it; a session that died is replaced when the next question comes."""

    def __init__(self, folder: Path, names: Mapping[str, str], limits: Limits) -> None:
        self._folder, self._names, self._limits = folder, names, limits
        self._lock = Lock()
        self._seen: Any = None
        self._brought: dict[str, Path] = {}
        self._closed = False

    def rows(self, statement: str) -> Rows:
        """Return the rows of one statement over the copy; a failure is one fixed sentence."""
        self._ready()
        return execute(statement)

    def columns(self, statement: str, keys: int | None) -> list[pa.ChunkedArray]:
        """Return the columns of one statement over the copy; as `execute_in_columns` says."""
        self._ready()
        return execute_in_columns(statement, keys)

    def show(self, name: str, file: Path) -> None:
        """Let statements read a file of public rows under this name."""
        with self._lock:
            self._brought[name] = file
            if self._seen is not None:
                self._view(self._seen, name, file)

    def hide(self, name: str) -> None:
        """Forget a file of public rows."""
        with self._lock:
            self._brought.pop(name, None)

    def close(self) -> None:
        """Let go of the copy; the session goes on."""
        with self._lock:
            seen, self._seen, self._closed = self._seen, None, True
            names = [*self._names, *self._brought]
        with suppress(EngineFailed):  # a session that ended has no views
            for name in names if seen is not None else ():
                guarded(partial(seen.catalog.dropTempView, name))

    def _ready(self) -> None:
        """See to it that the session of this process knows the tables of the copy."""
        with self._lock:
            if self._closed or not is_whole(self._folder):
                record_engine_failure("The reader is closed, or files of the bounded copy are gone.")
                raise EngineFailed()
            try:
                found = session(self._limits)
            except BadSource as error:  # it could be reached when it was opened: now that is a failure like any other
                record_engine_failure(error)
                found = None
            if found is None:
                raise EngineFailed()
            if found is not self._seen:
                for name, path in self._names.items():
                    self._view(found, name, self._folder / path)
                for name, file in self._brought.items():
                    self._view(found, name, file)
                self._seen = found

    def _view(self, found: Any, name: str, path: Path) -> None:
        guarded(lambda: found.read.parquet(str(path)).createOrReplaceTempView(name))
