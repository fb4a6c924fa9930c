"""What the rows of a ledger say about requests: which wait, which are approved, and which charge a grant pays for.

Proof: proofs/approvals.md
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256

from sfumato.accounting.event import Event, from_json, to_json, unordered
from sfumato.ledger.chain import Row, RowKind, length_prefixed

MAX_OPEN_REQUESTS = 10
"""Maximum number of requests of one account that wait or are approved."""
MAX_NOTES = 20
"""Maximum number of notes on one request."""
MAX_NOTE_CHARS = 2000
"""Maximum length of a reason or a note."""
OWNER_AUTHOR, ANALYST_AUTHOR = "owner", "analyst"


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A request that waits for the owner, or that is approved and not used yet."""

    account: str
    measurement: str
    """The digest of what may be charged: see `measurement_digest`."""
    approved: bool = False
    notes: int = 0


def measurement_digest(account: str, question: str, event: str) -> str:
    """Return what is equal for two charges iff the same account measures the same with the same event.

    The snapshot is no part of it: a grant pays once, about the snapshot that answers then.
    """
    return sha256(length_prefixed(account, question, _unordered(event))).hexdigest()


@lru_cache(maxsize=1024)
def _unordered(event: str) -> str:
    return unordered(from_json(event))


def following(requests: Mapping[int, OpenRequest], row: Row) -> dict[int, OpenRequest]:
    """Return the open requests after a row about one; ValueError or KeyError where it cannot follow."""
    if row.kind == RowKind.REQUESTED:
        read_request(row.content)
        waiting = sum(request.account == row.account for request in requests.values())
        if not row.account or waiting >= MAX_OPEN_REQUESTS:
            raise ValueError("the dataset's own account, or too many requests")
        digest = measurement_digest(row.account, row.question, row.event)
        return {**requests, row.sequence: OpenRequest(row.account, digest)}
    known, (author, _) = requests[row.about], read_note(row.content)
    match row.kind:
        case RowKind.REPLIED if known.notes < MAX_NOTES:
            return {**requests, row.about: replace(known, notes=known.notes + 1)}
        case RowKind.APPROVED if author == OWNER_AUTHOR and not known.approved:
            return {**requests, row.about: replace(known, approved=True)}
        case RowKind.DECLINED if author == OWNER_AUTHOR:
            return without(requests, row.about)
        case RowKind.WITHDRAWN if author == ANALYST_AUTHOR:
            return without(requests, row.about)
    raise ValueError("a request cannot go on like this")


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
    approved = [place for place, request in requests.items() if request.approved and request.account == account]
    if not approved:
        return 0
    digest = measurement_digest(account, question, event)
    return min((place for place in approved if requests[place].measurement == digest), default=0)


def has_grant(requests: Mapping[int, OpenRequest], account: str, question: str, event: Event | None) -> bool:
    """Tell whether the owner has approved this measurement and its charge was not made yet."""
    return bool(requests) and event is not None and grant_for(requests, account, question, to_json(event)) > 0


def requests_json(requests: Mapping[int, OpenRequest]) -> dict[str, list[object]]:
    """Return the open requests as a state row holds them."""
    return {
        str(place): [request.account, request.measurement, request.approved, request.notes]
        for place, request in requests.items()
    }


def requests_from_json(data: Mapping[str, list[object]]) -> dict[int, OpenRequest]:
    """Read the open requests of a state row; ValueError or TypeError where it holds none."""
    found = {}
    for place, (account, measurement, approved, notes) in data.items():
        if type(approved) is not bool or type(notes) is not int:
            raise ValueError("not the fields of a request")
        found[int(place)] = OpenRequest(str(account), str(measurement), approved, notes)
    return found


def request_content(reason: str, price: Mapping[str, object]) -> str:
    """Write why a request is made, and the price that the question is asked with, as canonical text."""
    return json.dumps({"price": price, "reason": reason}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def read_request(content: str) -> tuple[str, dict[str, object]]:
    """Return reason and price of a request; ValueError where it is none."""
    data = json.loads(content)
    reason, price = data["reason"], data["price"]
    if not isinstance(reason, str) or not isinstance(price, dict) or content != request_content(reason, price):
        raise ValueError("not the content of a request")
    return reason, price


def note_content(author: str, text: str) -> str:
    """Write who says what about a request, as canonical text."""
    return json.dumps({"by": author, "text": text}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def read_note(content: str) -> tuple[str, str]:
    """Return who says what about a request; ValueError where it is no note."""
    data = json.loads(content)
    author, text = data["by"], data["text"]
    if author not in (OWNER_AUTHOR, ANALYST_AUTHOR) or not isinstance(text, str):
        raise ValueError("not the content of a note")
    if content != note_content(author, text):
        raise ValueError("not the content of a note")
    return author, text
