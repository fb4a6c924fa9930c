"""Cursors: one charge, rows in any portion and order, and an end with their transaction."""

import struct
from itertools import product

import pytest
from tests.server.wire.served import (
    BY_DEPT,
    PRICE,
    SYNC,
    Served,
    bind,
    cells,
    columns,
    describe,
    errors,
    eventually,
    execute,
    kinds,
    message,
    parse,
    raised,
    raw_cells,
    tags,
    text,
)

IDS = "SELECT id FROM staff ORDER BY id LIMIT 5"
TABLEAU = 'declare "SQL_CUR7" cursor with hold for {};fetch 2048 in "SQL_CUR7"'


def ids(client: object, sql: str) -> list[str | None]:
    return [row[0] for row in client.rows(sql)]  # type: ignore[attr-defined]


def test_a_cursor_and_its_rows_in_one_text(server: Served) -> None:
    with server.client() as client:
        found = client.query(TABLEAU.format(IDS))
        assert kinds(found) == "CTDDDDDCZ"
        assert tags(found) == ["DECLARE CURSOR", "FETCH 5"]
        assert ids(client, 'fetch 1 in "SQL_CUR7"') == []
        assert tags(client.query('close "SQL_CUR7"')) == ["CLOSE CURSOR"]
        assert client.state('fetch 1 in "SQL_CUR7"') == "34000"


def test_a_cursor_is_one_charge_at_its_first_row_and_none_before(server: Served) -> None:
    before, asked = server.spent(), BY_DEPT.replace("GROUP", "WHERE age < 62 GROUP")
    with server.client(pairs=PRICE) as client:
        client.rows(f"BEGIN; DECLARE c SCROLL CURSOR FOR {asked}; FETCH 0 FROM c; MOVE 0 IN c")
        assert server.spent() == before
        first = client.rows("FETCH ALL c")
        assert server.spent() - before == pytest.approx(1)
        assert client.rows("FETCH BACKWARD ALL c") == first[::-1]
        assert client.rows("FETCH ABSOLUTE 2 c") == [first[1]]
        client.rows("ROLLBACK")
        assert client.rows(asked) == first
    assert server.spent() - before == pytest.approx(1)


def test_the_price_of_a_cursor_is_the_one_that_it_was_declared_at(server: Served) -> None:
    before, asked = server.spent(), "SELECT COUNT(*) AS n FROM visits WHERE age < 63"
    with server.client() as client:
        client.rows(f"BEGIN; SET LOCAL sfumato.epsilon = '1/2'; DECLARE c CURSOR WITH HOLD FOR {asked}; COMMIT")
        assert len(client.rows("FETCH c")) == 1
    assert server.spent() - before == pytest.approx(0.5)


def _expected(position: int, way: str, count: int) -> tuple[list[int], int]:
    """Move over the rows 1 to 5 as the PostgreSQL manual says; 0 is before the first and 6 after the last."""
    if way in ("FORWARD", "BACKWARD"):
        step = 1 if (way == "FORWARD") == (count > 0) else -1
        passed = []
        if count == 0:
            return ([position] if 1 <= position <= 5 else []), position
        for _ in range(abs(count)):
            position = min(6, max(0, position + step))
            passed += [position] if 1 <= position <= 5 else []
        return passed, position
    target = position + count if way == "RELATIVE" else count if count >= 0 else 6 + count
    target = min(6, max(0, target))
    return ([target] if 1 <= target <= 5 else []), target


def test_every_direction_from_every_place_is_postgresqls(server: Served) -> None:
    ways = list(product(("FORWARD", "BACKWARD", "ABSOLUTE", "RELATIVE"), (-7, -2, -1, 0, 1, 2, 5, 7)))
    numbers = "SELECT id FROM staff WHERE id BETWEEN 1 AND 5 ORDER BY id"
    with server.client() as client:
        client.rows(f"DECLARE c SCROLL CURSOR WITH HOLD FOR {numbers}")
        for start, (way, count) in product(range(7), ways):
            shown, end = _expected(start, way, count)
            client.rows(f"MOVE ABSOLUTE {start} IN c")
            assert ids(client, f"FETCH {way} {count} FROM c") == [str(row) for row in shown], (start, way, count)
            assert ids(client, "FETCH RELATIVE 0 FROM c") == ([str(end)] if 1 <= end <= 5 else [])
            client.rows(f"MOVE ABSOLUTE {start} IN c")
            assert tags(client.query(f"MOVE {way} {count} FROM c")) == [f"MOVE {len(shown)}"]
        client.rows("MOVE FIRST c")
        words = {"NEXT": ["2"], "PRIOR": ["1"], "LAST": ["5"], "FIRST": ["1"], "2": ["2", "3"], "-1": ["2"]}
        for word, rows in words.items():
            assert ids(client, f"FETCH {word} FROM c") == rows, word
        assert ids(client, "FETCH c") == ["3"]
        assert ids(client, "FETCH ALL IN c") == ["4", "5"]
        assert ids(client, "FETCH BACKWARD 2 c") == ["5", "4"]


