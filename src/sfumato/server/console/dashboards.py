"""The console's dashboards: made of questions that were asked, kept as a file, shown as one page."""

import json
from collections.abc import Iterator
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.dashboards.answers import answer_dashboard
from sfumato.dashboards.dashboard import PERIODS, DashboardTile, dashboard_text, parse_dashboard
from sfumato.dashboards.page import dashboard_html
from sfumato.database import Database
from sfumato.errors import NotGranted, Refusal
from sfumato.ledger.ledger import Entry
from sfumato.server.console import views
from sfumato.server.console.forms import read_form
from sfumato.server.console.pages import account_name, for_people, html_reply
from sfumato.server.console.session import require_same_page, require_session
from sfumato.server.gate import Caller
from sfumato.server.requests import gate_of
from sfumato.server.routes import file_name
from sfumato.server.statuses import status_of

MAX_PICKED_QUESTIONS = 10
"""Number of earlier questions that can be picked."""
_PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""The page brings its own styles and charts, and runs nothing."""


async def editor(request: Request) -> Response:
    """Show the page on which a dashboard is made."""
    caller = require_session(request)
    return html_reply(views.dashboard_page(await _page(request, caller, "")))


async def write_draft(request: Request) -> Response:
    """Write the file of a dashboard from the questions that were picked."""
    caller = require_session(request)
    require_same_page(request)
    form = await read_form(request)
    page = await _page(request, caller, "")
    picked = [entry for entry in page.history if form.get(f"pick-{entry.sequence}")]
    tiles = [DashboardTile(" ".join(sql.split())[:80], sql) for entry in picked for sql in _questions(entry)]
    period = form.get("period", "")
    text = dashboard_text(
        form.get("title", "").strip() or page.dataset,
        {"epsilon": form.get("epsilon", "").strip() or "0.1"},
        period if period in PERIODS else "",
        tiles,
    )
    return html_reply(views.dashboard_page(await _page(request, caller, text)))


async def show_page(request: Request) -> Response:
    """Ask the questions of a dashboard as one charge, and show them as one page."""
    caller, gate = require_session(request), gate_of(request)
    require_same_page(request)
    text = (await read_form(request)).get("file", "")

    def render(database: Database) -> str:
        answered = answer_dashboard(database, dashboard)
        return dashboard_html(replace(answered, time=gate.round_time(answered.time)))

    try:
        dashboard = parse_dashboard(text)
        page = await gate.serve(caller, "dashboard", render, True)
    except NotGranted:
        raise
    except Refusal as refusal:
        return html_reply(views.dashboard_page(await _page(request, caller, text, refusal)), status_of(refusal))
    reply = Response(page, media_type="text/html; charset=utf-8")
    reply.headers["content-security-policy"] = _PAGE_POLICY
    return reply


async def save_file(request: Request) -> Response:
    """Send the file of a dashboard, to be kept and opened again, also by the command line."""
    caller = require_session(request)
    require_same_page(request)
    text = (await read_form(request)).get("file", "")
    try:
        dashboard = parse_dashboard(text)
    except Refusal as refusal:
        return html_reply(views.dashboard_page(await _page(request, caller, text, refusal)), status_of(refusal))
    headers = {"content-disposition": f'attachment; filename="{file_name(dashboard.title)[:60] or "dashboard"}.toml"'}
    return Response(text, media_type="application/toml; charset=utf-8", headers=headers)


def _questions(entry: Entry) -> Iterator[str]:
    """Give the texts that were asked in one charge."""
    texts = json.loads(entry.release or "{}").get("texts")
    yield from texts if isinstance(texts, list) else [entry.sql]


async def _page(request: Request, caller: Caller, text: str, refusal: Refusal | None = None) -> views.DashboardPage:
    gate = gate_of(request)
    budget, history = await gate.budget(caller), await gate.history(caller, MAX_PICKED_QUESTIONS)
    return views.DashboardPage(gate.policy.name, account_name(gate, caller), budget, history, PERIODS, text, refusal)


DASHBOARD_PAGES = (
    Route("/dashboard", for_people(editor)),
    Route("/dashboard/draft", for_people(write_draft), methods=["POST"]),
    Route("/dashboard/page", for_people(show_page), methods=["POST"]),
    Route("/dashboard/file", for_people(save_file), methods=["POST"]),
)
