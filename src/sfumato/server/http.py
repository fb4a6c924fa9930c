"""The HTTP server: one guard before all pages, which turns every error into a reply without a trace."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import time

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.diagnostics import record_engine_failure
from sfumato.errors import (
    BadRequest,
    Busy,
    EngineFailed,
    Interface,
    MethodNotAllowed,
    NotFound,
    Refusal,
    Stopping,
    WrongMediaType,
)
from sfumato.server.approvals import REQUEST_ROUTES
from sfumato.server.connections import ClientConnection, Connections
from sfumato.server.gate import Caller, Gateway
from sfumato.server.grant_stores.stored import Grant
from sfumato.server.identity import IdentityError
from sfumato.server.link_root import ROOT_PATH
from sfumato.server.origins import Origins
from sfumato.server.proxies import TrustedProxies
from sfumato.server.quota import ByteQuota
from sfumato.server.rate_limit import AddressBuckets
from sfumato.server.reading import MAX_BODY_BYTES
from sfumato.server.replies import PIECE_BYTES, ReplyQuota, refusal_reply
from sfumato.server.requests import address_of, authenticate, bearer_token, too_large
from sfumato.server.routes import ROUTES
from sfumato.server.sessions import Sessions
from sfumato.server.statuses import SPEAKER

_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", _POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)
_HSTS = (b"strict-transport-security", b"max-age=31536000")
"""Browsers that have reached the server over TLS use nothing else for a year."""
_MAX_DRAINED_BYTES = 256 << 20
_DRAIN_SECONDS = 20.0
"""Bytes and seconds of a body that are read and discarded after a refusal, so that the client reads it."""
_MAX_ANONYMOUS_DRAINED_BYTES = 2 << 20
_ANONYMOUS_DRAIN_SECONDS = 5.0
"""The same before login."""
_MAX_WAIT_SECONDS = 2.0
"""Seconds that a request without a grant waits for its turn; after that it is refused."""


class RequestLimits:
    """Limits of requests that the datasets of one server share."""

    def __init__(self, connections: Connections) -> None:
        limits = connections.limits
        self.connections = connections
        self.quota = ByteQuota(limits.body_bytes, limits.body_bytes_per_account)
        self.replies = ReplyQuota(limits)
        self.anonymous = AddressBuckets(limits.anonymous_requests_per_second, limits.anonymous_burst)


def make_app(
    gate: Gateway,
    origins: Origins,
    pages: Sequence[BaseRoute] = (),
    limits: RequestLimits | None = None,
    proxies: TrustedProxies | None = None,
) -> "RequestGuard":
    """Return the application of one dataset: the pages for programs, and others."""
    router = Router([*ROUTES, *REQUEST_ROUTES, *pages], redirect_slashes=False)
    return RequestGuard(router, gate, origins, limits or RequestLimits(Connections()), proxies or TrustedProxies())


class RequestGuard:
    """Refuses what cannot be meant for this server before it is read; no failure leaves with its own words."""

    def __init__(
        self, app: ASGIApp, gate: Gateway, origins: Origins, shared: RequestLimits, proxies: TrustedProxies
    ) -> None:
        self._app = app
        self._gate = gate
        self.origins = origins
        """Names under which the server is reached. They change with its certificate."""
        self._connections = shared.connections
        self._proxies = proxies
        limits = shared.connections.limits
        self._sessions = Sessions(
            gate.grants, idle_seconds=limits.console_idle_seconds, seconds=limits.console_session_seconds
        )
        self._quota = shared.quota
        self.replies = shared.replies
        self._anonymous = shared.anonymous

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        scope["app"] = self  # the router then raises what it refuses
        ROOT_PATH.set(scope.get("root_path", ""))
        scope["gate"], scope["sessions"] = self._gate, self._sessions
        scope["quota"], scope["limits"] = self._quota, self._connections.limits
        scope["replies"] = self.replies
        scope["load"] = {
            "connections": self._connections.open,
            "connections_before_login": self._connections.before_login,
        }
        received, sent = _Received(receive), _Sent(send, scope)
        request = Request(scope, received)
        scope["address"] = self._address(request)
        try:
            self._check(request, sent)
            scope["identity_grant"] = await self._identity_grant(request)
            received.account = authenticate(request)
            self._note_login(scope.get("connection"), received.account)
            if received.account is None:
                await self._wait_turn(scope["address"])
            await self._app(scope, received, sent)
        except Refusal as refusal:
            await self._refuse(scope, refusal, received, sent)
        except ClientDisconnect:
            scope["outcome"] = "disconnected"
        except HTTPException as failure:
            sent.allowed = _allowed_methods(failure)
            await self._refuse(scope, _routing_refusal(failure), received, sent)
        except Exception as failure:
            scope["outcome"] = f"failed: {_where(failure)}"
            await self._refuse(scope, _server_error(failure), received, sent)
        finally:
            if "held" in scope:
                self._quota.give_back(*scope["held"])
            if "reply" in scope:
                scope["reply"].release()
            self._record(scope, request, sent.status)

    def _address(self, request: Request) -> str:
        peer = request.client.host if request.client else ""
        return self._proxies.client_address(peer, request.headers.getlist("x-forwarded-for"))

    async def _identity_grant(self, request: Request) -> Grant | None:
        """Return the grant of a token of the identity provider; a thread verifies one that is not known yet."""
        identity, token = self._gate.identity, bearer_token(request)
        if identity is None or not token or self._gate.grants.of_token(token) is not None:
            return None
        person = identity.known(token)
        if person is None:
            await self._wait_turn(request.scope["address"])
            try:
                person = await asyncio.to_thread(identity.person_of, token)
            except IdentityError:
                return None
        given = person.name, time(), person.expires, person.roles
        return self._gate.grants.identity_grant(*given, identity=person.identity)

    def _note_login(self, connection: ClientConnection | None, account: str | None) -> None:
        """Count the connection for the account, or as one before login."""
        if connection is None:
            return
        if account is None:
            self._connections.log_out(connection)
        elif not self._connections.log_in(connection, account):
            raise Busy(
                "Too many connections are open.",
                "An account has a limited number of them, and so has the server.",
                "Nothing was charged. Close some, or send several requests over one connection.",
            )

    async def _wait_turn(self, address: str) -> None:
        """Have a request without a grant wait for the turn of its address."""
        bucket = self._anonymous.of(address)
        seconds = bucket.take()
        if seconds > _MAX_WAIT_SECONDS:
            bucket.give_back()
            raise Busy(
                "Too many requests without a valid token come from this address.",
                "They are limited, so that other clients do not have to wait.",
                "Nothing was charged. Wait a moment, and check the token.",
            )
        if seconds:
            await asyncio.sleep(seconds)

    def _check(self, request: Request, sent: "_Sent") -> None:
        headers = request.headers
        if self._gate.stopping:
            sent.closes = True
            raise Stopping()
        if "transfer-encoding" in headers and (
            "content-length" in headers or request.scope.get("http_version") == "1.0"
        ):
            sent.closes = True  # a proxy before this server may see another end of this request
            raise BadRequest(
                "The length of the request is given in two ways.",
                "Content-Length beside Transfer-Encoding could hide a second request in its body.",
                "Send one of them, in HTTP/1.1.",
            )
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        host = hosts[0] if len(hosts) == 1 else None
        self.origins.check(host, " ".join(origins) if origins else None)
        request.scope["scheme"] = self.origins.scheme_for(host or "")
        if any(encoding.strip().lower() != "identity" for encoding in headers.getlist("content-encoding")):
            raise WrongMediaType(
                "The request is compressed.", "Bodies are read as they are.", "Leave Content-Encoding out."
            )
        lengths = headers.getlist("content-length")
        if any(not length.isdecimal() or int(length[:20]) > MAX_BODY_BYTES for length in lengths):
            raise too_large()

    async def _refuse(self, scope: Scope, refusal: Refusal, received: "_Received", sent: "_Sent") -> None:
        if sent.status:
            return  # what has begun to leave cannot be taken back
        sent.is_counted = False
        scope.setdefault("outcome", refusal.code)
        by_python = Headers(scope=scope).get(SPEAKER) == Interface.PYTHON
        reply = refusal_reply(refusal, Interface.PYTHON if by_python else Interface.HTTP)
        begin: Message = {"type": "http.response.start", "status": reply.status_code, "headers": reply.raw_headers}
        await sent(begin)
        await sent({"type": "http.response.body", "body": bytes(reply.body), "more_body": True})
        await received.drain()
        await sent({"type": "http.response.body", "body": b"", "more_body": False})

    def _record(self, scope: Scope, request: Request, status: int) -> None:
        """Log a request that the gateway did not: a page, or a request without access."""
        caller: Caller | None = scope.get("caller")
        if caller is not None and caller.recorded:
            return
        outcome = str(scope.get("outcome") or ("ok" if status < 400 else status))
        verb = f"{scope['method']} {scope['path']}"
        channel, account = ("http", None) if caller is None else (caller.channel, caller.account)
        with suppress(Refusal):  # the reply has left
            person = "" if caller is None else caller.person
            self._gate.audit.write(channel, address_of(request), account, verb, outcome, person=person)


class _Received:
    """Receives, and knows whether anything is still to come."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._ended = False
        self.account: str | None = None
        """Who has logged in."""

    async def __call__(self) -> Message:
        message = await self._receive()
        self._ended = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def drain(self) -> None:
        """Read what the client still sends and throw it away, within bounds: else it never reads the refusal."""
        received = 0
        known = self.account is not None
        most, seconds = (
            (_MAX_DRAINED_BYTES, _DRAIN_SECONDS) if known else (_MAX_ANONYMOUS_DRAINED_BYTES, _ANONYMOUS_DRAIN_SECONDS)
        )
        try:
            async with asyncio.timeout(seconds):
                while not self._ended and received < most:
                    received += len((await self()).get("body", b""))
        except TimeoutError:
            return


