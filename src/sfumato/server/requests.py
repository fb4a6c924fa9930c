"""Read the caller and the body of a request, within limits."""

import asyncio
from hashlib import sha256

from starlette.requests import Request

from sfumato.errors import BadRequest, BodyTooLarge, Busy, NotGranted, WrongMediaType
from sfumato.server.gate import Caller, Gateway
from sfumato.server.limits import ServerLimits
from sfumato.server.quota import ByteQuota
from sfumato.server.reading import MAX_BODY_BYTES
from sfumato.server.sessions import Sessions


def gate_of(request: Request) -> Gateway:
    """Return the gate behind this server."""
    gate: Gateway = request.scope["gate"]
    return gate


def sessions_of(request: Request) -> Sessions:
    """Return the console's sessions."""
    sessions: Sessions = request.scope["sessions"]
    return sessions


def address_of(request: Request) -> str:
    """Return where the request came from: the client's address, as far as a trusted proxy says it."""
    return str(request.scope.get("address", ""))


def cookie_name(request: Request) -> str:
    """Return the name of the console's cookie: of this port and dataset, because cookies do not tell ports apart.

    With TLS its prefix has browsers refuse it from any other host.
    """
    server, dataset = request.scope.get("server") or ("", 0), gate_of(request).dataset
    ending = f"-{sha256(dataset.encode()).hexdigest()[:12]}" if dataset else ""
    return f"{'__Host-' if request.url.scheme == 'https' else ''}sfumato-{server[1]}{ending}"


def bearer_token(request: Request) -> str:
    """Return the bearer token of a request; empty where there is none, or several."""
    headers = request.headers.getlist("authorization")
    scheme, _, token = headers[0].partition(" ") if len(headers) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" else ""


def authenticate(request: Request) -> str | None:
    """Note who sent a request, by its token and by its console session; return for whom it counts, or None."""
    token = bearer_token(request)
    session = request.cookies.get(cookie_name(request))
    grants = {
        "http": (gate_of(request).grants.of_token(token) if token else None) or request.scope.get("identity_grant"),
        "console": sessions_of(request).grant_of(session) if session else None,
    }
    address, dataset = address_of(request), gate_of(request).dataset
    callers = {
        channel: Caller(grant, channel, address, dataset) for channel, grant in grants.items() if grant is not None
    }
    request.scope["callers"] = callers
    return next((caller.holder for caller in callers.values()), None)


def caller_of(request: Request, channel: str = "http") -> Caller:
    """Return the caller of a bearer token or a console session, or refuse."""
    caller: Caller | None = request.scope.get("callers", {}).get(channel)
    if caller is None:
        raise NotGranted()
    request.scope["caller"] = caller  # for the audit log
    return caller


def require_json(request: Request) -> None:
    """Refuse a body that is not declared to be JSON in UTF-8."""
    kinds = request.headers.getlist("content-type")
    kind, *parameters = [part.strip().lower() for part in kinds[0].split(";")] if len(kinds) == 1 else [""]
    if kind != "application/json" or any(
        parameter not in ("charset=utf-8", 'charset="utf-8"', "") for parameter in parameters
    ):
        raise WrongMediaType(
            "The request is not declared as JSON.",
            "Questions are read as application/json, in UTF-8.",
            "Send the header Content-Type: application/json.",
        )


async def body_of(request: Request) -> bytes:
    """Read a body in bounded time: at most MAX_BODY_BYTES, or very few before login.

    Its bytes are counted as they arrive, and held by the account until the request has ended.
    """
    limits: ServerLimits = request.scope["limits"]
    quota: ByteQuota = request.scope["quota"]
    account = next((caller.holder for caller in request.scope["callers"].values()), None)
    most = limits.login_body_bytes if account is None else MAX_BODY_BYTES
    if int(request.headers.get("content-length", "0")) > most:
        raise too_large(most)
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for part in request.stream():
                if sum(map(len, parts)) + len(part) > most:
                    raise too_large(most)
                if not quota.take(account, len(part)):
                    raise _too_many_bytes()
                request.scope["held"] = (account, request.scope.get("held", (account, 0))[1] + len(part))
                parts.append(part)
    except TimeoutError:
        raise BadRequest(
            "The request did not end.", f"A body is sent within {limits.body_seconds:g} seconds.", "Send it again."
        ) from None
    return b"".join(parts)


def too_large(most: int = MAX_BODY_BYTES) -> BodyTooLarge:
    """Return the refusal of a body that is too large."""
    return BodyTooLarge(
        "The request is too long.", f"It has more than {most:,} bytes, which is the limit.", "Send a shorter one."
    )


def _too_many_bytes() -> Busy:
    return Busy(
        "Too many bytes were sent at once.",
        "The server holds a limited number of bytes for the requests of one account.",
        "Nothing was charged. Wait for the answers to earlier requests, then send this one again.",
    )
