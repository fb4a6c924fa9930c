"""Restore a ledger from a backup: it answers nothing until the owner accepts the loss. Proof: proofs/ledger.md §8"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from fractions import Fraction
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from sfumato.accounting.event import Approximate, Event, Pure
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import BadParameter, LedgerDamaged, OtherLedger, RestoreGoesBack
from sfumato.ledger.anchor import read_anchor
from sfumato.ledger.chain import Row, RowKind
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.postgres_store import PostgresStore, has_table, last_in_table, replace_table
from sfumato.ledger.recorded_policy import DATASET
from sfumato.ledger.request import Request
from sfumato.ledger.sqlite_store import SqliteStore, read_rows, replace_file, write_file
from sfumato.ledger.state import read_restored, restored_content
from sfumato.ledger.transaction import LedgerTransaction
from sfumato.ledger.verifying import verify_rows
from sfumato.policy.policy import Location, Policy


class RestoreOutcome(Enum):
    """The outcome of a restore."""

    UNCHANGED = auto()
    """The ledger in place has the same entries as the backup."""
    WAITING = auto()
    """The ledger is restored, and waits for the owner."""
    ACCEPTED = auto()
    """The ledger is restored, and the owner has accepted it."""


@dataclass(frozen=True, slots=True)
class LedgerBackup:
    """The ledger of a backup."""

    id: str
    """Random; the restored ledger names it."""
    path: Path
    cut: int
    """The sequence of its last entry."""
    head: str


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The owner's statement about entries that a restore may have lost."""

    sentence: str
    lost: PrivacyLoss | None
    """The maximum cost of the lost answers, as the owner counts it; None where nothing is counted."""


@dataclass(frozen=True, slots=True)
class RestoredLedger:
    """A ledger after a restore."""

    outcome: RestoreOutcome
    missing: int
    """How many entries are known to be missing: there may be more."""
    is_at_cut: bool = True
    """Whether it holds what the backup has, and no charge after it."""


@dataclass(frozen=True, slots=True)
class LastEntry:
    """The last entry that is known to have been in place; 0 and an empty head where none is known."""

    sequence: int
    head: str


def acceptance_sentence(cut: int) -> str:
    """Return the words with which an owner accepts a restore of the entries up to this one."""
    return f"I accept that answers after entry {cut} may be lost"


def restore_ledger(policy: Policy, backup: LedgerBackup, acceptance: Acceptance | None) -> RestoredLedger:
    """Put the ledger of a backup in its place, closed by a row `restored`; accept it, if the owner says so.

    A sound ledger in that place which has more entries is left alone, unless the owner accepts their loss. One that is
    damaged or missing is replaced. The file that was there is kept aside.
    """
    _require_sentence(acceptance, backup)
    with read_rows(backup.path) as rows:
        verify_rows(rows, (backup.cut, backup.head, None))
    with _open_existing(policy.ledger) as ledger:
        position = _position(policy.ledger)
        if ledger is not None:
            verified = ledger.verify()
            position = LastEntry(verified.entries, verified.head)
            _require_continuation(ledger, backup, position)
            waiting = _restored_row(ledger, backup)
            if waiting is not None:
                outcome = _accept_restored(ledger, acceptance)
                missing = read_restored(waiting.content)[1]
                return RestoredLedger(outcome, missing, is_at_cut=outcome is RestoreOutcome.WAITING)
            if position.sequence == backup.cut:
                return RestoredLedger(RestoreOutcome.UNCHANGED, 0)
        missing = max(position.sequence - backup.cut, 0)
        if ledger is not None and missing and acceptance is None:
            raise RestoreGoesBack(
                f"The ledger in place has {missing:,} entries that this backup lacks.",
                "It is sound. Restoring would forget what those entries cost, and that budget could be spent twice.",
                "Nothing was changed. Keep the ledger in place. If it must go, accept the loss in words: --accept "
                f'"{acceptance_sentence(backup.cut)}".',
            )
    _replace(policy.ledger, backup, missing, position, acceptance)
    return RestoredLedger(RestoreOutcome.WAITING if acceptance is None else RestoreOutcome.ACCEPTED, missing)


def _require_sentence(acceptance: Acceptance | None, backup: LedgerBackup) -> None:
    sentence = acceptance_sentence(backup.cut)
    if acceptance is not None and acceptance.sentence.strip().rstrip(".") != sentence:
        raise BadParameter(
            "This sentence does not accept the restore.",
            "The owner says in words which answers may be lost, so that no script says it by accident.",
            f'Nothing was changed. Write --accept "{sentence}".',
        )


