"""What a request carries: who sent it, and its body, read within bounds."""

import asyncio

from starlette.requests import Request

from sfumato.errors import BadRequest, BodyTooLarge, NotGranted, WrongMediaType
from sfumato.server.gate import Caller, Gate
from sfumato.server.reading import LARGEST

SECONDS = 30.0
"""So long may a body take."""


def gate_of(request: Request) -> Gate:
    """Return the gate behind this server."""
    gate: Gate = request.scope["gate"]
    return gate


def address_of(request: Request) -> str:
    """Return where the request came from."""
    return request.client.host if request.client else ""


def caller_of(request: Request) -> Caller:
    """Return whoever the bearer token of a request lets in, or refuse."""
    given = request.headers.getlist("authorization")
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    if scheme.lower() != "bearer" or not token:
        raise NotGranted()
    return let_in(request, token.strip(), "http")


def let_in(request: Request, token: str, channel: str) -> Caller:
    """Return whoever this token lets in, or refuse."""
    grant = gate_of(request).grants.of_token(token)
    if grant is None:
        raise NotGranted()
    caller = Caller(grant, channel, address_of(request))
    request.scope["caller"] = caller  # for the audit log
    return caller


def require_json(request: Request) -> None:
    """Refuse a body that is not declared to be JSON in UTF-8."""
    kinds = request.headers.getlist("content-type")
    kind, *parameters = [part.strip().lower() for part in kinds[0].split(";")] if len(kinds) == 1 else [""]
    if kind != "application/json" or any(one not in ("charset=utf-8", 'charset="utf-8"', "") for one in parameters):
        raise WrongMediaType(
            "The request is not declared as JSON.",
            "Questions are read as application/json, in UTF-8.",
            "Send the header Content-Type: application/json.",
        )


async def body_of(request: Request) -> bytes:
    """Read a body of at most LARGEST bytes, in bounded time."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > LARGEST:
                    raise too_large()
                parts.append(part)
    except TimeoutError:
        raise BadRequest(
            "The request did not end.", f"A body is sent within {SECONDS:g} seconds.", "Send it again."
        ) from None
    return b"".join(parts)


def too_large() -> BodyTooLarge:
    """Return the refusal of a body that nobody needs."""
    return BodyTooLarge(
        "The request is too long.", f"It has more than {LARGEST:,} bytes, and no question does.", "Send a shorter one."
    )
