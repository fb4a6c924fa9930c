"""The console's page of requests: an analyst files and follows them, the owner decides."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sfumato.approvals import share_refused
from sfumato.errors import NotGranted, Refusal
from sfumato.ledger.approvals import RequestState
from sfumato.server.approvals import MAX_LISTED_REQUESTS, decision, read_place
from sfumato.server.console import views
from sfumato.server.console.forms import read_form
from sfumato.server.console.pages import (
    account_name,
    for_people,
    html_reply,
    price_of,
    read_editor,
    show_editor,
)
from sfumato.server.console.session import require_same_page, require_session
from sfumato.server.console.wording import loss_text
from sfumato.server.gate import Caller, Gateway
from sfumato.server.grants import OWNER
from sfumato.server.requests import gate_of
from sfumato.server.statuses import status_of


async def listed(request: Request) -> Response:
    """Show the requests of this account; all of them to the owner."""
    return html_reply(views.requests_page(await _page(request, require_session(request))))


async def filed(request: Request) -> Response:
    """File a request for the question in the editor, which this account's budget did not pay for."""
    caller, gate = require_session(request), gate_of(request)
    require_same_page(request)
    form = await read_form(request)
    draft = read_editor(form)
    try:
        if draft.share:
            raise share_refused()
        price = await price_of(gate, caller, draft)
        reason = form.get("reason", "")
        await gate.serve(
            caller,
            "request",
            lambda database: database.requests.file(draft.sql, reason=reason, **price),
        )
    except NotGranted:
        raise
    except Refusal as refusal:
        return html_reply(await show_editor(request, caller, draft, refusal), status_of(refusal))
    return RedirectResponse("/approvals", 303)


async def decided(request: Request) -> Response:
    """Reply to a request, approve, decline or withdraw it."""
    caller, gate = require_session(request), gate_of(request)
    require_same_page(request)
    place, what = read_place(request)
    form = await read_form(request)
    try:
        await gate.serve(caller, what, decision(caller, what, place, form.get("text", "")))
    except NotGranted:
        raise
    except Refusal as refusal:
        return html_reply(views.requests_page(await _page(request, caller, refusal)), status_of(refusal))
    return RedirectResponse(f"/approvals#request-{place}", 303)


async def _page(request: Request, caller: Caller, refusal: Refusal | None = None) -> views.RequestsPage:
    gate = gate_of(request)
    found = await gate.serve(caller, "requests", lambda database: database.requests.list(MAX_LISTED_REQUESTS))
    budget = await gate.budget(caller)
    reviews: dict[int, views.RequestReview] = {}
    if caller.account == OWNER:
        waiting = [row.id for row in found if row.for_rights and row.state is RequestState.WAITING]
        reviews = {sequence: await _review(gate, caller, sequence) for sequence in waiting}
    name = account_name(gate, caller)
    return views.RequestsPage(gate.policy.name, name, budget, found, gate.round_time, refusal, reviews)


async def _review(gate: Gateway, caller: Caller, place: int) -> views.RequestReview:
    """Say what a request for rights needs and costs, or why it cannot be answered."""
    try:
        quote = await gate.serve(caller, "review", lambda database: database.requests.review(place))
    except Refusal as refusal:
        return views.RequestReview(f"This question cannot be answered. {refusal.what} {refusal.why}", False)
    return views.RequestReview(f"{quote.notes[0]} The answer costs {loss_text(quote.loss)}.", True)


APPROVAL_PAGES = (
    Route("/approvals", for_people(listed)),
    Route("/approvals/file", for_people(filed), methods=["POST"]),
    Route("/approvals/{place}/{what}", for_people(decided), methods=["POST"]),
)
