"""Grants in a SQLite file that only its owner can read, beside the ledger.

A file of version 0.10 or older is JSON. It is read as it is, and becomes a SQLite file with the first change.
"""

import os
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import RLock

from sfumato.secure_files import FileLock, publish
from sfumato.server.grant_stores.old_file import read_old_file
from sfumato.server.grant_stores.rows import (
    GRANT_COLUMNS,
    MAX_ONCE_ROWS,
    NULLABLE,
    NUMBERS,
    ONCE_COLUMNS,
    SESSION_COLUMNS,
    grant_from_row,
    grant_to_row,
    session_from_row,
    session_to_row,
)
from sfumato.server.grant_stores.stored import SECRET_BYTES, Grant, StoredAccess, StoredSession, grants_damaged

APPLICATION_ID = 0x5FADA71
_FORMAT_VERSION = 4
_MISSING_COLUMNS = {2: ("roles", "identity"), 3: ("identity",), _FORMAT_VERSION: ()}
"""What grants and sessions of older formats lack. They are read as they are, and converted with the first change."""
_FIRST_FORMAT_WITH_ONCE = 3
_LOCK_TIMEOUT_SECONDS = 5.0
_MAGIC = b"SQLite format 3\x00"


def _table(name: str, columns: tuple[str, ...], more: str) -> str:
    fields = [
        f"{column} {'REAL' if column in NUMBERS else 'TEXT'}{'' if column in NULLABLE else ' NOT NULL'}"
        for column in columns
    ]
    return f"CREATE TABLE {name} ({', '.join(fields)}, PRIMARY KEY ({columns[0]}){more}) STRICT"


_SCHEMA = (
    "CREATE TABLE secret (value BLOB NOT NULL) STRICT",
    _table("grants", GRANT_COLUMNS, ", UNIQUE (account, person, label)"),
    _table("sessions", SESSION_COLUMNS, ""),
    _table("once", ONCE_COLUMNS, ""),
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {_FORMAT_VERSION}",
)


def _conversion(version: int) -> list[str]:
    """Return what makes the present format of an older one."""
    tables = ("grants", "sessions")
    more = [f"ALTER TABLE {table} ADD COLUMN {column} TEXT" for table in tables for column in _MISSING_COLUMNS[version]]
    once = [_table("once", ONCE_COLUMNS, "")] if version < _FIRST_FORMAT_WITH_ONCE else []
    return [*more, *once, f"PRAGMA user_version = {_FORMAT_VERSION}"]


