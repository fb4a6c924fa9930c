"""Hostile clients: too large, too many, too slow, cut off; the next one is served, and nothing is charged."""

import socket
import struct
import time
import tracemalloc
from pathlib import Path

import psycopg
import pytest
from tests.server.wire.fuzzing import fuzz, resident
from tests.server.wire.served import (
    COUNT,
    PRICE,
    SYNC,
    Bare,
    Said,
    Served,
    bind,
    errors,
    execute,
    kinds,
    message,
    parse,
    served,
    text,
)

from sfumato.errors import REFUSALS
from sfumato.query.array_text import array_items
from sfumato.server.connections import Connections
from sfumato.server.limits import ServerLimits
from sfumato.server.wire import frames, serving
from sfumato.server.wire.memory import MemoryLimits
from sfumato.server.wire.sqlstates import SQLSTATES, WireError
from sfumato.server.wire.statements import read_statement

PIECE = b" " * (1 << 20)


def test_every_refusal_has_a_state() -> None:
    assert {refusal.code for refusal in REFUSALS} == set(SQLSTATES)
    assert all(len(state) == 5 and state.isalnum() and state.upper() == state for state in SQLSTATES.values())


def test_a_text_of_64_mebibytes_is_refused_and_read_past(server: Served) -> None:
    spent = server.spent()
    with server.client(pairs=PRICE) as client:
        client.query("SELECT 1")
        tracemalloc.start()
        size = 64 * len(PIECE)
        client.send(b"Q" + struct.pack(">I", size + len(COUNT) + 5))
        for _ in range(64):
            client.send(PIECE)
        found = client.send(text(COUNT)).until(b"Z")
        assert errors(found)[0]["C"] == "54000"
        client.send(b"P" + struct.pack(">I", size + 4))
        for _ in range(64):
            client.send(PIECE)
        found = client.send(bind(), execute(), SYNC).until(b"Z")
        assert (kinds(found), errors(found)[0]["C"]) == ("EZ", "54000")
        assert client.state("SELECT '" + "x" * 100_000 + "' FROM staff") == "54001"
        assert client.rows("SELECT 1") == [("1",)]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20e6
    assert server.spent() == spent


