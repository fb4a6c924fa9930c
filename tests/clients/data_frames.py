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

    def jupysql() -> Any:
        shell = import_module("IPython.core.interactiveshell").InteractiveShell.instance()
        shell.run_line_magic("load_ext", "sql")
        shell.run_line_magic("sql", f"postgresql+psycopg2:{address}?options=-csfumato.epsilon%3D1")
        return len(shell.run_cell_magic("sql", "", BY_DEPT))

    def django() -> Any:
        library = import_module("django")
        database = {
            "ENGINE": "django.db.backends.postgresql", "HOST": parts.hostname, "PORT": parts.port,
            "USER": parts.username, "PASSWORD": parts.password, "NAME": parts.path[1:], "OPTIONS": {"options": PRICE},
        }  # fmt: skip
        import_module("django.conf").settings.configure(DATABASES={"default": database}, USE_TZ=True)
        library.setup()
        models = import_module("django.db.models")
        meta = type("Meta", (), {"app_label": "clinic", "db_table": "visits", "managed": False})
        fields = {"dept": models.TextField(primary_key=True), "cost": models.FloatField()}
        visits = type("Visit", (models.Model,), {"__module__": __name__, "Meta": meta, **fields})
        found: Any = visits
        counted = found.objects.values("dept").annotate(n=models.Count("*"), mean=models.Avg("cost")).order_by("dept")
        return len(list(counted)), import_module("django.db").connection.introspection.table_names()[:2]

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
        "psqlODBC": lambda: odbc(BY_DEPT),
        "psqlODBC, UseDeclareFetch": lambda: odbc(BY_DEPT, fetch=2),
        "psqlODBC, parameters": lambda: odbc("SELECT id FROM staff WHERE id IN (?,?)", 1, 2),
        "psqlODBC, metadata": odbc_columns,
        "JupySQL": jupysql,
        "Django": django,
    }


if __name__ == "__main__":
    failed = False
    for name, ask in clients(sys.argv[1]).items():
        try:
            print(f"{name}: {ask()}")
        except ModuleNotFoundError as error:
            print(f"{name}: not installed ({error.name})")
        except Exception as error:
            failed = True
            print(f"{name}: FAILED {type(error).__name__}: {str(error)[:300]}")
    sys.exit(int(failed))
