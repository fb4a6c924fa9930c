"""Drivers and tools that read by cursor or by COPY, for real or by the statements that they were recorded to send."""

import asyncio
import io
import shutil
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psycopg
import psycopg2
import pytest
import sqlalchemy
from tests.server.wire.served import BY_DEPT, PRICE, Served, raised, served, tags
from tests.server.wire.test_clients import psql

STAFF = "SELECT id, name FROM staff ORDER BY id"
OPTIONS = "-c sfumato.epsilon=1"
RECORDED = {
    "Tableau": ['declare "SQL_CUR1" cursor with hold for {};fetch 2048 in "SQL_CUR1"', 'close "SQL_CUR1"'],
    "psqlODBC": ['BEGIN;declare "SQL_CUR2" cursor for {};fetch 100 in "SQL_CUR2"', 'close "SQL_CUR2";COMMIT'],
    "psql FETCH_COUNT": [
        "BEGIN",
        "DECLARE _psql_cursor NO SCROLL CURSOR FOR\n{}",
        "FETCH FORWARD 2 FROM _psql_cursor",
        "FETCH FORWARD 2 FROM _psql_cursor",
        "CLOSE _psql_cursor",
        "COMMIT",
    ],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Path(tmp_path_factory.mktemp("clients"))) as made:
        yield made


@pytest.mark.parametrize("tool", RECORDED)
def test_recorded_statements_cost_one_question(server: Served, tool: str) -> None:
    asked = BY_DEPT.replace("GROUP", f"WHERE age < {70 + list(RECORDED).index(tool)} GROUP")
    before, rows = server.spent(), 0
    with server.client(pairs=PRICE) as client:
        for statement in RECORDED[tool]:
            found = client.query(statement.format(asked))
            raised(found)
            rows += sum(int(tag.split()[1]) for tag in tags(found) if tag.startswith("FETCH"))
    assert rows == 3
    assert server.spent() - before == pytest.approx(1)


def test_named_cursors_of_psycopg_2_and_3(server: Served) -> None:
    with psycopg2.connect(server.dsn) as old, old.cursor("named") as cursor:
        cursor.itersize = 2
        cursor.execute(STAFF)
        assert [row[0] for row in cursor] == list(range(9))
    with psycopg.connect(server.dsn) as new:
        with new.cursor("named", binary=True) as server_cursor:
            server_cursor.execute("SELECT id FROM staff WHERE id > %s ORDER BY id", (2,))
            assert server_cursor.fetchmany(2) == [(3,), (4,)]
            assert server_cursor.fetchall() == [(5,), (6,), (7,), (8,)]
        with new.cursor("scrolled", scrollable=True) as server_cursor:
            server_cursor.execute(STAFF)
            server_cursor.scroll(4)
            assert server_cursor.fetchone() == (4, "Name 4")
            server_cursor.scroll(0, mode="absolute")
            assert server_cursor.fetchone() == (0, "Name 0")


@pytest.mark.parametrize("driver", ["psycopg2", "psycopg"])
def test_sqlalchemy_streams_results(server: Served, driver: str) -> None:
    engine = sqlalchemy.create_engine(f"postgresql+{driver}:{server.url}", connect_args={"options": OPTIONS})
    with engine.connect().execution_options(stream_results=True, max_row_buffer=2) as connection:
        assert len(connection.execute(sqlalchemy.text(BY_DEPT)).fetchall()) == 3
    engine.dispose()


def test_copy_of_psycopg_2_and_asyncpg(server: Served) -> None:
    out = io.StringIO()
    with psycopg2.connect(server.dsn) as connection, connection.cursor() as cursor:
        cursor.copy_expert(f"COPY ({STAFF}) TO STDOUT WITH CSV HEADER", out)
    assert out.getvalue().splitlines()[:2] == ["id,name", "0,Name 0"]

    async def copied() -> bytes:
        connection = await asyncpg.connect(f"postgresql:{server.url}")
        data = io.BytesIO()
        assert await connection.copy_from_query(STAFF, output=data, format="csv") == "COPY 9"
        assert await connection.copy_from_table("staff", columns=["id"], output=data) == "COPY 9"
        async with connection.transaction():
            assert len([row async for row in connection.cursor(STAFF, prefetch=4)]) == 9
        await connection.close()
        return data.getvalue()

    assert asyncio.run(copied()).startswith(b"0,Name 0\n1,Name 1\n")


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_psql_copies_and_fetches_in_portions(server: Served, tmp_path: Path) -> None:
    file = tmp_path / "staff.csv"
    done = psql(server, rf"\copy ({STAFF}) TO '{file}' CSV HEADER", r"\set FETCH_COUNT 2", f"{STAFF};")
    assert done.returncode == 0, done.stderr
    assert file.read_text().splitlines()[:2] == ["id,name", "0,Name 0"]
    assert "8 | Name 8" in done.stdout
