"""What recorded tools needed of the catalogue and of EXPLAIN, each in its smallest form."""

# ruff: noqa: S608  (the texts are of this file)

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import psycopg
import pytest
from tests.server.wire.served import COUNT, PRICE, Served, served

WHOLE = "SELECT row_to_json(t) FROM (SELECT 1 AS a, 'x' AS \"B\", NULL AS c) t, pg_namespace LIMIT 1"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "SELECT * FROM unnest(ARRAY[1, 2, 3], ARRAY['a', 'b']) WITH ORDINALITY AS t (x, y, n)",
            [("1", "a", "1"), ("2", "b", "2"), ("3", None, "3")],
        ),
        ("SELECT * FROM unnest(ARRAY[1], NULL::int[]) AS t (x, y)", [("1", None)]),
        (
            "SELECT t.key, t.n FROM pg_namespace c, unnest(ARRAY[c.oid], ARRAY[1, 2]) WITH ORDINALITY t (key, o, n) "
            "WHERE c.nspname = 'public' AND n > 1",
            [(None, "2")],
        ),
        ("SELECT (d).grantee FROM (SELECT aclexplode(relacl) AS d FROM pg_class) a", []),
        ("SELECT a.grantee FROM pg_class c, aclexplode(c.relacl) a", []),
        ("SELECT pg_partition_ancestors('pg_class'::regclass)", []),
        ("SELECT pg_is_wal_replay_paused()", [("f",)]),
        ("SELECT 'trigger'::regtype::oid", [("2279",)]),
        (
            "SELECT format('%I.%s %L %%', nspname || ' A', 3, 'it''s') FROM pg_namespace WHERE nspname = 'public'",
            [("\"public A\".3 'it''s' %",)],
        ),
        ("SELECT format('%s|%L', NULL, NULL) FROM pg_namespace WHERE nspname = 'public'", [("|NULL",)]),
    ],
)
def test_functions_that_tools_call(server: Served, sql: str, expected: list[tuple[str | None, ...]]) -> None:
    with server.client() as client:
        assert client.rows(sql) == expected


def test_a_row_is_json(server: Served) -> None:
    with server.client() as client:
        ((text,),) = client.rows(WHOLE)
        assert json.loads(str(text)) == {"a": 1, "B": "x", "c": None}


@pytest.mark.parametrize(
    ("call", "state"), [("format('%s')", "22023"), ("format('%d', 1)", "22023"), ("format('%I', NULL)", "22004")]
)
def test_what_format_cannot_write_is_an_error(server: Served, call: str, state: str) -> None:
    with server.client() as client:
        assert client.state(f"SELECT {call} FROM pg_namespace") == state


def test_explain_comes_in_every_format_of_postgresql(server: Served) -> None:
    asked = f"{COUNT} WHERE age > 51"
    options = "ANALYZE FALSE, VERBOSE TRUE, COSTS TRUE, BUFFERS FALSE, TIMING FALSE, SUMMARY FALSE, WAL FALSE"
    with server.client(pairs=PRICE) as client:
        lines = [line for (line,) in client.rows(f"EXPLAIN {asked}")]
        ((text,),) = client.rows(f"EXPLAIN ({options}, FORMAT JSON) {asked}")
        plan = json.loads(str(text))[0]["Plan"]
        assert plan["Total Cost"] == 1
        assert plan["Output"] == lines[1:]
        ((text,),) = client.rows(f"EXPLAIN (FORMAT XML) {asked}")
        found = ElementTree.fromstring(str(text))  # noqa: S314  (it is our own)
        assert found.find(".//{*}Total-Cost").text == "1"  # type: ignore[union-attr]
        assert [item.text for item in found.iterfind(".//{*}Item")] == lines[1:]
        ((text,),) = client.rows(f"EXPLAIN (FORMAT YAML) {asked}")
        assert "    Total Cost: 1\n" in str(text)
        for refused in ("ANALYZE", "ANALYZE true", "FORMAT HTML", "NONSENSE"):
            assert client.state(f"EXPLAIN ({refused}) {asked}") == "0A000"
    with psycopg.connect(server.dsn, options="-c sfumato.epsilon=1") as connection:
        ((document,),) = connection.execute(f"EXPLAIN (FORMAT JSON) {asked}").fetchall()
        assert document[0]["Plan"]["Node Type"] == "Private Answer"  # the column has the type json


@pytest.mark.parametrize(
    "sql",
    [
        f"EXPLAIN /* dashboard 7 */ {COUNT}",
        f"EXPLAIN -- tile\n{COUNT}",
        f"COPY (/* export */ {COUNT}) TO STDOUT",
        f"BEGIN; DECLARE c CURSOR FOR /* tool */ {COUNT}; FETCH ALL c; COMMIT",
    ],
)
def test_comments_may_stand_before_a_question_inside_a_statement(server: Served, sql: str) -> None:
    with server.client(pairs=PRICE) as client:
        assert client.state(sql) == ""


def test_made_up_previews_are_shown_with_their_mark(tmp_path: Path) -> None:
    def previews(policy: Path) -> None:
        policy.write_text(policy.read_text().replace("[budget]", 'preview = "synthetic"\n\n[budget]', 1))

    with served(tmp_path, edit=previews) as server, server.client(pairs=PRICE) as client:
        rows = client.rows('SELECT * FROM "visits" LIMIT 3')  # Django's inspectdb reads columns so
        assert [len(row) for row in rows] == [6] * 3
        assert {row[-1] for row in rows} == {"t"}
        assert len(client.rows("SELECT x.* FROM public.visits x LIMIT 200")) == 100
        assert client.rows("SELECT * FROM visits WHERE 1 = 0") == []
        with psycopg.connect(server.dsn) as connection:
            found = connection.execute("SELECT age, dept FROM visits LIMIT %s", (2,), prepare=True)
            assert [column.name for column in found.description or []] == ["age", "dept", "synthetic"]
            assert len(found.fetchall()) == 2
        assert server.spent() == 0
