"""Malformed requests by the hundred thousand: `python -m tests.server.malformed 100000 --seed 1`.

Each is a good request that was spoilt, or bytes that never were one. Afterwards the server must be alive, must have
said no 5xx and no trace, must not have grown, and nothing may have been charged.
"""

import argparse
import json
import random
import re
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.server.clinic import BY_DEPT, make_clinic
from tests.server.running import Running

_STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")
_WORDS = ("sql", "epsilon", "within", "delta", "share", "", "SQL", "\u0000", "é", "__proto__", "n", "cost")
_PATHS = (
    "/ask",
    "/explain",
    "/budget",
    "/history",
    "/tables",
    "/health",
    "/",
    "/openapi.json",
    "/releases/x",
    "/price",
)
_MORE_PATHS = (
    "/login",
    "/ask-here",
    "/owner",
    "/owner/grant",
    "/answers/x.csv",
    "/static/console.js",
    "/download",
    "*",
)
_VALUES: tuple[object, ...] = (
    None,
    True,
    0,
    -1,
    1e308,
    "0x1",
    "NaN",
    "1/0",
    [],
    {},
    "9" * 50,
    "1e-400",
    "\ud800",
    [[]],
)


def values(dice: random.Random, depth: int = 0) -> object:
    """Return something that JSON can say and nobody means."""
    kind = dice.randrange(6)
    if kind == 0 and depth < 4:
        return [values(dice, depth + 1) for _ in range(dice.randrange(4))]
    if kind == 1 and depth < 4:
        return {dice.choice(_WORDS): values(dice, depth + 1) for _ in range(dice.randrange(4))}
    if kind == 2:
        return "".join(chr(dice.randrange(1, 0x3000)) for _ in range(dice.randrange(30)))
    return dice.choice(_VALUES)


def question(dice: random.Random) -> bytes:
    """Return the body of a question that must not be answered: its price or its text means nothing."""
    body: dict[str, object] = {"sql": dice.choice((BY_DEPT, BY_DEPT[: dice.randrange(40)], values(dice)))}
    for _ in range(dice.randrange(1, 4)):
        body[dice.choice(_WORDS)] = values(dice)
    if body.get("sql") == BY_DEPT:
        body["epsilon"] = dice.choice((None, 0, -1, "x", [], {}, True, "1000000"))
        body.pop("within", None)
    return json.dumps(body).encode()


def request(dice: random.Random, token: str, host: str) -> bytes:
    """Return a request that is good in most of its parts."""
    body = question(dice)
    path = dice.choice((*_PATHS, *_MORE_PATHS)) + dice.choice(
        ("", "?", "?level=x", "/..", "%00", "%2e%2e/", "?" + "a" * 50)
    )
    method = dice.choice(("POST", "POST", "GET", "PUT", "HEAD", "get", "OPTIONS", "TRACE", "\x01", "PROPFIND"))
    lines = [
        f"{method} {path} HTTP/{dice.choice(('1.1', '1.1', '1.0', '2.0', '9'))}",
        f"Host: {dice.choice((host, host, 'x'))}",
    ]
    if dice.random() < 0.8:
        lines.append(f"Authorization: {dice.choice(('Bearer', 'Bearer', 'Basic', 'bearer  '))} {token}")
    lines.append(
        f"Content-Type: {dice.choice(('application/json', 'application/json', 'text/xml', 'multipart/form-data'))}"
    )
    if dice.random() < 0.2:
        lines.append(f"Cookie: sfumato-1={token}; a=\u00e9{'x' * dice.randrange(200)}")
    if dice.random() < 0.1:
        lines.append("Content-Encoding: gzip")
    if dice.random() < 0.1:
        lines.append("Idempotency-Key: " + "k" * dice.randrange(400))
    if dice.random() < 0.15:
        lines.append("Transfer-Encoding: chunked")
        body = b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    else:
        length = dice.choice((len(body), len(body), len(body), 0, len(body) + 5, 10**9, -1, "x"))
        lines.append(f"Content-Length: {length}")
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body


def spoilt(dice: random.Random, good: bytes) -> bytes:
    """Return the bytes with a few of them changed, cut, doubled or moved."""
    kind = dice.randrange(6)
    place = dice.randrange(len(good))
    if kind == 0:
        return good[:place]
    if kind == 1:
        return good[:place] + bytes(dice.randrange(256) for _ in range(dice.randrange(1, 20))) + good[place:]
    if kind == 2:
        return good[:place] + good[place + dice.randrange(1, 30) :]
    if kind == 3:
        return good + good
    if kind == 4:
        return bytes(dice.randrange(256) for _ in range(dice.randrange(1, 400)))
    return good


def send(address: tuple[str, int], content: bytes) -> bytes:
    """Send bytes, say that no more will come, and return what is said back."""
    received = b""
    try:
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            while len(received) < 1 << 20 and (part := connection.recv(65536)):
                received += part
    except (ConnectionError, BrokenPipeError):
        pass
    return received


def run(server: Running, many: int, seed: int, clients: int = 4, said: Callable[[str], None] = print) -> Counter[int]:
    """Send so many, from several clients; return how often each status came. Whatever must not happen is raised."""
    address, host, token = (server.host, server.port), f"{server.host}:{server.port}", server.token()
    server.get("/budget")
    before, spent, begun = server.memory(), server.spent(), time.monotonic()

    def client(number: int) -> Counter[int]:
        dice, seen = random.Random(f"{seed} {number}"), Counter[int]()
        for _ in range(number, many, clients):
            content = spoilt(dice, request(dice, token, host))
            reply = send(address, content)
            statuses = [int(one) for one in _STATUS.findall(reply)] or [0]
            seen.update(statuses)
            if any(status >= 500 for status in statuses) or b"Traceback" in reply or b'File "' in reply:
                raise AssertionError((content, reply))
        return seen

    with ThreadPoolExecutor(clients) as pool:
        total = sum(pool.map(client, range(clients)), Counter[int]())
    if server.get("/health", None).status != 200 or server.process.poll() is not None:
        raise AssertionError("the server is gone")
    grown = server.memory() - before
    if server.spent() != spent:
        raise AssertionError("something was charged")
    if grown > 60 << 20:
        raise AssertionError(f"it grew by {grown >> 20} MiB")
    seconds = time.monotonic() - begun
    said(f"{many:,} requests in {seconds:.0f} s; grown by {grown / 2**20:.1f} MiB; {dict(sorted(total.items()))}")
    return total


def main() -> None:
    """Run it by hand."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("requests", type=int, nargs="?", default=100_000)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, Running(make_clinic(Path(folder))) as server:
        run(server, given.requests, given.seed)
    if "Traceback" in server.out:
        sys.exit(server.out)


if __name__ == "__main__":
    main()
