"""Tables and views of a SQLite file, read in one transaction by Python's own driver, and never written to.

A column of SQLite may hold numbers and text in one, whatever was declared: each value is read alone, by the type that
the policy declares. SQLite's own declarations count only where the policy is silent: for public tables.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import pyarrow as pa

from sfumato.engines.duckdb.streamed import BATCH_ROWS, StreamedColumn, record_batch, untyped
from sfumato.engines.duckdb.untyped_columns import numbers, text_of, texts
from sfumato.engines.sql.builder import select
from sfumato.engines.sql.column import Kind
from sfumato.engines.sql.names import quoted
from sfumato.errors import BadSource
from sfumato.policy.policy import ColumnType, Table, fold_name

Found = TypeVar("Found")
_MAGIC = b"SQLite format 3\0"
"""How every SQLite file begins."""
_MAX_SCALAR_CHARS = 1000
"""Maximum number of characters of a number, a date or a time; longer text is none of these."""
_LOCK_TIMEOUT_SECONDS = 5.0
"""Seconds until another program's writing is a reason to refuse."""
_DECLARED_TYPES = {
    "INT": ColumnType.INTEGER,
    "BOOL": ColumnType.BOOLEAN,
    "DATETIME": ColumnType.TIMESTAMP,
    "TIMESTAMP": ColumnType.TIMESTAMP,
    "DATE": ColumnType.DATE,
    **dict.fromkeys(("CHAR", "CLOB", "TEXT"), ColumnType.TEXT),
    **dict.fromkeys(("REAL", "FLOA", "DOUB", "NUM", "DEC"), ColumnType.DECIMAL),
}
"""What a declaration says, by the first of these words that it holds; they begin as SQLite's own rules do."""
_BEGINNING = ("PRAGMA trusted_schema = OFF", "BEGIN", "SELECT count(*) FROM main.sqlite_schema")
"""The transaction begins with what is read first."""
_GENERATED_CODES = (0, 2, 3)
"""Columns that are there to be read; others are hidden arguments of virtual tables."""


class SqliteTable:
    """`streamed.StreamedTable` of a table or view."""

    def __init__(self, connection: sqlite3.Connection, stored: str, table: Table) -> None:
        self._connection, self._stored, self._table = connection, stored, table
        found = _columns(connection, stored, table.name)
        self.columns = tuple(_column(name, kind, table) for name, kind, _ in found)
        keys = [name for name, _, key in found if key]
        self.key = keys[0] if len(keys) == 1 else None
        """The column that is declared to be the primary key, where there is one."""

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Give all rows, some at a time."""
        kinds = {column.name: column.kind for column in self.columns}
        cuts = [self._cut(name) for name in names]
        what = f"tables.{self._table.name}"
        query = select(list(map(quoted, names)) or "1", f"main.{quoted(self._stored)}")
        cursor = _refusing(what, lambda: self._connection.execute(query))
        kept = (tuple(cut(value) for cut, value in zip(cuts, row, strict=False)) or (None,) for row in cursor)
        while rows := _refusing(what, lambda: list(islice(kept, BATCH_ROWS))):
            columns = zip(names, zip(*rows, strict=True), strict=False)
            read = [(name, numbers(part) if kinds[name] is Kind.EACH else texts(part)) for name, part in columns]
            yield record_batch(read, len(rows))

    def _cut(self, name: str) -> Callable[[object], object]:
        """Return what is kept of a value as soon as it is read: long texts are few, and a batch holds many rows."""
        declared = self._table.column(name)
        if declared is None or (declared.type is ColumnType.TEXT and declared.length is None):
            return lambda value: value
        if declared.type is not ColumnType.TEXT:
            return lambda value: (
                "too long" if isinstance(value, str | bytes) and len(value) > _MAX_SCALAR_CHARS else value
            )
        most = (declared.length or 0) + 1  # one character more shows that it was cut
        return lambda value: text_of(value, most) if isinstance(value, str | bytes) else value


class SqliteFile:
    """`streamed.StreamedSource` of a SQLite file: everything is of the moment at which it was opened."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def names(self) -> list[str]:
        """Return the names of all tables and views but SQLite's own."""
        query = "SELECT name FROM main.sqlite_schema WHERE type IN ('table', 'view')"
        rows = _refusing("source", lambda: self._connection.execute(query).fetchall())
        return sorted(name for (name,) in rows if name is not None and not name.startswith("sqlite_"))

    def can_be_read(self, name: str) -> bool:
        """Tell whether a table or view has columns; a view may name what is not there."""
        try:
            return bool(_columns(self._connection, name, name))
        except BadSource:
            return False

    def table(self, table: Table) -> SqliteTable:
        """Return a table of the policy, or refuse."""
        wanted = fold_name(table.stored or table.name).removeprefix("main.")
        stored = next((name for name in self.names() if fold_name(name) == wanted), None)
        if stored is None:
            raise BadSource(
                f"tables.{table.name} is not in the source.",
                "A table is a table or a view of the SQLite file.",
                'Correct the name, write from = "TABLE", or remove the table from the policy.',
            )
        return SqliteTable(self._connection, stored, table)


