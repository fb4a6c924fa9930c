"""Effort: what is counted covers what is done, nothing is computed on the event loop, and cancel and stop end it."""

import asyncio
import itertools
import socket
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.server.wire.served import (
    SYNC,
    Bare,
    Said,
    bind,
    errors,
    execute,
    make_clinic,
    message,
    parse,
    served,
    start_up,
    text,
)
from tests.server.wire.test_catalogue import QUESTIONS

import sfumato
from sfumato.server.wire import answers, session
from sfumato.server.wire.pg_catalog import catalogue as catalogues
from sfumato.server.wire.pg_catalog import compiled
from sfumato.server.wire.pg_catalog.catalogue import Catalogue, CataloguePlan
from sfumato.server.wire.pg_catalog.compiled import MAX_STEPS, Execution
from sfumato.server.wire.pg_catalog.functions import functions
from sfumato.server.wire.pg_catalog.operators import regex_effort
from sfumato.server.wire.pg_catalog.session_facts import SessionFacts
from sfumato.server.wire.settings import Settings
from sfumato.server.wire.sqlstates import WireError

LONG = 1600
"""Characters of a long text: a quadratic loop over it executes millions of instructions."""
INSTRUCTIONS_PER_STEP = 400
"""Bytecode instructions that one counted step may stand for."""
FIXED_INSTRUCTIONS = 30_000
"""Instructions of an execution that depend on no value."""
ENDLESS = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b WHERE a + b < 0"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalogue]:
    with sfumato.open(make_clinic(tmp_path_factory.mktemp("effort"))) as database:
        yield Catalogue(database.policy, database.columns(), "research")


def a_run(**values: Any) -> Execution:
    settings = Settings("research", ())
    facts = SessionFacts("research", "clinic", 1, "127.0.0.1", 5432, False, settings)
    return Execution(facts, {name.lstrip("p"): value for name, value in values.items()})


