"""Rows in a SQLite file: write-ahead log, one fsync per transaction, an anchor for each, a seal when it is closed.

The write-ahead log needs one fsync per commit where a rollback journal needs three, lets readers read while one
writes, and carries a checksum in every frame. `synchronous = FULL` makes each commit durable before it returns.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from sfumato.engines.sql.builder import select
from sfumato.errors import LedgerDamaged, Refusal
from sfumato.ledger.anchor import Anchor, NextAnchor, digest_of, read_anchor, write_anchor
from sfumato.ledger.chain import Row
from sfumato.ledger.damage import RESTORE_ANCHOR, damaged, unavailable
from sfumato.ledger.sqlite_readers import Readers
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
from sfumato.ledger.verifying import Verified, verify_file
from sfumato.secure_files import FileLock

SEALED_UP_TO = 1 << 28
"""A larger file is not hashed as a whole when it is opened and closed: 256 MiB take a fifth of a second."""
APPLICATION_ID = 0x5FADA70
FORMAT_VERSION = 1
_LOCK_TIMEOUT_SECONDS = 5.0
"""Seconds for programs that are not ours and lock the file; ours wait for each other by the lock beside it."""
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_COLUMNS = ", ".join(Row._fields)
_SCHEMA = (
    f"CREATE TABLE entries ({Row._fields[0]} INTEGER PRIMARY KEY, "
    + ", ".join(f"{name} {'INTEGER' if name in ('time', 'about') else 'TEXT'} NOT NULL" for name in Row._fields[1:])
    + ") STRICT",
    "CREATE UNIQUE INDEX answers ON entries (same) WHERE kind = 'settled'",
    "CREATE UNIQUE INDEX keys ON entries (account, key) WHERE key <> ''",
    "CREATE TRIGGER entries_stay BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'append only'); END",
    "CREATE TRIGGER entries_are_kept BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'append only'); END",
)
_INDEXES = (
    "CREATE INDEX charges ON entries (account, sequence) WHERE kind = 'charged'",
    "CREATE INDEX receipts ON entries (receipt) WHERE kind = 'charged'",
    f"CREATE INDEX measured ON entries (account, {PREFIX}, version, sequence) WHERE kind = 'charged'",
    f"CREATE INDEX families ON entries (account, {FAMILY}, version, sequence) WHERE kind = 'charged'",
    f"CREATE INDEX requests ON entries (account, sequence) WHERE {REQUESTS}",
    f"CREATE INDEX request_follow_ups ON entries (about, sequence) WHERE {FOLLOW_UPS}",
)
"""Charges and requests are found without reading others. Older ledgers get missing ones."""
_INSERT = f"INSERT INTO entries ({_COLUMNS}) VALUES ({', '.join('?' for _ in Row._fields)})"  # noqa: S608
_SELECT = f"SELECT {_COLUMNS} FROM entries"  # noqa: S608
_HEADS = select("sequence, head", "entries", where="sequence >= ?", order_by="sequence", limit=2)
_INHERITED_CONNECTIONS: list[sqlite3.Connection] = []
"""Connections of a parent process: closing one here would let go of the parent's locks, so they are kept for ever."""


