"""PostgreSQL connections whose settings are ours, and whose failures all read the same.

Neither address, user nor password, nor anything that the server or the driver says, leaves this file.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from sfumato.diagnostics import record_engine_failure
from sfumato.engines.postgres.schemes import POSTGRESQL
from sfumato.errors import BadSource, EngineFailed

SCHEMA = "sfumato"
"""The schema of our own, in which copies lie."""
MIN_SERVER_VERSION = 140_000
"""The oldest version that has infinite numerics and hashes row places: 14."""
_SETTINGS = (
    "SET search_path = ''",
    "SET datestyle = 'ISO, YMD'",
    "SET timezone = 'UTC'",
    "SET extra_float_digits = 1",
    "SET jit = off",  # our expressions are long: compiling one may take longer than running it
    "SET standard_conforming_strings = on",
    "SET client_min_messages = error",
    "SET default_transaction_read_only = off",
)
_SECONDS = 10


def connect(url: str) -> tuple[Any, str | None]:
    """Return a connection, and the schema of the source: the first of the search path that the URL or role has."""
    driver, connection = _driver(), None
    try:
        connection = driver.connect(url, autocommit=True, connect_timeout=_SECONDS, prepare_threshold=None)
        connection.adapters.register_loader("numeric", _whole_loader())
        schemas = [name for (name,) in connection.execute("SELECT unnest(current_schemas(false))")]
        # a role that is called as our schema has that first in its path, and no source lies there
        schema = next((name for name in schemas if name != SCHEMA), None)
        encoding, version = connection.execute(
            "SELECT current_setting('server_encoding'), current_setting('server_version_num')"
        ).fetchone()
        connection.execute("; ".join(_SETTINGS))
    except Exception as error:
        _close(connection)
        connection = None
        if not is_of_the_server(error):
            raise
    if connection is None:
        raise BadSource(
            "The server of source could not be reached, or refused the login.",
            "Its message is not shown, because it may contain an address or a name.",
            "Check source, and what gives its password (PGPASSWORD, a password file, a service file).",
        )
    if encoding != "UTF8" or int(version) < MIN_SERVER_VERSION:
        _close(connection)
        raise BadSource(
            "The database of source is not in UTF-8, or its server is older than PostgreSQL 14.",
            "People are identified by the UTF-8 bytes of a text, and infinite numbers need PostgreSQL 14.",
            "Copy the tables into a database with encoding UTF8 on a newer server.",
        )
    return connection, schema


def execute(connection: Any, statement: str, parameters: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
    """Run one statement and return its rows; a failure is one fixed sentence.

    The refusal is raised after the handler, so that the server's words are not even in its context.
    """
    try:
        cursor = connection.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []
    except Exception as error:
        if not is_of_the_server(error):
            raise
        record_engine_failure(error, statement)
    raise EngineFailed()


def copy_in(connection: Any, relation: str, rows: Iterator[Sequence[object]]) -> None:
    """Write rows into a table by COPY: its data is in no log of statements."""
    try:
        with connection.cursor() as cursor, cursor.copy(f"COPY {relation} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        return
    except Exception as error:
        if not is_of_the_server(error):
            raise
        record_engine_failure(error, relation)
    raise EngineFailed()


def close(connection: Any) -> None:
    """Close a connection. Closing twice is fine."""
    _close(connection)


def _close(connection: Any) -> None:
    if connection is not None:
        with suppress(Exception):
            connection.close()


def is_of_the_server(error: Exception) -> bool:
    """Tell whether an error is the server's or the driver's, so that its words may hold anything."""
    kinds = (OSError, ValueError, OverflowError, MemoryError)
    return isinstance(error, kinds) or any(kind.__module__.startswith("psycopg") for kind in type(error).__mro__)


def _driver() -> Any:
    try:
        return import_module("psycopg")
    except ImportError:
        pass
    raise BadSource(
        "A source on PostgreSQL needs a driver that is not installed.",
        "It is an optional extra.",
        f"Install it: pip install '{POSTGRESQL.install}'.",
    )


def _whole_loader() -> Any:
    """Return how a numeric is read: only whole numbers leave the engine."""

    def load(_self: object, data: Any) -> int:
        return int(bytes(data))

    return type("Whole", (import_module("psycopg.adapt").Loader,), {"load": load})
