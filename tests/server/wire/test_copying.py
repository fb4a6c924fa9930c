"""COPY (SELECT …) TO STDOUT: text, CSV and binary, charged as the question is."""

import csv
import io
import struct
from pathlib import Path

import psycopg
import pytest
from tests.server.wire.served import (
    BY_DEPT,
    PRICE,
    SYNC,
    Message,
    Served,
    bind,
    describe,
    errors,
    execute,
    kinds,
    message,
    parse,
    served,
    tags,
    text,
)

from sfumato.server.connections import Connections
from sfumato.server.wire import outgoing
from sfumato.server.wire.copy_statements import CopyFormat, read_copy
from sfumato.server.wire.copying import copy_rows
from sfumato.server.wire.oids import INT8, TEXT, Column

STAFF = "SELECT id, name, active FROM staff ORDER BY id LIMIT 2"
FIRST = "SELECT id, name FROM staff ORDER BY id LIMIT 1"


def copied(found: list[Message]) -> bytes:
    return b"".join(body for kind, body in found if kind == b"d")


def test_rows_leave_as_text_csv_and_binary(server: Served) -> None:
    with server.client() as client:
        found = client.query(f"COPY ({STAFF}) TO STDOUT")
        assert kinds(found) == "HddcCZ"
        assert found[0][1] == struct.pack(">bHhhh", 0, 3, 0, 0, 0)
        assert copied(found) == b"0\tName 0\tt\n1\tName 1\tf\n"
        assert tags(found) == ["COPY 2"]
        found = client.query(f"COPY ({STAFF}) TO STDOUT WITH (FORMAT csv, HEADER)")
        assert copied(found) == b"id,name,active\n0,Name 0,t\n1,Name 1,f\n"
        for spelled in ("WITH (FORMAT binary)", "WITH BINARY", "(FORMAT BINARY)", "BINARY"):
            found = client.query(f"COPY ({STAFF}) TO STDOUT {spelled}")
            assert found[0][1] == struct.pack(">bHhhh", 1, 3, 1, 1, 1)
            data = copied(found)
            assert data.startswith(b"PGCOPY\n\xff\r\n\x00" + bytes(8) + struct.pack(">hiq", 3, 8, 0))
            assert data.endswith(b"\xff\xff")
        empty = client.query("COPY (SELECT id FROM staff WHERE id < 0) TO STDOUT BINARY")
        assert copied(empty) == b"PGCOPY\n\xff\r\n\x00" + bytes(8) + b"\xff\xff"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", b"0\tName 0\n"),
        ("csv header", b"id,name\n0,Name 0\n"),
        ("WITH CSV HEADER DELIMITER AS ';'", b"id;name\n0;Name 0\n"),
        ("WITH (FORMAT csv, DELIMITER E'\\t', HEADER true)", b"id\tname\n0\tName 0\n"),
        ("WITH (FORMAT 'csv', FORCE_QUOTE *)", b'"0","Name 0"\n'),
        ("WITH (FORMAT csv, FORCE_QUOTE (name), QUOTE '''')", b"0,'Name 0'\n"),
        ("CSV FORCE QUOTE name", b'0,"Name 0"\n'),
        ("(DELIMITER '|', HEADER on, ENCODING 'utf-8')", b"id|name\n0|Name 0\n"),
    ],
)
def test_options_in_both_of_postgresqls_forms(server: Served, options: str, expected: bytes) -> None:
    with server.client() as client:
        assert copied(client.query(f"COPY ({FIRST}) TO STDOUT {options}")) == expected


VALUES = ["", "NULL", "\\N", "a,b", 'say "x"', "line\nbreak", "tab\there", "back\\slash", "\\.", "é\r", None, "\v\b\f"]


@pytest.mark.parametrize("null", ["", "NULL", "-"])
def test_a_csv_reader_gets_every_value_back(null: str) -> None:
    columns = (Column("a", TEXT), Column("b", INT8))
    form = CopyFormat("csv", delimiter=",", null=null)
    rows = [(value, number) for number, value in enumerate(VALUES)]
    data = b"".join(frame[5:] for frame in copy_rows(rows, columns, form)).decode()
    read = list(csv.reader(io.StringIO(data, newline="")))
    assert [row[0] for row in read] == [null if value is None else value for value in VALUES]
    texts = dict(zip(VALUES, data.replace("line\nbreak", "line break").splitlines(), strict=False))
    assert not texts[""].startswith('"') or null == ""  # the empty text is told from NULL by its quotes
    assert texts[null].startswith(f'"{null}"') if null in VALUES else True


def test_a_text_reader_gets_every_value_back() -> None:
    escapes = {"\\\\": "\\", "\\b": "\b", "\\f": "\f", "\\n": "\n", "\\r": "\r", "\\t": "\t", "\\v": "\v"}

    def read(cell: str) -> str | None:
        if cell == "\\N":
            return None
        found, at = "", 0
        while at < len(cell):
            step = 2 if cell[at] == "\\" else 1
            found += escapes[cell[at : at + 2]] if step == 2 else cell[at]
            at += step
        return found

    frames = copy_rows([(value, 1) for value in VALUES], (Column("a", TEXT), Column("b", INT8)), CopyFormat())
    lines = b"".join(frame[5:] for frame in frames).decode().split("\n")[:-1]
    assert [read(line.split("\t")[0]) for line in lines] == VALUES


