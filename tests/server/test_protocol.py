"""One connection: the head of a request has a limit, and an unread reply is not held."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.server.running import until

from sfumato.server.connections import Connections
from sfumato.server.limits import ServerLimits
from sfumato.server.protocol import _Unread, protocol_over

BODY = bytes(16 << 20)


async def large(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(BODY))]})
    await send({"type": "http.response.body", "body": BODY, "more_body": False})


def held(server: uvicorn.Server) -> int:
    """Return how many bytes wait for somebody to take them."""
    connections = list(server.server_state.connections)
    return sum(one.transport.get_write_buffer_size() for one in connections)


async def small(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok", "more_body": False})


@contextmanager
def serving(app: ASGIApp, limits: ServerLimits) -> Iterator[tuple[uvicorn.Server, tuple[str, int]]]:
    """Serve an app over our protocol in a thread; give the server and its address."""
    config = uvicorn.Config(
        app,
        http=protocol_over(Connections(limits)),
        ws="none",
        lifespan="off",
        log_config=None,
        h11_max_incomplete_event_size=limits.header_bytes,
    )
    server = uvicorn.Server(config)
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
    thread.start()
    try:
        yield server, listening.getsockname()
    finally:
        server.should_exit = True
        thread.join(10)


def status_of(address: tuple[str, int], head: bytes) -> bytes:
    with socket.create_connection(address) as client:
        client.sendall(head)
        return client.recv(12)


@pytest.mark.parametrize(
    "head",
    [b"GET / HTTP/1.1\r\nHost: x\r\nA: %b\r\n\r\n", b"GET /?%b HTTP/1.1\r\nHost: x\r\n\r\n"],
    ids=["header", "address"],
)
def test_the_head_of_a_request_has_a_limit_also_where_it_arrives_in_one_piece(head: bytes) -> None:
    limits = ServerLimits()
    with serving(small, limits) as (_, address):
        room = limits.header_bytes - len(head % b"")
        assert status_of(address, head % (b"a" * room)) == b"HTTP/1.1 200"
        for size in (room + 1, 2 * limits.header_bytes, 60_000):
            assert status_of(address, head % (b"a" * size)) == b"HTTP/1.1 400", size


def test_a_reply_that_nobody_takes_is_not_held() -> None:
    with (
        serving(large, ServerLimits(header_seconds=0.6)) as (server, address),
        socket.create_connection(address) as idle,
    ):
        idle.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: held(server) > 1 << 20)
        until(lambda: not held(server))


def test_who_takes_a_little_of_a_reply_begins_anew_and_who_takes_nothing_does_not() -> None:
    seen = _Unread.seen(None, 5000, 1000, 0.0)
    assert _Unread.seen(seen, 5000, 1000, 9.0).since == 0
    assert _Unread.seen(seen, 5000, 999, 9.0).since == 9
    assert _Unread.seen(seen, 5000, 0, 9.0).since == 9
    assert _Unread.seen(seen, 6000, 1000, 9.0).since == 9  # what was taken has been replaced by the next piece
