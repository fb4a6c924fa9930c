"""Memory over HTTP: what an account's requests hold is bounded, whatever they ask for and however slowly they read."""

import asyncio
import gc
import json
import tracemalloc
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from tests.server.clinic import COUNT, make_clinic
from tests.server.virtual import VirtualClock, exchange, scope_of

import sfumato
from sfumato.caches import SizedCache
from sfumato.database import Database
from sfumato.release.release import Release
from sfumato.server import formats, routes
from sfumato.server.audit import Audit, audit_path
from sfumato.server.connections import Connections
from sfumato.server.gate import GateLimits, Gateway
from sfumato.server.grants import Grants
from sfumato.server.http import RequestLimits, make_app
from sfumato.server.limits import ServerLimits
from sfumato.server.origins import Origins
from sfumato.server.remote_json import answer_document
from sfumato.server.replies import PIECE_BYTES

pytestmark = pytest.mark.usefixtures("frozen_heap")

LIMITS = ServerLimits(reply_bytes_per_account=1 << 20, reply_bytes=3 << 19)
LONG = 300_000
"""Bytes of a reply, of which three fit into an account's quota."""
ASKED = {"sql": COUNT, "epsilon": "1"}
WAYS: dict[str, tuple[str, str, object]] = {
    "ask": ("POST", "/ask", ASKED),
    "ask_all": ("POST", "/ask_all", {"questions": [COUNT], "epsilon": "2"}),
    "json": ("GET", "/releases/{receipt}", None),
    "csv": ("GET", "/releases/{receipt}.csv", None),
    "parquet": ("GET", "/releases/{receipt}.parquet", None),
    "ask csv": ("POST", "/ask?format=csv", ASKED),
    "history": ("GET", "/history", None),
}


class Asked:
    """One request whose client takes pieces of the reply only when the test lets it."""

    def __init__(self, app: Any, token: str, method: str, path: str, body: object = None) -> None:
        self.status, self.pieces, self.is_blocked = 0, list[bytes](), False
        self.reads = asyncio.Event()
        scope, receive = scope_of(method, path, token, body)
        self.task = asyncio.create_task(app(scope, receive, self._send))

    async def _send(self, message: dict[str, Any]) -> None:
        self.status = message.get("status", self.status)
        self.pieces.append(message.get("body", b""))
        self.is_blocked = True
        await self.reads.wait()

    async def read(self) -> Any:
        """Take all that is left; return the document."""
        self.reads.set()
        await self.task
        return json.loads(b"".join(self.pieces))


class Served:
    """The application over a clinic, as ASGI."""

    def __init__(self, folder: Path, top: str = "", clock: VirtualClock | None = None) -> None:
        self.database = sfumato.open(make_clinic(folder, top=top))
        self.grants = Grants(self.database.policy)
        self.tokens = {name: self.grants.grant(name).token for name in ("research", "press", "visitor")}
        audit = Audit(audit_path(self.database.policy))
        self.gate = Gateway(self.database, self.grants, audit, limits=GateLimits(questions=8), clock=clock)
        self.app = make_app(self.gate, Origins("http", ("127.0.0.1",), 80), (), RequestLimits(Connections(LIMITS)))

    def ask(self, method: str, path: str, body: object = None, name: str = "research") -> Asked:
        return Asked(self.app, self.tokens[name], method, path, body)

    async def charged(self, name: str = "research") -> str:
        """Charge a question and return its receipt."""
        _, document = await exchange(self.app, "POST", "/ask", self.tokens[name], ASKED)
        return str(document["receipt"]["id"])

    async def requests(self, way: str, count: int) -> list[Asked]:
        """Send requests, and wait until each has a reply that its client does not take."""
        method, path, body = WAYS[way]
        receipt = await self.charged()
        asked = [self.ask(method, path.format(receipt=receipt), body) for _ in range(count)]
        async with asyncio.timeout(60):
            while not all(one.is_blocked for one in asked):
                await asyncio.sleep(0)
        return asked

    @property
    def held(self) -> int:
        gc.collect()
        return self.app.replies.held


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Served]:
    served = Served(folder)
    yield served
    await served.gate.stop()


