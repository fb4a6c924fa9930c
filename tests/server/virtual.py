"""Time that the test moves: a clock, work that takes so long by it, and requests that wait for nothing else."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from threading import Event, Lock
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualClock:
    """A clock that stands until `advance`. It belongs to one event loop; threads may wait for it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = Lock()
        self._time = 1000.0
        self._waiters: list[tuple[float, Callable[[], None]]] = []
        self._active = 0
        """Requests that neither wait for the clock nor have ended."""
        self._calm = asyncio.Event()

    def now(self) -> float:
        return self._time

    def wait_until(self, end: float) -> None:
        """Wait in a thread."""
        woken = Event()
        if self._waits(end, woken.set):
            assert woken.wait(60)

    async def sleep_until(self, end: float) -> None:
        """Wait in the loop."""
        woken = asyncio.Event()
        if self._waits(end, woken.set):
            await woken.wait()

    def begin(self, request: Awaitable[T]) -> "asyncio.Task[T]":
        """Carry out a request, and know from now on whether it waits for the clock."""
        self._count(1)

        async def carried_out() -> T:
            try:
                return await request
            finally:
                self._count(-1)

        return asyncio.create_task(carried_out())

    async def advance(self, to: float) -> None:
        """Move on to a time, and let everything happen that is due by then."""
        await self.calm()
        with self._lock:
            self._time = to
            due = [wake for end, wake in self._waiters if end <= to]
            self._waiters = [waiter for waiter in self._waiters if waiter[0] > to]
        self._count(len(due))
        for wake in due:
            wake()
        await self.calm()

    async def calm(self) -> None:
        """Wait until every request waits for the clock or has ended."""
        async with asyncio.timeout(60):
            while self._active:
                self._calm.clear()
                if self._active:
                    await self._calm.wait()
            for _ in range(5):  # what threads have handed to the loop
                await asyncio.sleep(0)

    def _waits(self, end: float, wake: Callable[[], None]) -> bool:
        with self._lock:
            if end <= self._time:
                return False
            self._waiters.append((end, wake))
        self._count(-1)
        return True

    def _count(self, more: int) -> None:
        with self._lock:
            self._active += more
            calm = not self._active
        if calm:
            self._loop.call_soon_threadsafe(self._calm.set)


def scope_of(method: str, path: str, token: str, body: object = None) -> tuple[dict[str, Any], Callable[[], Any]]:
    """Return what an ASGI application is given for one request: its scope, and what receives its body."""
    target, _, query = path.partition("?")
    content = b"" if body is None else json.dumps(body).encode()
    headers = [(b"host", b"127.0.0.1:80"), (b"authorization", f"Bearer {token}".encode())]
    if body is not None:
        headers.append((b"content-type", b"application/json"))
    scope = {
        "type": "http",
        "method": method,
        "path": target,
        "raw_path": target.encode(),
        "query_string": query.encode(),
        "headers": headers,
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "http_version": "1.1",
        "root_path": "",
    }

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": content, "more_body": False}

    return scope, receive


async def exchange(app: Any, method: str, path: str, token: str, body: object = None) -> tuple[int, Any]:
    """Send one request to an ASGI application, and return status and JSON."""
    scope, receive = scope_of(method, path, token, body)
    status, parts = 0, []

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)
        parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return status, json.loads(b"".join(parts))
