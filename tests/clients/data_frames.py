"""Data frames over the wire protocol: run by the Python of `tests.clients.matrix`, which has these libraries.

Arguments: an address without its scheme, as in //user:password@host:port/database. It prints one line per client.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

BY_DEPT = "SELECT dept, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY dept ORDER BY dept"
STAFF = "SELECT id, name, salary, since, active FROM staff ORDER BY id"
PRICE = "-c sfumato.epsilon=1"


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

    return {
        "polars": lambda: polars(BY_DEPT, "connectorx"),
        "polars by ADBC": lambda: polars(BY_DEPT, "adbc"),
        "connectorx binary": lambda: connectorx("binary"),
        "connectorx csv": lambda: connectorx("csv"),
        "connectorx cursor": lambda: connectorx("cursor"),
        "ADBC": adbc,
        "ibis": ibis_group,
        "ibis to Arrow": lambda: ibis().table("staff").select("id", "name").to_pyarrow().shape,
        "dask": dask,
        "SQLAlchemy stream_results, psycopg2": lambda: stream("psycopg2"),
        "SQLAlchemy stream_results, psycopg": lambda: stream("psycopg"),
    }


if __name__ == "__main__":
    failed = False
    for name, ask in clients(sys.argv[1]).items():
        try:
            print(f"{name}: {ask()}")
        except Exception as error:
            failed = True
            print(f"{name}: FAILED {type(error).__name__}: {str(error)[:300]}")
    sys.exit(int(failed))
