"""The tools as a Model Context Protocol server: over stdio, or over HTTP with the token of the analyst's grant."""

import functools
from collections.abc import Awaitable, Callable, MutableMapping
from importlib.metadata import version
from typing import Any

from sfumato.agents.tools import INSTRUCTIONS, Tools, guarded
from sfumato.release.rendering.export import optional
from sfumato.server.grants import Grants

AsgiScope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[AsgiScope, Receive, Send], Awaitable[None]]

HTTP_PATH = "/mcp"
_SPENDING = "ask"


def make_server(tools: Tools, name: str) -> Any:
    """Return an MCP server with five tools (`pip install 'sfumato[mcp]'`)."""
    library, failures = optional("mcp.server", "mcp"), optional("mcp.server.mcpserver.exceptions", "mcp")
    hints = optional("mcp.types", "mcp").ToolAnnotations
    server = library.MCPServer(
        f"sfumato: {name}", instructions=INSTRUCTIONS, version=version("sfumato"), log_level="CRITICAL"
    )
    for tool in (tools.tables, tools.explain, tools.ask, tools.budget, tools.history):
        called = functools.wraps(tool)(guarded(tool, failures.ToolError))
        reads = tool.__name__ != _SPENDING
        server.add_tool(called, annotations=hints(read_only_hint=reads, idempotent_hint=True))
    return server


def http_app(server: Any, grants: Grants, account: str, host: str) -> Asgi:
    """Return the server as an ASGI application that answers only requests with a token of this account."""
    app: Asgi = server.streamable_http_app(
        streamable_http_path=HTTP_PATH, json_response=True, stateless_http=True, host=host
    )

    async def check_token(scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_granted(scope, grants, account):
            headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b"A token of this account is needed."})
            return
        await app(scope, receive, send)

    return check_token


def _is_granted(scope: AsgiScope, grants: Grants, account: str) -> bool:
    found = [value for name, value in scope["headers"] if name == b"authorization"]
    kind, _, token = (found[0] if len(found) == 1 else b"").decode("latin-1").partition(" ")
    grant = grants.of_token(token.strip()) if kind.lower() == "bearer" else None
    return grant is not None and grant.account == account
