"""Sessions of browsers. The cookie holds a session id; scripts cannot read it and other sites cannot send it."""

from asyncio import to_thread

from starlette.requests import Request
from starlette.responses import Response

from sfumato.errors import ForeignOrigin, NotGranted
from sfumato.server.gate import Caller
from sfumato.server.grant_stores.stored import Grant
from sfumato.server.requests import address_of, caller_of, cookie_name, sessions_of


def current_session(request: Request) -> Caller | None:
    """Return the caller of the session, or None."""
    try:
        return require_session(request)
    except NotGranted:
        return None


def require_session(request: Request) -> Caller:
    """Return the caller of the session, or refuse."""
    return caller_of(request, "console")


def require_same_page(request: Request) -> None:
    """Refuse a request that the console did not send. `Origin` was checked before; here it must be present."""
    if "origin" not in request.headers and request.headers.get("sec-fetch-site") != "same-origin":
        raise ForeignOrigin(
            "This request was not sent by the console.",
            "Changes are accepted only from the console's own pages.",
            "Open the console and try there.",
        )


async def remember(request: Request, reply: Response, grant: Grant) -> None:
    """Begin a session and put its id into the cookie, until the browser is closed; the session before it ends."""
    await _end(request)
    identity = await to_thread(sessions_of(request).begin, grant, address_of(request))  # it is durable
    secure = request.url.scheme == "https"
    reply.set_cookie(cookie_name(request), identity, httponly=True, samesite="strict", secure=secure, path="/")


async def forget(request: Request, reply: Response) -> None:
    """End the session and take the cookie back."""
    await _end(request)
    secure = request.url.scheme == "https"
    reply.delete_cookie(cookie_name(request), path="/", httponly=True, samesite="strict", secure=secure)


async def _end(request: Request) -> None:
    identity = request.cookies.get(cookie_name(request))
    if identity:
        await to_thread(sessions_of(request).end, identity)
