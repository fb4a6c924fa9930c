"""Rows in a PostgreSQL table, for several servers over one account.

The table lies in the first schema of the search path, so several datasets can share a database. The writer locks it, so
caps are decided in one order, whichever server asks. A charge that is being answered is marked by an advisory lock,
numbered by table and charge, which the server releases when the connection ends. There is no anchor file: a database
that was restored from a backup is noticed while a ledger is open, and otherwise by the heads in receipts.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from typing import Any

from sfumato.engines.sql.builder import select
from sfumato.errors import Refusal
from sfumato.ledger.chain import Row, length_prefixed
from sfumato.ledger.damage import damaged, unavailable
from sfumato.ledger.recorded_policy import name_of
from sfumato.ledger.store import (
    CHARGES,
    FAMILY,
    FOLLOW_UPS,
    PREFIX,
    REQUESTS,
    FindRows,
    beginning_rows,
    charge_rows,
    family_rows,
    request_rows,
    settled_among,
    settled_rows,
    with_beginning,
)
from sfumato.ledger.verifying import Verified, verify_rows

_NAME = "sfumato_entries"
_COLUMNS = ", ".join(f'"{name}"' for name in Row._fields)
_CREATION_LOCK_ID = 0x5FADA70 << 36
"""The process that creates a ledger holds this advisory lock of the database."""
_SETTINGS = (
    "synchronous_commit = on",
    "lock_timeout = '60s'",
    "default_transaction_isolation = 'read committed'",
)
_IS_MARKED = (
    "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND classid::bigint = %s AND objid::bigint = %s AND pid <> pg_backend_pid())"
)
_INHERITED_CONNECTIONS: list[object] = []
"""Connections of a parent process: ending one here would end the parent's session, so they are kept for ever."""


@dataclass(frozen=True, slots=True)
class _Table:
    """The table of one ledger, with its schema: what it is called does not depend on the search path any more."""

    schema: str
    name: str

    @property
    def select(self) -> str:
        return f"SELECT {_COLUMNS} FROM {self.name}"  # noqa: S608

    @property
    def insert(self) -> str:
        return f"INSERT INTO {self.name} ({_COLUMNS}) VALUES ({', '.join('%s' for _ in Row._fields)})"  # noqa: S608

    @property
    def indexes(self) -> dict[str, str]:
        """The statements that make the indexes of charges, by the names of the indexes."""
        found = {
            f"{_NAME}_charges": "account, sequence",
            f"{_NAME}_receipts": "receipt",
            f"{_NAME}_measured": f"account, {PREFIX}, version, sequence",
            f"{_NAME}_families": f"account, {FAMILY}, version, sequence",
        }
        statements = {
            name: f"CREATE INDEX {name} ON {self.name} ({columns}) WHERE kind = 'charged'"
            for name, columns in found.items()
        }
        for name, columns, which in (
            (f"{_NAME}_requests", "account, sequence", REQUESTS),
            (f"{_NAME}_follow_ups", "about, sequence", FOLLOW_UPS),
        ):
            statements[name] = f"CREATE INDEX {name} ON {self.name} ({columns}) WHERE {which}"
        return {f"{self.schema}.{name}": statement for name, statement in statements.items()}

    @property
    def creation(self) -> tuple[str, ...]:
        fields = [f'"{name}" {"bigint" if name in ("time", "about") else "text"} NOT NULL' for name in Row._fields[1:]]
        return (
            f'CREATE TABLE {self.name} ("sequence" bigint PRIMARY KEY, {", ".join(fields)})',
            f"CREATE UNIQUE INDEX {_NAME}_answers ON {self.name} (same) WHERE kind = 'settled'",
            f"CREATE UNIQUE INDEX {_NAME}_keys ON {self.name} (account, key) WHERE key <> ''",
            *self.indexes.values(),
            f"CREATE FUNCTION {self.schema}.{_NAME}_stay() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'append only'; END $$",
            f"CREATE TRIGGER stay BEFORE UPDATE OR DELETE OR TRUNCATE ON {self.name} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {self.schema}.{_NAME}_stay()",
        )


