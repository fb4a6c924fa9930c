"""Memory: what sessions hold is counted at its real size, refused beyond a limit, and given back."""

import gc
import select
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.wire.served import (
    SYNC,
    Bare,
    Served,
    bind,
    describe,
    errors,
    eventually,
    execute,
    kinds,
    make_clinic,
    message,
    parse,
    served,
    text,
)
from tests.server.wire.test_catalogue import QUESTIONS

import sfumato
from sfumato.server.quota import Holding
from sfumato.server.wire import frames, session
from sfumato.server.wire.memory import MemoryLimits, SessionMemory
from sfumato.server.wire.outgoing import Outgoing
from sfumato.server.wire.pg_catalog.catalogue import MAX_CACHED_PLAN_BYTES, Catalogue
from sfumato.server.wire.sqlstates import WireError

pytestmark = pytest.mark.usefixtures("frozen_heap")
ACCOUNT = 4 << 20
SLACK = 600_000
"""Bytes of the process that no session holds: buffers, caches of the interpreter."""
WIDE = "SELECT " + "c.*, " * 48 + "1 FROM pg_class c"
NAMES = "SELECT name FROM staff"
MANY = "SELECT g, 'some text' || g FROM generate_series(1, 20000) AS t(g)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("memory"), memory=MemoryLimits(ACCOUNT, 2 * ACCOUNT)) as made:
        yield made


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def held(server: Served) -> int:
    return server.listener.wire.memory.of("research")


def portal(number: int) -> bytes:
    name = f"p{number}"
    return parse(MANY, name) + bind((), name, name) + execute(name, 1) + SYNC


def wide(number: int) -> bytes:
    return parse(f"{WIDE} -- {number}", f"s{number}") + SYNC


def valued(number: int) -> bytes:
    name = f"v{number}"
    items = b"{" + b",".join(b"%d" % item for item in range(9000)) + b"}"
    return parse("SELECT $1::int8[]", name) + bind((items,), name, name) + SYNC


def long(number: int) -> bytes:
    return parse(f"SET application_name = '{'é' * 100_000}'", f"l{number}") + SYNC


def cursor(number: int) -> bytes:
    sql = f"DECLARE c{number} CURSOR FOR {MANY.replace('20000', '2000')}; MOVE c{number}"
    return message(b"Q", text(sql))


def declared(number: int) -> bytes:
    sql = f"DECLARE d{number} CURSOR WITH HOLD FOR {NAMES} /* {'𝄞' * 19_000} */"
    return message(b"Q", text(sql))


def bound(number: int) -> bytes:
    sql = f"DECLARE b{number} CURSOR FOR {NAMES} WHERE name <> $1"
    return parse(sql) + bind((b"x" * 100_000,)) + execute() + SYNC


