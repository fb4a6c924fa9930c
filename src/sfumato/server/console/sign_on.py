"""Log-in by the identity provider: the console's code flow with PKCE, and a token for a short-lived password."""

import asyncio
from hashlib import sha256
from hmac import compare_digest
from time import time

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sfumato.errors import NotFound, NotGranted
from sfumato.server.console import views
from sfumato.server.console.access import PASSWORD_SECONDS
from sfumato.server.console.session import remember
from sfumato.server.console.templates import render
from sfumato.server.gate import Gateway
from sfumato.server.grant_stores.stored import Grant
from sfumato.server.identity import IdentityError, IdentityProvider, Person
from sfumato.server.replies import json_reply
from sfumato.server.requests import bearer_token, cookie_name, gate_of

LOGIN_LABEL = "login"
"""Name of the token that a person gets for one of the identity provider."""
_FLOW_SECONDS = 600


async def begin(request: Request) -> Response:
    """Send the browser to the identity provider."""
    gate = gate_of(request)
    identity = _identity(gate)
    try:
        flow, address = await asyncio.to_thread(identity.begin, _callback(request))
    except IdentityError:
        return _refuse(gate, 503)
    reply = RedirectResponse(address, 303)
    reply.set_cookie(
        _flow_cookie(request),
        _digest(flow.state),
        max_age=_FLOW_SECONDS,
        httponly=True,
        samesite="lax",  # the provider's page leads back here
        secure=request.url.scheme == "https",
        path="/",
    )
    return reply


async def finish(request: Request) -> Response:
    """Take the provider's code, and begin a session. A state counts once, and in the browser that began with it."""
    gate = gate_of(request)
    identity = _identity(gate)
    state, code = request.query_params.get("state", ""), request.query_params.get("code", "")
    expected = request.cookies.get(_flow_cookie(request), "")
    grant: Grant | None = None
    if state and code and compare_digest(expected.encode(), _digest(state).encode()):
        try:
            person = await asyncio.to_thread(identity.finish, state, code, _callback(request))
            grant = _grant(gate, person)
        except IdentityError:
            grant = None
    if grant is None:
        return _refuse(gate, 401)
    # a page and no redirect: the session's cookie is not sent with a navigation that began at the provider
    reply = _html(render("signed_on.html", dataset=gate.policy.name))
    reply.delete_cookie(_flow_cookie(request), path="/", httponly=True, samesite="lax")
    await remember(request, reply, grant)
    return reply


async def exchange(request: Request) -> Response:
    """Give a token and a password for psql, for twelve hours, for a token of the identity provider; once for each."""
    gate = gate_of(request)
    identity = _identity(gate)
    try:
        person = await asyncio.to_thread(identity.exchange, bearer_token(request))
    except IdentityError:
        raise NotGranted() from None
    grant = _grant(gate, person)
    if grant is None:
        raise NotGranted()
    name = grant.person or grant.account
    given = name, LOGIN_LABEL, PASSWORD_SECONDS, grant.roles, grant.identity
    drawn = await asyncio.to_thread(gate.grants.grant, *given)
    user = grant.account
    return json_reply({"token": drawn.token, "password": drawn.password, "user": user, "seconds": PASSWORD_SECONDS})


def _identity(gate: Gateway) -> IdentityProvider:
    if gate.identity is None:
        raise NotFound("There is no such page.", "The policy names no identity provider.", "Log in with a token.")
    return gate.identity


def _grant(gate: Gateway, person: Person) -> Grant | None:
    given = person.name, time(), None, person.roles  # the session has its own end
    return gate.grants.identity_grant(*given, identity=person.identity)


def _callback(request: Request) -> str:
    """Return the address that the provider leads back to."""
    return f"{request.scope['scheme']}://{request.headers['host']}{request.scope.get('root_path', '')}/login/callback"


def _flow_cookie(request: Request) -> str:
    return f"{cookie_name(request)}-login"


def _refuse(gate: Gateway, status: int) -> Response:
    return _html(views.login_page(gate.policy.name, refused=True, sign_on=True), status)


def _html(content: Markup, status: int = 200) -> Response:
    return Response(content.encode(), status, media_type="text/html; charset=utf-8")


def _digest(state: str) -> str:
    return sha256(state.encode()).hexdigest()


SIGN_ON_PAGES = (
    Route("/login/identity", begin),
    Route("/login/callback", finish),
    Route("/login/token", exchange, methods=["POST"]),
)
