"""The catalogue: as PostgreSQL itself answers, the same on neighbours, and bounded whatever is asked."""

import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.ledger.postgres import binaries
from tests.ledger.postgres import server as native
from tests.server.wire.fuzzing import resident
from tests.server.wire.served import PRICE, Served, served

LONG = "x" * 60_000
TABLES = """
CREATE TABLE visits (patient_id bigint, age bigint, dept text, cost double precision, day date);
CREATE TABLE staff (id bigint, name text, dept text, salary float8, since date, seen timestamp, active boolean);
"""
QUESTIONS = [
    "SELECT relname, relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname = 'public'",
    "SELECT tablename FROM pg_tables WHERE schemaname = 'public'",
    "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'public'",
    "SELECT table_name, column_name, ordinal_position, is_nullable, data_type, udt_name, numeric_precision, "
    "numeric_scale FROM information_schema.columns WHERE table_schema = 'public'",
    "SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attnum FROM pg_attribute a "
    "WHERE a.attrelid = 'visits'::regclass AND a.attnum > 0 AND NOT a.attisdropped",
    "SELECT a.attname, t.typname, t.typlen, t.typtype FROM pg_catalog.pg_attribute a LEFT JOIN pg_type t "
    "ON t.oid = a.atttypid WHERE a.attrelid = 'public.staff'::regclass AND attnum > 0",
    "SELECT typname, typlen, typtype, typcategory, typelem, typarray, typdelim FROM pg_type WHERE oid < 2000 "
    "AND typtype = 'b' AND typrelid = 0 AND typname NOT LIKE '\\_pg%'",
    "SELECT c.relname, COUNT(*), MAX(attnum), array_agg(a.attname ORDER BY a.attnum DESC) FROM pg_class c, "
    "pg_attribute a WHERE a.attrelid = c.oid AND c.relnamespace = 'public'::regnamespace AND a.attnum > 0 "
    "GROUP BY c.relname HAVING COUNT(*) > 1",
    "SELECT 'visits'::regclass::text, to_regclass('nowhere') IS NULL, to_regtype('int8')::text, 25::regtype::text",
    "SELECT EXISTS (SELECT 1 FROM pg_class WHERE relname = 'visits'), (SELECT 2), ARRAY(SELECT 1 UNION SELECT 2)",
    "SELECT relname ~ '^(vis|sta)', relname ~* 'VIS', relname !~ 's$', relname LIKE 'v%', relname ILIKE 'V_S%' "
    "FROM pg_class WHERE relname IN ('visits', 'staff')",
    "SELECT CASE relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' ELSE 'other' END AS kind FROM pg_class "
    "WHERE relname = ANY (ARRAY['visits', 'pg_views'])",
    "SELECT row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attname) AS n, a.attname FROM pg_attribute a "
    "WHERE a.attrelid = 'staff'::regclass AND attnum > 0 ORDER BY 1",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT n FROM t",
    "SELECT * FROM unnest(ARRAY['a', 'b']) WITH ORDINALITY AS t(x, n)",
    "SELECT g, s.typname FROM generate_series(1, 2) g LEFT JOIN LATERAL (SELECT typname FROM pg_type WHERE oid = "
    "15 + g) s ON true",
    "SELECT COALESCE(NULL, 'x'), NULLIF(1, 1), GREATEST(1, 3, 2), LEAST(2, 1), NULL IS NULL, 1 IS DISTINCT FROM NULL",
    "SELECT length('abc'), upper('a'), substring('hello' from 2 for 3), position('l' in 'hello'), 'a' || 'b' || 1, "
    "quote_ident('A b'), split_part('a.b', '.', 2), array_to_string(ARRAY['a', NULL, 'c'], ',', '?'), btrim(' a ') "
    "FROM pg_namespace WHERE nspname = 'public'",
    "SELECT 7 / 2, -7 / 2, 7 % 4, 2 * 3 + 1, 5 & 4, 1 = 1 AND NULL, NOT NULL::boolean, 3 BETWEEN 1 AND 5 FROM pg_am "
    "WHERE amname = 'heap'",
    "SELECT DISTINCT ON (relkind) relkind FROM pg_class WHERE relname IN ('visits', 'staff', 'tables') ORDER BY 1",
    "SELECT n.nspname FROM pg_namespace n FULL JOIN (VALUES ('public'), ('none')) v(x) ON v.x = n.nspname "
    "WHERE v.x IS NOT NULL",
    "SELECT nspname FROM pg_namespace WHERE nspname IN ('public', 'pg_catalog') ORDER BY nspname DESC LIMIT 1 OFFSET 1",
    "SELECT conname FROM pg_constraint WHERE conrelid = 'visits'::regclass UNION ALL SELECT 'x' ORDER BY 1",
    "SELECT indexrelid FROM pg_index WHERE indrelid = 'visits'::regclass",
    "SELECT pg_encoding_to_char(encoding), datallowconn FROM pg_database WHERE datname = current_database()",
    "SELECT has_table_privilege('visits', 'SELECT'), pg_table_is_visible('visits'::regclass), current_schema()",
    "SELECT has_any_column_privilege('visits', 'SELECT')",
    "SELECT has_column_privilege('visits', 'dept', 'SELECT')",
    "SELECT relhasindex, relchecks, relpersistence, reltuples, relpages FROM pg_class WHERE relname = 'visits'",
    "SELECT a.amname, a.* FROM pg_am a WHERE amname = 'heap' AND a.tableoid = 'pg_am'::regclass AND false",
    "SELECT typname, typinput = 'array_in'::regproc, proname FROM pg_type t LEFT JOIN pg_proc p ON p.oid = typreceive "
    "AND p.proname = 'array_recv' WHERE t.typname IN ('int8', '_int8', '_text')",
    "SELECT string_agg(nspname, ', ' ORDER BY nspname) FROM pg_namespace WHERE nspname !~ '^pg_t'",
    "SELECT column_name, character_maximum_length, interval_precision FROM information_schema.columns "
    "WHERE table_name = 'staff'",
    """SELECT parse_ident('Public."Vis its"'), n FROM unnest(parse_ident('a.b')) WITH ORDINALITY AS t(part, n)""",
    "SELECT a.attname, d.adnum, n.nspname FROM ((pg_namespace n JOIN pg_class c ON n.oid = c.relnamespace) JOIN "
    "pg_attribute a ON a.attrelid = c.oid) LEFT JOIN pg_attrdef d ON a.atthasdef AND d.adrelid = a.attrelid "
    "WHERE c.relname = 'visits' AND a.attnum > 0 ORDER BY a.attnum",
    "SELECT c.relname, s.attname FROM pg_class c CROSS JOIN LATERAL (SELECT attname, attnum FROM pg_attribute WHERE "
    "attrelid = c.oid AND attnum > 0 ORDER BY attname LIMIT 2) s WHERE c.relname IN ('visits', 'staff') ORDER BY 1, 2",
]