class SqliteStore:
    """One ledger file, opened. See `Store`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock(_sibling_path(path, "lock"))
        self._changed = False
        self._readers = Readers(path)
        self._anchor_is_behind = False
        """Whether entries may be durable that the anchor does not know. Nothing is answered then."""
        try:
            with _failing_closed(), self._lock.held():
                self._connection = self._open_file()
        except BaseException:
            self._lock.close()
            raise

    def _open_file(self) -> sqlite3.Connection:
        """Open the file and hold it against its anchor. The lock is held: whatever moves was left by a dead process."""
        anchor = read_anchor(_sibling_path(self._path, "anchor"))
        if not self._path.stat().st_size:
            raise damaged("Its file is empty, and a ledger begins with an entry.")
        sealed = _seal_holds(self._path, anchor)
        connection = sqlite3.connect(
            self._path, timeout=_LOCK_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            self._identity = _identity(self._path)
            _check_form(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA trusted_schema = OFF")
            last = connection.execute("SELECT max(sequence) FROM entries").fetchone()[0] or 0
            _check_anchor(connection, anchor, last)
            if not sealed and anchor is not None and last == anchor.sequence:
                raise damaged("Its file is not the one that was closed last.")
            if anchor is None or anchor.sequence < last:  # a process ended between its commit and its anchor
                write_anchor(_sibling_path(self._path, "anchor"), _last_entry(connection))
            self._add_indexes(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _add_indexes(self, connection: sqlite3.Connection) -> None:
        """Give an older ledger the indexes that it lacks. They hold nothing that the rows do not say."""
        present = {text for (text,) in connection.execute("SELECT sql FROM sqlite_schema WHERE type = 'index'")}
        for index in _INDEXES:
            if index not in present:
                write_anchor(
                    _sibling_path(self._path, "anchor"), _last_entry(connection)
                )  # the seal is of the file before
                connection.execute(index)
                self._changed = True

    @contextmanager
    def writing(self) -> Iterator[None]:
        with _failing_closed(), self._lock.held():
            if _identity(self._path) != self._identity:
                raise damaged("Its file was replaced while it was in use.", "Nothing was released. Open it again.")
            anchor = _sibling_path(self._path, "anchor")
            if self._anchor_is_behind:
                write_anchor(anchor, _last_entry(self._connection))
                self._anchor_is_behind = False
            before = self._connection.total_changes
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                if self._connection.total_changes == before:
                    self._connection.execute("ROLLBACK")
                    return
                # all steps that can fail come before the commit, except the last one: the next turn repairs it
                with closing(NextAnchor(anchor, _last_entry(self._connection))) as following:
                    self._anchor_is_behind = True
                    self._connection.execute("COMMIT")
                    self._changed = True
                    following.put_in_place()
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            self._anchor_is_behind = False

    def last(self) -> int:
        with _failing_closed():
            return int(self._connection.execute("SELECT max(sequence) FROM entries").fetchone()[0] or 0)

    def heads(self, sequence: int) -> list[tuple[int, str]]:
        with _failing_closed():
            return self._connection.execute(_HEADS, (sequence,)).fetchall()

    def after(self, sequence: int) -> Iterator[Row]:
        with _failing_closed():
            yield from map(
                Row._make,
                self._connection.execute(f"{_SELECT} WHERE sequence > ? ORDER BY sequence", (sequence,)),
            )

    def row(self, sequence: int) -> Row | None:
        return self._read_row("sequence = ?", sequence)

    def answer(self, same: str) -> Row | None:
        return self._read_row("kind = 'settled' AND same = ?", same)

    def answered(self, names: Sequence[str]) -> set[str]:
        statement = select("same", "entries", where=settled_among("?", names))
        with _failing_closed():
            return {same for (same,) in self._connection.execute(statement, names)}

    def keyed(self, account: str, key: str) -> Row | None:
        return self._read_row("key <> '' AND account = ? AND key = ?", account, key)

    def policy(self, hash: str) -> Row | None:
        return self._read_row("kind = 'policy' AND policy = ? ORDER BY sequence DESC LIMIT 1", hash)

    def _read_row(self, where: str, *values: str | int) -> Row | None:
        with _failing_closed():
            found = self._connection.execute(f"{_SELECT} WHERE {where}", values).fetchone()
        return None if found is None else Row._make(found)

    def append(self, row: Row) -> None:
        with _failing_closed():
            self._connection.execute(_INSERT, row)

    def claim(self, sequence: int) -> bool:
        with _failing_closed():
            return self._lock.mark(sequence)

    def disclaim(self, sequence: int) -> None:
        with _failing_closed():
            self._lock.unmark(sequence)

    def is_claimed(self, sequence: int) -> bool:
        with _failing_closed():
            return self._lock.is_marked(sequence)

    @contextmanager
    def rows(self) -> Iterator[Iterator[Row]]:
        with (
            _failing_closed(),
            closing(sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True)) as connection,
            # an open cursor keeps the file from being folded as long as a caller holds the exception
            closing(connection.execute(f"{_SELECT} ORDER BY sequence")) as found,
        ):
            yield map(Row._make, found)

    @contextmanager
    def _reading(self, *, one_moment: bool = True) -> Iterator[FindRows]:
        """Give a function that finds rows, all as of one moment or each separately. Also reads a file in its place."""
        keep = _identity(self._path) == self._identity
        with _failing_closed(), self._readers.reading(keep=keep, one_moment=one_moment) as connection:
            yield lambda where, *values: connection.execute(f"{_SELECT} WHERE {where}", values).fetchall()

    def settled(self, receipt: str) -> tuple[Row, Row] | None:
        with self._reading() as find:
            return settled_rows(find, "?", receipt)

    def charges(self, account: str | None, before: int, limit: int) -> list[tuple[Row, Row | None]]:
        with self._reading() as find:
            return charge_rows(find, "?", account, before, limit)

    def beginning(self, account: str, version: str, text: str, limit: int) -> list[tuple[Row, Row | None]]:
        with self._reading(one_moment=False) as find:  # an outcome that comes meanwhile is as good
            return beginning_rows(find, "?", account, version, text, limit)

    def has_beginning(self, account: str, version: str, texts: Sequence[str]) -> bool:
        statement = select("1", "entries", where=with_beginning("?", texts), limit=1)
        with _failing_closed():
            return self._connection.execute(statement, (account, *texts, version)).fetchone() is not None

    def count_charges(self, account: str, after: int, last: int) -> int:
        statement = select("count(*)", "entries", where=[CHARGES, "account = ?", "sequence > ?", "sequence <= ?"])
        with _failing_closed():
            return int(self._connection.execute(statement, (account, after, last)).fetchone()[0])

    def family(self, account: str, version: str, family: str, limit: int) -> list[Row]:
        with self._reading(one_moment=False) as find:
            return family_rows(find, "?", account, version, family, limit)

    def requests(self, account: str | None, limit: int) -> list[list[Row]]:
        with self._reading() as find:
            return request_rows(find, "?", account, limit)

    def count_requests(self, account: str, since: int) -> int:
        statement = select("count(*)", "entries", where=[REQUESTS, "account = ?", "time >= ?"])
        with _failing_closed():
            return int(self._connection.execute(statement, (account, since)).fetchone()[0])

    def verify(self) -> Verified:
        return verify_file(self._path)

    def close(self) -> None:
        """Fold the log into the file and seal it; where that is not possible now, the chain still protects it."""
        self._readers.close()
        with suppress(Refusal), _failing_closed(), self._lock.held():
            if self._changed and _identity(self._path) == self._identity:
                self._seal()
        with suppress(sqlite3.Error):
            self._connection.close()
        self._lock.close()

    def _seal(self) -> None:
        anchor_path = _sibling_path(self._path, "anchor")
        anchor = read_anchor(anchor_path)
        busy, frames, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        whole = not busy and not frames and self._path.stat().st_size <= SEALED_UP_TO
        if whole and anchor is not None and anchor.sequence == self.last():
            write_anchor(anchor_path, Anchor(anchor.sequence, anchor.head, digest_of(self._path)))

    def abandon(self) -> None:
        _INHERITED_CONNECTIONS.extend((self._connection, *self._readers.abandon()))
        self._lock.close()


def create_file(path: Path, first: Row) -> None:
    """Make a ledger of one row: written aside, synchronised, renamed, so that it appears whole or not at all.

    Does nothing where a ledger is there already.
    """
    with _failing_closed():
        lock = FileLock(_sibling_path(path, "lock"))
        try:
            with lock.held():
                if path.exists():
                    return
                if _sibling_path(path, "anchor").exists():
                    raise damaged(
                        "Its file is gone, and its anchor is still there.",
                        "Restore the ledger from a backup. A spent budget cannot start again at zero.",
                    )
                _build(_sibling_path(path, "aside"), [first])
                _sibling_path(path, "aside").rename(path)
                _synchronise_folder(path.parent)
                write_anchor(_sibling_path(path, "anchor"), Anchor(first.sequence, first.head, digest_of(path)))
        finally:
            lock.close()


def write_file(path: Path, rows: Iterable[Row]) -> Anchor:
    """Make a ledger file of these rows, where there is none, and its anchor; both are durable afterwards."""
    with _failing_closed():
        _build(path, rows)
        with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as connection:
            last = _last_entry(connection)
        anchor = Anchor(last.sequence, last.head, digest_of(path) if path.stat().st_size <= SEALED_UP_TO else None)
        write_anchor(_sibling_path(path, "anchor"), anchor)
        return anchor


def replace_file(path: Path, new: Path, expected: tuple[int, str], aside: str) -> None:
    """Put a new ledger and its anchor in the place of one that is gone, broken or given up; that one stays aside.

    `expected` are the sequence and the head that its anchor had before, 0 and an empty text where there was none: where
    the anchor has moved on since, nothing is changed.
    """
    with _failing_closed():
        lock = FileLock(_sibling_path(path, "lock"))
        try:
            with lock.held():
                anchor = _sibling_path(path, "anchor")
                if _read_anchor(anchor) != expected:
                    raise unavailable(
                        "It was used while it was being replaced.", "Nothing was changed. Stop the server, then repeat."
                    )
                if anchor.exists():
                    _sibling_path(path, f"{aside}.anchor").write_bytes(anchor.read_bytes())
                for ending in ("", "-wal", "-shm"):  # a log that stays behind would be read into the new file
                    with suppress(FileNotFoundError):
                        path.with_name(path.name + ending).rename(_sibling_path(path, aside + ending))
                new.rename(path)
                _synchronise_folder(path.parent)
                _sibling_path(new, "anchor").rename(anchor)
                _synchronise_folder(path.parent)
        finally:
            lock.close()


def _read_anchor(path: Path) -> tuple[int, str]:
    """Return sequence and head of an anchor; 0 and an empty text where there is none or it is broken."""
    with suppress(LedgerDamaged):
        anchor = read_anchor(path)
        if anchor is not None:
            return anchor.sequence, anchor.head
    return 0, ""


@contextmanager
def read_rows(path: Path) -> Iterator[Iterator[Row]]:
    """Give the rows of a file that no program changes, and write nothing beside it."""
    with (
        _failing_closed(),
        closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as connection,
        closing(connection.execute(f"{_SELECT} ORDER BY sequence")) as found,
    ):
        yield map(Row._make, found)


def _build(aside: Path, rows: Iterable[Row]) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        aside.with_name(aside.name + ending).unlink(missing_ok=True)
    os.close(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
    with closing(sqlite3.connect(aside, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
        connection.execute("BEGIN")
        for statement in (*_SCHEMA, *_INDEXES):
            connection.execute(statement)
        written = connection.executemany(_INSERT, rows).rowcount
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")  # stays with the file
    _require_built(aside, written)
    descriptor = os.open(aside, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _require_built(aside: Path, written: int) -> None:
    """Look at what is in the file itself: SQLite may fail to fold a log into it when it closes, without a word."""
    with aside.open("rb") as stream:
        log_mode = stream.read(20)[18:] == b"\2\2"
    with closing(sqlite3.connect(f"{aside.as_uri()}?immutable=1", uri=True)) as connection:
        found = connection.execute("SELECT count(*), max(sequence) FROM entries").fetchone()
        if not log_mode or found != (written, written):
            raise unavailable("The file could not be created.")


def _sibling_path(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}.{ending}")


def _last_entry(connection: sqlite3.Connection) -> Anchor:
    return Anchor(*connection.execute("SELECT sequence, head FROM entries ORDER BY sequence DESC LIMIT 1").fetchone())


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _synchronise_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _seal_holds(path: Path, anchor: Anchor | None) -> bool:
    """Tell whether the file is the one that was sealed, as far as that can be told from its bytes."""
    if anchor is None or anchor.seal is None or path.stat().st_size > SEALED_UP_TO:
        return True
    return digest_of(path) == anchor.seal


def _check_form(connection: sqlite3.Connection) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    form = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise damaged("Its file is not a ledger of sfumato.")
    if form != FORMAT_VERSION:
        raise unavailable(
            f"It was written in format {form}, and this program knows format {FORMAT_VERSION}.",
            "Use the version of sfumato that wrote it.",
        )
    found = {text for (text,) in connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")}
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    if found - set(_INDEXES) != set(_SCHEMA) or mode != "wal":
        raise damaged("Its tables are not those of a ledger.")


def _check_anchor(connection: sqlite3.Connection, anchor: Anchor | None, last: int) -> None:
    if not last:
        raise damaged("It has no entry.")
    if anchor is None:
        if last > 1:
            raise damaged("It has entries, and its anchor is gone.", RESTORE_ANCHOR)
        return
    found = connection.execute("SELECT head FROM entries WHERE sequence = ?", (anchor.sequence,)).fetchone()
    if found is None:
        raise damaged(f"It ends at entry {last}, and its anchor knows entry {anchor.sequence}: a part is lost.")
    if found[0] != anchor.head:
        raise damaged(f"Entry {anchor.sequence} is not the one that its anchor knows.")


@contextmanager
def _failing_closed() -> Iterator[None]:
    """Turn what SQLite or the system says into a refusal: their words may hold a path."""
    try:
        yield
        return
    except sqlite3.Error as error:
        # without a code it is Python that could not read a text
        broken = (getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF) in _BROKEN
    except UnicodeError:
        broken = True
    except OSError:
        broken = False
    if broken:
        raise damaged("Its file cannot be read as a ledger.") from None
    raise unavailable("The file could not be read or written durably.") from None