@contextmanager
def opened(path: Path) -> Iterator[SqliteFile]:
    """Open a file for reading, and stay in one transaction: what others write meanwhile is not seen."""
    # never immutable: another program may write to it, and its unfinished changes would be read
    place = f"file:{quote(str(path))}?mode=ro"
    connection = _refusing(
        "source", lambda: sqlite3.connect(place, uri=True, timeout=_LOCK_TIMEOUT_SECONDS, isolation_level=None)
    )
    try:
        connection.text_factory = _text
        for statement in _BEGINNING:
            _refusing("source", partial(connection.execute, statement)).fetchall()
        yield SqliteFile(connection)
    finally:
        connection.close()


def begins_as_sqlite(path: Path) -> bool:
    """Tell whether a file is a SQLite database, by its first bytes."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _columns(connection: sqlite3.Connection, stored: str, table: str) -> list[tuple[str, str, bool]]:
    """Return name, declaration, and whether it is of the primary key, of every column."""
    query = "SELECT name, type, pk, hidden FROM pragma_table_xinfo(?, 'main')"
    rows = _refusing(f"tables.{table}", lambda: connection.execute(query, [stored]).fetchall())
    return [(name, kind or "", bool(key)) for name, kind, key, hidden in rows if hidden in _GENERATED_CODES and name]


def _column(name: str, declaration: str, table: Table) -> StreamedColumn:
    declared = table.column(name)
    if declared is not None or not table.public:
        return untyped(name, declared)
    words = declaration.upper()
    said = next((kind for word, kind in _DECLARED_TYPES.items() if word in words), None)
    return StreamedColumn(name, untyped(name, None).type, Kind.RAW, said)


def _refusing(what: str, step: Callable[[], Found]) -> Found:
    """Turn what SQLite says into a refusal: its words may hold a name of the schema, or a path."""
    try:
        return step()
    except sqlite3.Error as error:
        refusal = _refusal(what, (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF)
    raise refusal


def _refusal(what: str, code: int) -> BadSource:
    match code:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return BadSource(
                "Another program is writing to the SQLite file.",
                f"It has been locked for {_LOCK_TIMEOUT_SECONDS:.0f} seconds, so it cannot be read.",
                "Try again when that program has finished; a file in WAL mode (PRAGMA journal_mode = WAL) can be read "
                "while others write.",
            )
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return BadSource(
                "The source is not a SQLite database, or is damaged.",
                "The file is encrypted, incomplete or in another format.",
                "Check it with: sqlite3 FILE 'PRAGMA integrity_check'",
            )
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_IOERR:
            return BadSource(
                "The SQLite file cannot be opened by this user.",
                "It is not readable; or it is in WAL mode or was interrupted during a write, and SQLite cannot "
                "create the files that it needs in this folder.",
                "Check the permissions; or copy it with: sqlite3 FILE '.backup COPY', and name the copy.",
            )
    return BadSource(
        f"{what} cannot be read by SQLite.",
        "A view may name a missing table, or the table needs an extension that is not loaded.",
        "Check it with: sqlite3 FILE 'SELECT * FROM TABLE LIMIT 1'",
    )
