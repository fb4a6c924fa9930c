"""HTTP/1.1 on a connection, with what uvicorn leaves out: an end to waiting, and refusals as JSON."""

import asyncio
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from sfumato.errors import BadRequest
from sfumato.release.rendering.escaping import to_json
from sfumato.server.connections import ClientConnection, Connections
from sfumato.server.replies import PIECE_BYTES
from sfumato.server.statuses import refusal_document

_NOT_HTTP = BadRequest("This is not an HTTP request.", "It cannot be read.", "Send HTTP/1.1.")
_REQUEST_LINE_BYTES, _FIELD_BYTES, _LAST_LINE_BYTES = len("  HTTP/1.1\r\n"), len(": \r\n"), len("\r\n")
"""The bytes of a head beside its method, target, names and values."""


@dataclass(frozen=True, slots=True)
class _Unread:
    """How much was written, how much of it waits to be taken, and since when both are so."""

    written: int
    size: int
    since: float

    @classmethod
    def seen(cls, before: "_Unread | None", written: int, size: int, now: float) -> "_Unread":
        """Return the current state; reading by the client resets the time."""
        is_same = before is not None and (before.written, before.size) == (written, size)
        return before if before is not None and size and is_same else cls(written, size, now)


def protocol_over(connections: Connections) -> "type[Protocol]":
    """Return the protocol for the connections of one server."""
    return type("CountedProtocol", (Protocol,), {"counted": connections})


class Protocol(H11Protocol):
    """One connection. It ends when headers stay incomplete, and when the client takes nothing of a reply."""

    counted: Connections
    """The connections of the server, with its limits."""
    _connection: ClientConnection | None = None
    _looking: asyncio.TimerHandle | None = None
    _since: float | None = None
    """When the head of a request began that is not complete yet."""
    _unread: "_Unread | None" = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the head of a request."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=PIECE_BYTES)  # with TLS it would be half a MiB
        self._connection = self.counted.of(transport)
        self.app = self._with_connection(self.app)
        self._since = self.loop.time()
        self._looking = self.loop.call_later(self.counted.limits.header_seconds, self._look)

    def _with_connection(self, app: Any) -> Any:
        async def called(scope: Any, receive: Any, send: Any) -> None:
            scope["connection"] = self._connection
            limit = self.counted.limits.header_bytes
            # h11 counts incomplete heads alone: one that arrives in one piece is complete at once
            await (app if _head_bytes(scope) <= limit else _refuse_head(limit))(scope, receive, send)

        return called

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Note when the head of a request begins, and when it is complete."""
        before = self.cycle
        if self._since is None and (before is None or before.response_complete):
            self._since = self.loop.time()
        super().data_received(data)
        if self.cycle is not before:
            self._since = None

    def _look(self) -> None:
        """Close a connection with an incomplete request or an unread reply; else check again later."""
        seconds = self.counted.limits.header_seconds
        now, waiting = self.loop.time(), self.transport.get_write_buffer_size()
        written = 0 if self._connection is None else self._connection.written
        self._unread = _Unread.seen(self._unread, written, waiting, now)
        if self.transport.is_closing() and not waiting:
            return
        if (self._since is not None and now - self._since >= seconds) or now - self._unread.since >= seconds:
            self.transport.abort()
        else:
            self._looking = self.loop.call_later(seconds / 2, self._look)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, in the form of all refusals."""
        headers, body = _refusal_reply(_NOT_HTTP)
        events: list[Any] = [
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ]
        try:
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            pass  # an answer is on its way already
        self.transport.close()


def _head_bytes(scope: Any) -> int:
    """Return the size of a request's first line and headers."""
    query = scope["query_string"]
    target = len(scope["raw_path"]) + (len(query) + 1 if query else 0)
    fields = sum(len(name) + len(value) + _FIELD_BYTES for name, value in scope["headers"])
    return len(scope["method"]) + target + _REQUEST_LINE_BYTES + fields + _LAST_LINE_BYTES


def _refuse_head(limit: int) -> Any:
    refused = BadRequest(
        "The address and the headers of this request are too long.",
        f"They have at most {limit:,} bytes together.",
        "Send a question in the body.",
    )
    headers, body = _refusal_reply(refused)

    async def refuse(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 400, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return refuse


def _refusal_reply(refused: BadRequest) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Return headers and body of a refusal after which the connection ends."""
    body = f"{to_json(refusal_document(refused))}\n".encode()
    length = str(len(body)).encode()
    return [(b"content-type", b"application/json"), (b"content-length", length), (b"connection", b"close")], body
