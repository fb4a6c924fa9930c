"""With padding, all that an observer sees is the same function of time, however long the engine takes within a quantum.

Time is moved by the test, so nothing here depends on how fast the machine is.
"""

import asyncio
import gc
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.server.clinic import BY_DEPT, COUNT, make_clinic
from tests.server.virtual import VirtualClock, exchange

import sfumato
from sfumato import database as databases
from sfumato.engines.aggregates import Aggregates, GroupAggregates
from sfumato.engines.engine import Engine
from sfumato.errors import EngineFailed, LedgerUnavailable, Refusal
from sfumato.ledger.outcome_time import outcomes_after
from sfumato.server.audit import Audit, audit_path
from sfumato.server.gate import Caller, GateLimits, Gateway, render_unchanged
from sfumato.server.grants import Grants, Secrets
from sfumato.server.http import make_app
from sfumato.server.origins import Origins
from sfumato.server.padding import TimePadding
from sfumato.server.wire.serving import start

TICKS = ("0.05", "0.3", "0.6", "0.95", "1", "1.05", "1.5", "1.95", "2", "2.05", "3", "3.5")
FAST, SLOW = 0.0, 0.9
RANDOM = ("receipt", "head", "time", "policy", "version")


class World:
    """A clinic whose first answer takes so long by a clock of its own, and what can be seen of it."""

    def __init__(self, folder: Path, seconds: float, fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = VirtualClock()
        self.database = sfumato.open(make_clinic(folder, top='padding = "1s"'))
        self.grants = Grants(self.database.policy)
        self.secrets: dict[str, Secrets] = {name: self.grants.grant(name) for name in ("research", "press", "visitor")}
        self.log = audit_path(self.database.policy)
        limits = GateLimits(questions=8)
        self.gate = Gateway(self.database, self.grants, Audit(self.log), limits=limits, clock=self.clock)
        self.app = make_app(self.gate, Origins("http", ("127.0.0.1",), 80))
        self.seen: list[object] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._begun = self.clock.now()
        self._runs = 0
        real = type(self.database.engine).run

        def run(engine: Engine, *arguments: Any) -> Any:
            self._runs += 1
            if self._runs == 1:
                self.clock.wait_until(self.clock.now() + seconds)
                if fails:
                    raise EngineFailed()
            return real(engine, *arguments)

        monkeypatch.setattr(type(self.database.engine), "run", run)

    def at(self) -> float:
        return round(self.clock.now() - self._begun, 6)

    def begin(self, request: Coroutine[Any, Any, object], name: str) -> None:
        """Send a request; note when it was sent, when its reply came, and what of it is not noise."""
        sent = self.at()

        async def note() -> None:
            reply: object
            try:
                reply = await request
            except EngineFailed:
                raise
            except (Refusal, psycopg.Error) as refusal:
                reply = type(refusal).__name__
            self.seen.append((name, sent, self.at(), _shape(reply)))

        self._tasks.append(self.clock.begin(note()))

    def http(self, name: str, path: str, body: object = None) -> Coroutine[Any, Any, object]:
        method = "GET" if body is None else "POST"
        return exchange(self.app, method, path, self.secrets[name].token, body)

    async def tick(self, to: str) -> None:
        """Move on, look at everything that can be looked at, and ask every page."""
        await self.clock.advance(self._begun + float(Fraction(to)))
        lines = [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []
        done = [(line["account"], line["verb"], line["outcome"]) for line in lines if line["verb"] == "ask"]
        self.seen.append(
            ("own eyes", self.at(), self.gate._threads.questions._running.get("research", 0), sorted(done))
        )
        for path in ("/history", "/history?limit=1", "/budget"):
            self.begin(self.http("research", path), path)
        if charged := self.database.as_analyst("research").history():
            self.begin(self.http("research", f"/releases/{charged[-1].receipt}"), "/releases")
        others = {"0.95": "press", "1.05": "visitor"}
        if to in others:  # the sequence of their receipts tells what is in the ledger
            self.begin(self.http(others[to], "/ask", {"sql": BY_DEPT, "epsilon": "1"}), "/ask of another account")

    async def end(self) -> list[object]:
        for to in (4, 5, 6):
            await self.clock.advance(self._begun + to)
        await asyncio.gather(*self._tasks)
        await self.gate.stop()
        return sorted(self.seen, key=repr)


def _shape(reply: object) -> object:
    """Return what of a reply does not depend on fresh noise or random ids."""
    if isinstance(reply, tuple):
        status, document = reply
        return status, _shape(document)
    if isinstance(reply, list):
        return [_shape(one) for one in reply]
    if isinstance(reply, dict):
        if "receipt" in reply and isinstance(reply["receipt"], dict):
            return sorted(reply), reply["receipt"]["sequence"], reply["receipt"]["timing"]
        return {name: value for name, value in reply.items() if name not in RANDOM}
    return reply


async def _watched(world: World, protocol: str) -> list[object]:
    if protocol == "http":
        world.begin(world.http("research", "/ask", {"sql": COUNT, "epsilon": "1"}), "the question")
        for tick in TICKS:
            await world.tick(tick)
        return await world.end()
    server = await start((world.gate,), "127.0.0.1", 0)
    port, password = server.port, world.secrets["research"].password
    place = f"host=127.0.0.1 port={port} user=research dbname=clinic password={password}"
    connection = await psycopg.AsyncConnection.connect(
        f"{place} options='-c sfumato.epsilon=1'", autocommit=True, prepare_threshold=None
    )

    async def ask() -> object:
        found = await (await connection.execute(COUNT)).fetchall()
        return len(found)

    world.begin(ask(), "the question")
    for tick in TICKS:
        await world.tick(tick)
    seen = await world.end()
    await connection.close()
    server.close()
    return seen


@pytest.mark.parametrize("fails", [False, True], ids=["answered", "failed"])
@pytest.mark.parametrize("protocol", ["http", "postgresql"])
def test_what_an_observer_sees_is_the_same_function_of_time_for_a_fast_and_a_slow_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str, fails: bool
) -> None:
    async def course(name: str, seconds: float) -> list[object]:
        with monkeypatch.context() as patch:
            return await _watched(World(tmp_path / name, seconds, fails, patch), protocol)

    fast, slow = asyncio.run(course("fast", FAST)), asyncio.run(course("slow", SLOW))
    assert fast == slow
    [question] = [one for one in fast if one[0] == "the question"]  # type: ignore[index]
    assert question[1:3] == (0, 1)  # type: ignore[index]
    states = {one[1]: one[3][1][0]["state"] for one in fast if one[0] == "/history" and one[3][1]}  # type: ignore[index]
    assert {state for sent, state in states.items() if sent < 1} == {"reserved"}
    assert {state for sent, state in states.items() if sent >= 1} == {"failed" if fails else "settled"}
    replies = [(one[1], one[2]) for one in fast if one[0] != "own eyes"]  # type: ignore[index]
    assert all(left > sent + 1 - 1e-6 for sent, left in replies)


def test_a_slower_answer_is_seen_after_two_quanta_and_everything_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def course() -> list[object]:
        return await _watched(World(tmp_path, 1.2, False, monkeypatch), "http")

    seen = asyncio.run(course())
    [question] = [one for one in seen if one[0] == "the question"]  # type: ignore[index]
    assert question[1:3] == (0, 2)  # type: ignore[index]
    states = {one[1]: one[3][1][0]["state"] for one in seen if one[0] == "/history" and one[3][1]}  # type: ignore[index]
    assert {sent for sent, state in states.items() if state == "settled"} == {sent for sent in states if sent >= 2}


class _Broken(Audit):
    def write(self, *_: object, **__: object) -> None:
        raise LedgerUnavailable("The audit log cannot be written.", "Why.", "Next.")


@pytest.mark.parametrize("verb", ["ask", "refused", "budget", "history", "explain", "unforeseen"])
def test_a_reply_is_padded_also_where_its_line_cannot_be_written_or_nobody_foresaw_the_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    async def course() -> None:
        world = World(tmp_path, FAST, False, monkeypatch)
        gate = Gateway(world.database, world.grants, _Broken(world.log), clock=world.clock)
        grant = world.grants.of_token(world.secrets["research"].token)
        assert grant is not None
        caller = Caller(grant, "http", "")
        if verb == "unforeseen":
            monkeypatch.setattr(type(world.database), "budget", lambda _: 1 / 0)
        requests: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
            "ask": lambda: gate.ask(caller, COUNT, render_unchanged, epsilon="1"),
            "refused": lambda: gate.ask(caller, "SELECT", render_unchanged, epsilon="1"),
            "budget": lambda: gate.budget(caller),
            "history": lambda: gate.history(caller),
            "explain": lambda: gate.explain(caller, COUNT, epsilon="1"),
            "unforeseen": lambda: gate.budget(caller),
        }
        task = world.clock.begin(requests[verb]())
        await world.clock.advance(world.clock.now() + 0.99)
        assert not task.done()
        await world.clock.advance(world.clock.now() + 0.01)
        with pytest.raises(ZeroDivisionError if verb == "unforeseen" else LedgerUnavailable):
            await task
        await gate.stop()

    asyncio.run(course())


