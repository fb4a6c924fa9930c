"""The ledger as people read it: one entry per question that was charged."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from sfumato.accounting.event import Event, from_json
from sfumato.accounting.loss import PrivacyLoss
from sfumato.exact import integer
from sfumato.ledger.chain import Row
from sfumato.ledger.charge import FAILED_AFTER_NOISE

HISTORY_PAGE_ENTRIES = 100
"""Default number of entries that `history` returns."""
_RECEIPT_FIRST = '{"receipt": "'
"""How a stored release begins."""
_SHOWN_RECEIPT_CHARS = 12
_FIRST_INSTANT = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class EarlierAnswers:
    """The receipts of the earlier answers that an answer is made from."""

    refines: str = ""
    """The answer that it makes more exact, for the difference of the prices; or nothing."""
    rests_on: tuple[str, ...] = ()
    """The answers that its own measurement was combined with."""


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

    told: EarlierAnswers | None = None
    """The earlier answers that it is made from, where the release is not at hand."""

    @property
    def made_from(self) -> EarlierAnswers:
        """The earlier answers that this one is made from."""
        return self.told or _earlier_answers_of(self.release)

    @property
    def refines(self) -> str:
        """The receipt of the answer that this one makes more exact, for the difference of the prices; or nothing."""
        return self.made_from.refines

    @property
    def rests_on(self) -> tuple[str, ...]:
        """The receipts of the answers that this one was combined with."""
        return self.made_from.rests_on


def _earlier_answers_of(release: str | None) -> EarlierAnswers:
    """Read what an answer is made from; of a long release only the beginning is read."""
    if release is None:
        return EarlierAnswers()
    if release.startswith(_RECEIPT_FIRST):
        stored: object = json.JSONDecoder().raw_decode(release, len(_RECEIPT_FIRST) - 1)[0]
    else:
        stored = json.loads(release).get("receipt")
    if not isinstance(stored, str):
        return EarlierAnswers()
    receipt = json.loads(stored)
    return EarlierAnswers(str(receipt.get("refines", "")), tuple(map(str, receipt.get("rests_on", ()))))


def source_texts(entries: Sequence[Entry]) -> list[str]:
    """Return for each entry which answers it is made from, by their numbers; beyond these entries by their receipts."""
    numbers = {entry.receipt: f"#{entry.sequence}" for entry in entries}

    def named(receipt: str) -> str:
        return numbers.get(receipt, receipt[:_SHOWN_RECEIPT_CHARS])

    texts = []
    for entry in entries:
        earlier = entry.made_from
        parts = [f"refines {named(earlier.refines)}"] if earlier.refines else []
        parts += [f"combined with {', '.join(map(named, earlier.rests_on))}"] if earlier.rests_on else []
        texts.append("; ".join(parts))
    return texts


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