KINDS = {
    "portals": portal,
    "statements": wide,
    "values": valued,
    "long texts": long,
    "cursors": cursor,
    "declared texts": declared,
    "bound cursors": bound,
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_session_holds_is_counted_refused_and_given_back(server: Served, kind: str) -> None:
    assert eventually(lambda: held(server) == 0)
    with server.client() as client:
        client.send(parse("BEGIN"), bind(), execute(), SYNC).until(b"Z")
        client.send(KINDS[kind](0)).until(b"Z")  # plans and caches are there before anything is measured
        before, cached = held(server), sum(one.cached_bytes for one in server.listener.wire.catalogues.values())
        gc.collect()
        tracemalloc.start()
        told = b""
        for number in range(1, 99):
            found = client.send(KINDS[kind](number)).until(b"Z")
            if errors(found):
                told = errors(found)[0]["C"].encode() + errors(found)[0]["D"].encode()
                break
        del found
        counted = held(server) - before
        eventually(lambda: _traced() <= counted + SLACK)  # a thread may still hold the rows of the last reply
        real = _traced()
        tracemalloc.stop()
        grown = sum(one.cached_bytes for one in server.listener.wire.catalogues.values()) - cached
        assert told.startswith(b"53200")
        assert f"{ACCOUNT:,} bytes" in told.decode()
        assert counted > ACCOUNT // 3
        assert real <= counted + max(grown, 0) + SLACK
        client.query("ROLLBACK")
        assert client.rows("SELECT 1") == [("1",)]
        client.query("DEALLOCATE ALL")
        for name in KINDS:
            client.send(*(message(b"C", b"P" + text(f"{name[0]}{number}")) for number in range(100)), SYNC).until(b"Z")
        assert held(server) < 50_000
        assert kinds(client.send(KINDS[kind](0)).until(b"Z"))[-1] == "Z"
    assert eventually(lambda: held(server) == 0)


def test_messages_that_wait_are_counted(server: Served) -> None:
    assert eventually(lambda: held(server) == 0)
    clients = [server.client() for _ in range(8)]
    try:
        piece = message(b"B", text("") + text("x") + b"\x00" * 900_000)
        for client in clients:
            client.send(piece)
        # each is kept at its size until a Sync comes, or refused; what is kept is never above the limit
        assert eventually(lambda: held(server) >= 900_000 * sum(not _readable(client) for client in clients))
        assert held(server) <= ACCOUNT
        refused = [client for client in clients if _readable(client)]
        assert len(refused) >= 8 - ACCOUNT // 900_000
        assert {errors(client.send(SYNC).until(b"Z"))[0]["C"] for client in refused} == {"53200"}
        assert [kinds(client.send(SYNC).until(b"Z"))[-1] for client in clients] == ["Z"] * 8
        assert [client.rows("SELECT 1") for client in clients] == [[("1",)]] * 8
    finally:
        for client in clients:
            client.socket.close()
    assert eventually(lambda: held(server) == 0)


def _readable(client: Bare) -> bool:
    return bool(select.select([client.socket], [], [], 0)[0])


@pytest.mark.parametrize("protocol", ["extended", "simple"])
def test_replies_leave_while_further_messages_are_answered_and_others_have_their_turns(
    server: Served, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    """Hundreds of large replies to one packet are neither gathered in memory nor written in one turn of the loop."""
    gathered, turns, turn = [0], [], [0]
    send, described = Outgoing.send, frames.row_description

    def noted_send(outgoing: Outgoing, data: bytes) -> None:
        send(outgoing, data)
        gathered.append(len(outgoing._data))

    def noted_description(*arguments: Any) -> bytes:
        turns.append(turn[0])
        return described(*arguments)

    def next_turn() -> None:
        turn[0] += 1
        if turn[0] >= 0:
            server.loop.call_soon(next_turn)

    monkeypatch.setattr(Outgoing, "send", noted_send)
    monkeypatch.setattr(session, "row_description", noted_description)
    with server.client() as client:
        client.query(f"PREPARE wide AS {WIDE} WHERE false")
        server.loop.call_soon_threadsafe(next_turn)
        many = [describe(b"S", "wide")] * 200 + [SYNC]
        asked = many if protocol == "extended" else [message(b"Q", text("EXECUTE wide;" * 200))]
        found = client.send(*asked).until(b"Z")
        turn[0] = -1_000_000_000  # the next turn is the last one
    large = max(len(body) for _, body in found)
    assert kinds(found).count("T") == 200
    assert large > 30_000
    assert max(gathered) < (1 << 16) + large + 1000
    assert len(set(turns)) == 200


def test_an_account_and_a_server_have_limits_and_what_is_gone_is_given_back() -> None:
    memory = SessionMemory(MemoryLimits(100, 150))
    first, second = Holding(memory, "one"), Holding(memory, "two")
    first.add(100)
    for holding, count, limit in ((first, 1, "100 bytes"), (second, 60, "150 bytes")):
        with pytest.raises(WireError) as full:
            holding.add(count)
        assert full.value.reported.sqlstate == "53200"
        assert limit in full.value.reported.detail
    second.add(50)
    assert (memory.total, memory.of("one"), memory.of("two")) == (150, 100, 50)
    second.release()
    second.release()
    del first
    gc.collect()
    assert (memory.total, memory.of("one"), memory.of("two")) == (0, 0, 0)


HOSTILE = [
    WIDE,
    "SELECT " + " + ".join(["1"] * 200) + ", pg_backend_pid()",
    "SELECT " + ", ".join(["pg_backend_pid()"] * 900),
    "SELECT 1 FROM " + ", ".join(f"pg_class a{number}" for number in range(60)),  # noqa: S608
    "SELECT " + ", ".join(["'xxxxxxxxx'"] * 1500) + " FROM pg_am",  # noqa: S608
    "SELECT CASE " + "WHEN oid = 1 THEN 2 " * 600 + "END FROM pg_am",
    "SELECT oid IN (" + ", ".join(["111"] * 3000) + ") FROM pg_am",  # noqa: S608
]


def test_a_plan_is_no_larger_than_it_is_counted_and_the_cache_has_a_limit(tmp_path: Path) -> None:
    with sfumato.open(make_clinic(tmp_path)) as database:
        catalogue = Catalogue(database.policy, database.columns(), "research")
        for sql in (*QUESTIONS, *HOSTILE):
            catalogue.plan(sql, {})  # what is made once is made before anything is measured
        for sql in (*QUESTIONS, *HOSTILE):
            catalogue._plans.clear()
            catalogue._bytes = 0
            gc.collect()
            tracemalloc.start()
            plan = catalogue.plan(sql, {})
            gc.collect()
            real = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
            assert plan is not None or sql in QUESTIONS
            assert real <= catalogue.cached_bytes <= MAX_CACHED_PLAN_BYTES, sql[:60]
        for number in range(60):
            catalogue.plan(f"{WIDE} -- {number}", {})
            assert catalogue.cached_bytes <= MAX_CACHED_PLAN_BYTES
