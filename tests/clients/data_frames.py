"""Drivers and data frames over the wire protocol: run by a Python of `tests.clients.matrix` that has these libraries.

Arguments: an address without its scheme, as in //user:password@host:port/database. It prints the versions, then one
line per client.
"""

import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

BY_DEPT = "SELECT dept, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY dept ORDER BY dept"
STAFF = "SELECT id, name, salary, since, active FROM staff ORDER BY id"
PRICE = "-c sfumato.epsilon=1"
LIBRARIES = (
    *("psycopg2-binary", "psycopg", "asyncpg", "pg8000", "sqlalchemy", "pandas", "polars", "connectorx"),
    *("adbc-driver-postgresql", "ibis-framework", "dask", "pyodbc"),
)


def clients(address: str) -> dict[str, Callable[[], Any]]:
    """Return what each client is asked for, as the number of rows and columns."""
    plain, priced = f"postgresql:{address}", f"postgresql:{address}?options=-csfumato.epsilon%3D1"
    parts = urlsplit(plain)

    def polars(sql: str, engine: str) -> Any:
        return import_module("polars").read_database_uri(sql, priced, engine=engine).shape

    def connectorx(protocol: str) -> Any:
        return import_module("connectorx").read_sql(plain, STAFF, protocol=protocol).shape

    def adbc() -> Any:
        driver = import_module("adbc_driver_postgresql.dbapi")
        with driver.connect(priced) as connection, connection.cursor() as cursor:
            cursor.execute(BY_DEPT)
            return cursor.fetch_arrow_table().shape

    def ibis() -> Any:
        return import_module("ibis").postgres.connect(
            host=parts.hostname, port=parts.port, user=parts.username, password=parts.password,
            database=parts.path[1:], options=PRICE,
        )  # fmt: skip

    def ibis_group() -> Any:
        visits = ibis().table("visits")
        return visits.group_by("dept").agg(n=visits.count()).to_pandas().shape

    def dask() -> Any:
        table = import_module("dask.dataframe").read_sql_table(
            "staff", f"postgresql+psycopg2:{address}", index_col="id", npartitions=2
        )
        return table.compute().shape

    def stream(driver: str) -> Any:
        library = import_module("sqlalchemy")
        engine = library.create_engine(f"postgresql+{driver}:{address}", connect_args={"options": PRICE})
        with engine.connect().execution_options(stream_results=True) as connection:
            rows = connection.execute(library.text(BY_DEPT)).fetchall()
            return len(rows), len(rows[0])

    def odbc(sql: str, *values: object, fetch: int = 0) -> Any:
        words = {
            "Driver": "{PostgreSQL Unicode}", "Server": parts.hostname, "Port": parts.port, "Uid": parts.username,
            "Pwd": parts.password, "Database": parts.path[1:], "UseDeclareFetch": int(bool(fetch)),
            "Fetch": fetch or 100, "ConnSettings": "{SET sfumato.epsilon = 1}",
        }  # fmt: skip
        connection = import_module("pyodbc").connect(";".join(f"{key}={value}" for key, value in words.items()))
        rows = connection.execute(sql, *values).fetchall()
        return len(rows), len(rows[0])

    def odbc_columns() -> Any:
        given = f"Server={parts.hostname};Port={parts.port};Uid={parts.username};Pwd={parts.password}"
        connection = import_module("pyodbc").connect(f"Driver={{PostgreSQL Unicode}};{given};Database={parts.path[1:]}")
        cursor = connection.cursor()
        return [column.column_name for column in cursor.columns(table="visits")], len(
            list(cursor.foreignKeys("visits"))
        )

    def psycopg(name: str) -> Any:
        with import_module(name).connect(plain, options=PRICE) as connection, connection.cursor() as cursor:
            cursor.execute(BY_DEPT)
            grouped = len(cursor.fetchall())
            cursor.execute("SELECT id FROM staff WHERE id = ANY(%s) AND seen < %s", ([1, 2], datetime.now(UTC)))
            return grouped, len(cursor.fetchall())

    def asyncpg() -> Any:
        async def ask() -> Any:
            connection = await import_module("asyncpg").connect(plain, server_settings={"sfumato.epsilon": "1"})
            grouped = await connection.fetch(BY_DEPT)
            listed = await connection.fetch(
                "SELECT id FROM staff WHERE id = ANY($1) AND seen < $2", [1, 2], datetime(2030, 1, 1)
            )
            await connection.close()
            return len(grouped), len(listed)

        return asyncio.run(ask())

    def pg8000() -> Any:
        connection = import_module("pg8000.native").Connection(
            parts.username, host=parts.hostname, port=parts.port, password=parts.password, database=parts.path[1:],
            startup_params={"sfumato.epsilon": "1"},
        )  # fmt: skip
        listed = connection.run("SELECT id FROM staff WHERE id IN (:a, :b)", a=1, b=2)
        return len(connection.run(BY_DEPT)), len(listed)

    def reflection() -> Any:
        library = import_module("sqlalchemy")
        engine = library.create_engine(f"postgresql+psycopg2:{address}", connect_args={"options": PRICE})
        visits = library.Table("visits", library.MetaData(), autoload_with=engine)
        with engine.connect() as connection:
            asked = library.select(visits.c.dept, library.func.count()).group_by(visits.c.dept).limit(10)
            return len(visits.columns), len(connection.execute(asked).fetchall())

    def pandas() -> Any:
        library = import_module("sqlalchemy")
        engine = library.create_engine(f"postgresql+psycopg2:{address}", connect_args={"options": PRICE})
        frames = import_module("pandas")
        chunks = list(frames.read_sql(STAFF, engine, chunksize=4))
        return frames.read_sql(BY_DEPT, engine).shape, frames.read_sql_table("staff", engine).shape, len(chunks)

    def ibis_raw() -> Any:
        with ibis().raw_sql(BY_DEPT) as cursor:
            return len(cursor.fetchall())

    def ibis_sql() -> Any:
        made = ibis().sql("SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept")
        return made.to_pandas().shape, str(made.schema()["n"])

    def ibis_sql_of_rows() -> Any:
        visits = ibis().sql("SELECT * FROM visits WHERE age >= 40")  # rows of people, which are only grouped
        return visits.group_by("dept").agg(n=visits.count(), cost=visits.cost.mean()).order_by("n").to_pandas().shape

    def ibis_sql_of_table() -> Any:
        visits = ibis().table("visits")
        asked = visits.filter(visits.age < 60).alias("young").sql("SELECT dept, COUNT(*) AS n FROM young GROUP BY dept")
        return asked.filter(asked.n > 0).to_pyarrow().shape

    def ibis_catalogue() -> Any:
        connection = ibis()
        with connection.raw_sql("CREATE TEMP VIEW by_dept AS SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"):
            pass
        names = connection.list_tables()
        table = connection.table("by_dept")
        with connection.raw_sql("DROP VIEW by_dept"):
            pass
        return sorted(names), dict(table.schema())

    return {
        "psycopg 2": lambda: psycopg("psycopg2"),
        "psycopg 3": lambda: psycopg("psycopg"),
        "asyncpg": asyncpg,
        "pg8000": pg8000,
        "SQLAlchemy, reflection": reflection,
        "pandas": pandas,
        "polars": lambda: polars(BY_DEPT, "connectorx"),
        "polars by ADBC": lambda: polars(BY_DEPT, "adbc"),
        "connectorx binary": lambda: connectorx("binary"),
        "connectorx csv": lambda: connectorx("csv"),
        "connectorx cursor": lambda: connectorx("cursor"),
        "ADBC": adbc,
        "ibis": ibis_group,
        "ibis, raw_sql": ibis_raw,
        "ibis, sql": ibis_sql,
        "ibis, sql of rows": ibis_sql_of_rows,
        "ibis, sql of a table": ibis_sql_of_table,
        "ibis, a temporary view": ibis_catalogue,
        "ibis to Arrow": lambda: ibis().table("staff").select("id", "name").to_pyarrow().shape,
        "dask": dask,
        "SQLAlchemy stream_results, psycopg2": lambda: stream("psycopg2"),
        "SQLAlchemy stream_results, psycopg": lambda: stream("psycopg"),
        "psqlODBC": lambda: odbc(BY_DEPT),
        "psqlODBC, UseDeclareFetch": lambda: odbc(BY_DEPT, fetch=2),
        "psqlODBC, parameters": lambda: odbc("SELECT id FROM staff WHERE id IN (?,?)", 1, 2),
        "psqlODBC, metadata": odbc_columns,
    }


if __name__ == "__main__":
    failed = False
    print(", ".join(f"{name} {version(name)}" for name in LIBRARIES))
    for name, ask in clients(sys.argv[1]).items():
        try:
            print(f"{name}: {ask()}")
        except ModuleNotFoundError as error:
            print(f"{name}: not installed ({error.name})")
        except Exception as error:
            failed = True
            print(f"{name}: FAILED {type(error).__name__}: {str(error)[:300]}")
    sys.exit(int(failed))
