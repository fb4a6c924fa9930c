"""Requests over HTTP: an analyst files them, the owner decides, both see the state."""

from collections.abc import Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.approvals import Requests
from sfumato.database import Database
from sfumato.errors import BadRequest, NotFound, NotGranted
from sfumato.ledger.approvals import BudgetRequest
from sfumato.release.rendering.documents import quote_document
from sfumato.server.gate import Caller
from sfumato.server.grants import OWNER
from sfumato.server.reading import read_filed, read_note_text
from sfumato.server.remote_requests import request_document
from sfumato.server.replies import json_reply
from sfumato.server.requests import body_of, caller_of, gate_of, require_json

MAX_LISTED_REQUESTS = 200
"""Maximum number of requests in one reply."""
_DIGITS = 18

Decision = Callable[[Requests, int, str], BudgetRequest]
DECISIONS: Mapping[str, Decision] = {
    "reply": lambda requests, sequence, text: requests.reply(sequence, text),
    "approve": lambda requests, sequence, text: requests.approve(sequence, text),
    "decline": lambda requests, sequence, text: requests.decline(sequence, text),
    "withdraw": lambda requests, sequence, _text: requests.withdraw(sequence),
}
"""What can be done with a request, by the last word of the path."""
OWNERS_DECISIONS = frozenset({"approve", "decline"})


async def listed(request: Request) -> Response:
    """List the requests of this account, newest first; all of them for the owner."""
    caller, gate = caller_of(request), gate_of(request)
    found = await gate.serve(caller, "requests", lambda database: database.requests.list(MAX_LISTED_REQUESTS))
    return json_reply([request_document(row, gate.round_time) for row in found])


async def filed(request: Request) -> Response:
    """File a request for a question beyond this account's cap or rights; free."""
    caller, gate = caller_of(request), gate_of(request)
    require_json(request)
    question = read_filed(await body_of(request))
    found = await gate.serve(
        caller,
        "request",
        lambda database: database.requests.file(question.sql, **question.price),  # type: ignore[arg-type]
    )
    return json_reply(request_document(found, gate.round_time))


async def reviewed(request: Request) -> Response:
    """Show the owner what the question of a request would cost, and which names its analyst lacks."""
    caller, gate = caller_of(request), gate_of(request)
    place = read_id(request)
    if caller.account != OWNER:
        raise NotGranted()
    quote = await gate.serve(caller, "review", lambda database: database.requests.review(place))
    return json_reply({**quote_document(quote), "text": str(quote)})


async def decided(request: Request) -> Response:
    """Reply to a request, approve, decline or withdraw it."""
    caller, gate = caller_of(request), gate_of(request)
    require_json(request)
    place, what = read_place(request)
    text = read_note_text(await body_of(request))
    found = await gate.serve(caller, what, decision(caller, what, place, text))
    return json_reply(request_document(found, gate.round_time))


def decision(caller: Caller, what: str, place: int, text: str) -> Callable[[Database], BudgetRequest]:
    """Return what to do with the requests that a caller can see, or refuse a decision that is the owner's."""
    if what not in DECISIONS:
        raise NotFound(
            "There is no such page.", f"A request takes {', '.join(DECISIONS)}.", "Correct the end of the path."
        )
    if what in OWNERS_DECISIONS and caller.account != OWNER:
        raise NotGranted()
    return lambda database: DECISIONS[what](database.requests, place, text)


def read_place(request: Request) -> tuple[int, str]:
    """Return the id and the last word of the path."""
    return read_id(request), str(request.path_params["what"])


def read_id(request: Request) -> int:
    """Return the id of a request in the path."""
    place = str(request.path_params["place"])
    if not (place.isascii() and place.isdigit() and 0 < len(place) < _DIGITS):
        raise BadRequest("This is not the id of a request.", "It is a number.", "List the requests.")
    return int(place)


REQUEST_ROUTES = (
    Route("/requests", listed, methods=["GET"]),
    Route("/requests", filed, methods=["POST"]),
    Route("/requests/{place}/review", reviewed, methods=["GET"]),
    Route("/requests/{place}/{what}", decided, methods=["POST"]),
)