def test_times_of_the_history_are_multiples_of_the_quantum() -> None:
    padding = TimePadding(Fraction(3, 2))
    assert padding.round_time(datetime(1970, 1, 1, 0, 0, 4, 400_000, UTC)) == datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC)
    assert padding.round_time(datetime(1970, 1, 1, 0, 0, 4, 500_000, UTC)).microsecond == 500_000
    exact = datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC)
    assert TimePadding(None).round_time(exact) == exact


@pytest.mark.parametrize("failing", ["", "publish", "answer_to_json"])
def test_nothing_exact_is_left_to_be_freed_after_the_outcome_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """How long it takes to free what was read tells how much there was: so it is freed before the multiple."""
    left: list[int] = []
    made: list[int] = []

    def fail(_plan: object, aggregates: object, *_: object) -> object:
        made.append(1)
        raise EngineFailed

    def exact() -> int:
        return sum(isinstance(one, Aggregates | GroupAggregates) for one in gc.get_objects())

    if failing:
        monkeypatch.setattr(databases, failing, fail)
    with sfumato.open(make_clinic(tmp_path)) as database:
        gc.collect()
        gc.disable()
        try:
            before = exact()
            with outcomes_after(lambda: left.append(exact() - before)), suppress(EngineFailed):
                database.ask(BY_DEPT, epsilon="1")
                assert not failing
        finally:
            gc.enable()
    assert bool(made) == bool(failing)
    assert left
    assert not any(left)
