"""Strangers without a grant, all at once, against a server on this machine.

`tests.server.soak` runs them beside an analyst. Each attack is a number of rounds and ends by itself; it also ends with
its time or with its standard input. Load goes to 127.0.0.1 only. Every attack comes from a loopback address of its own,
as strangers elsewhere would.
"""

import argparse
import json
import random
import re
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

HOST = "127.0.0.1"
HELD = 150
"""Connections that one attack holds open: more than the server leaves to one address."""
CONNECTIONS_PER_ADDRESS = 10_000
"""A closed connection keeps its port for a minute, and one address has some 28,000 ports."""
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")
STARTUP = struct.pack(">I", 3 << 16) + b"user\x00research\x00database\x00clinic\x00\x00"


class Stranger:
    """One attack: where it comes from, whom it speaks to, when it ends, and what it has done."""

    def __init__(self, number: int, http_port: int, pg_port: int, end: float) -> None:
        self.number, self.connections = number, 0
        self.http_port, self.pg_port = http_port, pg_port
        self.end = end
        self.dice = random.Random(number)
        self.done = Counter[str]()

    @property
    def address(self) -> str:
        """The address that it comes from now: it moves on before the ports of one are used up."""
        return f"127.0.{1 + self.number}.{1 + self.connections // CONNECTIONS_PER_ADDRESS % 250}"

    @contextmanager
    def connected(self, port: int) -> Iterator[socket.socket]:
        self.connections += 1
        with socket.create_connection((HOST, port), 5, (self.address, 0)) as made:
            yield made

    def hold(self, port: int, first: Callable[[int], bytes], piece: bytes = b"") -> None:
        """Open many connections, send something on each, then a little more now and then."""
        with ExitStack() as held:
            made = []
            for number in range(HELD):
                with suppress(OSError):
                    connection = held.enter_context(self.connected(port))
                    connection.setblocking(False)
                    connection.send(first(number))
                    made.append(connection)
                    self.done["held"] += 1
            for _ in range(5):
                for connection in made:
                    with suppress(OSError):
                        connection.send(piece)
                self.wait(0.2)

    def wait(self, seconds: float) -> None:
        time.sleep(max(0.0, min(seconds, self.end - time.monotonic())))

    def request(self, connection: socket.socket, content: bytes) -> None:
        connection.sendall(content)
        reply = connection.recv(65536)
        self.done.update(status.decode() for status in _STATUS.findall(reply))
        if not reply:
            self.done["closed"] += 1
            raise ConnectionError


def half_open_http(who: Stranger) -> None:
    heads = (b"", b"GET /hea", b"POST /ask HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    who.hold(who.http_port, lambda number: heads[number % 3])


def half_open_postgresql(who: Stranger) -> None:
    packet = struct.pack(">I", len(STARTUP) + 4) + STARTUP
    heads = (b"", b"\x00\x00", packet, packet + b"p\x00\x00")
    who.hold(who.pg_port, lambda number: heads[number % 4])


def slow_headers(who: Stranger) -> None:
    who.hold(who.http_port, lambda _: b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ", b"a")


def large_logins(who: Stranger) -> None:
    head = f"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1:{who.http_port}\r\n"
    lengths = ("Content-Length: 1048576\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nfffff\r\n")
    who.hold(who.http_port, lambda number: (head + lengths[number % 2]).encode() + bytes(1 << 20), bytes(1 << 16))


def anonymous_flood(who: Stranger) -> None:
    for path in ("/", "/health", "/nothing", "/static/console.js"):
        with suppress(OSError), who.connected(who.http_port) as connection:
            for _ in range(50):
                who.request(connection, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())


def wrong_tokens(who: Stranger) -> None:
    body = json.dumps({"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": "1"})
    with suppress(OSError), who.connected(who.http_port) as connection:
        for _ in range(50):
            token = f"{who.dice.getrandbits(256):064x}"
            head = f"POST /ask HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
            head += "X-Forwarded-For: 127.0.0.1\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            who.request(connection, (head + body).encode())


def malformed_frames(who: Stranger) -> None:
    packet = struct.pack(">I", len(STARTUP) + 4) + STARTUP
    for _ in range(20):
        noise = bytes(who.dice.randrange(256) for _ in range(who.dice.randrange(1, 200)))
        large = b"p" + struct.pack(">I", 1 << 29)
        with suppress(OSError), who.connected(who.pg_port) as connection:
            connection.settimeout(0.2)
            connection.sendall(who.dice.choice((noise, packet + noise, packet + large + noise * 100)))
            with suppress(TimeoutError):
                connection.recv(65536)
            who.done["frames"] += 1


def connection_flood(who: Stranger) -> None:
    for number in range(200):
        with suppress(OSError), who.connected(who.pg_port if number % 2 else who.http_port):
            who.done["connections"] += 1


ATTACKS = (
    half_open_http,
    half_open_postgresql,
    slow_headers,
    large_logins,
    anonymous_flood,
    wrong_tokens,
    malformed_frames,
    connection_flood,
)


def main() -> None:
    """Run all attacks at once, and print what they did."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("http_port", type=int)
    options.add_argument("pg_port", type=int)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=60)
    given = options.parse_args()
    stopped, end = threading.Event(), time.monotonic() + given.seconds
    strangers = [Stranger(number, given.http_port, given.pg_port, end) for number in range(len(ATTACKS))]

    def attack(number: int) -> None:
        for _ in range(given.rounds):
            if stopped.is_set() or time.monotonic() >= end:
                return
            ATTACKS[number](strangers[number])

    def wait_for_end() -> None:
        sys.stdin.read()
        stopped.set()

    threads = [threading.Thread(target=attack, args=(number,), daemon=True) for number in range(len(ATTACKS))]
    for thread in threads:
        thread.start()
    threading.Thread(target=wait_for_end, daemon=True).start()
    for thread in threads:
        thread.join(given.seconds + 30)
    names = [one.__name__ for one in ATTACKS]
    done = {name: dict(stranger.done) for name, stranger in zip(names, strangers, strict=True)}
    sys.stdout.write(f"{json.dumps(done)}\n")


if __name__ == "__main__":
    main()