@contextmanager
def _open_existing(place: Location) -> Iterator[Ledger | None]:
    """Open the ledger in place; None where it is missing or damaged."""
    ledger = None
    try:
        if place.path is None:
            ledger = Ledger(partial(PostgresStore, place.target)) if has_table(place.target) else None
        elif place.path.exists():
            ledger = Ledger(partial(SqliteStore, place.path))
        if ledger is not None:
            ledger.verify()
    except LedgerDamaged:
        if ledger is not None:
            ledger.close()
            ledger = None
    try:
        yield ledger
    finally:
        if ledger is not None:
            ledger.close()


def _position(place: Location) -> LastEntry:
    """Return what is known of the last entry in place, without trusting the ledger."""
    if place.path is None:
        return LastEntry(last_in_table(place.target), "")
    try:
        anchor = read_anchor(place.path.with_name(f"{place.path.name}.anchor"))
    except LedgerDamaged:
        anchor = None
    return LastEntry(0, "") if anchor is None else LastEntry(anchor.sequence, anchor.head)


def _require_continuation(ledger: Ledger, backup: LedgerBackup, position: LastEntry) -> None:
    """Refuse a ledger that neither continues the backup nor is a beginning of it."""
    if position.sequence >= backup.cut:
        with ledger.rows() as rows:
            same = any(row.head == backup.head for row in rows if row.sequence == backup.cut)
    else:
        with read_rows(backup.path) as rows:
            same = any(row.head == position.head for row in rows if row.sequence == position.sequence)
    if not same:
        raise OtherLedger(
            "The ledger in place does not continue this backup.",
            "It is another ledger, or one that was used after another restore.",
            "Nothing was changed. Restore into another folder (--into), or move that ledger away first.",
        )


def _restored_row(ledger: Ledger, backup: LedgerBackup) -> Row | None:
    """Return the row with which this backup was restored, if the ledger in place is that."""
    with ledger.rows() as rows:
        for row in rows:
            if row.kind == RowKind.RESTORED and row.about == backup.cut and read_restored(row.content)[0] == backup.id:
                return row
    return None


def _accept_restored(ledger: Ledger, acceptance: Acceptance | None) -> RestoreOutcome:
    """Accept a restored ledger if the owner says so and it waits for that."""
    waits: list[bool] = []

    def accept(transaction: LedgerTransaction) -> None:
        waits.append(bool(transaction.state.restored))
        if waits[0] and acceptance is not None:
            _accept(transaction, acceptance)

    ledger.record(accept)
    return RestoreOutcome.WAITING if waits[0] and acceptance is None else RestoreOutcome.ACCEPTED


def _accept(transaction: LedgerTransaction, acceptance: Acceptance) -> None:
    lost, state = acceptance.lost, transaction.state
    if lost is None or state.neighbours is None:
        transaction.accept_restored(acceptance.sentence, None)
        return
    event: Event = Pure(Fraction(lost.epsilon), state.neighbours)
    if lost.delta:
        event = Approximate(event, Fraction(lost.delta))
    version = f"restored {state.restored}"
    text = "Answers that a restore has lost, as the owner counts them"
    transaction.accept_restored(
        acceptance.sentence, Request(DATASET, "lost", text, event, lost, state.policy, version, version)
    )


def _replace(
    place: Location, backup: LedgerBackup, missing: int, position: LastEntry, acceptance: Acceptance | None
) -> None:
    """Make the new ledger aside, closed or accepted; then put it in its place."""
    folder = Path(mkdtemp(prefix=".sfumato-restore-", dir=None if place.path is None else place.path.parent))
    try:
        new = folder / "ledger"
        with read_rows(backup.path) as rows:
            write_file(new, rows)
        ledger = Ledger(partial(SqliteStore, new))
        try:
            content = restored_content(backup.id, missing)
            ledger.record(lambda transaction: transaction.mark_restored(backup.cut, content))
            _accept_restored(ledger, acceptance)
        finally:
            ledger.close()
        aside = f"replaced_{backup.id[:8]}_{folder.name[-8:]}"
        if place.path is not None:
            replace_file(place.path, new, (position.sequence, position.head), aside)
        else:
            with read_rows(new) as rows:
                replace_table(place.target, rows, position.sequence, aside)
    finally:
        rmtree(folder, ignore_errors=True)