@pytest.fixture(scope="module")
def oracle() -> Iterator[psycopg.Connection]:
    folder = binaries()
    if folder is None:
        pytest.skip("PostgreSQL is not installed")
    with native(folder) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLES)
        yield connection


@pytest.fixture
def connection(server: Served) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn, autocommit=True) as made:
        yield made


@pytest.mark.parametrize("sql", QUESTIONS, ids=lambda sql: sql[:60])
def test_the_catalogue_answers_as_postgresql_does(
    sql: str, oracle: psycopg.Connection, connection: psycopg.Connection
) -> None:
    expected, found = oracle.execute(sql), connection.execute(sql)
    assert [column.name for column in found.description or ()] == [column.name for column in expected.description or ()]
    if "ORDER BY" in sql:
        assert found.fetchall() == expected.fetchall()
    else:
        assert sorted(found.fetchall(), key=str) == sorted(expected.fetchall(), key=str)


@pytest.mark.parametrize(
    ("sql", "state"),
    [
        ("SELECT nothing FROM pg_class", "42703"),
        ("SELECT * FROM pg_catalog.nothing", "42P01"),
        ("SELECT 'nowhere'::regclass", "42P01"),
        ("SELECT pg_nothing()", "42883"),
        ("SELECT oid FROM pg_class, pg_type", "42702"),
        ("SELECT 'x'::int FROM pg_class", "22P02"),
        ("SELECT (SELECT oid FROM pg_class)", "21000"),
        ("SELECT * FROM pg_class JOIN visits ON true", "0A000"),
        ("SELECT relname FROM pg_class ORDER BY 9", "42P10"),
        ("SELECT 1 FROM pg_class UNION SELECT 1, 2", "42601"),
    ],
)
def test_what_is_wrong_has_a_state(sql: str, state: str, connection: psycopg.Connection) -> None:
    with pytest.raises(psycopg.Error) as refused:
        connection.execute(sql)
    assert refused.value.sqlstate == state


