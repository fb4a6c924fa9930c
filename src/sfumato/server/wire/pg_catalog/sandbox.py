"""SQLite as the evaluator of catalogue queries: it reads tables of ours, calls functions of ours, and nothing else."""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any

from sfumato.server.wire.pg_catalog.calls import PythonCall
from sfumato.server.wire.pg_catalog.compiled import (
    STEPS_PER_INSTRUCTION,
    CatalogRow,
    Execution,
    text_too_long,
    too_long,
)
from sfumato.server.wire.pg_catalog.folds import Fold
from sfumato.server.wire.pg_catalog.relations import VirtualCatalog, relations
from sfumato.server.wire.pg_catalog.rows import MAX_SERIES
from sfumato.server.wire.pg_catalog.stored_values import StoredValues
from sfumato.server.wire.sqlstates import WireError

NUMBERS = ("", "numbers")
"""A table of the numbers from 0 on, which functions that give rows are joined with."""
_KEYS = frozenset({"oid", "attrelid", "objoid", "typrelid"})
"""Columns by which clients look up, so that the effort grows with what they find."""
_CHECK_INSTRUCTIONS = 1000
"""Number of instructions of SQLite after which an execution checks again whether it should stop."""
_ROWS_AT_ONCE = 100
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1 << 20,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 20,
    sqlite3.SQLITE_LIMIT_COLUMN: 2000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 1000,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 200,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 110,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 200,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_OWN_NAME = re.compile(r"t\d+")
"""What the tables, queries and WITH clauses of a statement are called in it."""
_FUNCTIONS = frozenset({"call", "per_row", "fold", "coalesce", "count", "max", "min", "row_number", "sum"})
_TOO_COMPLEX = ("parser stack overflow", "Expression tree is too large", "at most 64 tables", "too many")


