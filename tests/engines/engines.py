"""The engines under the laws of this room: each law runs on every one of them, and a new engine joins by one entry."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa
from tests.engines.postgres_under_law import PostgresUnderLaw
from tests.engines.spark_under_law import SparkUnderLaw

from sfumato.engines.duckdb.build import Build, build_table
from sfumato.engines.duckdb.connection import COPY, STAGE
from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.duckdb.duckdb_file import SOURCE
from sfumato.engines.duckdb.source import read_schema
from sfumato.engines.engine import Engine, Limits
from sfumato.engines.opening import open_engine
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.names import quoted
from sfumato.policy.policy import Policy
from sfumato.policy.reading import read_policy

Rows = Counter[tuple[Any, ...]]


class UnderLaw(Protocol):
    """What an engine shows so that every law can be tried on it."""

    @property
    def dialect(self) -> Dialect:
        """Its SQL."""

    def rows(self, statement: str, tables: Mapping[str, pa.Table]) -> list[tuple[Any, ...]]:
        """Return what a statement makes of these tables; a failure of the engine is a failure of the test."""

    def opened(self, root: Path, policy: Mapping[str, object], data: Mapping[str, pa.Table]) -> Engine:
        """Write tables to a source below a folder, and open it; `policy` lacks `source` and `ledger`."""

    def bounded(self, policy: Policy, tables: Mapping[str, pa.Table], salt: bytes, **how: int) -> dict[str, Rows]:
        """Return every table of the copy as a multiset of rows, columns in the order of the copy.

        `how` may name a number of threads and of rows in one part of the storage: nothing may depend on them.
        """


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


class DuckDBUnderLaw:
    """DuckDB in memory, and over a DuckDB file."""

    dialect = DUCKDB

    def rows(self, statement: str, tables: Mapping[str, pa.Table]) -> list[tuple[Any, ...]]:
        connection = _connection()
        for name, table in tables.items():
            connection.register("given", table)
            connection.execute(f"CREATE OR REPLACE TABLE {quoted(name)} AS SELECT * FROM given")  # noqa: S608
            connection.unregister("given")
        return connection.execute(statement).fetchall()

    def opened(self, root: Path, policy: Mapping[str, object], data: Mapping[str, pa.Table]) -> Engine:
        root.mkdir(parents=True, exist_ok=True)
        with duckdb.connect(str(root / "source.duckdb")) as connection:
            _fill(connection, "main", data)
        place = {"source": f"duckdb:{root}/source.duckdb", "ledger": f"sqlite:{root}/small.ledger"}
        with open_engine(read_policy({**policy, **place}), lambda phase, name: None, Limits(threads=2)) as taken:
            return taken.commit("")

    def bounded(self, policy: Policy, tables: Mapping[str, pa.Table], salt: bytes, **how: int) -> dict[str, Rows]:
        threads = how.get("threads", 1)
        with duckdb.connect(config={"threads": threads, "preserve_insertion_order": False}) as connection:
            for name in (COPY, STAGE, SOURCE):
                connection.execute(f"ATTACH ':memory:' AS {name} (ROW_GROUP_SIZE {how.get('groups', 122_880)})")
            _fill(connection, f"{SOURCE}.main", tables)
            read = {name: table.num_rows for name, table in tables.items()}
            build = Build(connection, policy, read_schema(connection, policy), salt, read)
            copied = [one for table in policy.tables for one in build_table(build, table, lambda phase, name: None)]
            left = "SELECT count(*) FROM duckdb_tables() WHERE database_name = $1"
            assert connection.execute(left, [STAGE]).fetchall() == [(0,)]
            listed = {table.name: ", ".join(quoted(column.name) for column in table.columns) for table in copied}
            return {
                name: Counter(connection.execute(f"SELECT {columns} FROM {build.copy_relation(name)}").fetchall())  # noqa: S608
                for name, columns in listed.items()
            }


def _fill(connection: duckdb.DuckDBPyConnection, schema: str, tables: Mapping[str, pa.Table]) -> None:
    for name, table in tables.items():
        connection.register("given", table)
        connection.execute(f"CREATE TABLE {schema}.{quoted(name)} AS SELECT * FROM given")  # noqa: S608
        connection.unregister("given")


SPARK = "SFUMATO_SPARK_LAWS"
"""Spark takes half a second for what others do in a millisecond: it joins the laws when this is set, in one process."""
ENGINES: Sequence[UnderLaw] = (
    DuckDBUnderLaw(),
    PostgresUnderLaw(),
    *([SparkUnderLaw()] if os.environ.get(SPARK) else []),
)
_current: list[UnderLaw] = [ENGINES[0]]


def engine_under_law() -> UnderLaw:
    """Return the engine that the running test is tried on: see the fixture `every_engine`."""
    return _current[-1]


@contextmanager
def trying(engine: UnderLaw) -> Iterator[UnderLaw]:
    """Run the body on one engine."""
    _current.append(engine)
    try:
        yield engine
    finally:
        _current.pop()