@pytest.mark.parametrize(
    "step",
    [
        parse("SELECT 1"),
        parse("SELECT 1") + bind() + execute(),
        parse("SELECT COUNT(*) FROM visits WHERE age < 99") + bind() + execute(),
        message(b"D", b"S\x00"),
        message(b"H"),
        parse("SELECT * FROM nowhere"),
        message(b"C", b"S\x00"),
    ],
    ids=["parse", "execute", "charge", "describe", "flush", "wrong", "close"],
)
def test_ten_thousand_messages_without_sync_are_an_error_and_charge_nothing(server: Served, step: bytes) -> None:
    spent, before = server.spent(), resident()
    with server.client(pairs=PRICE) as client:
        count = sum(step.count(kind) for kind in (b"P\x00\x00", b"B\x00\x00", b"E\x00\x00")) or 1
        client.socket.settimeout(30)
        client.send(step * (10_000 // count + 1))
        found = client.until(b"E")
        assert errors(found)[0]["C"] in ("54000", "42P01", "26000")
        assert client.send(SYNC).until(b"Z")[-1][0] == b"Z"
        assert client.rows("SELECT 1") == [("1",)]
    assert server.spent() == spent
    assert resident() - before < 50e6


@pytest.mark.parametrize(
    "data",
    [
        b"Q\x00\x00\x00\x00",
        b"Q\x00\x00\x00\x03",
        b"Q\xff\xff\xff\xff",
        b"Q\x80\x00\x00\x00",
        b"\x00\x00\x00\x00\x04",
        message(b"p", b"again"),
        message(b"!", b""),
        message(b"K", b"12345678"),
    ],
    ids=range(8),
)
def test_what_is_not_the_protocol_ends_the_connection(server: Served, data: bytes) -> None:
    with server.client() as client:
        client.send(data, b"x" * 100)
        with pytest.raises((Said, ConnectionError)) as ended:
            client.until(b"Z")
        if isinstance(ended.value, Said):
            assert ended.value.said["S"] == "FATAL"
            assert ended.value.state == "08P01"
    with server.client() as client:
        assert client.rows("SELECT 1") == [("1",)]


@pytest.mark.parametrize(
    "body",
    [
        message(b"Q", b"SELECT 1"),
        message(b"Q", text("SELECT 1") + b"more"),
        message(b"Q", b"\xff\xfe\x00"),
        message(b"Q", text("SELECT \x02")),
        message(b"P", b"\x00\x00"),
        message(b"P", b"\x00SELECT 1\x00\xff\xff") + SYNC,
        message(b"P", b"\x00SELECT 1\x00\x7f\xff" + b"\x00" * 20) + SYNC,
        message(b"B", b"\x00\x00\x7f\xff") + SYNC,
        message(b"B", b"\x00\x00\x00\x00\x00\x01\x7f\xff\xff\xff") + SYNC,
        parse("SELECT $1") + bind((b"x",), formats=(7,)) + SYNC,
        parse("SELECT $1") + bind((b"x",), formats=(0, 0, 0)) + SYNC,
        parse("SELECT $1::int") + bind((b"x",), formats=(1,)) + SYNC,
        parse("SELECT $9999") + SYNC,
        parse("SELECT $0") + SYNC,
        parse("SELECT 1", types=(4_000_000_000,)) + bind((b"1",)) + SYNC,
        parse("SELECT id FROM staff WHERE id = $1", types=(869,)) + SYNC,
        message(b"D", b"X\x00") + SYNC,
        message(b"D", b"") + SYNC,
        message(b"E", b"\x00") + SYNC,
        message(b"C", b"Z\x00") + SYNC,
    ],
    ids=range(20),
)
def test_a_frame_whose_content_is_wrong_is_an_error_and_the_session_goes_on(server: Served, body: bytes) -> None:
    with server.client() as client:
        found = client.send(body, SYNC).until(b"Z")
        assert errors(found)
        assert len(errors(found)[0]["C"]) == 5
        client.until(b"Z") if kinds(found).count("Z") == 1 and body[:1] in b"Q" else None
        with server.client() as other:
            assert other.rows("SELECT 1") == [("1",)]


@pytest.mark.parametrize(
    "sql",
    [
        ";" * 900_000,
        "SELECT 1;" * 600,
        "'" * 900_001,
        "/*" * 400_000,
        "$a$" * 300_000,
        "E'" + "\\" * 900_001,
        "-- x\n" * 150_000,
        "SELECT " + "(" * 9000,
        "SELECT " + "pg_class," * 2000 + "1 FROM pg_class",
        "SET x = " + "'a'," * 50_000,
        "BEGIN" + " READ ONLY," * 20_000,
    ],
    ids=range(11),
)
def test_texts_that_are_long_to_split_take_no_time(server: Served, sql: str) -> None:
    with server.client() as client, server.client() as other:
        client.send(message(b"Q", text(sql)))
        begun = time.monotonic()
        assert other.rows("SELECT 1") == [("1",)]
        assert time.monotonic() - begun < 3
        assert errors(client.until(b"Z"))


def test_half_open_connections_leave_others_served(server: Served) -> None:
    waiting = [socket.create_connection((server.host, server.port)) for _ in range(90)]
    try:
        for one in waiting[40::2]:
            one.sendall(b"\x00\x00")
        with server.client() as client:
            assert client.rows("SELECT 1") == [("1",)]
    finally:
        for one in waiting:
            one.close()


def test_who_takes_too_long_to_say_who_they_are_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "SECONDS_PER_FRAME", 0.3)
    counted = Connections(ServerLimits(login_seconds=0.3))
    with served(tmp_path, connections=counted) as slow, Bare(slow, timeout=20) as client:
        client.send(b"\x00\x00\x00")
        assert client.socket.recv(10) == b""
    with served(tmp_path / "again") as server, server.client() as client:
        client.send(b"Q\x00\x00")
        assert client.socket.recv(10) == b""


def test_one_account_has_so_many_sessions_and_no_more(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MOST_SESSIONS_OF_ONE", 2)
    with server.client(), server.client() as client:
        with pytest.raises(Said) as refused:
            server.client()
        assert refused.value.state == "53300"
        assert client.rows("SELECT 1") == [("1",)]


def test_prepared_statements_and_portals_have_a_number(server: Served) -> None:
    with server.client() as client:
        found = client.send(*(parse("SELECT 1", f"s{i}") for i in range(1100)), SYNC).until(b"Z")
        assert errors(found)[0]["C"] == "54000"
        found = client.send(parse("SELECT 1"), *(bind(portal=f"p{i}") for i in range(200)), SYNC).until(b"Z")
        assert errors(found)[0]["C"] == "54000"


def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        for _ in range(2):
            with server.client(pairs=PRICE) as client:
                client.send(message(b"Q", text("SELECT COUNT(*) FROM visits")))
        with psycopg.connect(server.dsn) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert server.spent() <= 1


def test_bent_frames_by_the_thousand(server: Served) -> None:
    fuzz(server, 300, most=20)
    before = resident()
    count = fuzz(server, 2000)
    assert count.answers > 1000
    assert resident() - before < 50e6


@pytest.mark.parametrize(
    "sql",
    [
        "PREPARE x" + " " * 200_000 + "y",
        "SET TRANSACTION" + " " * 200_000 + "!",
        "SET SESSION CHARACTERISTICS AS TRANSACTION" + "\n" * 200_000 + "!",
        "EXPLAIN " * 25_000 + "SELECT 1",
        "BEGIN" + " READ ONLY," * 18_000 + "!",
        "PREPARE x (" + "(1)" * 60_000 + "y",
    ],
    ids=["prepare", "transaction", "characteristics", "explain", "begin", "types"],
)
def test_a_statement_that_almost_fits_is_refused_at_once_by_everybody(sql: str) -> None:
    begun = time.process_time()
    with pytest.raises(WireError):
        read_statement(sql)
    assert time.process_time() - begun < 1


def test_savepoints_are_bounded_in_number_and_their_names_in_length(server: Served) -> None:
    with server.client() as client:
        client.query("BEGIN")
        before = resident()
        states = {client.state(f"SAVEPOINT {'s' * 200_000}{number}") for number in range(100)}
        assert states == {""}
        assert client.state(f"ROLLBACK TO {'s' * 63}") == ""
        assert resident() - before < 10e6
        found = client.query(";".join(f"SAVEPOINT s{number}" for number in range(450)))
        assert [one["C"] for one in errors(found)] == ["54000"]


def test_rows_that_nobody_takes_are_counted_and_refused_beyond_a_limit_of_bytes(tmp_path: Path) -> None:
    many = "SELECT g FROM generate_series(1, 60000) AS t(g)"
    with served(tmp_path, memory=MemoryLimits(8 << 20, 16 << 20)) as server:
        with server.client() as client:
            client.send(parse("BEGIN"), bind(), execute(), SYNC).until(b"Z")
            for number in range(2):
                name = f"p{number}"
                found = client.send(parse(many, name), bind((), name, name), execute(name, 1), SYNC).until(b"Z")
                assert kinds(found) == "12DsZ"
            found = client.send(parse(many, "p2"), bind((), "p2", "p2"), execute("p2", 1), SYNC).until(b"Z")
            assert (errors(found)[0]["C"], "8,388,608 bytes" in errors(found)[0]["D"]) == ("53200", True)
            client.send(message(b"C", b"P" + text("p0")), SYNC).until(b"Z")
            client.query("ROLLBACK")
            assert client.rows("SELECT 1") == [("1",)]
        with server.client() as client:
            client.send(parse("BEGIN"), bind(), execute(), SYNC).until(b"Z")
            for number in range(3):  # what has left waits no longer, and is not shown again
                name = f"p{number}"
                steps = (parse(many, name), bind((), name, name), execute(name), execute(name), SYNC)
                found = client.send(*steps).until(b"Z")
                assert kinds(found).replace("D", "") == "12CCZ"
                assert kinds(found).count("D") == 60000


def test_a_list_that_never_closes_its_quotation_marks_is_refused_at_once(server: Served) -> None:
    hostile = b'{"' + b'\\"' * 400_000 + b"}"
    with server.client() as client:
        begun = time.monotonic()
        known = parse("SELECT typname FROM pg_type WHERE typname = ANY ($1)", types=(1009,))
        found = client.send(known, bind((hostile,)), execute(), SYNC).until(b"Z")
        assert errors(found)[0]["C"] == "22P02"
        assert time.monotonic() - begun < 5
        found = client.send(known, bind((b'{int8, "te\\xt" ,NULL}',)), execute(), SYNC).until(b"Z")
        assert kinds(found).count("D") == 2
    for wrong in ("{a,,b}", "{{a},{b}}", '{"a"x}', "{a}}", "{a,}"):
        with pytest.raises(ValueError, match="array"):
            array_items(wrong)