WALL = "SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_type c, pg_type d, pg_type e"

WALL_ROWS = "FROM pg_class c, pg_class d, pg_class e"
WIDE_TEXTS = ", ".join(f"'{chr(97 + at % 26) * 60}' AS k{at}" for at in range(200))
WITHS = ", ".join(
    f"w{at} AS (SELECT a.oid FROM {before} a, {before} b)"  # noqa: S608
    for at, before in enumerate(["pg_class", *(f"w{at}" for at in range(59))])
)
STORED = [
    f"SELECT {WIDE_TEXTS} {WALL_ROWS} ORDER BY c.oid, d.oid",
    f"SELECT count(*) FROM (SELECT DISTINCT c.oid, d.oid AS o, e.oid AS p, {WIDE_TEXTS} {WALL_ROWS}) t",  # noqa: S608
    f"SELECT count(*) FROM (SELECT DISTINCT c.*, d.*, e.* {WALL_ROWS}) t",  # noqa: S608
    f"SELECT count(*) FROM (SELECT 1 {WALL_ROWS} GROUP BY c.relname || d.relname || e.relname) t",  # noqa: S608
    f"WITH RECURSIVE t(n, x) AS (SELECT 1, '{LONG[:9000]}' UNION SELECT n + 1, x FROM t) SELECT count(*) FROM t",  # noqa: S608
    "WITH RECURSIVE t(n, x) AS (SELECT 1, 'a' UNION SELECT n + 1, x || 'aaaaaaaa' FROM t) SELECT count(*) FROM t",
    f"WITH {WITHS} SELECT count(*) FROM w59",  # noqa: S608
    f"SELECT array_agg(c.relname) {WALL_ROWS}",
    f"SELECT max(n) FROM (SELECT row_number() OVER (PARTITION BY c.relname ORDER BY d.relname) AS n {WALL_ROWS}) t",  # noqa: S608
]
"""Queries whose rows SQLite stores: sorted, made distinct, grouped, repeated."""