class _Sent:
    """Sends with the headers that every reply has, in pieces that the client takes one after the other.

    A reply to an account is counted while any of it is here: since it was encoded in a thread, or else from now on.
    """

    def __init__(self, send: Send, scope: Scope) -> None:
        self._send = send
        self._scope = scope
        self._start: Message | None = None
        """Start of the reply. It is sent with the first piece; until then the reply can be refused."""
        self.status = 0
        self.is_counted = True
        self.closes = False
        """Whether the connection ends with this reply."""
        self.allowed = ""
        """The methods that a page takes, where it was asked for by another."""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        body = message.get("body", b"")
        if self._start is not None:
            self._count(body)
            start, self._start = self._with_headers(self._start), None
            self.status = start["status"]
            await self._send(start)
        ends = not message.get("more_body", False)
        if len(body) <= PIECE_BYTES:
            await self._write(body, ends)
            return
        for begin in range(0, len(body), PIECE_BYTES):
            await self._write(body[begin : begin + PIECE_BYTES], False)
        if ends:
            await self._write(b"", True)  # it is sent when the client has taken most of the pieces before

    def _count(self, body: bytes) -> None:
        account = next((caller.holder for caller in self._scope.get("callers", {}).values()), None)
        if self.is_counted and account is not None and "reply" not in self._scope:
            self._scope["reply"] = self._scope["replies"].hold(account, body)

    def _with_headers(self, start: Message) -> Message:
        root = str(self._scope.get("root_path", "")).encode()
        headers = [
            (name, root + value if name.lower() == b"location" and value.startswith(b"/") else value)
            for name, value in start["headers"]
        ]
        present = {name.lower() for name, _ in headers}
        more = [(name, value) for name, value in _HEADERS if name not in present]
        if self._scope.get("scheme") == "https":
            more.append(_HSTS)
        if self.allowed:
            more.append((b"allow", self.allowed.encode()))
        if self.closes:
            more.append((b"connection", b"close"))
        return {**start, "headers": [*headers, *more]}

    async def _write(self, piece: bytes, ends: bool) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": not ends})
        connection: ClientConnection | None = self._scope.get("connection")
        if connection is not None:
            connection.written += len(piece)


def _routing_refusal(failure: HTTPException) -> Refusal:
    """Return the refusal of a routing error."""
    if failure.status_code == 405:
        return MethodNotAllowed(
            "This page does not support the method of the request.",
            f"It takes {_allowed_methods(failure)}.",
            "See /openapi.json.",
        )
    if failure.status_code == 404:
        return NotFound("There is no such page.", "The server has no page at this address.", "See /openapi.json.")
    return BadRequest("This is not a valid request.", "It cannot be read.", "See /openapi.json.")


def _allowed_methods(failure: HTTPException) -> str:
    """Return the methods that would be taken, always in the same order."""
    return ", ".join(sorted((failure.headers or {}).get("Allow", "").split(", ")))


def _server_error(failure: Exception) -> Refusal:
    record_engine_failure(failure)
    return EngineFailed(
        "The server could not finish.",
        "The error is not shown, because it may contain a data value.",
        "Ask the owner to look into the audit log.",
    )


def _where(failure: Exception) -> str:
    """Return the kind of a failure and the line that raised it: the owner can report that, and no value is in it."""
    last = failure.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    place = "" if last is None else f" {Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}"
    return f"{type(failure).__name__}{place}"
