"""Install the clients of `tests.clients.matrix`: python -m tests.clients.environments FOLDER.

Each group gets an environment of its own, because their dependencies exclude each other. It takes some minutes, and
needs PyPI and npm. Where the newest version of a tool cannot be installed, the last one that can is named here.
"""

import subprocess
import sys
import venv
from pathlib import Path

PYTHON = {
    "frames": (
        *("psycopg2-binary", "psycopg[binary]", "asyncpg", "pg8000", "sqlalchemy", "pandas", "polars", "connectorx"),
        *("adbc-driver-postgresql", "ibis-framework[postgres]", "dask[dataframe]", "pyodbc", "pyarrow"),
        "sqlglot<30.18",  # with later ones, ibis 12.0.0 writes DROP VIEW without a name, which PostgreSQL refuses too
    ),
    "dbt": ("dbt-core<1.11", "dbt-postgres==1.9.1"),
    "great_expectations": ("great_expectations", "sqlalchemy", "psycopg2-binary"),
    "jupysql": ("jupysql", "ipython", "pandas", "matplotlib", "sqlalchemy", "psycopg2-binary"),
    "django": ("django", "psycopg[binary]"),
    "superset": ("apache-superset", "psycopg2-binary", "flask-caching==2.3.1", "cachetools"),
    "pgadmin": ("pgadmin4",),
}
NODE = ("pg", "postgres", "knex", "sequelize", "drizzle-orm")


def main(folder: str) -> None:
    """Make what is not there yet."""
    for name, packages in PYTHON.items():
        home = Path(folder) / name
        if not (home / "bin" / "pip").exists():
            venv.create(home, with_pip=True)
            subprocess.run([str(home / "bin" / "pip"), "install", "--quiet", *packages], check=True)
    node = Path(folder) / "node"
    if not (node / "node_modules").exists():
        node.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--prefix", str(node), *NODE], check=True)


if __name__ == "__main__":
    main(sys.argv[1])