def test_cursors_end_with_their_transaction_unless_they_are_held(server: Served) -> None:
    with server.client() as client:
        assert client.state(f"DECLARE c CURSOR FOR {IDS}") == "25P01"
        client.rows(f"BEGIN; DECLARE c CURSOR FOR {IDS}; DECLARE h CURSOR WITH HOLD FOR {IDS}; COMMIT")
        assert client.state("FETCH c") == "34000"
        assert ids(client, "FETCH h") == ["0"]
        client.rows(f"BEGIN; DECLARE h2 CURSOR WITH HOLD FOR {IDS}; ROLLBACK")
        assert client.state("FETCH h2") == "34000"
        assert ids(client, "FETCH h") == ["1"]
        assert client.state(f"DECLARE h3 CURSOR WITH HOLD FOR {IDS}; FETCH nothing") == "34000"
        assert client.state("FETCH h3") == "34000"
        client.rows(f"BEGIN; DECLARE a CURSOR FOR {IDS}; SAVEPOINT s; DECLARE b CURSOR FOR {IDS}; ROLLBACK TO s")
        assert ids(client, "FETCH a") == ["0"]
        assert client.state("FETCH b") == "34000"
        client.rows("ROLLBACK")
        assert tags(client.query("CLOSE ALL")) == ["CLOSE CURSOR ALL"]
        assert client.state("FETCH h") == "34000"


def test_what_a_cursor_cannot_do_is_an_error_of_postgresql(server: Served) -> None:
    with server.client() as client:
        client.rows(f"DECLARE c NO SCROLL CURSOR WITH HOLD FOR {IDS}")
        assert client.state(f"DECLARE c CURSOR WITH HOLD FOR {IDS}") == "42P03"
        assert client.state("FETCH BACKWARD 1 FROM c") == "55000"
        assert client.state("FETCH 99999999999 FROM c") == "42601"
        assert client.state("FETCH 3000000000 FROM c") == "22003"
        assert client.state("DECLARE d CURSOR WITH HOLD FOR DELETE FROM staff") == "0A000"
        client.rows("DECLARE raw CURSOR WITH HOLD FOR SELECT * FROM visits")
        assert client.state("FETCH raw") == "42501"
        refused = errors(client.query("DECLARE d CURSOR WITH HOLD FOR SELECT missing FROM staff"))[0]
        assert refused["P"] == str("DECLARE d CURSOR WITH HOLD FOR SELECT missing".index("missing") + 1)
        for number in range(98):
            client.rows(f"DECLARE c{number} CURSOR WITH HOLD FOR {IDS}")
        assert client.state(f"DECLARE more CURSOR WITH HOLD FOR {IDS}") == "54000"
        client.rows("DISCARD ALL")
        assert client.state("FETCH c") == "34000"


def test_cursors_by_the_extended_protocol(server: Served) -> None:
    with server.client() as client:
        declared = parse("DECLARE c CURSOR FOR SELECT id, name FROM staff WHERE id > $1 ORDER BY id")
        client.send(message(b"Q", text("BEGIN"))).until(b"Z")
        client.send(declared, bind((b"2",)), execute(), describe(b"P", "c"), SYNC)
        found = client.until(b"Z")
        raised(found)
        assert kinds(found) == "12CTZ"
        assert columns(found[3][1]) == [("id", 20, 0), ("name", 25, 0)]
        client.send(parse("FETCH FORWARD 2 FROM c"), bind(results=(1,)), describe(), execute(), SYNC)
        found = client.until(b"Z")
        assert kinds(found) == "12TDDCZ"
        assert [raw_cells(body)[0] for kind, body in found if kind == b"D"] == [struct.pack(">q", id) for id in (3, 4)]
        client.send(bind(portal="c"), SYNC)
        assert errors(client.until(b"Z"))[0]["C"] == "42P03"
        client.rows("ROLLBACK")


def test_a_binary_cursor_leaves_in_binary(server: Served) -> None:
    with server.client() as client:
        found = client.query(f"BEGIN; DECLARE c BINARY CURSOR FOR {IDS}; FETCH 2 c; COMMIT")
        described, *rows = [body for kind, body in found if kind in (b"T", b"D")]
        assert columns(described) == [("id", 20, 1)]
        assert [raw_cells(row)[0] for row in rows] == [struct.pack(">q", 0), struct.pack(">q", 1)]


def test_the_memory_of_cursors_is_counted_and_given_back(server: Served) -> None:
    assert eventually(lambda: server.listener.wire.memory.of("research") == 0)  # the sessions before it are gone
    with server.client() as client:
        held = server.listener.wire.memory.of("research")
        client.rows("DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 1000)")
        before = server.listener.wire.memory.of("research")
        assert before > held
        assert len(client.rows("FETCH 10 c")) == 10
        assert server.listener.wire.memory.of("research") - before > 1000 * 32
        client.rows("CLOSE c")
        assert server.listener.wire.memory.of("research") == held
        assert [cells(body) for kind, body in client.query("SELECT 1") if kind == b"D"] == [("1",)]
