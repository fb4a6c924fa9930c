"""The ledger as people read it: one entry per question that was charged."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from sfumato.accounting.event import Event, from_json
from sfumato.accounting.loss import PrivacyLoss
from sfumato.ledger.chain import Row, RowKind

_FIRST_INSTANT = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Entry:
    """One charge and what became of it."""

    sequence: int
    time: datetime
    account: str
    sql: str
    event: Event
    loss: PrivacyLoss
    """What was quoted; the filter charges the event."""
    policy: str
    version: str
    receipt: str
    state: str
    """settled; failed (started, and stayed charged); reserved (being answered, or its program ended before)."""
    release: str | None
    """The release as it was stored, where it was."""
    head: str


def entries_of(rows: Iterable[Row], account: str | None) -> tuple[Entry, ...]:
    """Return the charges of one account, or of all for None, oldest first."""
    found: dict[int, Entry] = {}
    for row in rows:
        if row.kind == RowKind.CHARGED and account in (None, row.account):
            found[row.sequence] = _entry(row)
        elif row.about in found and row.kind in (RowKind.SETTLED, RowKind.FAILED):
            release = row.content if row.kind == RowKind.SETTLED else None
            found[row.about] = replace(found[row.about], state=row.kind, release=release)
    return tuple(found.values())


def _entry(row: Row) -> Entry:
    epsilon, delta = row.loss.split(" ")
    return Entry(
        sequence=row.sequence,
        time=_FIRST_INSTANT + timedelta(microseconds=row.time),
        account=row.account,
        sql=row.sql,
        event=from_json(row.event),
        loss=PrivacyLoss(Fraction(epsilon), Fraction(delta)),
        policy=row.policy,
        version=row.version,
        receipt=row.receipt,
        state="reserved",
        release=None,
        head=row.head,
    )
