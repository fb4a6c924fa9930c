"""Requests as people read them, and how they are filed, discussed and decided. Proof: proofs/approvals.md"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fractions import Fraction

from sfumato.accounting.event import to_json
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import BadParameter, RequestClosed, TooManyRequests, UnknownName
from sfumato.ledger.chain import Row, RowKind
from sfumato.ledger.charge import require_storable
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.one_time_grants import (
    ANALYST_AUTHOR,
    MAX_NOTE_CHARS,
    MAX_NOTES,
    MAX_OPEN_REQUESTS,
    OWNER_AUTHOR,
    OpenRequest,
    measurement_digest,
    note_content,
    read_note,
    read_request,
    request_content,
)
from sfumato.ledger.payer import ChargedRelease, Payer
from sfumato.ledger.recorded_policy import DATASET
from sfumato.ledger.request import Request
from sfumato.ledger.transaction import LedgerTransaction

MAX_REQUESTS_PER_DAY = 50
"""Maximum number of requests that one account files within 24 hours."""
_DAY_MICROSECONDS = 24 * 3600 * 10**6
_FIRST_INSTANT = datetime(1970, 1, 1, tzinfo=UTC)


class RequestState(StrEnum):
    """What became of a request."""

    WAITING = "waiting"
    """The owner has not decided."""
    APPROVED = "approved"
    """The owner granted one charge, which was not made yet."""
    USED = "used"
    """The question was charged; its answer is kept like any other."""
    DECLINED = "declined"
    WITHDRAWN = "withdrawn"
    LAPSED = "lapsed"
    """The ledger was restored from a backup since; it can be filed again."""


@dataclass(frozen=True, slots=True)
class RequestNote:
    """What the owner or the analyst wrote about a request."""

    author: str
    """owner or analyst."""
    time: datetime
    text: str


@dataclass(frozen=True, slots=True)
class BudgetRequest:
    """A request of an analyst for one measurement beyond their own cap, as of one moment."""

    id: int
    """The sequence of its ledger entry."""
    account: str
    sql: str
    price: Mapping[str, object]
    """What the question is asked with: epsilon or within, and delta."""
    loss: PrivacyLoss
    """What the answer costs."""
    reason: str
    time: datetime
    state: RequestState
    notes: tuple[RequestNote, ...]
    receipt: str | None
    """The receipt of the charge that used the grant."""

    def __str__(self) -> str:
        lines = [
            f"request {self.id}  {self.account}  {self.state.value}  {self.loss}  {self.time:%Y-%m-%d %H:%M} UTC",
            *(f"    {line}" for line in self.sql.splitlines()),
            f"    reason: {self.reason}",
            *(f"    {note.author}: {note.text}" for note in self.notes if note.text),
        ]
        return "\n".join(lines)


def list_requests(ledger: Ledger, account: str | None, limit: int) -> list[BudgetRequest]:
    """Return the last requests of an account, or of all for None, newest first."""
    still_open = ledger.open_requests()
    return [_request_of(rows, still_open) for rows in ledger.request_rows(account, limit)]


def file_release(payer: Payer, charged: ChargedRelease, reason: str, price: Mapping[str, object]) -> int:
    """Put on record that an account asks for a release that its own cap does not pay for; return the request's id."""
    request = Request(
        payer.account,
        charged.fingerprint,
        charged.sql,
        charged.event,
        charged.loss,
        payer.policy,
        charged.version,
        charged.receipt,
    )
    return file_request(payer.ledger, request, reason, price)


def file_request(ledger: Ledger, request: Request, reason: str, price: Mapping[str, object]) -> int:
    """Put a request on record, and return its id; nothing is charged. One that is open is not filed twice."""
    reason = _text(reason, "reason", required=True)
    for text in (request.fingerprint, request.sql, request.version):
        require_storable(text)
    placed: list[int] = []
    event = to_json(request.event)

    def add(transaction: LedgerTransaction) -> None:
        transaction.require_ready()
        digest = measurement_digest(request.account, request.fingerprint, event)
        if found := [place for place, known in transaction.state.requests.items() if known.measurement == digest]:
            placed.append(found[0])
            return
        _require_room(transaction, request)
        row = Row(
            0,
            RowKind.REQUESTED.value,
            0,
            account=request.account,
            question=request.fingerprint,
            sql=request.sql,
            event=event,
            loss=f"{request.loss.epsilon} {request.loss.delta}",
            policy=request.policy,
            version=request.version,
            content=request_content(reason, price),
        )
        placed.append(transaction.add(row).sequence)

    ledger.record(add)
    return placed[-1]


def reply(ledger: Ledger, place: int, account: str, text: str) -> None:
    """Add a note of the owner (the empty account) or of the analyst whose request it is."""
    content = note_content(_author(account), _text(text, "text", required=True))

    def add(transaction: LedgerTransaction) -> None:
        if _open_request(transaction, place, account).notes >= MAX_NOTES:
            raise TooManyRequests(
                f"Request {place} has {MAX_NOTES} notes, which is the limit.",
                "Notes are ledger entries, which are kept forever.",
                "The owner can approve or decline it now.",
            )
        transaction.add(Row(0, RowKind.REPLIED.value, 0, about=place, content=content))

    ledger.record(add)


