"""Where rows are kept: what a ledger needs of a file or a server."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from sfumato.ledger.chain import Row, RowKind
from sfumato.ledger.verifying import Verified

PREFIX_CHARS = 84
"""Number of characters at the beginning of a question by which charges are found that measured the same cells."""
PREFIX = f"substr(question, 1, {PREFIX_CHARS})"
FAMILY_CHARS = 64
"""Number of characters before the last two of a question that find charges which partitioned the same rows."""
FAMILY = f"substr(question, length(question) - {FAMILY_CHARS + 1}, {FAMILY_CHARS})"


MAX_COMPARED_CHARGES = 16
"""Maximum number of an account's charges that are looked at for measurements which answer a question."""
MAX_COMPARED_VIEWS = 64
"""Maximum number of an account's charges about the same rows that are looked at for cells which add up to others."""
CHARGES = f"kind = '{RowKind.CHARGED}'"
"""Which rows are charges: an index holds them by account."""
REQUESTS = f"kind = '{RowKind.REQUESTED}'"
"""Which rows are requests: an index holds them by account."""
FOLLOW_UPS = "about > 0 AND kind IN ('charged', 'replied', 'approved', 'declined', 'withdrawn')"
"""Which rows say what became of a request, at its sequence: an index holds them."""

FindRows = Callable[..., Iterable[Any]]
"""Finds rows by a condition and the values in it."""


class Store(Protocol):
    """An append-only table of rows with one writer at a time, whichever other processes have it open.

    All methods but `rows`, `charges`, `settled` and `verify` are called by one thread at a time. Whatever goes wrong
    leaves as a Refusal.
    """

    def writing(self) -> AbstractContextManager[None]:
        """Be the only writer. On leaving, what was appended is durable; after an exception nothing was appended.

        Where leaving itself fails it is not known which: the rows are then read again before anything else is decided.
        """

    def last(self) -> int:
        """Return the sequence of the last row, 0 when there is none."""

    def heads(self, sequence: int) -> list[tuple[int, str]]:
        """Return sequence and head of the first rows from this one on, two at most."""

    def after(self, sequence: int) -> Iterator[Row]:
        """Give the rows behind this one, in their order."""

    def row(self, sequence: int) -> Row | None:
        """Return one row."""

    def answer(self, same: str) -> Row | None:
        """Return the settled row of this question."""

    def answered(self, names: Sequence[str]) -> set[str]:
        """Return which of these questions have a settled row, by one statement."""

    def keyed(self, account: str, key: str) -> Row | None:
        """Return the charged row of this idempotency key."""

    def policy(self, hash: str) -> Row | None:
        """Return the last row that put the policy with this hash in force."""

    def append(self, row: Row) -> None:
        """Append a row."""

    def claim(self, sequence: int) -> bool:
        """Mark a charge as being answered here, until `disclaim` or the end of this process, however it ends.

        Return False if another process or handle is answering it.
        """

    def disclaim(self, sequence: int) -> None:
        """Take back the mark."""

    def is_claimed(self, sequence: int) -> bool:
        """Tell whether another process or handle has marked a charge; this handle's own marks are not seen."""

    def count_charges(self, account: str, after: int, last: int) -> int:
        """Return the number of charges of an account behind one sequence, up to another one."""

    def rows(self) -> AbstractContextManager[Iterator[Row]]:
        """Give all rows as of one moment, without waiting for the writer."""

    def settled(self, receipt: str) -> tuple[Row, Row] | None:
        """Return the charge of a receipt with its release, if it has one; without waiting for the writer."""

    def charges(self, account: str | None, before: int, limit: int) -> list[tuple[Row, Row | None]]:
        """Return the last charges before a sequence, newest first, each with its release if it has one.

        Those of one account, or of all for None. The writer is not waited for.
        """

    def beginning(self, account: str, version: str, text: str, limit: int) -> list[tuple[Row, Row | None]]:
        """Return the last charges of an account about a snapshot whose question begins so, with their releases.

        `text` has `PREFIX_CHARS` characters. The writer is not waited for.
        """

    def has_beginning(self, account: str, version: str, texts: Sequence[str]) -> bool:
        """Tell whether an account has a charge about a snapshot whose question begins with one of these texts.

        Each has `PREFIX_CHARS` characters. The writer is not waited for.
        """

    def family(self, account: str, version: str, family: str, limit: int) -> list[Row]:
        """Return the last charges of an account about a snapshot that partitioned these rows, the newest first.

        `family` has `FAMILY_CHARS` characters. Releases are not read, and the writer is not waited for.
        """

    def requests(self, account: str | None, limit: int) -> list[list[Row]]:
        """Return the last requests of an account, or of all for None, newest first, each with the rows about it.

        The writer is not waited for.
        """

    def count_requests(self, account: str, since: int) -> int:
        """Return how many requests an account has filed since a time, in microseconds since 1970."""

    def verify(self) -> Verified:
        """Have the second reader check everything."""

    def close(self) -> None:
        """Let go of everything."""

    def abandon(self) -> None:
        """Let go after a fork, without touching what the parent still uses."""


