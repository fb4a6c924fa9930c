"""The console's page of access: tokens and sessions, to list and to end. The owner sees everybody's."""

from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sfumato.errors import BadParameter, NotGranted
from sfumato.policy.policy import fold_name
from sfumato.server.console.forms import read_form
from sfumato.server.console.session import require_same_page, require_session
from sfumato.server.console.templates import render
from sfumato.server.gate import Caller, Gateway
from sfumato.server.grant_stores.stored import DEFAULT_LABEL, Grant, GrantKind, StoredSession
from sfumato.server.grants import OWNER, Secrets
from sfumato.server.requests import gate_of

PASSWORD_LABEL = "console"  # noqa: S105 - a name, not a password
"""Name of the password that a person draws for themselves."""
PASSWORD_SECONDS = 12 * 3600.0
_DAY_SECONDS = 86_400.0
_MAX_DAYS = 3650


@dataclass(frozen=True, slots=True)
class AccessRow:
    """A token or a session, as the page shows it."""

    key: str
    who: str
    name: str
    since: str
    expires: str
    used: str


async def access(request: Request) -> Response:
    """List tokens and sessions: one's own, and for the owner all of them."""
    return _page(gate_of(request), require_session(request))


async def end_access(request: Request) -> Response:
    """Revoke a token, or end a session."""
    caller, gate = require_session(request), gate_of(request)
    require_same_page(request)
    form = await read_form(request)
    tokens = [grant.id for grant in _grants(gate, caller) if grant.id == form.get("token")]
    sessions = [session.key for session in _sessions(gate, caller) if session.key == form.get("session")]
    if tokens:
        await gate.work(caller, lambda: gate.grants.revoke_ids(tokens))
    if sessions:
        await gate.work(caller, lambda: gate.grants.end_sessions(sessions))
    return RedirectResponse("/access", 303)


async def draw_password(request: Request) -> Response:
    """Draw a password and a token for oneself, shown once.

    They end after twelve hours, and never after the token that the session began with.
    """
    caller, gate = require_session(request), gate_of(request)
    require_same_page(request)
    name = caller.person or caller.account
    if name == OWNER:
        raise NotGranted()
    given = name, PASSWORD_LABEL, PASSWORD_SECONDS, caller.grant.roles, caller.grant.identity
    drawn = await gate.work(caller, lambda: gate.grants.grant(*given, until=caller.grant.expires))
    return _page(gate, caller, (name, drawn))


async def grant_token(request: Request) -> Response:
    """Draw a named token for an analyst; only the owner may."""
    caller, gate = require_session(request), gate_of(request)
    require_same_page(request)
    if caller.account != OWNER:
        raise NotGranted()
    form = await read_form(request)
    name, days = form.get("name", ""), form.get("days", "").strip()
    if fold_name(name) == OWNER:
        raise BadParameter(
            "The owner gets no token here.",
            "The owner's token is granted on the server's machine alone.",
            "Name an analyst.",
        )
    if days and not (days.isascii() and days.isdecimal() and 0 < int(days[:6]) <= _MAX_DAYS):
        raise BadParameter("The number of days is no number.", f"It lies between 1 and {_MAX_DAYS}.", "Write 90.")
    label, seconds = form.get("label", "").strip() or DEFAULT_LABEL, int(days) * _DAY_SECONDS if days else None
    drawn = await gate.work(caller, lambda: gate.grants.grant(name, label, seconds))
    return _page(gate, caller, (name, drawn))


def _page(gate: Gateway, caller: Caller, drawn: tuple[str, Secrets] | None = None) -> Response:
    is_owner = caller.account == OWNER
    policy = gate.grants.policy
    content = render(
        "access.html",
        dataset=gate.policy.name,
        analyst="" if is_owner else caller.account,
        tokens=[_token_row(grant) for grant in _grants(gate, caller)],
        sessions=[_session_row(session) for session in _sessions(gate, caller)],
        names=[*(analyst.name for analyst in policy.analysts), *policy.owners] if is_owner else [],
        may_draw=bool(caller.person or caller.account),
        drawn=drawn,
    )
    return Response(content.encode(), media_type="text/html; charset=utf-8")


def _grants(gate: Gateway, caller: Caller) -> tuple[Grant, ...]:
    return gate.grants.all() if caller.account == OWNER else gate.grants.of_person(caller.grant)


def _sessions(gate: Gateway, caller: Caller) -> list[StoredSession]:
    own = (caller.account, caller.grant.person)
    sessions = gate.grants.sessions()
    return [listed for listed in sessions if caller.account == OWNER or (listed.account, listed.person) == own]


def _token_row(grant: Grant) -> AccessRow:
    expires = "never" if grant.expires is None else _time(grant.expires)
    who = grant.person or grant.account or "owner"
    return AccessRow(grant.id, who, grant.label, grant.since[:16], expires, _time(grant.used))


def _session_row(session: StoredSession) -> AccessRow:
    who = session.person or session.account or "owner"
    began_by = GrantKind.TOKEN if session.grant else GrantKind.IDENTITY
    return AccessRow(session.key, who, f"{session.address} ({began_by})", _time(session.began), "", _time(session.used))


def _time(seconds: float | None) -> str:
    return "never" if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="minutes")[:16]


ACCESS_PAGES = (
    Route("/access", access),
    Route("/access/end", end_access, methods=["POST"]),
    Route("/access/password", draw_password, methods=["POST"]),
    Route("/access/grant", grant_token, methods=["POST"]),
)