class Sandbox:
    """A database in memory that runs one catalogue query at a time."""

    def __init__(self, catalog: VirtualCatalog) -> None:
        self._catalog = catalog
        self._stored = StoredValues()
        self._loaded: set[tuple[str, str]] = set()
        self._tables: set[str] = set()
        self._is_loading = False
        self._calls: Sequence[PythonCall] = ()
        self._run: Execution | None = None
        self._values = self._stored
        self._error: BaseException | None = None
        self._lock = Lock()
        self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, cached_statements=0)
        self._database.execute("PRAGMA temp_store = MEMORY")
        for limit, value in _LIMITS.items():
            self._database.setlimit(limit, value)
        self._database.create_function("call", -1, self._call, deterministic=True)
        self._database.create_function("per_row", -1, self._call)
        sandbox = self

        class Folding:
            """Collects the values of one group."""

            def __init__(self) -> None:
                self._call: Fold | None = None
                self._rows: list[CatalogRow] = []

            def step(self, number: int, *values: Any) -> None:
                self._call = sandbox._gather(self._rows, number, values)

            def finalize(self) -> Any:
                return None if self._call is None else sandbox._fold_rows(self._call, self._rows)

        self._database.create_aggregate("fold", -1, Folding)
        self._database.set_authorizer(self._authorize)
        self._database.set_progress_handler(self._progress, _CHECK_INSTRUCTIONS)

    def rows(
        self,
        sql: str,
        calls: Sequence[PythonCall],
        used: frozenset[tuple[str, str]],
        columns: Sequence[int],
        run: Execution,
    ) -> Iterator[CatalogRow]:
        """Give the rows of a statement, whose columns have these types."""
        with self._lock:
            for key in used - self._loaded:
                self._load(key)
            self._calls, self._run, self._values, self._error = calls, run, StoredValues(self._stored), None
            try:
                cursor = self._database.execute(sql)
                while found := cursor.fetchmany(_ROWS_AT_ONCE):
                    run.reserve_rows(len(found), len(columns))
                    for row in found:
                        yield tuple(self._values.decode(value, oid) for value, oid in zip(row, columns, strict=True))
            except sqlite3.Error as error:
                raise self._error or _translate_message(str(error)) from None
            finally:
                self._calls, self._run, self._values = (), None, self._stored

    def close(self) -> None:
        """Give the memory back."""
        self._database.close()

    def _load(self, key: tuple[str, str]) -> None:
        """Create a table of the catalogue with its rows."""
        name, run = table_name(key), self._database.execute
        self._is_loading = True
        try:
            if key == NUMBERS:
                run(f"CREATE TABLE {name} (n INTEGER PRIMARY KEY)")
                series = f"SELECT 0 UNION ALL SELECT n + 1 FROM series LIMIT {MAX_SERIES}"  # noqa: S608
                run(f"INSERT INTO {name} WITH RECURSIVE series(n) AS ({series}) SELECT n FROM series")  # noqa: S608
            else:
                columns = [column for column, _ in relations()[key].columns]
                listed, marks = ", ".join(f'"{column}"' for column in columns), ", ".join("?" * len(columns))
                run(f"CREATE TABLE {name} ({listed})")
                for column in _KEYS.intersection(columns):
                    run(f"CREATE INDEX {table_name((key[0], f'{key[1]}.{column}'))} ON {name} ({column})")
                rows = (tuple(map(self._stored.encode, row)) for row in self._catalog.rows(*key))
                run("BEGIN")
                self._database.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)  # noqa: S608
                run("COMMIT")
            self._loaded.add(key)
            self._tables.add(name.strip('"'))
        finally:
            self._is_loading = False

    def _authorize(self, action: int, first: str | None, second: str | None, _db: str | None, _by: str | None) -> int:
        """Allow reading our tables and calling our functions."""
        match action:
            case sqlite3.SQLITE_SELECT | sqlite3.SQLITE_RECURSIVE:
                is_allowed = True
            case sqlite3.SQLITE_READ:
                is_allowed = _OWN_NAME.fullmatch(str(first)) is not None or first in self._tables
            case sqlite3.SQLITE_FUNCTION:
                is_allowed = second in _FUNCTIONS
            case _:
                is_allowed = False
        return sqlite3.SQLITE_OK if is_allowed or self._is_loading else sqlite3.SQLITE_DENY

    def _progress(self) -> int:
        """Count instructions of SQLite; stop where there were too many, or where a stop was requested."""
        if self._run is None:
            return 0
        try:
            self._run.spend(_CHECK_INSTRUCTIONS * STEPS_PER_INSTRUCTION)
        except WireError as error:
            self._error = error
            return 1
        return 0

    def _call(self, number: int, *values: Any) -> Any:
        call = self._calls[number]
        try:
            return self._compute(call, values)
        except WireError as error:
            self._error = error
        except (TypeError, AttributeError, ValueError, ArithmeticError):
            self._error = WireError("42883", f"function {call.name[:63]} does not take these arguments")
        raise sqlite3.OperationalError

    def _compute(self, call: PythonCall, values: Sequence[Any]) -> Any:
        run, held = self._run, self._values
        if run is None:
            raise AssertionError("a function runs in an execution")
        run.spend()
        read = [held.decode(value, oid) for value, oid in zip(values, call.arguments, strict=True)]
        if not call.is_of_one_item:
            for value in read:
                run.read(value)
        if call.is_strict and any(value is None for value in read):
            return None
        return held.encode(run.made(run.read(call.run(run, *read))))

    def _gather(self, rows: list[CatalogRow], number: int, values: Sequence[Any]) -> Fold:
        call, run = self._calls[number], self._run
        if run is None or not isinstance(call.run, Fold):
            raise AssertionError("an aggregate runs in an execution")
        try:
            run.reserve_rows(1, len(values))
            rows.append(
                tuple(
                    run.read(self._values.decode(value, oid)) for value, oid in zip(values, call.arguments, strict=True)
                )
            )
        except WireError as error:
            self._error = error
            raise
        return call.run

    def _fold_rows(self, fold: Fold, rows: list[CatalogRow]) -> Any:
        run = self._run
        if run is None:
            raise AssertionError("an aggregate runs in an execution")
        try:
            return self._values.encode(run.made(run.read(fold(run, rows))))
        except WireError as error:
            self._error = error
            raise


def table_name(key: tuple[str, str]) -> str:
    """Return what SQLite calls a relation of the catalogue."""
    return f'"{key[0]}.{key[1]}"'


def _translate_message(message: str) -> WireError:
    """Return what SQLite refuses in the words of the protocol."""
    if message == "interrupted":
        return too_long()
    if "too big" in message:
        return text_too_long()
    if "integer overflow" in message:
        return WireError("22003", "integer out of range")
    if any(words in message for words in _TOO_COMPLEX):
        return WireError(
            "54001",
            "This question about the catalogue is too complex.",
            "It has too many tables, or queries nested too deeply.",
            "Ask for less at once.",
        )
    return WireError("0A000", "This form of query is not supported in questions about the catalogue.")
