"""Requests in the rows of a ledger: which wait, which are approved, and which charge a grant pays for.

Proof: proofs/approvals.md
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from sfumato.accounting.event import Event, from_json, to_json, unordered
from sfumato.caches import remembered
from sfumato.errors import RequestClosed
from sfumato.ledger.chain import Row, RowKind, length_prefixed

MAX_OPEN_REQUESTS = 10
"""Maximum number of requests of one account that wait or are approved."""
MAX_NOTES = 20
"""Maximum number of notes on one request."""
MAX_NOTE_CHARS = 2000
"""Maximum length of a reason or a note."""
OWNER_AUTHOR, ANALYST_AUTHOR = "owner", "analyst"
_RIGHTS = "rights "


GrantedName = tuple[str, str]
"""A table and a column, as the policy folds them; the empty column stands for the table without columns."""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A request that waits for the owner, or that is approved and not used yet."""

    account: str
    measurement: str
    """The digest of what may be charged: see `measurement_digest`. Of a request for rights it is known by the approval;
    until then this is the digest of its text, see `text_digest`."""
    approved: bool = False
    notes: int = 0


def measurement_digest(account: str, question: str, event: str) -> str:
    """Return what is equal for two charges iff the same account measures the same with the same event.

    The snapshot is no part of it: a grant pays once, about the snapshot that answers then.
    """
    return sha256(length_prefixed(account, question, _unordered_text(event))).hexdigest()


def text_digest(account: str, sql: str, content: str) -> str:
    """Return what is equal for two requests for rights iff they ask for the same text at the same price.

    It depends on what the analyst has typed alone: the names in the text may not exist.
    """
    price = json.dumps(read_request(content)[1], sort_keys=True)
    return f"{_RIGHTS}{sha256(length_prefixed(account, sql, price)).hexdigest()}"


@remembered(1024)
def _unordered_text(event: str) -> str:
    return unordered(from_json(event))


def following(requests: Mapping[int, OpenRequest], row: Row) -> dict[int, OpenRequest]:
    """Return the open requests after a row about one; ValueError or KeyError where it cannot follow."""
    if row.kind == RowKind.REQUESTED:
        read_request(row.content)
        waiting = sum(request.account == row.account for request in requests.values())
        if not row.account or waiting >= MAX_OPEN_REQUESTS:
            raise ValueError("the dataset's own account, or too many requests")
        return {**requests, row.sequence: OpenRequest(row.account, filed_digest(row))}
    known, (author, _) = requests[row.about], read_note(row.content)
    match row.kind:
        case RowKind.APPROVED if known.measurement.startswith(_RIGHTS) and author == OWNER_AUTHOR:
            if not read_names(row.content) or not row.question:
                raise ValueError("an approval of rights says for which names and which measurement")
            digest = measurement_digest(known.account, row.question, row.event)
            return {**requests, row.about: replace(known, approved=True, measurement=digest)}
        case _ if row.question or row.event or read_names(row.content):
            raise ValueError("what was requested is not changed")
        case RowKind.REPLIED if known.notes < MAX_NOTES:
            return {**requests, row.about: replace(known, notes=known.notes + 1)}
        case RowKind.APPROVED if author == OWNER_AUTHOR and not known.approved:
            return {**requests, row.about: replace(known, approved=True)}
        case RowKind.DECLINED if author == OWNER_AUTHOR:
            return without(requests, row.about)
        case RowKind.WITHDRAWN if author == ANALYST_AUTHOR:
            return without(requests, row.about)
    raise ValueError("a request cannot go on like this")


def filed_digest(row: Row) -> str:
    """Return the digest of a request as it was filed: of its measurement, or of its text where it asks for rights."""
    if row.event:
        return measurement_digest(row.account, row.question, row.event)
    if row.question or row.loss:
        raise ValueError("a request for rights names no measurement")
    return text_digest(row.account, row.sql, row.content)


def used(requests: Mapping[int, OpenRequest], charge: Row) -> dict[int, OpenRequest]:
    """Return the open requests after a charge that one of them pays for; ValueError or KeyError where it does not."""
    granted = requests[charge.about]
    digest = measurement_digest(charge.account, charge.question, charge.event)
    if not granted.approved or granted.measurement != digest:
        raise ValueError("no grant for this measurement")
    return without(requests, charge.about)