def test_a_copy_is_charged_as_its_question_and_never_twice(server: Served) -> None:
    before, asked = server.spent(), BY_DEPT.replace("GROUP", "WHERE age < 64 GROUP")
    with server.client(pairs=PRICE) as client:
        rows = client.rows(asked)
        text = copied(client.query(f"COPY ({asked}) TO STDOUT"))
        assert text.decode() == "".join("\t".join(str(cell) for cell in row) + "\n" for row in rows)
        client.query(f"COPY ({asked}) TO STDOUT (FORMAT binary)")
        assert server.spent() - before == pytest.approx(1)
        assert client.state("COPY visits TO STDOUT") == "42501"
        assert client.state("COPY visits (age, cost) TO STDOUT") == "42501"
        assert client.state("COPY (SELECT age FROM visits) TO STDOUT") == "42501"
    assert server.spent() - before == pytest.approx(1)


def test_a_public_table_is_copied_whole_or_by_columns(server: Served) -> None:
    with server.client() as client:
        assert tags(client.query("COPY staff TO STDOUT")) == ["COPY 9"]
        assert copied(client.query("COPY public.staff (name, id) TO STDOUT")).startswith(b"Name 0\t0\n")


def test_a_copy_by_the_extended_protocol_takes_values(server: Served) -> None:
    with server.client() as client:
        sql = "COPY (SELECT name FROM staff WHERE id = $1) TO STDOUT"
        found = client.send(parse(sql), bind((b"3",)), describe(), execute(), SYNC).until(b"Z")
        assert kinds(found) == "12nHdcCZ"
        assert copied(found) == b"Name 3\n"
    with psycopg.connect(server.dsn) as connection, connection.cursor() as cursor:
        with cursor.copy("COPY (SELECT id, name FROM staff WHERE id < %s ORDER BY id) TO STDOUT", (3,)) as copy:
            copy.set_types(["int8", "text"])
            assert list(copy.rows()) == [(id, f"Name {id}") for id in range(3)]
        with cursor.copy("COPY (SELECT since, salary FROM staff WHERE id = 1) TO STDOUT (FORMAT BINARY)") as copy:
            copy.set_types(["date", "float8"])
            ((since, salary),) = copy.rows()
            assert (since.isoformat(), salary) == ("2020-02-02", 1.5)


@pytest.mark.parametrize(
    ("sql", "state"),
    [
        ("COPY staff FROM STDIN", "0A000"),
        ("COPY staff TO '/tmp/file'", "0A000"),
        ("COPY staff TO PROGRAM 'cat'", "0A000"),
        ("COPY (DELETE FROM staff) TO STDOUT", "0A000"),
        ("COPY (SELECT 1 TO STDOUT", "42601"),
        ("COPY (SELECT 1) TO STDOUT (FORMAT parquet)", "22023"),
        ("COPY (SELECT 1) TO STDOUT (FORMAT binary, HEADER)", "42601"),
        ("COPY (SELECT 1) TO STDOUT (QUOTE '#')", "0A000"),
        ("COPY (SELECT 1) TO STDOUT (FORMAT csv, DELIMITER 'ab')", "0A000"),
        ("COPY (SELECT 1) TO STDOUT (FORMAT csv, DELIMITER '\"')", "22023"),
        ("COPY (SELECT 1) TO STDOUT (DELIMITER 'a')", "22023"),
        ("COPY (SELECT 1) TO STDOUT (ENCODING 'latin1')", "22023"),
        ("COPY (SELECT 1) TO STDOUT (NONSENSE)", "42601"),
        ("COPY (SELECT 1) TO STDOUT (,)", "42601"),
        ("COPY (SELECT 1) TO STDOUT (", "42601"),
        ("COPY (SELECT 1) TO STDOUT ;;; DELIMITER", "42601"),
    ],
)
def test_what_copy_cannot_do_is_an_error_without_data(server: Served, sql: str, state: str) -> None:
    with server.client() as client:
        assert errors(client.query(sql))[0]["C"] == state
        assert client.rows("SELECT 1") == [("1",)]


def test_the_question_of_a_copy_ends_at_its_own_bracket() -> None:
    made = read_copy("COPY ( SELECT ')' /* ) */ AS \")\" FROM (SELECT 1) x ) TO STDOUT")
    assert made is not None
    assert made.sql == "SELECT ')' /* ) */ AS \")\" FROM (SELECT 1) x "
    assert made.offset == 7


LONG = "SELECT g, '" + "x" * 700 + "' AS t FROM generate_series(1, 20000) AS s(g)"
"""About 14 MB: more than the buffers of both ends hold."""


@pytest.mark.parametrize("sql", [f"COPY ({LONG}) TO STDOUT", f"COPY ({LONG}) TO STDOUT (FORMAT binary)", LONG])
def test_a_client_that_does_not_read_blocks_nobody_and_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    monkeypatch.setattr(outgoing, "SECONDS_TO_WRITE", 0.2)
    connections = Connections()
    with served(tmp_path, connections=connections) as server, server.client() as client:
        with server.client() as silent:
            silent.send(message(b"Q", text(sql)))
            while connections.open > 1:  # until the server has let it go; meanwhile others are answered
                assert client.rows("SELECT 1") == [("1",)]
            with pytest.raises((EOFError, OSError)):
                silent.until(b"Z")
        assert server.listener.wire.memory.total == 0
        assert client.rows("SELECT 1") == [("1",)]
