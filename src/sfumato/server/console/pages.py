"""The console's pages: log in, ask, reopen, download; and the owner's."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache, partial
from importlib.resources import files

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sfumato.engines.sql.builder import select
from sfumato.errors import BadParameter, NotFound, NotGranted, NotKnown, Refusal
from sfumato.exact import typed_rational
from sfumato.ledger.ledger import Entry
from sfumato.planning.quote import household_note
from sfumato.planning.refinement_offer import explain_with_offer
from sfumato.policy.canonical import policy_hash
from sfumato.policy.schemes import change_evidence
from sfumato.release.release import Release
from sfumato.release.rendering.documents import quote_document
from sfumato.release.rendering.encoding import encoded
from sfumato.release.rendering.svg import chart_svg
from sfumato.server.console import views, wording
from sfumato.server.console.access import ACCESS_PAGES
from sfumato.server.console.forms import read_form
from sfumato.server.console.session import current_session, forget, remember, require_same_page, require_session
from sfumato.server.console.sign_on import SIGN_ON_PAGES
from sfumato.server.gate import Caller, Gateway
from sfumato.server.grants import OWNER, Secrets
from sfumato.server.reading import HOUSEHOLD, read_explained
from sfumato.server.replies import MEDIA, count_bytes, file_reply, json_reply
from sfumato.server.requests import body_of, gate_of, require_json
from sfumato.server.routes import file_name, reopen_release, requested_file
from sfumato.server.statuses import status_of
from sfumato.server.tables import tables_document

_STATIC = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}
_PICTURE = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""An SVG brings its own styles; as an image it runs nothing."""

Page = Callable[[Request], Awaitable[Response]]


async def entrance(request: Request) -> Response:
    """Show the console with a session, and the log-in page without one."""
    caller = current_session(request)
    if caller is None:
        gate = gate_of(request)
        return html_reply(views.login_page(gate.policy.name, sign_on=gate.identity is not None))
    return html_reply(views.console_page(await _console_page(request, caller)))


async def login(request: Request) -> Response:
    """Begin a session by a token."""
    require_same_page(request)
    form = await read_form(request)
    token = form.get("token", "").strip()
    gate = gate_of(request)
    grant = gate.grants.of_token(token)
    if grant is None:
        return html_reply(views.login_page(gate.policy.name, True, gate.identity is not None), 401)
    reply = RedirectResponse("/", 303)
    await remember(request, reply, grant)
    return reply


async def logout(request: Request) -> Response:
    """End the session."""
    require_same_page(request)
    reply = RedirectResponse("/", 303)
    await forget(request, reply)
    return reply


async def price(request: Request) -> Response:
    """Return the price of the question in the editor and the margins that it buys."""
    caller, gate = require_session(request), gate_of(request)
    require_same_page(request)
    require_json(request)
    question = read_explained(await body_of(request))
    found = await _margins_by_name(gate, caller, question.sql, question.price)
    people = found.pop(HOUSEHOLD, None)
    quote = await gate.explain(caller, question.sql, **found)
    words = wording.price_text(quote)
    together = "" if people is None else household_note(quote.loss, people)
    return json_reply(
        {**quote_document(quote), "price": words, "buys": wording.margins_text(quote), "together": together}
    )


async def ask(request: Request) -> Response:
    """Answer the question in the editor."""
    caller, gate = require_session(request), gate_of(request)
    require_same_page(request)
    form = await read_form(request)
    draft = read_editor(form)
    try:
        given = await price_of(gate, caller, draft)
        if offered := form.get("offered"):
            await _require_at_most(gate, caller, draft.sql, given, typed_rational(offered, "offered"))
        shown = await gate.ask(caller, draft.sql, _page_or_section(request, caller, draft, given), key=None, **given)
    except NotGranted:
        raise
    except Refusal as refusal:
        return html_reply(await show_editor(request, caller, draft, refusal), status_of(refusal))
    if isinstance(shown, Markup):
        return html_reply(views.console_page(await _console_page(request, caller, draft=draft, answer=shown)))
    return RedirectResponse(f"/answers/{shown}#answer", 303)


