"""One connection: who takes nothing of a reply is let go, and who takes it slowly is not."""

import asyncio
import socket
import threading

import uvicorn
from starlette.types import Receive, Scope, Send
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


def test_a_reply_that_nobody_takes_is_not_held() -> None:
    counted = protocol_over(Connections(ServerLimits(header_seconds=0.6)))
    config = uvicorn.Config(large, http=counted, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
    thread.start()
    try:
        with socket.create_connection(listening.getsockname()) as idle:
            idle.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            until(lambda: held(server) > 1 << 20)
            until(lambda: not held(server))
    finally:
        server.should_exit = True
        thread.join(10)


def test_who_takes_a_little_of_a_reply_begins_anew_and_who_takes_nothing_does_not() -> None:
    seen = _Unread.seen(None, 5000, 1000, 0.0)
    assert _Unread.seen(seen, 5000, 1000, 9.0).since == 0
    assert _Unread.seen(seen, 5000, 999, 9.0).since == 9
    assert _Unread.seen(seen, 5000, 0, 9.0).since == 9
    assert _Unread.seen(seen, 6000, 1000, 9.0).since == 9  # what was taken has been replaced by the next piece