class PostgresStore:
    """One ledger on a server, opened. See `Store`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Any
        self._marks: Any
        self._claimed: set[int] = set()
        """The charges that are marked here: a new connection marks them again."""
        with _failing_closed():
            self._connect()

    def _connect(self) -> None:
        self._connection, self._marks = _open_connection(self._url), _open_connection(self._url)
        self._table = _table(self._connection)
        self._identity = int(_read_one(self._connection, "SELECT %s::regclass::oid", self._table.name))
        for sequence in self._claimed:
            _read_one(self._marks, "SELECT pg_try_advisory_lock(%s)", self._mark(sequence))
        for name, index in self._table.indexes.items():
            with suppress(Refusal), _failing_closed():  # a role that may not make one does without it
                if not _read_one(self._connection, "SELECT to_regclass(%s) IS NOT NULL", name):
                    self._connection.execute(index)

    @contextmanager
    def writing(self) -> Iterator[None]:
        with _failing_closed():
            if self._connection.closed or self._marks.closed:
                self.close()
                self._connect()
            connection = self._connection
            with connection.transaction():
                connection.execute(f"LOCK TABLE {self._table.name} IN EXCLUSIVE MODE")
                yield

    def last(self) -> int:
        with _failing_closed():
            return int(_read_one(self._connection, f"SELECT max(sequence) FROM {self._table.name}") or 0)  # noqa: S608

    def heads(self, sequence: int) -> list[tuple[int, str]]:
        where, order = "sequence >= %s", "sequence"
        statement = select("sequence, head", self._table.name, where=where, order_by=order, limit=2)
        with _failing_closed():
            return [(int(number), head) for number, head in self._connection.execute(statement, (sequence,))]

    def after(self, sequence: int) -> Iterator[Row]:
        with _failing_closed():
            found = self._connection.execute(f"{self._table.select} WHERE sequence > %s ORDER BY sequence", (sequence,))
            yield from map(Row._make, found)

    def row(self, sequence: int) -> Row | None:
        return self._read_one("sequence = %s", sequence)

    def answer(self, same: str) -> Row | None:
        return self._read_one("kind = 'settled' AND same = %s", same)

    def answered(self, names: Sequence[str]) -> set[str]:
        statement = select("same", self._table.name, where=settled_among("%s", names))
        with _failing_closed():
            return {same for (same,) in self._connection.execute(statement, names)}

    def keyed(self, account: str, key: str) -> Row | None:
        return self._read_one("key <> '' AND account = %s AND key = %s", account, key)

    def policy(self, hash: str) -> Row | None:
        return self._read_one("kind = 'policy' AND policy = %s ORDER BY sequence DESC LIMIT 1", hash)

    def _read_one(self, where: str, *values: str | int) -> Row | None:
        with _failing_closed():
            found = self._connection.execute(f"{self._table.select} WHERE {where}", values).fetchone()
        return None if found is None else Row._make(found)

    def append(self, row: Row) -> None:
        with _failing_closed():
            self._connection.execute(self._table.insert, row)

    def claim(self, sequence: int) -> bool:
        with _failing_closed():
            claimed = bool(_read_one(self._marks, "SELECT pg_try_advisory_lock(%s)", self._mark(sequence)))
            if claimed:
                self._claimed.add(sequence)
            return claimed

    def disclaim(self, sequence: int) -> None:
        self._claimed.discard(sequence)
        with _failing_closed():
            self._marks.execute("SELECT pg_advisory_unlock(%s)", (self._mark(sequence),))

    def is_claimed(self, sequence: int) -> bool:
        high, low = divmod(self._mark(sequence) % (1 << 64), 1 << 32)
        with _failing_closed():
            return bool(_read_one(self._marks, _IS_MARKED, high, low))

    def _mark(self, sequence: int) -> int:
        """Return the advisory lock of a charge. All ledgers of a database share the numbers, so they are hashed."""
        digest = sha256(length_prefixed(_NAME, self._identity, sequence)).digest()
        return int.from_bytes(digest[:8], signed=True)

    @contextmanager
    def rows(self) -> Iterator[Iterator[Row]]:
        with (
            _failing_closed(),
            _open_connection(self._url) as connection,
            connection.transaction(),
            connection.cursor(name="rows") as found,
        ):
            found.execute(f"{self._table.select} ORDER BY sequence")  # one statement sees one moment
            yield map(Row._make, found)

    @contextmanager
    def _one_moment(self) -> Iterator[FindRows]:
        """Give what finds rows, all as of one moment; the writer is not waited for."""
        with _failing_closed(), _open_connection(self._url) as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            yield lambda where, *values: connection.execute(f"{self._table.select} WHERE {where}", values).fetchall()

    def settled(self, receipt: str) -> tuple[Row, Row] | None:
        with self._one_moment() as find:
            return settled_rows(find, "%s", receipt)

    def beginning(self, account: str, version: str, text: str, limit: int) -> list[tuple[Row, Row | None]]:
        with self._one_moment() as find:
            return beginning_rows(find, "%s", account, version, text, limit)

    def family(self, account: str, version: str, family: str, limit: int) -> list[Row]:
        with self._one_moment() as find:
            return family_rows(find, "%s", account, version, family, limit)

    def charges(self, account: str | None, before: int, limit: int) -> list[tuple[Row, Row | None]]:
        with self._one_moment() as find:
            return charge_rows(find, "%s", account, before, limit)

    def has_beginning(self, account: str, version: str, texts: Sequence[str]) -> bool:
        statement = select("1", self._table.name, where=with_beginning("%s", texts), limit=1)
        with _failing_closed():
            return self._connection.execute(statement, (account, *texts, version)).fetchone() is not None

    def count_charges(self, account: str, after: int, last: int) -> int:
        where = [CHARGES, "account = %s", "sequence > %s", "sequence <= %s"]
        with _failing_closed():
            return int(
                _read_one(self._connection, select("count(*)", self._table.name, where=where), account, after, last)
            )

    def requests(self, account: str | None, limit: int) -> list[list[Row]]:
        with self._one_moment() as find:
            return request_rows(find, "%s", account, limit)

    def count_requests(self, account: str, since: int) -> int:
        statement = select("count(*)", self._table.name, where=[REQUESTS, "account = %s", "time >= %s"])
        with _failing_closed():
            return int(_read_one(self._connection, statement, account, since))

    def verify(self) -> Verified:
        with (
            _failing_closed(),
            _open_connection(self._url) as connection,
            connection.transaction(),
            connection.cursor(name="verify") as rows,
        ):
            rows.execute(f"{self._table.select} ORDER BY sequence")
            return verify_rows(rows, None)

    def close(self) -> None:
        for connection in (self._connection, self._marks):
            with suppress(Refusal), _failing_closed():
                connection.close()

    def abandon(self) -> None:
        _INHERITED_CONNECTIONS.extend((self._connection, self._marks))


def create_table(url: str, first: Row) -> None:
    """Make a ledger of one row in one transaction; do nothing where there is one."""
    with _failing_closed(), _open_connection(url) as connection, connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATION_LOCK_ID,))
        table = _table(connection)
        if _read_one(connection, "SELECT to_regclass(%s) IS NOT NULL", table.name):
            if not _read_one(connection, f"SELECT count(*) FROM {table.name}"):  # noqa: S608
                raise damaged("Its table is empty, and a ledger begins with an entry.")
            return
        _require_none_elsewhere(connection, table, first)
        for statement in table.creation:
            connection.execute(statement)
        connection.execute(table.insert, first)


def replace_table(url: str, rows: Iterable[Row], expected: int, aside: str) -> None:
    """Put a new ledger in the place of one that is missing or given up, in one transaction; that one stays aside.

    `expected` is the last sequence that was found before, 0 where there was none. If it has moved on since, nothing
    is changed.
    """
    with _failing_closed(), _open_connection(url) as connection, connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATION_LOCK_ID,))
        table = _table(connection)
        there = bool(_read_one(connection, "SELECT to_regclass(%s) IS NOT NULL", table.name))
        if there:
            connection.execute(f"LOCK TABLE {table.name} IN ACCESS EXCLUSIVE MODE")
        last = _read_one(connection, f"SELECT max(sequence) FROM {table.name}") if there else 0  # noqa: S608
        if (last or 0) != expected:
            raise unavailable(
                "It was used while it was being replaced.", "Nothing was changed. Stop the servers, then repeat."
            )
        if there:
            _set_aside(connection, table, aside)
        for statement in table.creation:
            connection.execute(statement)
        with connection.cursor() as cursor:
            cursor.executemany(table.insert, rows)


def _set_aside(connection: Any, table: _Table, aside: str) -> None:
    """Rename a ledger with its indexes and its function, so that another one can be made beside it."""
    indexes = connection.execute(
        "SELECT quote_ident(relname) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
        "WHERE indrelid = %s::regclass",
        (table.name,),
    ).fetchall()
    for (index,) in indexes:
        connection.execute(f'ALTER INDEX {table.schema}.{index} RENAME TO "{index}_{aside}"')
    connection.execute(f'ALTER FUNCTION {table.schema}.{_NAME}_stay() RENAME TO "{_NAME}_stay_{aside}"')
    connection.execute(f'ALTER TABLE {table.name} RENAME TO "{_NAME}_{aside}"')


def last_in_table(url: str) -> int:
    """Return the last sequence of the ledger at this address; 0 where there is none."""
    if not has_table(url):
        return 0
    with _failing_closed(), _open_connection(url) as connection:
        return int(_read_one(connection, f"SELECT max(sequence) FROM {_table(connection).name}") or 0)  # noqa: S608
    raise AssertionError("either it was found out, or refused")


def has_table(url: str) -> bool:
    """Tell whether there is a ledger at this address; none is created."""
    with _failing_closed():
        connection = _open_connection(url)
        try:
            return bool(_read_one(connection, "SELECT to_regclass(%s) IS NOT NULL", _table(connection).name))
        finally:
            connection.close()
    raise AssertionError("either it was found out, or refused")


def _table(connection: Any) -> _Table:
    """Return the table in the first schema of the search path, which the URL may name."""
    schema = _read_one(connection, "SELECT quote_ident(current_schema())")
    if schema is None:
        raise unavailable(
            "The schema that the search path of its URL names does not exist, or may not be used.",
            "Nothing was released. Create the schema, or correct the URL.",
        )
    return _Table(schema, f"{schema}.{_NAME}")


def _require_none_elsewhere(connection: Any, table: _Table, first: Row) -> None:
    """Refuse to begin anew where version 0.1.0, which did not read the search path, has kept the account."""
    before = connection.execute(
        "SELECT quote_ident(nspname) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE relname = %s AND nspname IN ('public', current_user) AND has_table_privilege(pg_class.oid, 'SELECT')",
        (_NAME,),
    ).fetchall()
    for (schema,) in before:
        other = _Table(schema, f"{schema}.{_NAME}")
        rows = connection.execute(f"{other.select} WHERE kind = 'policy' ORDER BY sequence DESC LIMIT 1").fetchall()
        if rows and name_of(Row._make(rows[0])) == name_of(first):
            raise unavailable(
                f"The account of this dataset lies in the schema {schema}, not in {table.schema}, which its URL names.",
                f"Nothing was released. Move it: ALTER TABLE {other.name} SET SCHEMA {table.schema}; and the function "
                f"{_NAME}_stay() in the same way. If it is another dataset of the same name, rename this one.",
            )


def _read_one(connection: Any, statement: str, *values: object) -> Any:
    """Return the one value of the one row."""
    return connection.execute(statement, values).fetchone()[0]


def _open_connection(url: str) -> Any:
    try:
        driver = import_module("psycopg")
    except ImportError:
        driver = None
    if driver is None:
        raise unavailable(
            "A ledger on PostgreSQL needs a driver that is not installed.",
            "Install it: pip install 'sfumato[postgres]'.",
        )
    connection = driver.connect(url, autocommit=True, connect_timeout=10)
    for setting in _SETTINGS:  # after what the URL, the environment or the server set, such as the search path
        connection.execute(f"SET {setting}")
    return connection


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