def _page_or_section(
    request: Request, caller: Caller, draft: views.EditorText, price: dict[str, object]
) -> Callable[[Release], str | Markup]:
    """Return a function that gives the receipt of an answer, or renders an answer that has no page of its own.

    Answers about public tables and answers that another account has paid for have no page.
    """
    database = gate_of(request).database(caller)
    section = _answer_section(request, caller, draft, price, datetime.now(UTC))

    def render(release: Release) -> str | Markup:
        receipt = release.receipt.id
        return section(release) if database.entry(receipt) is None else receipt

    return render


async def answer(request: Request) -> Response:
    """Show a stored answer, or send it as a file."""
    caller, gate = require_session(request), gate_of(request)
    if "." in str(request.path_params["receipt"]):
        receipt, form = requested_file(request)
        render = count_bytes(request, partial(encoded, form=form))
        content = await reopen_release(gate, caller, receipt, render)
        return file_reply(request, content, form, f"{file_name(gate.policy.name)}-{receipt[:12]}")
    receipt, _ = requested_file(request)
    entry, page = await asyncio.gather(gate.entry(caller, receipt), _console_page(request, caller))
    if entry is None:
        await reopen_release(gate, caller, receipt, lambda _: None)  # refuses a receipt without an answer
        raise NotFound(
            "This answer is not in your history.", "Another account has paid for it.", "Ask its question: it is free."
        )
    draft = _draft_of(entry)
    section = _answer_section(request, caller, draft, await price_of(gate, caller, draft), entry.time)
    shown = await reopen_release(gate, caller, receipt, section)
    return html_reply(views.console_page(replace(page, draft=draft, answer=shown)))


async def picture(request: Request) -> Response:
    """Send a chart of an answer."""
    caller, gate = require_session(request), gate_of(request)
    receipt, _ = requested_file(request)
    theme, column = request.query_params.get("theme", "light"), request.query_params.get("column")
    drawn = await reopen_release(gate, caller, receipt, lambda release: chart_svg(release, column, theme))
    if drawn is None:
        raise NotFound("There is no such picture.", "The answer has no number of this name.", "See the table.")
    reply = Response(drawn, media_type=_STATIC["icon.svg"])
    reply.headers["content-security-policy"] = _PICTURE
    return reply


async def download(request: Request) -> Response:
    """Send an answer that has no page of its own as a file. It is computed again, at no cost."""
    caller, gate = require_session(request), gate_of(request)
    require_same_page(request)
    form = await read_form(request)
    kind = form.get("format", "csv")
    if kind not in MEDIA:
        raise BadParameter("There is no such format.", f"There are {', '.join(MEDIA)}.", "Choose one of them.")
    encode = count_bytes(request, partial(encoded, form=kind))
    draft = read_editor(form)
    price = await price_of(gate, caller, draft)
    await _require_at_most(gate, caller, draft.sql, price, Fraction(0))
    receipt, content = await gate.ask(
        caller, draft.sql, lambda release: (release.receipt.id, encode(release)), key=None, **price
    )
    return file_reply(request, content, kind, f"{file_name(gate.policy.name)}-{receipt[:12]}")


async def owner(request: Request) -> Response:
    """Show the whole dataset to its owner."""
    return html_reply(views.owner_page(await _owner_page(gate_of(request), _owner(request))))


async def owner_verify(request: Request) -> Response:
    """Verify the ledger and show the result."""
    caller, gate = _owner(request), gate_of(request)
    require_same_page(request)
    verified = await gate.verify(caller)
    page = await _owner_page(gate, caller)
    return html_reply(views.owner_page(replace(page, verified=verified)))


async def owner_grant(request: Request) -> Response:
    """Create a token and a password, and show them once."""
    caller, gate = _owner(request), gate_of(request)
    require_same_page(request)
    name = (await read_form(request)).get("name", "")
    if name == OWNER:
        raise BadParameter(
            "The owner gets no token here.",
            "The owner's token is granted on the server's machine alone.",
            "Name an analyst.",
        )
    given: Secrets = await gate.work(caller, lambda: gate.grants.grant(name))
    page = await _owner_page(gate, caller)
    return html_reply(views.owner_page(replace(page, granted=(name, given))))