def run(course: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(course())


@pytest.fixture
def long_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked for, the reply is long, and made afresh."""

    def document(*_: object) -> object:
        return {"receipt": {"id": "0"}, "long": "x" * LONG}

    monkeypatch.setattr(routes, "charge_document", document)

    def pieces(*_: object, **__: object) -> Iterator[bytes]:
        content = json.dumps(document()).encode()
        yield from (content[at : at + 40_000] for at in range(0, len(content), 40_000))

    for module in (routes, formats):
        monkeypatch.setattr(module, "answer_document", lambda *given: {**answer_document(*given), "long": "x" * LONG})
    monkeypatch.setattr(formats, "encoded", lambda *_, **__: json.dumps(document()).encode())
    monkeypatch.setattr(formats, "csv_pieces", pieces)


@pytest.mark.parametrize("way", WAYS)
def test_requests_that_wait_hold_no_answer(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An account has at most its share of the threads between opening an answer and having encoded it."""
    opened = most = 0
    counting = Lock()

    def count(change: int) -> None:
        nonlocal opened, most
        with counting:
            opened += change
            most = max(most, opened)

    def opens(real: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            answer = real(*given, **named)
            count(1)
            return answer

        return run

    def encodes(real: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            try:
                made = real(*given, **named)
                return iter(list(made)) if isinstance(made, Iterator) else made
            finally:
                count(-1)

        return run

    async def course() -> None:
        async with serving(tmp_path) as served:
            receipt = await served.charged()
            served.gate._answers.renew()
            for name in ("ask", "ask_all", "reopen", "history"):
                monkeypatch.setattr(Database, name, opens(getattr(Database, name)))
            for name in ("answer_document", "encoded", "csv_pieces"):
                monkeypatch.setattr(formats, name, encodes(getattr(formats, name)))
            for name in ("answer_document", "charge_document"):
                monkeypatch.setattr(routes, name, encodes(getattr(routes, name)))
            monkeypatch.setattr(SizedCache, "put", lambda *_, **__: None)  # no answer is kept at hand
            method, path, body = WAYS[way]
            asked = [served.ask(method, path.format(receipt=receipt), body) for _ in range(60)]
            for one in asked:
                one.reads.set()
            async with asyncio.timeout(60):
                await asyncio.gather(*(one.task for one in asked))
            assert [one.status for one in asked] == [200] * 60

    run(course)
    assert opened == 0
    assert most <= 4  # half of eight threads


@pytest.mark.usefixtures("long_replies")
@pytest.mark.parametrize("way", WAYS)
def test_unread_replies_are_counted_refused_and_given_back(way: str, tmp_path: Path) -> None:
    async def course() -> None:
        async with serving(tmp_path) as served:
            spent = served.database.as_analyst("research").budget().spent
            asked = await served.requests(way, 10)
            unread = [one for one in asked if one.status == 200]
            refused = [one for one in asked if one.status == 429]
            assert (len(unread), len(refused)) == (3, 7)
            assert 3 * LONG <= served.held <= LIMITS.reply_bytes_per_account
            for one in refused:
                document = await one.read()
                assert document["code"] == "busy"
                assert "costs nothing" in document["remedy"]
            small, _ = await exchange(served.app, "GET", "/budget", served.tokens["research"])
            assert small == 200  # what fits into one piece is not refused
            first = await unread[0].read()
            again = served.ask(WAYS[way][0], WAYS[way][1].format(receipt=_receipt(served)), WAYS[way][2])
            assert await again.read() == first
            for one in unread[1:]:
                await one.read()
            assert served.held == 0
            charges = served.database.as_analyst("research").budget().spent.epsilon - spent.epsilon
            assert charges == (3 if way == "ask_all" else 1)  # a refusal is not a second charge

    run(course)


def _receipt(served: Served) -> str:
    return served.database.as_analyst("research").history()[-1].receipt


@pytest.mark.usefixtures("long_replies")
def test_all_accounts_together_have_a_quota_and_each_its_own(tmp_path: Path) -> None:
    async def course() -> None:
        async with serving(tmp_path) as served:
            for name in ("research", "press", "visitor"):
                await served.charged(name)
            asked = [served.ask("GET", "/history", None, name) for name in ("research", "press") for _ in range(4)]
            async with asyncio.timeout(60):
                while not all(one.is_blocked for one in asked):
                    await asyncio.sleep(0)
            held = {name: served.app.replies.of(name) for name in ("research", "press")}
            assert all(LONG <= own <= LIMITS.reply_bytes_per_account for own in held.values())
            assert served.held == sum(held.values()) <= LIMITS.reply_bytes
            for one in asked:
                await one.read()
            assert served.held == 0

    run(course)


@pytest.mark.usefixtures("long_replies")
def test_a_reply_leaves_in_pieces_and_a_slow_reader_has_one_of_them(tmp_path: Path) -> None:
    async def course() -> None:
        async with serving(tmp_path) as served:
            (asked,) = await served.requests("json", 1)
            assert [len(piece) for piece in asked.pieces] == [0]  # the headers
            await asked.read()
            sizes = [len(piece) for piece in asked.pieces]
            assert max(sizes) == PIECE_BYTES
            assert sum(sizes) > LONG
            assert sizes[-1] == 0  # counted until the transport has taken all pieces

    run(course)


@pytest.mark.usefixtures("long_replies")
def test_who_goes_away_gives_the_bytes_back(tmp_path: Path) -> None:
    async def course() -> None:
        async with serving(tmp_path) as served:
            asked = await served.requests("json", 3)
            assert served.held > 2 * LONG
            for one in asked:
                one.task.cancel()
            await asyncio.gather(*(one.task for one in asked), return_exceptions=True)
            asked.clear()
            assert served.held == 0

    run(course)


@pytest.mark.usefixtures("long_replies")
@pytest.mark.parametrize("way", WAYS)
def test_neither_replies_nor_refusals_hold_more_than_the_quota(way: str, tmp_path: Path) -> None:
    """Measured, not counted: 40 clients that take nothing, of whom most wait with a refusal."""

    async def course() -> None:
        async with serving(tmp_path) as served:
            first = await served.requests(way, 1)
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            gc.disable()  # it would free an error that holds itself, at a time that is luck
            try:
                asked = await served.requests(way, 40)
                grown = tracemalloc.get_traced_memory()[0] - before
            finally:
                gc.enable()
            assert grown < LIMITS.reply_bytes_per_account + 40 * 30_000
            for one in (*first, *asked):
                await one.read()

    tracemalloc.start()
    try:
        run(course)
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("long_replies")
def test_a_reply_that_waits_for_its_multiple_is_counted_and_its_answer_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def course() -> None:
        clock = VirtualClock()
        served = Served(tmp_path, 'padding = "1s"', clock)
        begun = clock.now()
        paid = clock.begin(served.charged())
        await clock.advance(begun + 1)
        receipt = await paid
        alive = 0

        def document(release: Release, _level: object) -> object:
            nonlocal alive
            alive += 1
            return {"long": "x" * LONG}

        monkeypatch.setattr(formats, "answer_document", document)
        path = f"/releases/{receipt}"
        asked = [clock.begin(exchange(served.app, "GET", path, served.tokens["research"])) for _ in range(5)]
        await clock.advance(begun + 1.5)
        assert alive == 5
        assert not any(one.done() for one in asked)
        assert 3 * LONG <= served.held <= LIMITS.reply_bytes_per_account
        await clock.advance(begun + 2)
        assert sorted(status for status, _ in [await one for one in asked]) == [200, 200, 200, 429, 429]
        assert served.held == 0
        await served.gate.stop()

    run(course)
