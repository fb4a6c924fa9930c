"""The ledger as people read it: one entry per question that was charged."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from sfumato.accounting.event import Event, from_json
from sfumato.accounting.loss import PrivacyLoss
from sfumato.exact import integer
from sfumato.ledger.chain import Row
from sfumato.ledger.charge import FAILED_AFTER_NOISE

HISTORY_PAGE = 100
"""Number of entries that `history` returns unless it is told another."""
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
    """settled; reserved (being answered); failed (charged and without an answer: asking again takes it up, free)."""
    release: str | None
    """The release as it was stored, where it was."""
    head: str

    @property
    def refines(self) -> str:
        """The receipt of the answer that this one makes more exact, for the difference of the prices; or nothing."""
        stored = json.loads(self.release or "{}").get("receipt")
        return str(json.loads(stored).get("refines", "")) if isinstance(stored, str) else ""


def entry_of(charge: Row, settled: Row | None, being_answered: bool) -> Entry:
    """Return one charge with its outcome; without one, `being_answered` says whether there will be one."""
    epsilon, delta = charge.loss.split(" ")
    release = None if settled is None or settled.content == FAILED_AFTER_NOISE else settled.content
    return Entry(
        sequence=charge.sequence,
        time=_FIRST_INSTANT + timedelta(microseconds=charge.time),
        account=charge.account,
        sql=charge.sql,
        event=from_json(charge.event),
        loss=PrivacyLoss(Fraction(epsilon), Fraction(delta)),
        policy=charge.policy,
        version=charge.version,
        receipt=charge.receipt,
        state="settled" if release is not None else "reserved" if being_answered else "failed",
        release=release,
        head=charge.head,
    )


def page_of(limit: object, before: object) -> tuple[int, int | None]:
    """Read which part of a history is wanted: how many entries, and the sequence that they come before."""
    return integer(limit, "limit", 1), None if before is None else integer(before, "before", 1)
