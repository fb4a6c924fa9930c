"""The public shape of a copy, written down in a DuckDB file: its tables, their columns, and which of them is the id."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from sfumato.engines.duckdb.connection import COPY, Connection, execute, open_copy
from sfumato.engines.engine import Limits
from sfumato.engines.sql.bounded_copy import CopiedColumn, CopiedTable
from sfumato.engines.sql.builder import insert, select

SHAPE = "sfumato_shape"
"""The schema of the copy in which its public shape is written down."""


def write_shape(connection: Connection, tables: Sequence[CopiedTable]) -> None:
    """Write the shape into the file that is attached as the copy."""
    shape = f"{COPY}.{SHAPE}.columns"
    execute(connection, f"CREATE SCHEMA {COPY}.{SHAPE}")
    execute(connection, f"CREATE TABLE {shape} (tab VARCHAR, col VARCHAR, kind VARCHAR, unit BOOLEAN)")
    execute(connection, "BEGIN")  # one transaction: a commit for each column would wait for the disk
    for table in tables:
        for column in table.columns:
            row = [table.name, column.name, column.type, column.name == table.unit]
            execute(connection, insert(shape, ["$1", "$2", "$3", "$4"]), row)
    execute(connection, "COMMIT")


def read_shape(path: Path, limits: Limits) -> tuple[CopiedTable, ...]:
    """Return the shape of a copy."""
    with closing(open_copy(path, limits)) as connection:
        rows = execute(connection, select("tab, col, kind, unit", f"{SHAPE}.columns", order_by="rowid"))
    return tuple(
        CopiedTable(
            name,
            tuple(CopiedColumn(column, kind) for table, column, kind, _ in rows if table == name),
            next((column for table, column, _, unit in rows if table == name and unit), None),
        )
        for name in dict.fromkeys(table for table, *_ in rows)
    )
