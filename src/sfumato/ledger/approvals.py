"""Requests as people read them, and how they are filed, discussed and decided. Proof: proofs/approvals.md"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fractions import Fraction

from sfumato.accounting.event import to_json
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import BadParameter, PolicyChanged, RequestClosed, TooManyRequests, UnknownName
from sfumato.ledger.chain import Row, RowKind
from sfumato.ledger.charge import require_storable
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.one_time_grants import (
    ANALYST_AUTHOR,
    MAX_NOTE_CHARS,
    MAX_NOTES,
    MAX_OPEN_REQUESTS,
    OWNER_AUTHOR,
    GrantedName,
    OpenRequest,
    filed_digest,
    note_content,
    read_names,
    read_note,
    read_request,
    read_roles,
    request_content,
)
from sfumato.ledger.payer import ChargedRelease, Payer
from sfumato.ledger.recorded_policy import DATASET
from sfumato.ledger.request import Request
from sfumato.ledger.transaction import LedgerTransaction

MAX_REQUESTS_PER_DAY = 50
"""Maximum number of requests that one account files within 24 hours."""
_DAY_MICROSECONDS = 24 * 3600 * 10**6
_MAX_SEARCHED_REQUESTS = 500
_FIRST_INSTANT = datetime(1970, 1, 1, tzinfo=UTC)


class RequestState(StrEnum):
    """The state of a request."""

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
    """A note of the owner or the analyst about a request."""

    author: str
    """owner or analyst."""
    time: datetime
    text: str


@dataclass(frozen=True, slots=True)
class BudgetRequest:
    """A request of an analyst for one measurement beyond their own cap or their rights, as of one moment."""

    id: int
    """The sequence of its ledger entry."""
    account: str
    sql: str
    price: Mapping[str, object]
    """What the question is asked with: epsilon or within, and delta."""
    loss: PrivacyLoss | None
    """The cost of the answer; None for a request for rights that was not approved: its names may not exist."""
    reason: str
    time: datetime
    state: RequestState
    notes: tuple[RequestNote, ...]
    receipt: str | None
    """The receipt of the charge that used the grant."""
    for_rights: bool = False
    """Whether it asks for names that the account may not use, and not only for budget."""
    names: tuple[str, ...] = ()
    """The tables and columns that the owner has granted for this question."""
    roles: tuple[str, ...] | None = None
    """Of a request for rights, the roles that an identity provider gave the person who filed it; None where none did.
    The owner's review says them."""

    def __str__(self) -> str:
        price = "rights" if self.loss is None else str(self.loss)
        lines = [
            f"request {self.id}  {self.account}  {self.state.value}  {price}  {self.time:%Y-%m-%d %H:%M} UTC",
            *(f"    {line}" for line in self.sql.splitlines()),
            f"    reason: {self.reason}",
            *(f"    granted: {name}" for name in self.names),
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
    row = Row(
        0,
        RowKind.REQUESTED.value,
        0,
        account=request.account,
        question=request.fingerprint,
        sql=request.sql,
        event=to_json(request.event),
        loss=f"{request.loss.epsilon} {request.loss.delta}",
        policy=request.policy,
        version=request.version,
        content=request_content(_text(reason, "reason", required=True), price),
    )
    return _file(ledger, row)


def file_rights(
    payer: Payer, sql: str, reason: str, price: Mapping[str, object], roles: Sequence[str] | None = None
) -> int:
    """Put on record that an account asks for a text whose names do not exist for it; return the request's id.

    Nothing but the text, the price and the reason is looked at. Proof: proofs/approvals.md, 9
    """
    content = request_content(_text(reason, "reason", required=True), price, roles)
    row = Row(0, RowKind.REQUESTED.value, 0, account=payer.account, sql=sql, policy=payer.policy, content=content)
    return _file(payer.ledger, row)


def _file(ledger: Ledger, row: Row) -> int:
    for text in (row.question, row.sql, row.version):
        require_storable(text)
    placed: list[int] = []
    digest = filed_digest(row)

    def add(transaction: LedgerTransaction) -> None:
        transaction.require_ready()
        if found := [sequence for sequence, known in transaction.state.requests.items() if known.measurement == digest]:
            placed.append(found[0])
            return
        _require_room(transaction, row.account)
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
        _require_undecided(transaction, place)
        transaction.add(Row(0, RowKind.APPROVED.value, 0, about=place, content=content))

    ledger.record(add)


def approve_rights(
    ledger: Ledger, place: int, text: str, names: Sequence[GrantedName], granted: ChargedRelease, policy: str
) -> None:
    """Grant names for one charge of one measurement: for the owner alone. Proof: proofs/approvals.md, 3 and 9"""
    row = Row(
        0,
        RowKind.APPROVED.value,
        0,
        question=granted.fingerprint,
        event=to_json(granted.event),
        loss=f"{granted.loss.epsilon} {granted.loss.delta}",
        version=granted.version,
        about=place,
        content=note_content(OWNER_AUTHOR, _text(text, "text"), names),
    )

    def add(transaction: LedgerTransaction) -> None:
        _require_undecided(transaction, place)
        if transaction.state.policy != policy:
            raise PolicyChanged(
                "The policy has changed since this database was opened.",
                "A grant names what the policy says about tables.",
                "Nothing was granted. Open the database again, and approve it there.",
            )
        transaction.add(row)

    ledger.record(add)


def _require_undecided(transaction: LedgerTransaction, place: int) -> None:
    transaction.require_ready()
    if _open_request(transaction, place, DATASET).approved:
        raise _request_closed(place, "approved")


def decline(ledger: Ledger, place: int, text: str) -> None:
    """Decline a request, also an approved one that was not used: for the owner alone."""
    _remove(ledger, place, DATASET, RowKind.DECLINED, note_content(OWNER_AUTHOR, _text(text, "text")))


def withdraw(ledger: Ledger, place: int, account: str) -> None:
    """Take back a request: for the analyst who made it."""
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
        raise _request_closed(place, "used, declined or withdrawn")
    raise UnknownName(
        f"There is no open request {place}.",
        "It does not exist, is decided, or belongs to another account.",
        "List the requests, and name one of them.",
    )


def _request_closed(place: int, how: str) -> RequestClosed:
    return RequestClosed(
        f"Request {place} is {how} already.",
        "A request is decided once: an approval is one charge.",
        "Nothing was changed. The analyst can file a new request.",
    )


def _require_room(transaction: LedgerTransaction, account: str) -> None:
    waiting = sum(known.account == account for known in transaction.state.requests.values())
    if waiting >= MAX_OPEN_REQUESTS:
        raise TooManyRequests(
            f"{waiting} requests of this account are open, which is the limit.",
            "Each waits for a person to decide.",
            "Withdraw one of them, or wait for the owner.",
        )
    if transaction.count_requests(account, _DAY_MICROSECONDS) >= MAX_REQUESTS_PER_DAY:
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
    notes, receipt, loss = [], None, filed.loss
    names: tuple[GrantedName, ...] = ()
    state = RequestState.LAPSED
    if filed.sequence in still_open:
        state = RequestState.APPROVED if still_open[filed.sequence].approved else RequestState.WAITING
    for row in later:
        if row.kind == RowKind.CHARGED:
            state, receipt = RequestState.USED, row.receipt
            continue
        if row.kind in (RowKind.DECLINED, RowKind.WITHDRAWN):
            state = RequestState(row.kind)
        if row.kind == RowKind.APPROVED and row.event:
            loss, names = row.loss, read_names(row.content)
        author, text = read_note(row.content)
        notes.append(RequestNote(author, _time(row), text))
    return BudgetRequest(
        id=filed.sequence,
        account=filed.account,
        sql=filed.sql,
        price=price,
        loss=_loss(loss) if loss else None,
        reason=reason,
        time=_time(filed),
        state=state,
        notes=tuple(notes),
        receipt=receipt,
        for_rights=not filed.event,
        names=tuple(name_text(name) for name in names),
        roles=read_roles(filed.content),
    )


def _loss(text: str) -> PrivacyLoss:
    epsilon, delta = text.split(" ")
    return PrivacyLoss(Fraction(epsilon), Fraction(delta))


def name_text(name: GrantedName) -> str:
    """Return a granted name as people read it."""
    table, column = name
    return f"{table}.{column}" if column else table


def granted_names(ledger: Ledger, account: str, sql: str) -> tuple[GrantedName, ...]:
    """Return the names that the owner has granted an account for this text, if the grant is open or was used."""
    still_open = ledger.open_requests()
    for filed, *later in ledger.request_rows(account, _MAX_SEARCHED_REQUESTS):
        if filed.event or filed.sql != sql:
            continue
        approved = next((row for row in later if row.kind == RowKind.APPROVED), None)
        usable = filed.sequence in still_open or any(row.kind == RowKind.CHARGED for row in later)
        if approved is not None and usable:
            return read_names(approved.content)
    return ()


def _time(row: Row) -> datetime:
    return _FIRST_INSTANT + timedelta(microseconds=row.time)