async def owner_revoke(request: Request) -> Response:
    """Revoke a grant."""
    caller, gate = _owner(request), gate_of(request)
    require_same_page(request)
    name = (await read_form(request)).get("name", "")
    if name != OWNER:
        await gate.work(caller, lambda: gate.grants.revoke(name))
    return RedirectResponse("/owner", 303)


async def static(request: Request) -> Response:
    """Send one of the three static files."""
    name = str(request.path_params["name"])
    if name not in _STATIC:
        raise NotFound("There is no such page.", "The console has three files.", "Open /.")
    return Response(_file(name), media_type=_STATIC[name])


@lru_cache
def _file(name: str) -> bytes:
    return files("sfumato.server.console").joinpath("static", name).read_bytes()


def html_reply(content: Markup, status: int = 200) -> Response:
    """Return a page."""
    return Response(content.encode(), status, media_type="text/html; charset=utf-8")


def read_editor(form: dict[str, str]) -> views.EditorText:
    """Return the fields of the editor's form."""
    by_margin, by_share = form.get("by") == "margin", form.get("by") == "share"
    margin, column = (form.get("margin", ""), form.get("column", "")) if by_margin else ("", "")
    share = form.get("share", "") if by_share else ""
    return views.EditorText(form.get("sql", ""), form.get("epsilon", ""), margin.strip(), column.strip(), share.strip())


def _draft_of(entry: Entry) -> views.EditorText:
    wish = wording.requested_price(entry)
    within = wish.get("within")
    if isinstance(within, dict) and within:
        column, margin = next(iter(within.items()))
        return views.EditorText(entry.sql, "0.1", _decimal(str(margin)), str(column))
    if share := wish.get("share"):
        return views.EditorText(entry.sql, "0.1", share=str(share))
    return views.EditorText(entry.sql, _decimal(str(wish.get("epsilon", ""))))


def _decimal(text: str) -> str:
    """Return a fraction as people type it, where that is exact."""
    numerator, _, denominator = text.partition("/")
    if denominator and (number := int(numerator) / int(denominator)) and len(repr(number)) < 10:
        return repr(number)
    return text


async def price_of(gate: Gateway, caller: Caller, draft: views.EditorText) -> dict[str, object]:
    """Return the price that the form means; a margin without a column is of the first noisy number."""
    if draft.share:
        return {"share": draft.share}
    if not draft.margin:
        return {"epsilon": draft.epsilon.strip()} if draft.epsilon.strip() else {}
    return await _margins_by_name(gate, caller, draft.sql, {"within": {draft.column: draft.margin}})


async def _require_at_most(gate: Gateway, caller: Caller, sql: str, price: dict[str, object], shown: Fraction) -> None:
    """Refuse a question that costs more by now than its page said: a snapshot or the policy may have changed since."""
    quote = await gate.explain(caller, sql, **price)
    if quote.loss.epsilon > shown:
        raise NotKnown(
            "This costs more now than the page said.",
            "The earlier answers that it counted on are not used any longer: the data or the policy has changed since.",
            f"Ask the question again in the editor; it costs {quote.loss}.",
        )


def _first_draft(gate: Gateway, caller: Caller) -> views.EditorText:
    """Return the empty form, at the price that the policy names for the analyst."""
    analyst = gate.policy.analyst(caller.account) if caller.account else None
    price = {} if analyst is None else analyst.price_target
    return views.EditorText(**{name: _decimal(text) if name == "epsilon" else text for name, text in price.items()})


async def _margins_by_name(gate: Gateway, caller: Caller, sql: str, price: dict[str, object]) -> dict[str, object]:
    within = price.get("within")
    if not (isinstance(within, dict) and "" in within):
        return price
    noisy = list((await gate.explain(caller, sql, epsilon="1")).margins)
    if not noisy:
        return {key: value for key, value in price.items() if key != "within"}  # nothing in it is noisy
    return {**price, "within": {noisy[0] if name == "" else name: margin for name, margin in within.items()}}


