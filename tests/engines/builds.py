"""Bounded copies of small tables in memory: what the laws of this room are tried on."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from sfumato.engines.duckdb.build import Build, build_table
from sfumato.engines.duckdb.connection import COPY, STAGE
from sfumato.engines.duckdb.source import SOURCE, read_schema
from sfumato.engines.sql.names import quoted
from sfumato.policy.policy import Policy
from sfumato.policy.reading import read_policy

SALT = bytes(range(32))
Rows = Counter[tuple[Any, ...]]


def policy_of(tables: Mapping[str, object], source: str = "duckdb:nowhere.duckdb", **more: object) -> Policy:
    return read_policy(
        {"name": "small", "source": source, "budget": {"epsilon": 1, "delta": 0}, "tables": dict(tables), **more}
    )


def bounded(
    policy: Policy, tables: Mapping[str, pa.Table], salt: bytes = SALT, threads: int = 1, groups: int = 122_880
) -> dict[str, Rows]:
    """Return every table of the copy as a multiset of rows, columns in the order of the copy."""
    with duckdb.connect(config={"threads": threads, "preserve_insertion_order": False}) as connection:
        for name in (COPY, STAGE, SOURCE):
            connection.execute(f"ATTACH ':memory:' AS {name} (ROW_GROUP_SIZE {groups})")
        for name, table in tables.items():
            connection.register("given", table)
            connection.execute(f"CREATE TABLE {SOURCE}.main.{quoted(name)} AS SELECT * FROM given")  # noqa: S608
            connection.unregister("given")
        read = {name: table.num_rows for name, table in tables.items()}
        build = Build(connection, policy, read_schema(connection, policy), salt, read)
        copied = [build_table(build, table, lambda phase, name: None) for table in policy.tables]
        assert connection.execute(
            "SELECT count(*) FROM duckdb_tables() WHERE database_name = $1", [STAGE]
        ).fetchall() == [(0,)]
        return {
            table.name: Counter(
                connection.execute(
                    f"SELECT {', '.join(quoted(column.name) for column in table.columns)} "  # noqa: S608
                    f"FROM {COPY}.main.{quoted(table.name)}"
                ).fetchall()
            )
            for table in copied
        }
