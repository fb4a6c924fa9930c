"""Rows in a PostgreSQL table, for several servers over one account.

The writer locks the table, so caps are decided in one order whoever asks. A charge that is being answered is marked by
an advisory lock, which the server lets go of when the connection ends. There is no anchor file: a database that was
restored from a backup is noticed while a ledger is open, and otherwise by the heads in receipts.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from sfumato.errors import Refusal
from sfumato.ledger.chain import Row
from sfumato.ledger.damage import damaged, unavailable
from sfumato.ledger.verifying import Verified, verify_rows

_TABLE = "sfumato_entries"
_COLUMNS = ", ".join(f'"{name}"' for name in Row._fields)
_SELECT = f"SELECT {_COLUMNS} FROM {_TABLE}"  # noqa: S608
_INSERT = f"INSERT INTO {_TABLE} ({_COLUMNS}) VALUES ({', '.join('%s' for _ in Row._fields)})"  # noqa: S608
_MARKS = 0x5FADA70 << 36
"""Advisory locks are numbered, and the whole database shares the numbers: ours begin here."""
_SETTINGS = "-c synchronous_commit=on -c lock_timeout=60s -c default_transaction_isolation=read\\ committed"
_SCHEMA = (
    f'CREATE TABLE {_TABLE} ("sequence" bigint PRIMARY KEY, '
    + ", ".join(f'"{name}" {"bigint" if name in ("time", "about") else "text"} NOT NULL' for name in Row._fields[1:])
    + ")",
    f"CREATE UNIQUE INDEX {_TABLE}_answers ON {_TABLE} (same) WHERE kind = 'settled'",
    f"CREATE UNIQUE INDEX {_TABLE}_keys ON {_TABLE} (account, key) WHERE key <> ''",
    f"CREATE FUNCTION {_TABLE}_stay() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'append only'; END $$",
    f"CREATE TRIGGER stay BEFORE UPDATE OR DELETE OR TRUNCATE ON {_TABLE} "
    f"FOR EACH STATEMENT EXECUTE FUNCTION {_TABLE}_stay()",
)
_INHERITED: list[object] = []
"""Connections of a parent process: ending one here would end the parent's session, so they are kept for ever."""


class PostgresStore:
    """One ledger on a server, opened. See `Store`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Any
        self._marks: Any
        with _failing_closed():
            self._connect()

    def _connect(self) -> None:
        self._connection, self._marks = _connected(self._url), _connected(self._url)

    @contextmanager
    def writing(self) -> Iterator[None]:
        with _failing_closed():
            if self._connection.closed or self._marks.closed:
                self.close()
                self._connect()
            connection = self._connection
            with connection.transaction():
                connection.execute(f"LOCK TABLE {_TABLE} IN EXCLUSIVE MODE")
                yield

    def last(self) -> int:
        with _failing_closed():
            found = self._connection.execute(f"SELECT max(sequence) FROM {_TABLE}").fetchone()  # noqa: S608
        return int(found[0] or 0)

    def after(self, sequence: int) -> Iterator[Row]:
        with _failing_closed():
            found = self._connection.execute(f"{_SELECT} WHERE sequence > %s ORDER BY sequence", (sequence,))
            yield from map(Row._make, found)

    def row(self, sequence: int) -> Row | None:
        return self._one("sequence = %s", sequence)

    def answer(self, same: str) -> Row | None:
        return self._one("kind = 'settled' AND same = %s", same)

    def keyed(self, account: str, key: str) -> Row | None:
        return self._one("key <> '' AND account = %s AND key = %s", account, key)

    def _one(self, where: str, *values: str | int) -> Row | None:
        with _failing_closed():
            found = self._connection.execute(f"{_SELECT} WHERE {where}", values).fetchone()
        return None if found is None else Row._make(found)

    def append(self, row: Row) -> None:
        with _failing_closed():
            self._connection.execute(_INSERT, row)

    def claim(self, sequence: int) -> bool:
        with _failing_closed():
            return bool(self._marks.execute("SELECT pg_try_advisory_lock(%s)", (_MARKS + sequence,)).fetchone()[0])

    def disclaim(self, sequence: int) -> None:
        with _failing_closed():
            self._marks.execute("SELECT pg_advisory_unlock(%s)", (_MARKS + sequence,))

    @contextmanager
    def rows(self) -> Iterator[Iterator[Row]]:
        with _failing_closed(), _connected(self._url) as connection:
            yield map(Row._make, connection.execute(f"{_SELECT} ORDER BY sequence"))

    def verify(self) -> Verified:
        with (
            _failing_closed(),
            _connected(self._url) as connection,
            connection.transaction(),
            connection.cursor(name="verify") as rows,
        ):
            rows.execute(f"{_SELECT} ORDER BY sequence")
            return verify_rows(rows, None)

    def close(self) -> None:
        for connection in (self._connection, self._marks):
            with suppress(Refusal), _failing_closed():
                connection.close()

    def abandon(self) -> None:
        _INHERITED.extend((self._connection, self._marks))


def create_table(url: str, first: Row) -> None:
    """Make a ledger of one row in one transaction; do nothing where there is one."""
    with _failing_closed(), _connected(url) as connection, connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MARKS,))
        if connection.execute("SELECT to_regclass(%s) IS NOT NULL", (_TABLE,)).fetchone()[0]:
            if not connection.execute(f"SELECT count(*) FROM {_TABLE}").fetchone()[0]:  # noqa: S608
                raise damaged("Its table is empty, and a ledger begins with an entry.")
            return
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute(_INSERT, first)


def _connected(url: str) -> Any:
    try:
        driver = import_module("psycopg")
    except ImportError:
        driver = None
    if driver is None:
        raise unavailable(
            "A ledger on PostgreSQL needs a driver that is not installed.", "Install it: pip install 'psycopg[binary]'."
        )
    return driver.connect(url, autocommit=True, options=_SETTINGS, connect_timeout=10)


@contextmanager
def _failing_closed() -> Iterator[None]:
    """Turn what the server or the driver says into a refusal: their words may hold an address or a value."""
    try:
        yield
        return
    except OSError:
        pass
    except Exception as error:
        if not any(kind.__module__.startswith("psycopg") for kind in type(error).__mro__):
            raise
    raise unavailable("The server could not be reached, or did not commit.") from None