async def _console_page(
    request: Request,
    caller: Caller,
    draft: views.EditorText | None = None,
    refusal: Refusal | None = None,
    answer: Markup | None = None,
) -> views.ConsolePage:
    gate = gate_of(request)
    budget, charged = await asyncio.gather(gate.budget(caller), gate.history(caller))
    database = gate.database(caller)
    tables = tables_document(database.visible_policy, database.catalog)["tables"]
    return views.ConsolePage(
        gate.policy.name,
        account_name(gate, caller),
        tables,  # type: ignore[arg-type]
        budget,
        charged,
        draft or _first_draft(gate, caller),
        answer,
        refusal,
    )


async def show_editor(request: Request, caller: Caller, draft: views.EditorText, refusal: Refusal) -> Markup:
    """Return the page of the editor with a refusal below the question."""
    return views.console_page(await _console_page(request, caller, draft=draft, refusal=refusal))


def _answer_section(
    request: Request, caller: Caller, draft: views.EditorText, price: dict[str, object], time: datetime
) -> Callable[[Release], Markup]:
    """Return a function that renders an answer in a thread, with what a finer one costs more."""
    url, gate = str(request.base_url), gate_of(request)
    database = gate.database(caller)

    def section(release: Release) -> Markup:
        paid, offer = ({}, None) if release.event is None else (price, None)
        if paid:
            with suppress(Refusal):
                offer = explain_with_offer(database.explain, draft.sql, **paid)[1]
        asked = views.AskedQuestion(url, gate.policy.name, draft, paid, f"{time:%Y-%m-%d}")
        return views.answer_view(asked, release, offer)

    return section


def account_name(gate: Gateway, caller: Caller) -> str:
    """Return the name of the caller's analyst as the policy spells it; empty for the owner."""
    found = gate.policy.analyst(caller.account) if caller.account else None
    return found.name if found else ""


def _owner(request: Request) -> Caller:
    caller = require_session(request)
    if caller.account != OWNER:
        raise NotGranted()
    return caller


async def _owner_page(gate: Gateway, caller: Caller) -> views.OwnerPage:
    held = {access.account: access.since for access in gate.grants.all()}
    seen = await gate.accounts(caller)
    accounts = [
        views.Account(account.name, account.budget, held.get(account.account, ""), account.charges) for account in seen
    ]
    budget, snapshot = await gate.budget(caller), await gate.snapshot(caller)
    bounds = []
    for table in gate.policy.tables:
        if not table.public:
            quote = await gate.explain(caller, select("COUNT(*) AS n", f'"{table.name}"'), epsilon="0.1")
            bounds.append((table.name, " ".join(quote.notes) or "No rows are dropped."))
    return views.OwnerPage(
        gate.policy.name,
        budget,
        accounts,
        snapshot[0],
        snapshot[1],
        policy_hash(gate.policy),
        bounds,
        gate.timing,
        change_evidence(gate.policy.source.scheme),
    )


def for_people(endpoint: Page) -> Page:
    """Show a refusal as a page to a browser. Without a session, redirect to the log-in page."""

    async def shown(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Refusal as refusal:
            if "text/html" not in request.headers.get("accept", ""):
                raise
            request.scope["outcome"] = refusal.code
            if isinstance(refusal, NotGranted):
                return RedirectResponse("/", 303)
            return html_reply(views.refusal_page(gate_of(request).policy.name, refusal), status_of(refusal))

    return shown


STATIC_PAGE = Route("/static/{name}", static)
PAGES = (
    Route("/", for_people(entrance)),
    Route("/login", for_people(login), methods=["POST"]),
    Route("/logout", for_people(logout), methods=["POST"]),
    Route("/price", price, methods=["POST"]),
    Route("/ask-here", for_people(ask), methods=["POST"]),
    Route("/download", for_people(download), methods=["POST"]),
    Route("/answers/{receipt}", for_people(answer)),
    Route("/answers/{receipt}/chart.svg", picture),
    Route("/owner", for_people(owner)),
    Route("/owner/verify", for_people(owner_verify), methods=["POST"]),
    Route("/owner/grant", for_people(owner_grant), methods=["POST"]),
    Route("/owner/revoke", for_people(owner_revoke), methods=["POST"]),
    STATIC_PAGE,
    *(Route(page.path, for_people(page.endpoint), methods=page.methods) for page in ACCESS_PAGES),
    *SIGN_ON_PAGES,
)
