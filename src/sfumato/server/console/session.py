"""Who sits before the browser: the token in a cookie that scripts cannot read and other sites cannot send."""

from starlette.requests import Request
from starlette.responses import Response

from sfumato.errors import ForeignOrigin, NotGranted
from sfumato.server.gate import Caller
from sfumato.server.requests import let_in


def cookie_name(request: Request) -> str:
    """Return the cookie's name: of this port alone, because cookies do not tell ports apart."""
    server = request.scope.get("server") or ("", 0)
    return f"sfumato-{server[1]}"


def visitor(request: Request) -> Caller | None:
    """Return whoever the cookie lets in, or None."""
    token = request.cookies.get(cookie_name(request))
    if not token:
        return None
    try:
        return let_in(request, token, "console")
    except NotGranted:
        return None


def required(request: Request) -> Caller:
    """Return whoever the cookie lets in, or refuse."""
    caller = visitor(request)
    if caller is None:
        raise NotGranted()
    return caller


def require_same_page(request: Request) -> None:
    """Refuse what no page of ours sent. The door has checked `Origin`; here it must be there."""
    if "origin" not in request.headers and request.headers.get("sec-fetch-site") != "same-origin":
        raise ForeignOrigin(
            "This request was not sent by the console.",
            "What changes something is taken from its own pages only.",
            "Open the console and try there.",
        )


def remember(request: Request, reply: Response, token: str) -> None:
    """Put the token into the cookie, until the browser is closed."""
    secure = request.url.scheme == "https"
    reply.set_cookie(cookie_name(request), token, httponly=True, samesite="strict", secure=secure, path="/")


def forget(request: Request, reply: Response) -> None:
    """Take the cookie back."""
    reply.delete_cookie(cookie_name(request), path="/", httponly=True, samesite="strict")
