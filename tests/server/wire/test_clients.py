"""The clients that people use, for real: psql, psycopg 2 and 3, asyncpg, pg8000, SQLAlchemy, pandas, pgjdbc."""

import asyncio
import os
import shutil
import subprocess
from datetime import date, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pandas
import pg8000.dbapi
import psycopg
import psycopg2
import pytest
import sqlalchemy
from tests.server.wire.served import BY_DEPT, COUNT, STAFF, Served

JAR = Path("/usr/share/java/postgresql.jar")
PRICED = "-c sfumato.epsilon=1"
NAME_3 = ("Name 3", 3.5, date(2020, 2, 4), datetime(2021, 3, 4, 5, 6, 3), False)
ROW = "SELECT name, salary, since, seen, active FROM staff WHERE id = "
needs_psql = pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
needs_java = pytest.mark.skipif(shutil.which("java") is None or not JAR.exists(), reason="pgjdbc is not installed")


def psql_environment(server: Served, options: str = PRICED) -> dict[str, str]:
    return {**os.environ, "PGPASSWORD": server.password, "PGOPTIONS": options, "LC_ALL": "C.UTF-8"}


def psql(server: Served, *commands: str, options: str = PRICED) -> subprocess.CompletedProcess[str]:
    script = "".join(f"{command}\n" for command in commands)
    environment = psql_environment(server, options)
    where = ["-X", "-h", server.host, "-p", str(server.port), "-U", "research", "-d", "clinic"]
    return subprocess.run(
        ["psql", *where, "-v", "ON_ERROR_STOP=1"],
        input=script,
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@needs_psql
def test_psql_lists_and_describes(server: Served) -> None:
    described = r"\dt", r"\d visits", r"\d+ staff", r"\l", r"\dn", r"\df", r"\du", r"\conninfo", r"\d", r"\dt+", r"\l+"
    more = r"\dS pg_class", r"\dv", r"\di", r"\ds", r"\dp", r"\dT", r"\z visits", r"\dn+", r"\d staff", r"\do", r"\db"
    done = psql(server, *described, *more)
    assert "ERROR" not in done.stderr, done.stderr
    assert done.returncode == 0
    assert " public | staff  | table | owner" in done.stdout
    assert " cost       | double precision |" in done.stdout
    assert "private: one patient_id is one person, of whom at most 4 rows count" in done.stdout
    assert " research  |            | {}" in done.stdout
    assert "press" not in done.stdout.replace("Compression", "")
    assert 'connected to database "clinic" as user "research"' in done.stdout


@needs_psql
def test_psql_asks_prepares_and_takes_the_time(server: Served) -> None:
    script = (r"\timing on", "PREPARE q(int) AS SELECT name FROM staff WHERE id = $1;", "EXECUTE q(3);", f"{BY_DEPT};")
    done = psql(
        server, *script, f"EXPLAIN {COUNT};", "SHOW sfumato.budget;", r"SELECT 1 AS one \gdesc", "BEGIN; COMMIT;"
    )
    assert done.stderr.startswith("NOTICE:  price: ε = 1, δ = 0; 0.1 % of the budget used; left: "), done.stderr
    assert "ERROR" not in done.stderr
    assert "Name 3" in done.stdout
    assert "price: " in done.stdout
    assert " one    | integer" in done.stdout
    assert "Time: " in done.stdout
    refused = psql(server, "SELECT age FROM visits;")
    assert refused.returncode == 3
    assert "ERROR:  " in refused.stderr
    assert "HINT:  " in refused.stderr


def test_psycopg_3_by_text_binary_prepared_and_in_a_pipeline(server: Served) -> None:
    with psycopg.connect(server.dsn, options=PRICED) as connection:
        plain = connection.execute(BY_DEPT).fetchall()
        assert connection.execute(BY_DEPT, binary=True).fetchall() == plain
        assert [type(value) for value in plain[0]] == [str, int, float]
        assert connection.execute(f"{ROW}%s", (3,)).fetchone() == NAME_3
        assert connection.execute(f"{ROW}%b", (3,), binary=True).fetchone() == NAME_3
        for number in range(7):
            row = connection.execute("SELECT id FROM staff WHERE id = %s AND name <> %s", (number, "x")).fetchone()
            assert row == (number,)
        with connection.pipeline():
            cursors = [connection.execute("SELECT name FROM staff WHERE id = %s", (number,)) for number in range(3)]
        assert [cursor.fetchone() for cursor in cursors] == [("Name 0",), ("Name 1",), ("Name 2",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege) as refused:
            connection.execute("SELECT age FROM visits")
        assert refused.value.diag.message_hint
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        with connection.transaction(), connection.transaction():
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_psycopg_2(server: Served) -> None:
    connection = psycopg2.connect(server.dsn, options=PRICED)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(BY_DEPT)
            assert [row[0] for row in cursor.fetchall()] == ["er", "icu", "surgery"]
            cursor.execute(f"{ROW}%s", (3,))
            assert cursor.fetchone() == NAME_3
            assert [column.name for column in cursor.description or ()][:2] == ["name", "salary"]
            cursor.execute(
                "SELECT id FROM staff WHERE id = ANY(%s) AND NOT name = ANY(%s) ORDER BY id", ([2, 1], ["a"])
            )
            assert cursor.fetchall() == [(1,), (2,)]
        connection.autocommit = True
        with connection.cursor() as cursor, pytest.raises(psycopg2.errors.UndefinedTable):
            cursor.execute("SELECT * FROM nowhere")
    finally:
        connection.close()


def test_asyncpg(server: Served) -> None:
    async def session() -> None:
        where = {"host": server.host, "port": server.port, "user": "research", "database": "clinic"}
        settings = {"sfumato.epsilon": "1"}
        connection: Any = await asyncpg.connect(**where, password=server.password, server_settings=settings)
        try:
            assert [row["dept"] for row in await connection.fetch(BY_DEPT)] == ["er", "icu", "surgery"]
            assert tuple(await connection.fetchrow(f"{ROW}$1", 3)) == NAME_3
            asked = await connection.prepare("SELECT COUNT(*) AS n FROM visits WHERE age > $1 AND day < $2")
            assert [one.name for one in asked.get_parameters()] == ["int8", "date"]
            assert [(one.name, one.type.name) for one in asked.get_attributes()] == [("n", "int8")]
            assert isinstance(await asked.fetchval(30, date(2024, 1, 20)), int)
            among = await connection.prepare("SELECT id FROM staff WHERE id = ANY($1) AND name <> ALL($2) ORDER BY id")
            assert [one.name for one in among.get_parameters()] == ["int8[]", "text[]"]
            assert [row["id"] for row in await among.fetch([1, 2, None], ["a"])] == [1, 2]
            assert await connection.fetchval("SELECT typname FROM pg_type WHERE oid = ANY($1::oid[])", [20]) == "int8"
            assert await connection.fetchval("SELECT current_schemas(true)") == ["pg_catalog", "public"]
            async with connection.transaction():
                found = [row["id"] async for row in connection.cursor("SELECT id FROM staff ORDER BY id", prefetch=2)]
            assert found == list(range(STAFF))
            await connection.execute("SET sfumato.intervals = on")
            assert "n_low" in dict(await connection.fetchrow(BY_DEPT))
            await connection.reset()
        finally:
            await connection.close()

    asyncio.run(session())


def test_pg8000(server: Served) -> None:
    where: dict[str, Any] = {"user": "research", "host": server.host, "port": server.port, "database": "clinic"}
    connection = pg8000.dbapi.connect(**where, password=server.password)
    try:
        cursor = connection.cursor()
        cursor.execute("SET sfumato.epsilon = '1'")
        cursor.execute(BY_DEPT)
        assert [row[0] for row in cursor.fetchall()] == ["er", "icu", "surgery"]
        cursor.execute(f"{ROW}%s", (3,))
        assert tuple(cursor.fetchone()) == NAME_3
        connection.commit()
    finally:
        connection.close()


@pytest.mark.parametrize("driver", ["psycopg2", "psycopg", "pg8000"])
def test_sqlalchemy_inspects(server: Served, driver: str) -> None:
    engine = sqlalchemy.create_engine(f"postgresql+{driver}:{server.url}")
    try:
        found: Any = sqlalchemy.inspect(engine)
        assert found.get_schema_names() == ["information_schema", "public"]
        assert (found.get_table_names(), found.get_view_names()) == (["staff", "visits"], [])
        types = {column["name"]: str(column["type"]) for column in found.get_columns("visits")}
        assert types["cost"] == "DOUBLE PRECISION"
        assert list(types) == ["patient_id", "age", "dept", "cost", "day"]
        assert found.get_pk_constraint("visits")["constrained_columns"] == []
        for empty in (found.get_foreign_keys, found.get_indexes, found.get_unique_constraints):
            assert empty("visits") == []
        assert found.get_check_constraints("visits") == []
        assert found.get_table_comment("staff") == {"text": "public: answers about it are exact and free"}
        assert (found.has_table("visits"), found.has_table("nowhere")) == (True, False)
        assert (found.get_sequence_names(), found.get_enums()) == ([], [])
        table = sqlalchemy.Table("staff", sqlalchemy.MetaData(), autoload_with=engine)
        with engine.connect() as connection:
            asked = sqlalchemy.select(table.c.name).where(table.c.id == 3)
            assert connection.execute(asked).scalar() == "Name 3"
    finally:
        engine.dispose()


def test_pandas_reads_questions_and_tables(server: Served) -> None:
    engine = sqlalchemy.create_engine(f"postgresql+psycopg2:{server.url}", connect_args={"options": PRICED})
    try:
        answer = pandas.read_sql(BY_DEPT, engine)
        assert list(answer.columns) == ["dept", "n", "cost"]
        assert str(answer["n"].dtype) == "int64"
        staff = pandas.read_sql_table("staff", engine)
        assert len(staff) == STAFF
        assert staff["salary"].sum() == sum(number + 0.5 for number in range(STAFF))
        assert len(pandas.read_sql_table("staff", engine, schema="public", columns=["id"])) == STAFF
        question = sqlalchemy.text("SELECT COUNT(*) AS n FROM visits WHERE age > :age")
        assert len(pandas.read_sql(question, engine, params={"age": 30})) == 1
    finally:
        engine.dispose()


@needs_java
def test_pgjdbc_and_its_metadata(server: Served, tmp_path: Path) -> None:
    source = Path(__file__).parent / "Meta.java"
    command = ["java", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", str(JAR), str(source)]
    done = subprocess.run(
        [*command, str(server.port), server.password], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    said = dict.fromkeys(done.stdout.splitlines())
    for line in (
        "tables staff visits",
        "all staff visits",
        "columns patient_id int8 age int8 dept text cost float8 day date",
        "schemas information_schema pg_catalog public",
        "catalogs clinic",
        "keys",
        "imported",
        "exported",
        "indexes",
        "procedures",
        "functions",
        "again true",
        "types text int8 float8",
        "dated Name 3",
        f"fetched {STAFF}",
        "refused 42501",
        "user research 63",
        "keywords true",
        "valid true public",
    ):
        assert line in said, (line, done.stdout)
    assert "again false" not in said
