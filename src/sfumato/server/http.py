"""The HTTP server: one door before all pages, which turns everything into a reply without a trace."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.errors import BadRequest, EngineFailed, MethodNotAllowed, NotFound, Refusal, WrongMediaType
from sfumato.server.gate import Caller, Gate
from sfumato.server.origins import Origins
from sfumato.server.reading import LARGEST
from sfumato.server.replies import refusal_reply
from sfumato.server.requests import address_of, too_large
from sfumato.server.routes import ROUTES

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
_DRAINED = 256 << 20
_DRAINING = 20.0
"""So many bytes, for so many seconds, are read and thrown away after a refusal, so that the client reads it."""


def make_app(gate: Gate, origins: Origins, pages: Sequence[BaseRoute] = ()) -> "Door":
    """Return the application: the pages for programs, and others."""
    return Door(Router([*ROUTES, *pages], redirect_slashes=False), gate, origins)


class Door:
    """Refuses what cannot be meant for this server before it is read; no failure leaves with its own words."""

    def __init__(self, app: ASGIApp, gate: Gate, origins: Origins) -> None:
        self._app = app
        self._gate = gate
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        scope["app"] = self  # the router then raises what it refuses
        scope["gate"] = self._gate
        received, sent = _Received(receive), _Sent(send)
        request = Request(scope, received)
        try:
            self._check(request)
            await self._app(scope, received, sent)
        except Refusal as refusal:
            await self._refuse(scope, refusal, received, sent)
        except ClientDisconnect:
            scope["outcome"] = "disconnected"
        except HTTPException as failure:
            sent.allowed = _allowed(failure)
            await self._refuse(scope, _unknown(failure), received, sent)
        except Exception as failure:
            scope["outcome"] = f"failed: {_where(failure)}"
            await self._refuse(scope, _failed(), received, sent)
        finally:
            self._record(scope, request, sent.status)

    def _check(self, request: Request) -> None:
        headers = request.headers
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        host = hosts[0] if len(hosts) == 1 else None
        self._origins.check(host, " ".join(origins) if origins else None)
        if any(one.strip().lower() != "identity" for one in headers.getlist("content-encoding")):
            raise WrongMediaType(
                "The request is compressed.", "Bodies are read as they are.", "Leave Content-Encoding out."
            )
        lengths = headers.getlist("content-length")
        if any(not length.isdecimal() or int(length[:20]) > LARGEST for length in lengths):
            raise too_large()

    async def _refuse(self, scope: Scope, refusal: Refusal, received: "_Received", sent: "_Sent") -> None:
        if sent.status:
            return  # what has begun to leave cannot be taken back
        scope.setdefault("outcome", refusal.code)
        reply = refusal_reply(refusal)
        begin: Message = {"type": "http.response.start", "status": reply.status_code, "headers": reply.raw_headers}
        await sent(begin)
        await sent({"type": "http.response.body", "body": bytes(reply.body), "more_body": True})
        await received.drain()
        await sent({"type": "http.response.body", "body": b"", "more_body": False})

    def _record(self, scope: Scope, request: Request, status: int) -> None:
        """Write down a request that the gate did not: a page, or somebody who was not let in."""
        caller: Caller | None = scope.get("caller")
        if caller is not None and caller.recorded:
            return
        outcome = str(scope.get("outcome") or ("ok" if status < 400 else status))
        verb = f"{scope['method']} {scope['path']}"
        channel, account = ("http", None) if caller is None else (caller.channel, caller.account)
        with suppress(Refusal):  # the reply has left
            self._gate.audit.write(channel, address_of(request), account, verb, outcome)


class _Received:
    """Receives, and knows whether anything is still to come."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._ended = False

    async def __call__(self) -> Message:
        message = await self._receive()
        self._ended = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def drain(self) -> None:
        """Read what the client still sends and throw it away, within bounds: else it never reads the refusal."""
        seen = 0
        try:
            async with asyncio.timeout(_DRAINING):
                while not self._ended and seen < _DRAINED:
                    seen += len((await self()).get("body", b""))
        except TimeoutError:
            return


class _Sent:
    """Sends with the headers that every reply has, and remembers the status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.allowed = ""
        """The methods that a page takes, where it was asked for by another."""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            present = {name.lower() for name, _ in message["headers"]}
            more = [(name, value) for name, value in _HEADERS if name not in present]
            if self.allowed:
                more.append((b"allow", self.allowed.encode()))
            message = {**message, "headers": [*message["headers"], *more]}
        await self._send(message)


def _unknown(failure: HTTPException) -> Refusal:
    """Return what the router refuses, in our own words."""
    if failure.status_code == 405:
        return MethodNotAllowed(
            "This page is not asked for so.", f"It takes {_allowed(failure)}.", "See /openapi.json."
        )
    if failure.status_code == 404:
        return NotFound("There is no such page.", "The server has a dozen.", "See /openapi.json.")
    return BadRequest("This is no request.", "It cannot be read.", "See /openapi.json.")


def _allowed(failure: HTTPException) -> str:
    """Return the methods that would be taken, always in the same order."""
    return ", ".join(sorted((failure.headers or {}).get("Allow", "").split(", ")))


def _failed() -> Refusal:
    return EngineFailed(
        "The server could not finish.",
        "What went wrong inside is not repeated: it may hold a value.",
        "Ask the owner to look into the audit log.",
    )


def _where(failure: Exception) -> str:
    """Return the kind of a failure and the line that raised it: the owner can report that, and no value is in it."""
    last = failure.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    place = "" if last is None else f" {Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}"
    return f"{type(failure).__name__}{place}"
