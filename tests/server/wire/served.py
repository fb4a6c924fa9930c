"""A small clinic behind the wire protocol, in a thread of the test, and a client that speaks bare frames."""

import asyncio
import hmac
import socket
import ssl
import struct
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import pbkdf2_hmac, sha256
from pathlib import Path
from typing import Any, Self

import sfumato
from sfumato.database import Database
from sfumato.server.audit import Audit, audit_path
from sfumato.server.connections import Connections
from sfumato.server.gate import Caller, GateLimits, Gateway
from sfumato.server.grants import Grants
from sfumato.server.tls import Tls
from sfumato.server.wire.memory import MemoryLimits
from sfumato.server.wire.serving import WireServer, start

POLICY = """
name = "clinic"
source = "csv:data"
ledger = "sqlite:clinic.ledger"

[budget]
epsilon = {epsilon}
delta = 0

[tables.visits]
unit = "patient_id"
rows_per_unit = 4

[tables.visits.columns]
patient_id = {{ type = "integer" }}
age = {{ type = "integer", bounds = [0, 120] }}
dept = {{ type = "text", values = ["er", "icu", "surgery"] }}
cost = {{ type = "decimal", bounds = [0, 100], step = 0.01 }}
day = {{ type = "date", bounds = [2024-01-01, 2024-01-31] }}

[tables.staff]
public = true

[tables.staff.columns]
id = {{ type = "integer" }}
name = {{ type = "text" }}
dept = {{ type = "text" }}
salary = {{ type = "decimal", bounds = [0, 1000], step = 0.01 }}
since = {{ type = "date" }}
seen = {{ type = "timestamp" }}
active = {{ type = "boolean" }}

[analysts.research]
epsilon = {epsilon}

[analysts.press]
epsilon = {epsilon}
"""
COUNT = "SELECT COUNT(*) AS n FROM visits"
BY_DEPT = "SELECT dept, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY dept ORDER BY dept"
STAFF = 9
PRICE = (("options", "-c sfumato.epsilon=1"),)


