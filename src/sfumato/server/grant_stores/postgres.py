"""Grants in the database of a PostgreSQL ledger: every server over that ledger has the same.

A server looks for changes of others in a thread, every second. Where the database has not answered for ten seconds,
no grant counts until it does.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from threading import Event, RLock, Thread
from time import monotonic
from typing import Any

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

POLL_SECONDS = 1.0
MAX_SILENT_SECONDS = 10.0
_CREATION_LOCK_ID = 0x5FADA71 << 36
_CONNECT_SECONDS = 5
_AWAY = "The database of the ledger does not answer, or is not what was written."
_REMEDY = "Look at the database, then go on."


def _table(name: str, columns: tuple[str, ...], more: str = "") -> str:
    fields = [
        f"{column} {'double precision' if column in NUMBERS else 'text'}{'' if column in NULLABLE else ' NOT NULL'}"
        for column in columns
    ]
    return f"CREATE TABLE {name} ({', '.join(fields)}, PRIMARY KEY ({columns[0]}){more})"


_SCHEMA = (
    "CREATE TABLE sfumato_access (secret bytea NOT NULL, version bigint NOT NULL)",
    _table("sfumato_grants", GRANT_COLUMNS, ", UNIQUE (account, person, label)"),
    _table("sfumato_sessions", SESSION_COLUMNS),
    _table("sfumato_once", ONCE_COLUMNS),
)
_ADDED_COLUMNS = ("roles", "identity")
"""Columns of grants and sessions that older versions do not create: versions before 0.13 none of them."""
_CONVERSION = (
    *(
        f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column} text"
        for table in ("sfumato_grants", "sfumato_sessions")
        for column in _ADDED_COLUMNS
    ),
    _table("sfumato_once", ONCE_COLUMNS).replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"),
)


class PostgresGrants:
    """The grants in one database. See `GrantStore`."""

    def __init__(self, url: str, old: Callable[[], StoredAccess | None]) -> None:
        self._url = url
        self._old = old
        """Reads the file that an older version left beside the policy."""
        self._using = RLock()
        self._connection: Any = None
        self._watching: Thread | None = None
        self._ending = Event()
        self._seen = -1
        self._answered = monotonic()

    def create(self, secret: Callable[[], bytes]) -> None:
        with self._using, self._transaction() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATION_LOCK_ID,))
            if _exists(connection):
                if not _is_converted(connection):
                    for statement in _CONVERSION:
                        connection.execute(statement)
                return
            for statement in _SCHEMA:
                connection.execute(statement)
            old = self._old() or StoredAccess(secret())
            connection.execute("INSERT INTO sfumato_access VALUES (%s, 1)", (old.secret,))
            for grant in old.grants:
                connection.execute(_insert("sfumato_grants", GRANT_COLUMNS), grant_to_row(grant))

    def exists(self) -> bool:
        with self._using, self._transaction() as connection:
            return _exists(connection)

    def version(self) -> object:
        if self._watching is None:
            return self._version()
        if monotonic() - self._answered > MAX_SILENT_SECONDS:
            raise grants_damaged(_AWAY, _REMEDY)
        return self._seen

    def read(self) -> StoredAccess:
        with self._using, self._transaction() as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            secret, version = connection.execute("SELECT secret, version FROM sfumato_access").fetchone()
            grants = connection.execute(_select("sfumato_grants", GRANT_COLUMNS, "since, id")).fetchall()
            sessions = connection.execute(_select("sfumato_sessions", SESSION_COLUMNS, "began, key")).fetchall()
            if len(secret) != SECRET_BYTES:
                raise ValueError
            self._seen = max(self._seen, version)
            found = tuple(map(grant_from_row, grants)), tuple(session_from_row(row) for row in sessions)
            return StoredAccess(bytes(secret), *found)

    def put_grant(self, grant: Grant) -> None:
        with self._changing() as connection:
            place = (grant.account, grant.person, grant.label)
            replaced = connection.execute(
                "SELECT id FROM sfumato_grants WHERE account = %s AND person = %s AND label = %s", place
            ).fetchall()
            _remove_grants(connection, [identity for (identity,) in replaced])
            connection.execute(_insert("sfumato_grants", GRANT_COLUMNS), grant_to_row(grant))

    def remove_grants(self, ids: Iterable[str]) -> int:
        with self._changing() as connection:
            return _remove_grants(connection, list(ids))

    def put_session(self, session: StoredSession) -> None:
        with self._changing() as connection:
            connection.execute(_insert("sfumato_sessions", SESSION_COLUMNS), session_to_row(session))

    def remove_sessions(self, keys: Iterable[str]) -> int:
        with self._changing() as connection:
            return int(connection.execute("DELETE FROM sfumato_sessions WHERE key = ANY(%s)", (list(keys),)).rowcount)

    def note_uses(self, grants: Mapping[str, float], sessions: Mapping[str, float]) -> None:
        if not grants and not sessions:
            return
        with self._changing() as connection:
            for statement, uses in (
                ("UPDATE sfumato_grants SET used = greatest(used, %s) WHERE id = %s", grants),
                ("UPDATE sfumato_sessions SET used = greatest(used, %s) WHERE key = %s", sessions),
            ):
                for name, time in sorted(uses.items()):
                    connection.execute(statement, (time, name))

    def use_once(self, key: str, expires: float, now: float) -> bool:
        with self._using, self._transaction() as connection:
            connection.execute("DELETE FROM sfumato_once WHERE expires <= %s", (now,))
            if connection.execute("SELECT count(*) FROM sfumato_once").fetchone()[0] >= MAX_ONCE_ROWS:
                return False
            statement = "INSERT INTO sfumato_once VALUES (%s, %s) ON CONFLICT DO NOTHING"
            return bool(connection.execute(statement, (key, expires)).rowcount)

    def watch(self) -> None:
        self._seen, self._answered = self._version(), monotonic()
        self._watching = Thread(target=self._poll, name="grants", daemon=True)
        self._watching.start()

    def close(self) -> None:
        self._ending.set()
        with self._using:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _poll(self) -> None:
        while not self._ending.wait(POLL_SECONDS):
            try:
                self._seen = max(self._seen, self._version())
                self._answered = monotonic()
            except Exception:  # noqa: S112 - it is asked again, and `version` refuses when it stays away
                continue

    def _version(self) -> int:
        with self._using, self._transaction() as connection:
            return int(connection.execute("SELECT version FROM sfumato_access").fetchone()[0])

    @contextmanager
    def _changing(self) -> Iterator[Any]:
        with self._using, self._transaction() as connection:
            changed = connection.execute("UPDATE sfumato_access SET version = version + 1 RETURNING version").fetchone()
            yield connection
        self._seen = max(self._seen, int(changed[0]))

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        psycopg = import_module("psycopg")
        failed = False
        try:
            if self._connection is None or self._connection.closed:
                self._connection = psycopg.connect(self._url, autocommit=True, connect_timeout=_CONNECT_SECONDS)
                self._connection.execute("SET statement_timeout = '10s'")
            with self._connection.transaction():
                yield self._connection
        except (psycopg.Error, OSError, ValueError, TypeError):
            failed = True
        if failed:
            raise grants_damaged(_AWAY, _REMEDY)


def _exists(connection: Any) -> bool:
    return connection.execute("SELECT to_regclass('sfumato_access')").fetchone()[0] is not None


def _is_converted(connection: Any) -> bool:
    found = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'sfumato_sessions'::regclass AND attname = %s"
    return bool(connection.execute(found, (SESSION_COLUMNS[-1],)).fetchone()[0])


def _remove_grants(connection: Any, ids: list[str]) -> int:
    connection.execute("DELETE FROM sfumato_sessions WHERE grant_id = ANY(%s)", (ids,))
    return int(connection.execute("DELETE FROM sfumato_grants WHERE id = ANY(%s)", (ids,)).rowcount)


def _select(table: str, columns: tuple[str, ...], order: str) -> str:
    # a table of an older version lacks the later columns: they are null until the first change converts it
    named = (f"to_jsonb(stored) ->> '{column}'" if column in _ADDED_COLUMNS else column for column in columns)
    return " ".join(("SELECT", ", ".join(named), "FROM", table, "AS stored ORDER BY", order))


def _insert(table: str, columns: tuple[str, ...]) -> str:
    return " ".join(("INSERT INTO", table, "VALUES", f"({', '.join('%s' for _ in columns)})"))
