"""Record what a tool sends: python -m tests.clients.recording TOOL PYTHON, for example `dbt /tmp/dbt/bin/python`.

`tools/run_TOOL.py` is run against a PostgreSQL of our own with the clinic's tables, through a proxy that reads every
frame. The statements are written to `recorded/TOOL.sql` in their order, each once and without those of transactions,
with what becomes of them here: free, charged, or a SQLSTATE. Read the file before you keep it: a tool must not be
refused what it needs.
"""

import asyncio
import re
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from tests.clients.replaying import Recording, Statement, send, write
from tests.ledger.postgres import binaries
from tests.ledger.postgres import server as native
from tests.server.wire.served import PRICE, errors, make_clinic, served

TOOLS = Path(__file__).with_name("tools")
SECONDS = 600
TABLES = """
CREATE ROLE research LOGIN PASSWORD 'research';
CREATE TABLE visits (patient_id bigint, age bigint, dept text, cost double precision, day date);
CREATE TABLE staff (
  id bigint, name text, dept text, salary double precision, since date, seen timestamp, active boolean
);
GRANT SELECT ON visits, staff TO research;
"""
_TRANSACTION = re.compile(r"(?i)\s*(begin|commit|rollback|start transaction|savepoint|release)\b[^;]*;?\s*")
_INTEGERS = {2: ">h", 4: ">i", 8: ">q"}


@dataclass(frozen=True, slots=True)
class Sent:
    """A statement as a client sent it."""

    sql: str
    values: tuple[bytes | None, ...] | None = None
    """The parameters of the extended protocol; None for the simple protocol."""
    formats: tuple[int, ...] = ()
    types: tuple[int, ...] = ()

    def texts(self) -> tuple[str | None, ...] | None:
        """Return the parameters as text; those in the binary format are integers."""
        if self.values is None:
            return None
        binary = self.formats if len(self.formats) > 1 else self.formats * len(self.values) or (0,) * len(self.values)
        return tuple(
            None if value is None else str(struct.unpack(_INTEGERS[len(value)], value)[0]) if form else value.decode()
            for value, form in zip(self.values, binary, strict=True)
        )


class Proxy:
    """Hands bytes on between clients and a server, and remembers the statements that clients send."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self.sent: list[Sent] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect a client to the server."""
        there, back = await asyncio.open_connection(self._host, self._port)

        async def answers() -> None:
            while data := await there.read(1 << 16):
                writer.write(data)
                await writer.drain()
            writer.close()

        task = asyncio.create_task(answers())
        prepared: dict[bytes, Sent] = {}
        try:
            while (
                True
            ):  # first packets have no kind; one that asks for TLS is refused by the server and followed by another
                (length,) = struct.unpack(">I", head := await reader.readexactly(4))
                body = await reader.readexactly(length - 4)
                back.write(head + body)
                if struct.unpack(">I", body[:4])[0] == 3 << 16:
                    break
            while True:
                head = await reader.readexactly(5)
                body = await reader.readexactly(struct.unpack(">I", head[1:])[0] - 4)
                self._remember(head[:1], body, prepared)
                back.write(head + body)
                await back.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            back.close()
            await task

    def _remember(self, kind: bytes, body: bytes, prepared: dict[bytes, Sent]) -> None:
        if kind == b"Q":
            self.sent.append(Sent(body[:-1].decode()))
        elif kind == b"P":
            name, sql, rest = body.split(b"\x00", 2)
            (count,) = struct.unpack_from(">H", rest)
            prepared[name] = Sent(sql.decode(), types=struct.unpack_from(f">{count}I", rest, 2))
        elif kind == b"B":
            _, name, rest = body.split(b"\x00", 2)
            formats, values = _bound(rest)
            self.sent.append(replace(prepared[name], values=values, formats=formats))


def _bound(body: bytes) -> tuple[tuple[int, ...], tuple[bytes | None, ...]]:
    """Return the formats and values of a Bind."""
    (count,) = struct.unpack_from(">H", body)
    formats = struct.unpack_from(f">{count}H", body, 2)
    at = 2 + 2 * count
    (expected,) = struct.unpack_from(">H", body, at)
    at += 2
    values: list[bytes | None] = []
    for _ in range(expected):
        (size,) = struct.unpack_from(">i", body, at)
        at += 4
        values.append(None if size < 0 else body[at : at + size])
        at += max(size, 0)
    return formats, tuple(values)


@contextmanager
def recorder(host: str, port: int) -> Iterator[tuple[Proxy, int]]:
    """Run a proxy in a thread, and give its port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    proxy = Proxy(host, port)
    listening = asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    listener = asyncio.run_coroutine_threadsafe(listening, loop).result(10)
    try:
        yield proxy, listener.sockets[0].getsockname()[1]
    finally:

        async def end() -> None:
            listener.close()
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def record(tool: str, python: str) -> tuple[str, list[Sent]]:
    """Run a tool against PostgreSQL; return its version and what it sent."""
    folder = binaries()
    if folder is None:
        raise SystemExit("PostgreSQL is not installed")
    with tempfile.TemporaryDirectory() as data, native(folder) as address:
        make_clinic(Path(data))
        with psycopg.connect(address, autocommit=True) as owner:
            owner.execute("CREATE DATABASE clinic")
        clinic = address.replace("/postgres", "/clinic")
        with psycopg.connect(clinic, autocommit=True) as owner:
            owner.execute(TABLES)
            for table in ("visits", "staff"):
                with owner.cursor().copy(f"COPY {table} FROM STDIN CSV HEADER") as copy:
                    copy.write((Path(data) / "data" / f"{table}.csv").read_bytes())
        parts = urlsplit(clinic)
        with recorder(str(parts.hostname), int(parts.port or 0)) as (proxy, port):
            place = f"//research:research@127.0.0.1:{port}/clinic"
            command = [python, str(TOOLS / f"run_{tool}.py"), place]
            done = subprocess.run(command, timeout=SECONDS, check=False, capture_output=True, text=True)
        print(done.stdout, done.stderr[-3000:], sep="\n")
        return done.stdout.partition("\n")[0], proxy.sent


def judged(sent: list[Sent]) -> Iterator[Statement]:
    """Give each statement once, with what becomes of it here."""
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder)) as server,
        server.client(pairs=PRICE) as client,
    ):
        for one in dict.fromkeys(sent):
            sql, values = one.sql, one.texts()
            if _TRANSACTION.fullmatch(sql):
                continue
            before = server.spent()
            said = errors(send(client, sql, values))
            charged = "charged" if server.spent() > before else "free"
            if said:
                print(f"{said[0]['C']}: {said[0]['M']}\n  {sql}\n")
            yield Statement(sql.strip(), said[0]["C"] if said else charged, values)


def main(tool: str, python: str) -> None:
    """Record a tool, and store what it sent."""
    version, sent = record(tool, python)
    header = (
        f"tool: {version}",
        f"source: recorded; tests/clients/tools/run_{tool}.py ran against PostgreSQL 15, and a proxy read the frames",
    )
    write(tool, Recording(header, tuple(judged(sent))))


if __name__ == "__main__":
    main(*sys.argv[1:3])