def without(requests: Mapping[int, OpenRequest], place: int) -> dict[int, OpenRequest]:
    """Return the open requests but one."""
    return {sequence: request for sequence, request in requests.items() if sequence != place}


def grant_for(requests: Mapping[int, OpenRequest], account: str, question: str, event: str) -> int:
    """Return the oldest approved request for this measurement; 0 where there is none."""
    approved = [sequence for sequence, request in requests.items() if request.approved and request.account == account]
    if not approved:
        return 0
    digest = measurement_digest(account, question, event)
    return min((sequence for sequence in approved if requests[sequence].measurement == digest), default=0)


def has_grant(requests: Mapping[int, OpenRequest], account: str, question: str, event: Event | None) -> bool:
    """Tell whether the owner has approved this measurement and its charge was not made yet."""
    return bool(requests) and event is not None and grant_for(requests, account, question, to_json(event)) > 0


def no_such_grant() -> RequestClosed:
    """Refuse a question that only a grant could pay for, and none does."""
    return RequestClosed(
        "No grant pays for this question.",
        "The owner has granted its names for one measurement: this text at the price of the request, once.",
        "Nothing was charged. Ask by the id of an approved request, or file a new request.",
    )


def requests_json(requests: Mapping[int, OpenRequest]) -> dict[str, list[object]]:
    """Return the open requests as a state row holds them."""
    return {
        str(sequence): [request.account, request.measurement, request.approved, request.notes]
        for sequence, request in requests.items()
    }


def requests_from_json(data: Mapping[str, list[object]]) -> dict[int, OpenRequest]:
    """Read the open requests of a state row; ValueError or TypeError where it holds none."""
    found = {}
    for sequence, (account, measurement, approved, notes) in data.items():
        if type(approved) is not bool or type(notes) is not int:
            raise ValueError("not the fields of a request")
        found[int(sequence)] = OpenRequest(str(account), str(measurement), approved, notes)
    return found


def request_content(reason: str, price: Mapping[str, object], roles: Sequence[str] | None = None) -> str:
    """Write why a request is made, and the price that the question is asked with, as canonical text.

    `roles` are those that an identity provider gave the person who asks, where it does.
    """
    said = {"price": price, "reason": reason} | ({} if roles is None else {"roles": list(roles)})
    return json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def read_request(content: str) -> tuple[str, dict[str, object]]:
    """Return reason and price of a request; ValueError where it is none."""
    data = json.loads(content)
    reason, price = data["reason"], data["price"]
    if not isinstance(reason, str) or not isinstance(price, dict):
        raise ValueError("not the content of a request")
    if content != request_content(reason, price, read_roles(content)):
        raise ValueError("not the content of a request")
    return reason, price


def read_roles(content: str) -> tuple[str, ...] | None:
    """Return the roles that an identity provider gave the person who filed a request; None where none did."""
    roles = json.loads(content).get("roles")
    if roles is None:
        return None
    if not isinstance(roles, list) or not all(isinstance(role, str) for role in roles):
        raise ValueError("not roles")
    return tuple(roles)


def note_content(author: str, text: str, names: Sequence[GrantedName] = ()) -> str:
    """Write who says what about a request, as canonical text; an approval of rights also says for which names."""
    said = {"by": author, "text": text} | ({"names": [list(name) for name in names]} if names else {})
    return json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def read_note(content: str) -> tuple[str, str]:
    """Return who says what about a request; ValueError where it is no note."""
    data = json.loads(content)
    author, text = data["by"], data["text"]
    if author not in (OWNER_AUTHOR, ANALYST_AUTHOR) or not isinstance(text, str):
        raise ValueError("not the content of a note")
    if content != note_content(author, text, read_names(content)):
        raise ValueError("not the content of a note")
    return author, text


def read_names(content: str) -> tuple[GrantedName, ...]:
    """Return the names that an approval grants for one measurement; none in other notes."""
    pairs = json.loads(content).get("names", [])
    if not all(isinstance(part, str) for pair in pairs for part in pair):
        raise ValueError("not names")
    return tuple((table, column) for table, column in pairs)
