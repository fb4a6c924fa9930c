"""PostgreSQL under the laws: one server per run, started when the first law needs it, and removed after."""

import atexit
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import duckdb
import psycopg
import pyarrow as pa
import pytest
from tests.ledger.postgres import binaries, server

from sfumato.engines.engine import Engine, Limits
from sfumato.engines.opening import open_engine
from sfumato.engines.postgres.build import ServerBuild, public_rows
from sfumato.engines.postgres.connection import SCHEMA, connect
from sfumato.engines.postgres.dialect import POSTGRES
from sfumato.engines.postgres.source import read_schema
from sfumato.engines.public_store import write_public_store
from sfumato.engines.sql.bounded_copy import bounded_table
from sfumato.engines.sql.names import quoted
from sfumato.policy.policy import Policy
from sfumato.policy.reading import read_policy

Rows = Counter[tuple[Any, ...]]
_NOWHERE = "\uffff"
"""What stands for the character 0, which no text of PostgreSQL holds: see `texts.text_sql`."""


@cache
def url() -> str:
    """Return the address of a database of our own, with a schema for copies."""
    folder = binaries()
    if folder is None:
        pytest.skip("PostgreSQL is not installed: its engine was NOT tested")
    stack = ExitStack()
    atexit.register(stack.close)
    found = stack.enter_context(server(folder))
    with psycopg.connect(found, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {SCHEMA}")
    return found


def source_url(schema: str) -> str:
    """Return the address of the same database, whose source is this schema."""
    return f"{url()}?options={quote(f'-csearch_path={schema}')}"


def fill(tables: Mapping[str, pa.Table]) -> str:
    """Write tables into a schema of their own, and return its name."""
    schema = f"s{uuid4().hex}"
    with psycopg.connect(url(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        for name, table in tables.items():
            _load(connection, f"{schema}.{quoted(name)}", table, "TABLE")
    return schema


@cache
def _connection() -> Any:
    connection, _ = connect(url())
    connection.execute("SET search_path = pg_temp")
    atexit.register(connection.close)
    return connection


def _type(type: pa.DataType) -> str:
    if pa.types.is_decimal(type):
        return f"numeric({type.precision},{type.scale})"
    if pa.types.is_timestamp(type):
        return "timestamptz" if type.tz else "timestamp"
    if pa.types.is_list(type):
        return "text[]"
    if pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_null(type):
        return 'text COLLATE "C"'
    named = {"int8": "smallint", "uint8": "smallint", "int16": "smallint", "uint16": "integer", "int32": "integer"}
    named |= {"uint32": "bigint", "int64": "bigint", "uint64": "numeric(20,0)", "float": "real"}
    named |= {"double": "double precision", "bool": "boolean", "date32[day]": "date", "date64[ms]": "date"}
    return named[str(type)]


def _load(connection: Any, relation: str, table: pa.Table, kind: str) -> None:
    columns = ", ".join(f"{quoted(field.name)} {_type(field.type)}" for field in table.schema)
    connection.execute(f"DROP TABLE IF EXISTS {relation}")
    connection.execute(f"CREATE {kind} {relation} ({columns})")
    values = [column.to_pylist() for column in table.columns]
    with connection.cursor() as cursor, cursor.copy(f"COPY {relation} FROM STDIN") as copy:
        for row in zip(*values, strict=True):
            copy.write_row([one.replace("\0", _NOWHERE) if isinstance(one, str) else one for one in row])


def _python(value: Any) -> Any:
    if isinstance(value, UUID):
        return value.int
    return value.replace(_NOWHERE, "\0") if isinstance(value, str) else value


def _public(build: ServerBuild) -> dict[str, Rows]:
    """Return the public tables of a copy, which lie beside the ledger."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "copy"
        write_public_store(file, [], public_rows(build.connection, build.policy, build.sources), Limits(threads=1))
        with duckdb.connect(str(file)) as connection:
            names = [table.name for table in build.policy.tables if table.public]
            return {name: Counter(connection.execute(f"FROM {quoted(name)}").fetchall()) for name in names}


class PostgresUnderLaw:
    """A server of our own."""

    dialect = POSTGRES

    def rows(self, statement: str, tables: Mapping[str, pa.Table]) -> list[tuple[Any, ...]]:
        for name, table in tables.items():
            _load(_connection(), f"pg_temp.{quoted(name)}", table, "TEMP TABLE")
        return [tuple(map(_python, row)) for row in _connection().execute(statement).fetchall()]

    def opened(self, root: Path, policy: Mapping[str, object], data: Mapping[str, pa.Table]) -> Engine:
        root.mkdir(parents=True, exist_ok=True)
        place = {"source": source_url(fill(data)), "ledger": f"sqlite:{root}/small.ledger"}
        with open_engine(read_policy({**policy, **place}), lambda phase, name: None, Limits(threads=2)) as taken:
            return taken.commit("")

    def bounded(self, policy: Policy, tables: Mapping[str, pa.Table], salt: bytes, **how: int) -> dict[str, Rows]:
        connection, schema = connect(source_url(fill(tables)))
        with connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            read = {name: table.num_rows for name, table in tables.items()}
            build = ServerBuild(connection, uuid4().hex, policy, read_schema(connection, schema, policy), read)
            build.bring_salt(salt)
            private = [table for table in policy.tables if not table.public]
            copied = [one for table in private for one in bounded_table(build, table, lambda *_: None)]
            listed = {table.name: ", ".join(quoted(column.name) for column in table.columns) for table in copied}
            found = {
                name: connection.execute(f"SELECT {columns} FROM {build.copy_relation(name)}").fetchall()  # noqa: S608
                for name, columns in listed.items()
            }
            public = _public(build)
            connection.rollback()
        return public | {name: Counter(tuple(map(_python, row)) for row in rows) for name, rows in found.items()}


def forget_connection() -> None:
    """Close the connection of the laws: somebody is about to cut every one that is open."""
    if _connection.cache_info().currsize:
        _connection().close()
        _connection.cache_clear()
