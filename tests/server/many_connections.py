"""Idle and slow clients beside ordinary use: `python -m tests.server.many_connections`.

2,000 connections without a grant that send nothing and 200 that send a request byte by byte come from many addresses of
this machine. Meanwhile an analyst asks over HTTP and psycopg. Every question must be answered and charged once.
"""

import argparse
import asyncio
import contextlib
import resource
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import psycopg
from tests.server.clinic import make_clinic
from tests.server.running import WIRE, Running, until

import sfumato

PER_ADDRESS = 50
"""Connections of one address: fewer than a server lets wait before log-in."""
EPSILON = Fraction(1, 100)
_REQUEST = b"GET /budget HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Padding: " + b"x" * 4000


@dataclass
class Course:
    """What happened."""

    quiet: list[float] = field(default_factory=list)
    """Seconds of questions before the others came."""
    seconds: list[float] = field(default_factory=list)
    """Seconds of questions beside them."""
    held: int = 0
    """Idle and slow connections that the server held meanwhile, at least."""
    resident: int = 0

    def __str__(self) -> str:
        before, during = sorted(self.quiet), sorted(self.seconds)
        return (
            f"{self.held:,} idle and slow connections held; {len(during)} questions beside them: median "
            f"{during[len(during) // 2] * 1000:.0f} ms, longest {during[-1] * 1000:.0f} ms (before: median "
            f"{before[len(before) // 2] * 1000:.0f} ms); {self.resident / 2**20:.0f} MiB resident"
        )


class _Clients:
    """Idle and slow clients, in an event loop of their own."""

    def __init__(self, port: int, idle: int, slow: int) -> None:
        self._port, self._idle, self._slow = port, idle, slow
        self.connected = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> "_Clients":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    async def _run(self) -> None:
        kinds = [False] * self._idle + [True] * self._slow
        await asyncio.gather(*(self._client(place, is_slow) for place, is_slow in enumerate(kinds)))

    async def _client(self, place: int, is_slow: bool) -> None:
        """Connect again whenever the server has ended the connection."""
        number = place // PER_ADDRESS
        address = f"127.1.{number // 200}.{number % 200 + 1}"
        while not self._over.is_set():
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port, local_addr=(address, 0))
                self.connected += 1
                try:
                    await self._stay(reader, writer, is_slow)
                finally:
                    self.connected -= 1
                    writer.close()
            await asyncio.sleep(0.1)

    async def _stay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_slow: bool) -> None:
        ended = asyncio.ensure_future(reader.read(1))
        sent = 0
        while not self._over.is_set() and not ended.done():
            if is_slow:
                writer.write(_REQUEST[sent : sent + 1])
                sent += 1
            await asyncio.wait([ended], timeout=0.5)
        ended.cancel()


def run(folder: Path, idle: int, slow: int, questions: int) -> Course:
    """Ask so many questions alone, then as many beside idle and slow clients."""
    policy = make_clinic(folder)
    waiting = max(256, idle + slow + 64)  # at most a quarter of all may wait for a log-in
    settings = f"connections = {max(2048, 4 * waiting)}\nconnections_before_login = {waiting}"
    policy.write_text(f"{policy.read_text()}\n[server]\n{settings}\n")
    course = Course()
    with Running(policy) as server:
        assert "lowers limits" not in server.out, server.out
        found = WIRE.search(server.out)
        assert found is not None
        password = server.secrets["research"].password
        place = f"host=127.0.0.1 port={found[3]} user=research dbname=clinic password={password} sslmode=disable"
        numbers = iter(range(1000))

        def ask() -> float:
            sql, begun = f"SELECT COUNT(*) AS n FROM visits WHERE cost > {next(numbers)}", time.monotonic()  # noqa: S608
            with sfumato.connect(server.url, token=server.token()) as database:
                answer = database.ask(sql, epsilon=str(EPSILON)).rows()[0]["n"]
            with psycopg.connect(place, autocommit=True, connect_timeout=60) as session:
                session.execute(f"SET sfumato.epsilon = '{float(EPSILON)}'")
                row = session.execute(sql.encode()).fetchone()
            assert row == (answer,)
            return time.monotonic() - begun

        course.quiet = [ask() for _ in range(questions)]
        with _Clients(server.port, idle, slow) as clients:
            until(lambda: clients.connected == idle + slow, 120)
            course.held = clients.connected
            for _ in range(questions):
                course.seconds.append(ask())
                course.held = min(course.held, clients.connected)
            course.resident = server.memory()
        assert len(server.get("/history?limit=1000").json) == 2 * questions
        assert Fraction(server.spent()) == 2 * questions * EPSILON
    assert "Traceback" not in server.out
    return course


def main() -> None:
    """Run it by hand."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--idle", type=int, default=2000)
    options.add_argument("--slow", type=int, default=200)
    options.add_argument("--questions", type=int, default=40)
    given = options.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as folder:
        course = run(Path(folder), given.idle, given.slow, given.questions)
    sys.stdout.write(f"{course}\n")


if __name__ == "__main__":
    main()