def make_clinic(folder: Path, epsilon: str = "1000", people: range = range(200)) -> Path:
    """Write policy and data into a folder, and return the policy's path; `people` may leave somebody out."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    depts = ("er", "icu", "surgery")
    visits = [
        f"{p},{p % 90},{depts[(p + v) % 3]},{p % 97}.25,2024-01-{1 + p % 28:02}" for p in people for v in range(2)
    ]
    staff = [
        f"{i},Name {i},{depts[i % 3]},{i}.5,2020-02-{i + 1:02},2021-03-04 05:06:{i:02},{str(i % 2 == 0).lower()}"
        for i in range(STAFF)
    ]
    (folder / "data" / "visits.csv").write_text("patient_id,age,dept,cost,day\n" + "\n".join(visits) + "\n")
    (folder / "data" / "staff.csv").write_text("id,name,dept,salary,since,seen,active\n" + "\n".join(staff) + "\n")
    policy = folder / "clinic.toml"
    policy.write_text(POLICY.format(epsilon=epsilon))
    return policy


@dataclass
class Served:
    """A server that runs, and what its owner knows."""

    host: str
    port: int
    password: str
    database: Database
    gate: Gateway
    grants: Grants
    loop: asyncio.AbstractEventLoop
    listener: WireServer

    @property
    def dsn(self) -> str:
        """What psycopg is given."""
        return f"host={self.host} port={self.port} user=research dbname=clinic password={self.password}"

    @property
    def url(self) -> str:
        """What SQLAlchemy is given, without its scheme."""
        return f"//research:{self.password}@{self.host}:{self.port}/clinic"

    def spent(self) -> float:
        """What the analyst has spent."""
        return float(self.gate.database(self.caller()).budget().spent.epsilon)

    def caller(self) -> Caller:
        """The analyst, as the gate knows them."""
        grant = self.grants.of_user("research")[0].grant
        assert grant is not None
        return Caller(grant, "postgresql", "")

    def client(self, **more: Any) -> "Bare":
        """Return a bare client that was let in."""
        client = Bare(self)
        try:
            return client.start(**more)
        except BaseException:
            client.socket.close()
            raise


@contextmanager
def served(
    folder: Path,
    epsilon: str = "1000",
    limits: GateLimits | None = None,
    tls: ssl.SSLContext | None = None,
    certificate: bytes | None = None,
    people: range = range(200),
    memory: MemoryLimits | None = None,
    connections: Connections | None = None,
    edit: Callable[[Path], None] | None = None,
) -> Iterator[Served]:
    """Serve a fresh clinic on a free port of loopback; `edit` may change its policy before."""
    policy = make_clinic(folder, epsilon, people)
    if edit is not None:
        edit(policy)
    database = sfumato.open(policy)
    grants = Grants(database.policy)
    password = grants.grant("research").password
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def begin() -> tuple[Gateway, WireServer]:
        gate = Gateway(database, grants, Audit(audit_path(database.policy)), None, limits)
        known = None if tls is None else Tls(tls, (), certificate or b"")
        return gate, await start((gate,), "127.0.0.1", 0, lambda: known, memory, connections)

    async def end() -> None:
        server.close()
        await gate.stop()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    gate, server = asyncio.run_coroutine_threadsafe(begin(), loop).result(20)
    port = server.port
    try:
        yield Served("127.0.0.1", port, password, database, gate, grants, loop, server)
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
        database.close()


Message = tuple[bytes, bytes]


def message(kind: bytes, body: bytes = b"") -> bytes:
    """Return a frame."""
    return kind + struct.pack(">I", len(body) + 4) + body


def text(value: str) -> bytes:
    """Return a text with its closing zero."""
    return value.encode() + b"\x00"


def start_up(*pairs: tuple[str, str], version: int = 3 << 16) -> bytes:
    """Return a first packet."""
    body = struct.pack(">I", version) + b"".join(text(name) + text(value) for name, value in pairs) + b"\x00"
    return struct.pack(">I", len(body) + 4) + body


def parse(sql: str, name: str = "", types: tuple[int, ...] = ()) -> bytes:
    """Return a Parse."""
    return message(b"P", text(name) + text(sql) + struct.pack(f">H{len(types)}I", len(types), *types))


def bind(
    values: tuple[bytes | None, ...] = (), portal: str = "", name: str = "", formats: tuple[int, ...] = (),
    results: tuple[int, ...] = (),
) -> bytes:  # fmt: skip
    """Return a Bind."""
    body = text(portal) + text(name) + struct.pack(f">H{len(formats)}H", len(formats), *formats)
    body += struct.pack(">H", len(values))
    for value in values:
        body += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return message(b"B", body + struct.pack(f">H{len(results)}H", len(results), *results))


def describe(kind: bytes = b"P", name: str = "") -> bytes:
    """Return a Describe."""
    return message(b"D", kind + text(name))


def execute(portal: str = "", rows: int = 0) -> bytes:
    """Return an Execute."""
    return message(b"E", text(portal) + struct.pack(">i", rows))


SYNC, FLUSH = message(b"S"), message(b"H")


class Bare:
    """A client that sends what it is told, byte by byte."""

    def __init__(self, server: Served, timeout: float = 10.0) -> None:
        self.server = server
        self.socket = socket.create_connection((server.host, server.port), timeout)
        self.told: dict[str, str] = {}
        self.key = (0, 0)
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def start(
        self, user: str = "research", password: str | None = None, database: str = "clinic",
        pairs: tuple[tuple[str, str], ...] = (),
    ) -> Self:  # fmt: skip
        """Come in, or raise what the server said."""
        self.send(start_up(("user", user), ("database", database), *pairs))
        self.authenticate(self.server.password if password is None else password)
        for kind, body in self.until(b"Z"):
            if kind == b"S":
                name, value = body.split(b"\x00")[:2]
                self.told[name.decode()] = value.decode()
            elif kind == b"K":
                self.key = struct.unpack(">II", body)
        return self

    def authenticate(self, password: str, nonce: str = "rOprNGfwEbeRWgbNEkqO", header: str = "n,,") -> None:
        """Speak SCRAM-SHA-256, as RFC 7677 has it."""
        self.expect(b"R")
        bare = f"n=,r={nonce}"
        first = f"{header}{bare}".encode()
        self.send(message(b"p", text("SCRAM-SHA-256") + struct.pack(">i", len(first)) + first))
        challenge = self.expect(b"R")[4:].decode()
        parts = dict(part.split("=", 1) for part in challenge.split(","))
        salted = pbkdf2_hmac("sha256", password.encode(), b64decode(parts["s"]), int(parts["i"]))
        key = hmac.digest(salted, b"Client Key", "sha256")
        unsigned = f"c={b64encode(header.encode()).decode()},r={parts['r']}"
        signed = f"{bare},{challenge},{unsigned}".encode()
        signature = hmac.digest(sha256(key).digest(), signed, "sha256")
        proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        self.send(message(b"p", f"{unsigned},p={b64encode(proof).decode()}".encode()))
        final = self.expect(b"R")[4:].decode()
        server_key = hmac.digest(salted, b"Server Key", "sha256")
        assert final == "v=" + b64encode(hmac.digest(server_key, signed, "sha256")).decode()
        assert self.expect(b"R") == struct.pack(">i", 0)

    def send(self, *data: bytes) -> Self:
        """Send bytes."""
        self.socket.sendall(b"".join(data))
        return self

    def read(self) -> Message:
        """Return the next message."""
        head = self._take(5)
        (length,) = struct.unpack(">I", head[1:])
        return head[:1], self._take(length - 4)

    def _take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            piece = self.socket.recv(1 << 16)
            if not piece:
                raise EOFError
            self._buffer += piece
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken

    def expect(self, kind: bytes) -> bytes:
        """Return the body of the next message, which is of a kind."""
        found, body = self.read()
        if found == b"E" != kind:
            raise Said(fields(body))
        assert found == kind, found
        return body

    def until(self, *kinds: bytes) -> list[Message]:
        """Return all messages up to one of these kinds, which is the last; a FATAL error is raised."""
        found: list[Message] = []
        while not found or found[-1][0] not in kinds:
            found.append(self.read())
            if found[-1][0] == b"E" and fields(found[-1][1])["S"] == "FATAL":
                raise Said(fields(found[-1][1]))
        return found

    def query(self, sql: str) -> list[Message]:
        """Ask by the simple protocol."""
        return self.send(message(b"Q", text(sql))).until(b"Z")

    def rows(self, sql: str) -> list[tuple[str | None, ...]]:
        """Return the rows of a simple question, as texts; raise what the server said."""
        found = self.query(sql)
        raised(found)
        return [cells(body) for kind, body in found if kind == b"D"]

    def state(self, sql: str) -> str:
        """Return the SQLSTATE that a simple question is refused with, or '' if it is not."""
        said = errors(self.query(sql))
        return said[0]["C"] if said else ""


class Said(Exception):  # noqa: N818
    """What the server said."""

    def __init__(self, said: dict[str, str]) -> None:
        super().__init__(said)
        self.said = said

    @property
    def state(self) -> str:
        """Its SQLSTATE."""
        return self.said["C"]


def fields(body: bytes) -> dict[str, str]:
    """Return the fields of an error."""
    return {part[:1].decode(): part[1:].decode() for part in body.split(b"\x00") if part}


def errors(found: list[Message]) -> list[dict[str, str]]:
    """Return the errors among messages."""
    return [fields(body) for kind, body in found if kind == b"E"]


def raised(found: list[Message]) -> None:
    """Raise the first error, if there is one."""
    for said in errors(found):
        raise Said(said)


def kinds(found: list[Message]) -> str:
    """Return the kinds of messages in order."""
    return b"".join(kind for kind, _ in found).decode()


def cells(body: bytes) -> tuple[str | None, ...]:
    """Return the cells of a DataRow as texts."""
    return tuple(None if cell is None else cell.decode() for cell in raw_cells(body))


def raw_cells(body: bytes) -> tuple[bytes | None, ...]:
    """Return the cells of a DataRow."""
    (count,) = struct.unpack_from(">H", body)
    at, found = 2, []
    for _ in range(count):
        (length,) = struct.unpack_from(">i", body, at)
        at += 4
        found.append(None if length < 0 else body[at : at + length])
        at += max(length, 0)
    return tuple(found)


def columns(body: bytes) -> list[tuple[str, int, int]]:
    """Return name, type and format of each column of a RowDescription."""
    (count,) = struct.unpack_from(">H", body)
    at, found = 2, []
    for _ in range(count):
        end = body.index(b"\x00", at)
        oid, form = struct.unpack_from(">I", body, end + 7)[0], struct.unpack_from(">h", body, end + 17)[0]
        found.append((body[at:end].decode(), oid, form))
        at = end + 19
    return found


def tags(found: list[Message]) -> list[str]:
    """Return what was said after each statement."""
    return [body[:-1].decode() for kind, body in found if kind == b"C"]


def eventually(condition: Callable[[], bool]) -> bool:
    """Wait until the server has noticed something; it has noticed long before this gives up."""
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()