class SqliteGrants:
    """The grants of one file. See `GrantStore`."""

    def __init__(self, path: Path, lock_path: Path) -> None:
        self._path = path
        self._lock_path = lock_path
        self._using = RLock()
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._changes = 0
        """Changes that were made here: SQLite counts only those of others."""

    def create(self, secret: Callable[[], bytes]) -> None:
        with self._hold_lock():
            if not self._path.exists():
                self._write_file(StoredAccess(secret()))

    def exists(self) -> bool:
        return self._path.exists()

    def version(self) -> object:
        with self._using, _failing_closed():
            status = os.stat(self._path)
            seen = (status.st_ino, status.st_mtime_ns, status.st_size, status.st_ctime_ns)
            if status.st_ino != self._inode and not _is_sqlite(self._path):
                return seen
            return (*seen, self._open_file().execute("PRAGMA data_version").fetchone()[0], self._changes)

    def read(self) -> StoredAccess:
        with self._using, _failing_closed():
            _check_mode(self._path)
            if not _is_sqlite(self._path):
                return read_old_file(self._path)
            connection = self._open_file()
            with connection:
                connection.execute("BEGIN")
                (secret,) = connection.execute("SELECT value FROM secret").fetchone()
                missing = _MISSING_COLUMNS[_format_of(connection)]
                grants = connection.execute(_select("grants", GRANT_COLUMNS, "since, id", missing)).fetchall()
                sessions = connection.execute(_select("sessions", SESSION_COLUMNS, "rowid", missing)).fetchall()
            if len(secret) != SECRET_BYTES:
                raise ValueError
            return StoredAccess(
                secret, tuple(map(grant_from_row, grants)), tuple(session_from_row(row) for row in sessions)
            )

    def put_grant(self, grant: Grant) -> None:
        row = grant_to_row(grant)
        with self._changing() as connection:
            place = (grant.account, grant.person, grant.label)
            replaced = connection.execute(
                "SELECT id FROM grants WHERE account = ? AND person = ? AND label = ?", place
            ).fetchall()
            _remove_grants(connection, (identity for (identity,) in replaced))
            connection.execute(_insert("grants", GRANT_COLUMNS), row)

    def remove_grants(self, ids: Iterable[str]) -> int:
        with self._changing() as connection:
            return _remove_grants(connection, ids)

    def put_session(self, session: StoredSession) -> None:
        with self._changing() as connection:
            connection.execute(_insert("sessions", SESSION_COLUMNS), session_to_row(session))

    def remove_sessions(self, keys: Iterable[str]) -> int:
        with self._changing() as connection:
            return sum(connection.execute("DELETE FROM sessions WHERE key = ?", (key,)).rowcount for key in list(keys))

    def note_uses(self, grants: Mapping[str, float], sessions: Mapping[str, float]) -> None:
        if not grants and not sessions:
            return
        with self._changing() as connection:
            later = "UPDATE {} SET used = max(coalesce(used, 0), ?) WHERE {} = ?"
            for table, key, uses in (("grants", "id", grants), ("sessions", "key", sessions)):
                connection.executemany(later.format(table, key), [(time, name) for name, time in uses.items()])

    def use_once(self, key: str, expires: float, now: float) -> bool:
        with self._changing() as connection:
            connection.execute("DELETE FROM once WHERE expires <= ?", (now,))
            if connection.execute("SELECT count(*) FROM once").fetchone()[0] >= MAX_ONCE_ROWS:
                return False
            return bool(connection.execute("INSERT OR IGNORE INTO once VALUES (?, ?)", (key, expires)).rowcount)

    def watch(self) -> None:
        """Nothing is needed: the file tells at once."""

    def close(self) -> None:
        with self._using:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._hold_lock(), self._using, _failing_closed():
            _check_mode(self._path)
            if not _is_sqlite(self._path):
                self._write_file(read_old_file(self._path))
            connection = self._open_file()
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                if (version := _format_of(connection)) != _FORMAT_VERSION:
                    for statement in _conversion(version):
                        connection.execute(statement)
                yield connection
            self._changes += 1

    def _open_file(self) -> sqlite3.Connection:
        inode = os.stat(self._path).st_ino
        if self._connection is None or inode != self._inode:
            self.close()
            self._connection, self._inode = _connect(self._path), inode
        return self._connection

    def write(self, access: StoredAccess) -> None:
        """Write a new file with these grants, for a backup."""
        with self._hold_lock():
            self._write_file(access)

    def _write_file(self, access: StoredAccess) -> None:
        """Write a whole file beside the place, then rename it: a reader sees the old one or the new one."""
        aside = self._path.with_name(f"{self._path.name}.aside")
        with _failing_closed("They cannot be written."):
            aside.unlink(missing_ok=True)
            os.close(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
            with closing(_connect(aside, new=True)) as connection, connection:
                connection.execute("BEGIN")
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.execute("INSERT INTO secret VALUES (?)", (access.secret,))
                connection.executemany(_insert("grants", GRANT_COLUMNS), map(grant_to_row, access.grants))
            publish(aside, self._path)

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        try:
            lock = FileLock(self._lock_path)
        except OSError:
            lock = None
        if lock is None:
            raise grants_damaged("The folder in which they lie cannot be written to.")
        try:
            with lock.held():
                yield
        finally:
            lock.close()


def _remove_grants(connection: sqlite3.Connection, ids: Iterable[str]) -> int:
    removed = 0
    for identity in list(ids):
        removed += connection.execute("DELETE FROM grants WHERE id = ?", (identity,)).rowcount
        connection.execute("DELETE FROM sessions WHERE grant_id = ?", (identity,))
    return removed


def _connect(path: Path, new: bool = False) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(
        uri, uri=True, timeout=_LOCK_TIMEOUT_SECONDS, check_same_thread=False, isolation_level=None
    )
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA trusted_schema = off")
    if not new:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        if application != APPLICATION_ID or _format_of(connection) not in _MISSING_COLUMNS:
            connection.close()
            raise ValueError
    return connection


def _format_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _select(table: str, columns: tuple[str, ...], order: str, missing: tuple[str, ...]) -> str:
    named = ("NULL" if column in missing else column for column in columns)
    return " ".join(("SELECT", ", ".join(named), "FROM", table, "ORDER BY", order))


def _insert(table: str, columns: tuple[str, ...]) -> str:
    return " ".join(("INSERT INTO", table, "VALUES", f"({', '.join('?' for _ in columns)})"))


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(_MAGIC)) == _MAGIC


def _check_mode(path: Path) -> None:
    if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
        raise grants_damaged("Their file can be read by others.", "Let only its owner read it (chmod 600), then go on.")


@contextmanager
def _failing_closed(why: str = "Their file is missing, or not what was written.") -> Iterator[None]:
    """Turn every failure into one refusal: the system's words hold the path."""
    try:
        yield
        return
    except (OSError, ValueError, KeyError, TypeError, RecursionError, sqlite3.Error):
        pass
    raise grants_damaged(why)