def settled_among(value: str, names: Sequence[str]) -> str:
    """Return the condition of rows that settle one of several questions; `value` stands for each name."""
    return f"kind = '{RowKind.SETTLED}' AND same IN ({', '.join(value for _ in names)})"


def settled_rows(select: FindRows, value: str, receipt: str) -> tuple[Row, Row] | None:
    """Return the charge of a receipt with its release; `select` takes a condition, in which `value` stands for one."""
    for charge in map(Row._make, select(f"kind = '{RowKind.CHARGED}' AND receipt = {value}", receipt)):
        for row in map(Row._make, select(f"kind = '{RowKind.SETTLED}' AND same = {value}", charge.same)):
            if row.about == charge.sequence:
                return charge, row
    return None


def charge_rows(
    select: FindRows, value: str, account: str | None, before: int, limit: int
) -> list[tuple[Row, Row | None]]:
    """Return a page of charges, newest first, each with its release; `select` and `value` are as in `settled_rows`."""
    whose, given = ("", ()) if account is None else (f" AND account = {value}", (account,))
    page = f"kind = '{RowKind.CHARGED}'{whose} AND sequence < {value} ORDER BY sequence DESC LIMIT {value}"
    return _with_releases(select, value, page, *given, before, limit)


def beginning_rows(
    select: FindRows, value: str, account: str, version: str, text: str, limit: int
) -> list[tuple[Row, Row | None]]:
    """Return the last charges whose question begins with a text; `select` and `value` are as in `settled_rows`."""
    wanted = f"account = {value} AND {PREFIX} = {value} AND version = {value}"
    page = f"kind = '{RowKind.CHARGED}' AND {wanted} ORDER BY sequence DESC LIMIT {value}"
    return _with_releases(select, value, page, account, text, version, limit)


def with_beginning(value: str, texts: Sequence[str]) -> str:
    """Return the condition of charges of one account and snapshot that begin with one of several texts.

    `value` stands for each value, in the order account, texts, snapshot.
    """
    return f"{CHARGES} AND account = {value} AND {PREFIX} IN ({', '.join(value for _ in texts)}) AND version = {value}"


def family_rows(select: FindRows, value: str, account: str, version: str, family: str, limit: int) -> list[Row]:
    """Return the last charges of a family; `select` and `value` are as in `settled_rows`."""
    wanted = f"account = {value} AND {FAMILY} = {value} AND version = {value}"
    page = f"kind = '{RowKind.CHARGED}' AND {wanted} ORDER BY sequence DESC LIMIT {value}"
    return list(map(Row._make, select(page, account, family, version, limit)))


def _with_releases(select: FindRows, value: str, page: str, *given: str | int) -> list[tuple[Row, Row | None]]:
    found: list[tuple[Row, Row | None]] = []
    for charge in map(Row._make, select(page, *given)):
        ends = map(Row._make, select(f"kind = '{RowKind.SETTLED}' AND same = {value}", charge.same))
        found.append((charge, next((row for row in ends if row.about == charge.sequence), None)))
    return found


def request_rows(select: FindRows, value: str, account: str | None, limit: int) -> list[list[Row]]:
    """Return requests, each with the rows about it in their order; `select` and `value` are as in `settled_rows`."""
    whose, given = ("", ()) if account is None else (f" AND account = {value}", (account,))
    page = select(f"{REQUESTS}{whose} ORDER BY sequence DESC LIMIT {value}", *given, limit)
    return [
        [request, *map(Row._make, select(f"{FOLLOW_UPS} AND about = {value} ORDER BY sequence", request.sequence))]
        for request in map(Row._make, page)
    ]