def approve(ledger: Ledger, place: int, text: str) -> None:
    """Grant one charge for the measurement of a request: for the owner alone. Proof: proofs/approvals.md, 3"""
    content = note_content(OWNER_AUTHOR, _text(text, "text"))

    def add(transaction: LedgerTransaction) -> None:
        transaction.require_ready()
        if _open_request(transaction, place, DATASET).approved:
            raise _closed(place, "approved")
        transaction.add(Row(0, RowKind.APPROVED.value, 0, about=place, content=content))

    ledger.record(add)


def decline(ledger: Ledger, place: int, text: str) -> None:
    """Decline a request, also an approved one that was not used: for the owner alone."""
    _remove(ledger, place, DATASET, RowKind.DECLINED, note_content(OWNER_AUTHOR, _text(text, "text")))


def withdraw(ledger: Ledger, place: int, account: str) -> None:
    """Take back a request: for the analyst whose it is."""
    _remove(ledger, place, account, RowKind.WITHDRAWN, note_content(ANALYST_AUTHOR, ""))


def _remove(ledger: Ledger, place: int, account: str, kind: RowKind, content: str) -> None:
    def add(transaction: LedgerTransaction) -> None:
        _open_request(transaction, place, account)
        transaction.add(Row(0, kind.value, 0, about=place, content=content))

    ledger.record(add)


def _open_request(transaction: LedgerTransaction, place: int, account: str) -> OpenRequest:
    """Return a request that waits or is approved, if it is this account's or the owner looks; or refuse."""
    found = transaction.state.requests.get(place)
    if found is not None and account in (DATASET, found.account):
        return found
    if account == DATASET and transaction.is_request(place):
        raise _closed(place, "used, declined or withdrawn")
    raise UnknownName(
        f"There is no open request {place}.",
        "It does not exist, is decided, or belongs to another account.",
        "List the requests, and name one of them.",
    )


def _closed(place: int, how: str) -> RequestClosed:
    return RequestClosed(
        f"Request {place} is {how} already.",
        "A request is decided once: an approval is one charge.",
        "Nothing was changed. The analyst can file a new request.",
    )


def _require_room(transaction: LedgerTransaction, request: Request) -> None:
    waiting = sum(known.account == request.account for known in transaction.state.requests.values())
    if waiting >= MAX_OPEN_REQUESTS:
        raise TooManyRequests(
            f"{waiting} requests of this account are open, which is the limit.",
            "Each waits for a person to decide.",
            "Withdraw one of them, or wait for the owner.",
        )
    if transaction.count_requests(request.account, _DAY_MICROSECONDS) >= MAX_REQUESTS_PER_DAY:
        raise TooManyRequests(
            f"This account has filed {MAX_REQUESTS_PER_DAY} requests within 24 hours, which is the limit.",
            "Requests are ledger entries, which are kept forever.",
            "File it tomorrow.",
        )


def _author(account: str) -> str:
    return ANALYST_AUTHOR if account else OWNER_AUTHOR


def _text(text: object, name: str, required: bool = False) -> str:
    """Return a reason or a note, or refuse it."""
    if not isinstance(text, str) or len(text) > MAX_NOTE_CHARS or (required and not text.strip()):
        raise BadParameter(
            f"`{name}` is empty, too long or not a text.",
            f"The other side reads it before deciding; it has at most {MAX_NOTE_CHARS:,} characters.",
            "Write one or two sentences.",
        )
    require_storable(text)
    return text.strip()


def _request_of(rows: list[Row], still_open: Mapping[int, OpenRequest]) -> BudgetRequest:
    filed, *later = rows
    reason, price = read_request(filed.content)
    notes, receipt = [], None
    state = RequestState.LAPSED
    if filed.sequence in still_open:
        state = RequestState.APPROVED if still_open[filed.sequence].approved else RequestState.WAITING
    for row in later:
        if row.kind == RowKind.CHARGED:
            state, receipt = RequestState.USED, row.receipt
            continue
        if row.kind in (RowKind.DECLINED, RowKind.WITHDRAWN):
            state = RequestState(row.kind)
        author, text = read_note(row.content)
        notes.append(RequestNote(author, _time(row), text))
    epsilon, delta = filed.loss.split(" ")
    return BudgetRequest(
        id=filed.sequence,
        account=filed.account,
        sql=filed.sql,
        price=price,
        loss=PrivacyLoss(Fraction(epsilon), Fraction(delta)),
        reason=reason,
        time=_time(filed),
        state=state,
        notes=tuple(notes),
        receipt=receipt,
    )


def _time(row: Row) -> datetime:
    return _FIRST_INSTANT + timedelta(microseconds=row.time)