def instructions(work: Callable[[], object]) -> int:
    """Return how many bytecode instructions some work executes in this thread; a refusal ends it."""
    count = 0

    def traced(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        work()
    except (WireError, TypeError, AttributeError, ValueError, ArithmeticError):
        pass
    finally:
        sys.settrace(before)
    return count


def assert_counted(work: Callable[[], object], run: Execution) -> None:
    done = instructions(work)
    assert done <= FIXED_INSTRUCTIONS + INSTRUCTIONS_PER_STEP * (MAX_STEPS - run.steps), done


ARGUMENTS: dict[str, Any] = {
    "text": "ab," * (LONG // 3),
    "same": "a" * LONG,
    "list": [f"item{number}" for number in range(LONG // 4)],
    "number": 7,
}


def test_every_function_counts_what_it_does_with_long_values(shown: Catalogue) -> None:
    tried = 0
    for form in functions(shown.shadow).values():
        for arity in (1, 2, 3):
            for chosen in itertools.product(("text", "list", "number"), repeat=arity):
                run, values = a_run(), [ARGUMENTS[one] for one in chosen]
                try:
                    form.run(run, *values)
                except (WireError, TypeError, AttributeError, ValueError, ArithmeticError):
                    continue
                run = a_run()
                for value in values:
                    run.read(value)
                assert_counted(lambda form=form, run=run, values=values: form.run(run, *values), run)  # type: ignore[misc]
                tried += 1
    assert tried > 500


OPERATORS = [
    "$1::text LIKE $2::text",
    "$1::text ILIKE $2::text",
    "$1::text NOT LIKE $2::text",
    "$1::text LIKE '%' || $2::text || '_b%'",
    "$1::text LIKE '%a_a_b%'",
    "$1::text LIKE '" + "%a" * 200 + "b'",
    "$1::text ~ '^(a|b)c'",
    "$1::text ~* 'b$'",
    "$1::text || $2::text",
    "$1::text = $2::text, $1::text < $2::text, $1::text IN ($2::text, 'x')",
    "upper($1::text), replace($1::text, 'a', 'b'), split_part($1::text, 'a', 2)",
    "string_to_array($1::text, 'a')",
    "string_to_array($1::text, 'a') @> string_to_array($2::text, 'a')",
    "$1::text = ANY (string_to_array($2::text, 'a'))",
    "$1::text <> ALL (string_to_array($2::text, 'a'))",
    "array_position(string_to_array($1::text, 'a'), $2::text)",
    "array_to_string(string_to_array($1::text, 'a'), ',')",
    "('{' || array_to_string(string_to_array($1::text, 'a'), '1,') || '1}')::int[]",
    "CASE WHEN $1::text > $2::text THEN 1 ELSE 2 END, coalesce($1::text, $2::text), greatest($1::text, $2::text)",
    "(SELECT string_agg(x, ',' ORDER BY x DESC) FROM unnest(string_to_array($1::text, 'a')) AS t(x))",
    "(SELECT count(DISTINCT x) FROM unnest(string_to_array($1::text, 'a')) AS t(x))",
    "(SELECT count(*) FROM (SELECT x FROM unnest(string_to_array($1::text, 'a')) AS t(x) GROUP BY x ORDER BY x) s)",
    "(SELECT count(*) FROM (SELECT x FROM unnest(string_to_array($1::text, 'a')) AS t(x) UNION SELECT 'b') s)",
    "(SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY x) AS n FROM generate_series(1, 900) AS t(x)) s)",
    "(SELECT count(*) FROM generate_series(1, 80) AS a(x), generate_series(1, 80) AS b(y) WHERE x < y)",
    "(SELECT count(*) FROM generate_series(1, 900) AS a(x) JOIN generate_series(1, 900) AS b(y) ON x = y)",
    "(WITH RECURSIVE t(n) AS (SELECT 1 UNION SELECT n + 1 FROM t WHERE n < 300) SELECT max(n) FROM t)",
]


@pytest.mark.parametrize("expression", OPERATORS, ids=range(len(OPERATORS)))
def test_every_operator_counts_what_it_does_with_long_values(shown: Catalogue, expression: str) -> None:
    plan = shown.plan(f"SELECT pg_backend_pid(), {expression}", {})
    assert plan is not None
    for second in ("a" * (LONG // 2) + "b", "a" * LONG):
        run = a_run(p1="a" * LONG, p2=second)
        assert_counted(lambda run=run: plan.rows(run), run)  # type: ignore[misc]


def test_a_quadratic_match_is_refused_by_its_count(shown: Catalogue) -> None:
    plan = shown.plan("SELECT pg_backend_pid(), $1::text LIKE $2::text", {})
    assert plan is not None
    run = a_run(p1="a" * 60_000, p2="%" + "a" * 30_000 + "_b%")
    with pytest.raises(WireError) as refused:
        plan.rows(run)
    assert (refused.value.reported.sqlstate, "10,000,000 steps" in refused.value.reported.detail) == ("54000", True)
    run = a_run(p1="a" * 60_000, p2="%" + "a" * 30_000 + "b%")  # without _ it is found in linear time
    assert plan.rows(run)[0][1] is False
    assert MAX_STEPS - run.steps < 200_000


def test_what_one_call_into_c_does_is_counted_before_it_runs(shown: Catalogue) -> None:
    """The interpreter cannot be interrupted inside one call, and instructions do not show it."""
    many = "".join(map(chr, range(0x4E00, 0x4E00 + 20_000)))
    run = a_run()
    functions(shown.shadow)["btrim"].run(run, "a" * 5000, many + "a")
    assert MAX_STEPS - run.steps >= 5000 * 20_000 // 64
    with pytest.raises(WireError):
        functions(shown.shadow)["btrim"].run(a_run(), "a" * 60_000, many)
    bars = "|".join("a" * 60)
    assert regex_effort(60_000, f"({bars})({bars})b") > MAX_STEPS
    assert regex_effort(60_000, "[ab]" * 100) > 60_000 * 100 // 64
    assert regex_effort(1000, "a.*b.*c") > 1000**3 // 64


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'a'::text * 300000000, pg_backend_pid()",
        "SELECT 300000000 * 'a'::text, pg_backend_pid()",
        "SELECT '%300000000d'::text % 5, pg_backend_pid()",
        "SELECT mod('%300000000d'::text, 5), pg_backend_pid()",
        "SELECT ARRAY[1] * 300000000, pg_backend_pid()",
        "SELECT " + " * ".join(["'1e1000'::numeric"] * 50) + ", pg_backend_pid()",
    ],
    ids=["repeat", "repeat-right", "format", "mod", "list", "exponent"],
)
def test_arithmetic_is_of_numbers(shown: Catalogue, sql: str) -> None:
    plan = shown.plan(sql, {})
    assert plan is not None
    with pytest.raises(WireError) as refused:
        plan.rows(a_run())
    assert refused.value.reported.sqlstate in ("42883", "22003")


def test_a_text_that_expands_many_columns_is_refused_while_it_is_read(shown: Catalogue) -> None:
    inner = "SELECT " + ", ".join(["c.*"] * 48) + " FROM pg_class c"  # noqa: S608
    for sql in (f"SELECT {', '.join(['*'] * 5000)} FROM ({inner}) t", f"SELECT {'*, ' * 6000} * FROM pg_class"):  # noqa: S608
        with pytest.raises(WireError) as refused:
            shown.plan(sql, {})
        assert refused.value.reported.sqlstate in ("54011", "54001")


def test_the_event_loop_never_evaluates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[int] = set()

    def watched(function: Callable[..., Any], long: bool = False) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if not long or len(repr(arguments)) > 2 * session.MAX_LOOP_CHARS:
                seen.add(threading.get_ident())
            return function(*arguments)

        return call

    monkeypatch.setattr(CataloguePlan, "rows", watched(CataloguePlan.rows))
    for module, name in ((catalogues, "foreign_tree"), (catalogues, "Queries"), (answers, "data_row")):
        monkeypatch.setattr(module, name, watched(getattr(module, name)))
    for name in ("split", "read_statement", "one_statement", "read_values"):
        monkeypatch.setattr(session, name, watched(getattr(session, name), long=True))
    with served(tmp_path) as server, server.client() as client:
        for sql in (*QUESTIONS, "SELECT 1", "SHOW ALL", "SELECT * FROM staff", "SELECT '" + "x" * 9000 + "'"):
            client.query(sql)
        client.query("PREPARE x AS SELECT id FROM staff WHERE id = $1")
        assert client.rows("EXECUTE x (1 + 2)") == [("3",)]
        assert client.state("EXECUTE x ((SELECT count(*) FROM unnest(ARRAY[1, 2]) a))") == "0A000"
        client.send(parse("SELECT $1::text"), bind((b"x" * 20_000,)), execute(), SYNC).until(b"Z")
        client.send(parse("SELECT '" + "y" * 9000 + "'"), SYNC).until(b"Z")
        loop = asyncio.run_coroutine_threadsafe(_thread(), server.loop).result(10)
    assert seen
    assert loop not in seen


async def _thread() -> int:
    return threading.get_ident()


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Take the limits away, so that only somebody ends an evaluation; return when one begins and ends."""
    begun, ended = threading.Event(), threading.Event()
    rows = CataloguePlan.rows
    monkeypatch.setattr(compiled, "MAX_STEPS", 10**15)
    monkeypatch.setattr(compiled, "MAX_QUERY_SECONDS", 1e9)

    def watched(plan: CataloguePlan, run: Execution) -> Any:
        begun.set()
        try:
            return rows(plan, run)
        finally:
            ended.set()

    monkeypatch.setattr(CataloguePlan, "rows", watched)
    return begun, ended


def test_a_cancel_ends_an_evaluation(tmp_path: Path, endless: tuple[threading.Event, threading.Event]) -> None:
    begun, ended = endless
    with served(tmp_path) as server, server.client() as client, server.client() as other:
        client.send(message(b"Q", text(ENDLESS)))
        assert begun.wait(10)
        with Bare(server) as stopper:
            stopper.send(struct.pack(">IIII", 16, 80877102, *client.key))
        assert errors(client.until(b"Z"))[0]["C"] == "57014"
        assert ended.wait(10)
        client.query("SET statement_timeout = 50")
        assert client.state(ENDLESS) == "57014"
        assert other.rows("SHOW jit") == [("off",)]


def test_a_client_that_leaves_and_a_server_that_stops_end_an_evaluation(
    tmp_path: Path, endless: tuple[threading.Event, threading.Event]
) -> None:
    begun, ended = endless
    with served(tmp_path) as server, server.client() as client:
        client.send(message(b"Q", text(ENDLESS)))
        assert begun.wait(10)
        assert asyncio.run_coroutine_threadsafe(server.gate.stop(), server.loop).result(10)
        assert ended.is_set()
        with pytest.raises(Said) as told:
            client.until(b"Z")
        assert (told.value.state, told.value.said["S"]) == ("57P01", "FATAL")


STATEMENTS = [
    message(b"Q", text("SELECT 1")),
    message(b"Q", text("SELECT COUNT(*) FROM visits")),
    message(b"Q", text("SELECT relname FROM pg_class")),
    message(b"Q", text("EXPLAIN SELECT COUNT(*) FROM visits")),
    message(b"Q", text("SHOW sfumato.budget")),
    message(b"Q", text("BEGIN")),
    parse("SELECT id FROM staff") + bind() + execute() + SYNC,
    parse("SELECT id FROM staff WHERE id = $1") + SYNC,
]


def test_clients_of_a_stopping_server_are_told_so_in_postgresqls_words(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        clients = [server.client(pairs=(("options", "-c sfumato.epsilon=1"),)) for _ in (*STATEMENTS, "idle")]
        assert asyncio.run_coroutine_threadsafe(server.gate.stop(), server.loop).result(10)
        for client, statement in zip(clients, STATEMENTS, strict=False):
            with pytest.raises(Said) as told:
                client.send(statement).until(b"Z")
            assert (told.value.state, told.value.said["S"]) == ("57P01", "FATAL")
        with pytest.raises(Said) as late, Bare(server) as client:
            client.send(start_up(("user", "research"), ("database", "clinic"))).expect(b"R")
        assert (late.value.state, late.value.said["S"]) == ("57P03", "FATAL")
        server.loop.call_soon_threadsafe(server.listener.close)
        with pytest.raises(Said) as ended:
            clients[-1].until(b"Z")
        assert ended.value.state == "57P01"
        for client in clients:
            client.socket.close()


def test_the_owner_who_revokes_ends_sessions_that_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CHECK_SECONDS", 0.05)
    with served(tmp_path) as server, server.client() as client:
        server.grants.revoke("research")
        with pytest.raises(Said) as told:
            client.until(b"Z")
        assert (told.value.state, told.value.said["S"]) == ("28000", "FATAL")


@pytest.mark.parametrize("statement", STATEMENTS, ids=range(len(STATEMENTS)))
def test_every_statement_of_a_revoked_analyst_is_refused(tmp_path: Path, statement: bytes) -> None:
    with served(tmp_path) as server, server.client() as client:
        server.grants.revoke("research")
        with pytest.raises(Said) as told:
            client.send(statement).until(b"Z")
        assert (told.value.state, told.value.said["S"]) == ("28000", "FATAL")


def test_a_session_that_says_nothing_ends_and_a_peer_that_is_gone_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path) as server:
        with server.client() as client:
            connection = next(iter(server.listener.wire.served.values()))
            peer = connection._writer.get_extra_info("socket")
            assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
            assert client.rows("SELECT 1") == [("1",)]
        counted = server.listener.wire.connections
        monkeypatch.setattr(counted, "limits", replace(counted.limits, pg_idle_seconds=0.05))
        with server.client() as client, pytest.raises(Said) as told:
            client.until(b"?")
        assert (told.value.state, "0.05 seconds" in told.value.said["D"]) == ("57P05", True)


def test_a_session_that_has_lasted_long_ends_between_two_messages_however_busy_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path) as server:
        counted = server.listener.wire.connections
        monkeypatch.setattr(counted, "limits", replace(counted.limits, pg_session_seconds=0.3))
        with server.client() as client, pytest.raises(Said) as told:
            deque(iter(lambda: client.rows("SELECT 1"), None), maxlen=0)  # it is never idle
        assert (told.value.state, told.value.said["S"]) == ("57P01", "FATAL")
        assert "0.3 seconds" in told.value.said["D"]
        with server.client() as client, pytest.raises(Said) as told:
            client.until(b"?")
        assert told.value.state == "57P01"


def test_a_session_that_owes_a_sync_ends_soon_after_its_time_and_is_not_polled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = itertools.count()
    with served(tmp_path) as server:
        counted = server.listener.wire.connections
        monkeypatch.setattr(counted, "limits", replace(counted.limits, pg_session_seconds=0.1))
        monkeypatch.setattr("sfumato.server.wire.session.CHECK_SECONDS", 0.5)
        with server.client() as client:
            client.send(parse("SELECT 1"))  # what was begun may be finished, and no more
            looked = server.grants.stands
            monkeypatch.setattr(server.grants, "stands", lambda grant: next(looks) >= 0 and looked(grant))
            with pytest.raises(Said) as told:
                client.until(b"?")
        assert told.value.state == "57P01"
        assert next(looks) <= 5
