"""DuckDB connections without extensions, network or other files, whose failures all read the same."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from sfumato.errors import EngineFailed

COPY = "copy"
"""The name under which the bounded copy is attached."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a build may use; beyond the memory it works on disk."""

    memory: str = "2GB"
    threads: int | None = None


@contextmanager
def one_message() -> Iterator[None]:
    """Turn whatever the engine says into one fixed sentence: its own words may hold a value, a count or a path."""
    failed = False
    try:
        yield
    except (duckdb.Error, MemoryError, OSError, OverflowError, RuntimeError):
        failed = True
    if failed:  # raised outside the handler, so that the engine's words are not even in the context
        raise EngineFailed()


def quoted(name: str) -> str:
    """Return a name as an SQL identifier.

    >>> print(quoted('a"b'))
    "a""b"
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return text as an SQL string.

    >>> print(literal("it's"))
    'it''s'
    """
    return "'" + text.replace("'", "''") + "'"


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
    connection = duckdb.connect(":memory:", config=settings)
    connection.execute("SET enable_progress_bar = false")
    folders = [literal(f"{path}/") for path in allowed if path.is_dir()]
    files = [literal(str(path)) for path in allowed if not path.is_dir()]
    connection.execute(f"SET allowed_directories = [{', '.join(folders)}]")
    connection.execute(f"SET allowed_paths = [{', '.join(files)}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def open_copy(path: Path, limits: Limits) -> duckdb.DuckDBPyConnection:
    """Return a connection that can read the bounded copy, as the schema `copy`, and can do nothing else."""
    with one_message():
        connection = closed_connection([path], limits)
        connection.execute(f"ATTACH {literal(str(path))} AS {COPY} (READ_ONLY)")
        connection.execute(f"USE {COPY}")
        return connection
    raise EngineFailed()