@pytest.mark.parametrize(
    "sql",
    [
        WALL,
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n FROM t, pg_type) SELECT count(*) FROM t",
        "SELECT * FROM generate_series(1, 1000000000)",
        "SELECT * FROM pg_type a, pg_type b, pg_type c",
        f"SELECT ({WALL}) FROM pg_type",  # noqa: S608
        "SELECT typname ~ '(a*)*$' FROM pg_type",
        "SELECT typname ~ '^(a|aa)+$' FROM pg_type",
        "SELECT typname LIKE '" + "%a" * 200 + "' FROM pg_type",
        "SELECT x FROM "
        + "(SELECT x || x AS x FROM " * 24
        + "(SELECT amname || 'xxxxxxxx' AS x FROM pg_am) t"
        + ") t" * 24,
        "SELECT typname ~ '" + "(a|a)" * 60 + "b' FROM pg_type",
        "SELECT (SELECT string_agg('aaaaaaaaaa', '') FROM pg_type) ~ '.*a.*b' FROM pg_type",
        "SELECT repeat('a', 10) LIKE '" + "%a" * 200 + "b' FROM pg_type",
        "SELECT (SELECT string_agg('aaaaaaaaaa', '') FROM pg_type) LIKE '" + "%a" * 200 + "b' FROM pg_type",
        "SELECT replace(t, 'a', t || t) FROM (SELECT string_agg('aaaaaaaaaa', '') AS t FROM pg_type, pg_am) x, pg_am",
        "SELECT extract(__class__ FROM now()), extract(today FROM now())",
        "SELECT 9223372036854775807 * 9223372036854775807 FROM pg_am",
        "SELECT 10::numeric * " + "9" * 50 + " FROM pg_am WHERE amname = 'none'",
        "SELECT " + "(" * 50 + "1" + ")" * 50 + " FROM pg_am",
        "SELECT " + " + ".join(["oid::int"] * 500) + " FROM pg_am",  # noqa: S608
        "SELECT " + ", ".join(["pg_am.*"] * 100) + " FROM pg_am",  # noqa: S608
        "SELECT array_agg(a.oid) FROM pg_type a, pg_type b, pg_type c",
        f"SELECT count(t) FROM (SELECT g || '{LONG}' AS t FROM generate_series(1, 100000) AS s(g)) AS q",  # noqa: S608
        f"SELECT count(t) FROM (SELECT upper('{LONG}') AS t FROM generate_series(1, 100000) AS s(g)) AS q",  # noqa: S608
        "SELECT count(t) FROM (SELECT ARRAY(SELECT * FROM generate_series(1, 1000)) AS t "
        "FROM generate_series(1, 1000) AS s(g)) AS q",
        f"SELECT greatest({', '.join(['g'] * 20_000)}) FROM generate_series(1, 100000) AS s(g)",  # noqa: S608
        f"SELECT g FROM generate_series(1, 100000) AS s(g) WHERE g IN ({', '.join(['0'] * 20_000)})",  # noqa: S608
        f"SELECT split_part('{',' * 60_000}', 'x', 1), g FROM generate_series(1, 100000) AS s(g)",  # noqa: S608
        "SELECT a.l @> a.l FROM (SELECT array_agg(g) AS l FROM generate_series(1, 100000) AS s(g)) AS a",
        *STORED,
    ],
    ids=range(29 + len(STORED)),
)
def test_no_question_about_the_catalogue_takes_long_or_ends_the_session(
    sql: str, connection: psycopg.Connection
) -> None:
    begun, state, before = time.monotonic(), "", resident()
    try:
        connection.execute(sql)
    except psycopg.Error as error:
        state = error.sqlstate or "?"
    assert state in {"", "54000", "54001", "22003", "0A000", "42883", "54011"}
    assert time.monotonic() - begun < 20
    assert resident() - before < 200e6
    assert connection.execute("SELECT 1").fetchone() == (1,)


TELLING = [
    "SELECT relname, reltuples, relpages, relallvisible FROM pg_class ORDER BY 1",
    "SELECT * FROM pg_stats",
    "SELECT * FROM pg_statistic",
    "SELECT * FROM pg_stat_user_tables",
    "SELECT * FROM pg_stat_activity",
    "SELECT * FROM pg_stat_database",
    "SELECT * FROM pg_locks",
    "SELECT pg_relation_size('visits'), pg_total_relation_size('visits'), pg_database_size('clinic')",
    "SELECT * FROM pg_description ORDER BY 1, 3",
    "SELECT * FROM information_schema.columns ORDER BY 3, 5",
    "SELECT * FROM pg_roles",
    "EXPLAIN SELECT dept, COUNT(*) FROM visits GROUP BY dept",
    "SHOW ALL",
]


def test_before_any_question_everything_is_the_same_without_one_person(tmp_path: Path) -> None:
    seen = []
    for name, people in (("all", range(200)), ("fewer", range(199))):
        with served(tmp_path / name, people=people) as server, server.client(pairs=PRICE) as client:
            seen.append([client.query(sql) for sql in TELLING])
    assert seen[0] == seen[1]
