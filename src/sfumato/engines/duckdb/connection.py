"""DuckDB connections without extensions, network or other files, whose failures all read the same."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from sfumato.diagnostics import record_engine_failure
from sfumato.engines.engine import Limits
from sfumato.engines.resource_failures import failure_of
from sfumato.engines.sql.names import literal
from sfumato.errors import EngineFailed

if TYPE_CHECKING:
    import pyarrow as pa

COPY = "copy"
"""The name under which the bounded copy is attached."""
BEFORE = "before"
"""The name under which the copy before is attached, for reading, while another one is built."""
STAGE = "stage"
"""The name under which the database of intermediate results is attached; it is thrown away."""

SCRATCH = "scratch"
"""The name under which intermediate results that fit into memory are attached."""

Connection = duckdb.DuckDBPyConnection
"""For those who hold one and leave the driver to this room."""
Parameters = Sequence[object] | Mapping[str, object]
_PATTERNS = {"*": "[*]", "?": "[?]", "[": "[[]"}
_FETCH_ROWS = 10_000
_BATCH_ROWS = 1 << 17
_ROWS = "arrow_rows"
_FAILURES = (duckdb.Error, MemoryError, OSError, OverflowError)
_MEMORY_FAILURES = (duckdb.OutOfMemoryException, MemoryError)


def execute(
    connection: duckdb.DuckDBPyConnection, statement: str, parameters: Parameters | None = None
) -> list[tuple[Any, ...]]:
    """Run one statement and return its rows; a failure is one fixed sentence.

    The engine's own words may hold a value, a count or a path. The refusal is raised after the handler, so that they
    are not even in its context.
    """
    try:
        return connection.execute(statement, parameters).fetchall()
    except (*_FAILURES, RuntimeError) as error:
        record_engine_failure(error, statement)
        failure = failure_of(error, isinstance(error, _MEMORY_FAILURES))
    raise failure


def execute_in_columns(connection: duckdb.DuckDBPyConnection, statement: str) -> list[Any]:
    """Run one query and return its columns as Arrow's; failures are as in `execute`."""
    try:
        return list(connection.sql(statement).to_arrow_table().columns)
    except (*_FAILURES, RuntimeError) as error:
        record_engine_failure(error, statement)
    raise EngineFailed()


def execute_in_batches(connection: duckdb.DuckDBPyConnection, statement: str) -> Iterator["pa.RecordBatch"]:
    """Run one query and give its rows some at a time, in Arrow's columns; failures are as in `execute`."""
    try:
        yield from connection.sql(statement).to_arrow_reader(_BATCH_ROWS)
        return
    except (*_FAILURES, RuntimeError, ValueError) as error:
        record_engine_failure(error, statement)
    raise EngineFailed()


def execute_in_parts(connection: duckdb.DuckDBPyConnection, statement: str) -> Iterator[list[tuple[Any, ...]]]:
    """Run one statement and give its rows some at a time, so that a caller may stop; failures are as in `execute`."""
    try:
        connection.execute(statement)
        while part := connection.fetchmany(_FETCH_ROWS):
            yield part
        return
    except (*_FAILURES, RuntimeError) as error:
        record_engine_failure(error, statement)
    raise EngineFailed()


@contextmanager
def registered(connection: duckdb.DuckDBPyConnection, rows: object) -> Iterator[str]:
    """Let statements read Arrow's rows under the name that this gives."""
    connection.register(_ROWS, rows)
    try:
        yield _ROWS
    finally:
        connection.unregister(_ROWS)


def starless(path: Path) -> str:
    """Return a path in which stars, question marks and brackets mean themselves where the engine looks for patterns."""
    return "".join(_PATTERNS.get(character, character) for character in str(path))


def closed_connection(
    allowed: Sequence[Path], limits: Limits, temporary: Path | None = None
) -> duckdb.DuckDBPyConnection:
    """Return an in-memory connection that reaches the allowed files and folders and nothing else."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "allow_persistent_secrets": False,
        "memory_limit": limits.memory,
        "preserve_insertion_order": False,  # else memory grows with the table
        "temp_directory": "" if temporary is None else str(temporary),
    }
    if limits.threads is not None:
        settings["threads"] = limits.threads
    # requested paths are compared before and after patterns are resolved
    folders = [literal(f"{name}/") for path in allowed if path.is_dir() for name in (path, starless(path))]
    # a database's log is looked for when the database is opened
    names = [name for path in allowed if not path.is_dir() for name in (path, starless(path), f"{path}.wal")]
    files = [literal(str(name)) for name in names]
    connection = _connect(settings)
    execute(connection, "SET enable_progress_bar = false")
    execute(connection, "SET TimeZone = 'UTC'")  # which day a time lies in does not depend on the machine
    # statistics of a column's values must not decide what a condition means: proofs/total_scalars.md
    execute(connection, "SET disabled_optimizers = 'statistics_propagation'")
    execute(connection, f"SET allowed_directories = [{', '.join(folders)}]")
    execute(connection, f"SET allowed_paths = [{', '.join(files)}]")
    execute(connection, "SET enable_external_access = false")
    execute(connection, "SET lock_configuration = true")
    return connection


def _connect(settings: dict[str, str | bool | int | float | list[str]]) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(":memory:", config=settings)
    except _FAILURES as error:
        record_engine_failure(error)
    raise EngineFailed()


def open_copy(path: Path, limits: Limits, spill: Path | None = None) -> duckdb.DuckDBPyConnection:
    """Return a connection that can read the bounded copy, as the catalog `copy`, and can do nothing else.

    What does not fit into memory goes to the folder `spill`; without one, the statement fails.
    """
    connection = closed_connection([path], limits, spill)
    execute(connection, f"ATTACH {literal(str(path))} AS {COPY} (READ_ONLY)")
    execute(connection, f"USE {COPY}")
    return connection
