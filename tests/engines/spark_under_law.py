"""Spark under the laws: one session per run, started when the first law needs it."""

import os
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.analysis.catalog import REMOVED
from sfumato.engines.engine import Engine, Limits
from sfumato.engines.opening import open_engine
from sfumato.engines.public_store import write_public_store
from sfumato.engines.spark.build import ROWS, SparkBuild, public_rows, view_name
from sfumato.engines.spark.connection import execute, session
from sfumato.engines.spark.dialect import SPARK
from sfumato.engines.spark.dialect import quoted as in_backticks
from sfumato.engines.spark.source import read_schema
from sfumato.engines.sql.bounded_copy import bounded_table
from sfumato.engines.sql.bounding.selection import has_totals
from sfumato.engines.sql.names import TOTALS, quoted, together_name
from sfumato.errors import BadSource
from sfumato.policy.policy import Location, Policy
from sfumato.policy.reading import read_policy

Rows = Counter[tuple[Any, ...]]
LIMITS = Limits(memory="1GB", threads=2)


def spark() -> Any:
    """Return the session of this run, or skip loudly; in CI Spark is required."""
    try:
        return session(LIMITS)
    except BadSource as refusal:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"Spark is not installed: its engine was NOT tested. {refusal}")


def as_integer(value: Any) -> Any:
    """Return an opaque id as the integer that DuckDB has."""
    return int.from_bytes(value, "big") if isinstance(value, bytes) else value


def write_folder(folder: Path, tables: Mapping[str, pa.Table]) -> None:
    """Write tables as Parquet files of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")


def _public(build: SparkBuild) -> dict[str, Rows]:
    """Return the public tables of a copy, which lie beside the ledger."""
    file = build.folder / "beside" / "copy"
    file.parent.mkdir()
    write_public_store(file, [], public_rows(build), LIMITS)
    with duckdb.connect(str(file)) as connection:
        names = [table.name for table in build.policy.tables if table.public]
        return {name: Counter(connection.execute(f"FROM {quoted(name)}").fetchall()) for name in names}


def _compared(columns: list[str]) -> list[str]:
    """Return the columns that a copy has on every engine."""
    return [name for name in columns if not name.startswith(together_name(""))]


class SparkUnderLaw:
    """A local Spark of our own."""

    dialect = SPARK

    def rows(self, statement: str, tables: Mapping[str, pa.Table]) -> list[tuple[Any, ...]]:
        folder = Path(mkdtemp())
        try:
            write_folder(folder, tables)
            for name in tables:
                spark().read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(in_backticks(name))
            return [tuple(map(as_integer, row)) for row in execute(statement)]
        finally:
            for name in tables:
                spark().catalog.dropTempView(name)
            shutil.rmtree(folder)

    def opened(self, root: Path, policy: Mapping[str, object], data: Mapping[str, pa.Table]) -> Engine:
        spark()
        write_folder(root / "data", data)
        place = {"source": f"spark:{root}/data", "ledger": f"sqlite:{root}/small.ledger"}
        with open_engine(read_policy({**policy, **place}), lambda phase, name: None, LIMITS) as taken:
            return taken.commit("")

    def bounded(self, policy: Policy, tables: Mapping[str, pa.Table], salt: bytes, **how: int) -> dict[str, Rows]:
        folder, identity = Path(mkdtemp()), uuid4().hex
        try:
            write_folder(folder / "data", tables)
            here = replace(policy, source=Location("spark", "data", folder / "data"))
            views: set[str] = set()
            sources = read_schema(spark(), here, view_name(identity, "s_source"), views)
            read = {name: table.num_rows for name, table in tables.items()}
            build = SparkBuild(spark(), identity, folder, policy, sources, read, views)
            (folder / ROWS).mkdir()
            build.bring_salt(salt)
            private = [table for table in policy.tables if not table.public]
            copied = [one for table in private for one in bounded_table(build, table, lambda *_: None)]
            listed = {one.name: ", ".join(in_backticks(column.name) for column in one.columns) for one in copied}
            if how.get("hidden"):  # every table, and every column but what the build keeps for itself
                names = [*listed, *(one.name + REMOVED for one in private)]
                names += [one.name + TOTALS for one in private if has_totals(one)]
                found = {name: spark().table(build.copy_relation(name)).columns for name in names}
                listed = {name: ", ".join(map(in_backticks, _compared(columns))) for name, columns in found.items()}
            rows = {
                name: execute(f"SELECT {columns} FROM {build.copy_relation(name)}")  # noqa: S608
                for name, columns in listed.items()
            }
            public = _public(build)
            build.drop(["salt", *(path.name.removeprefix("s_") for path in (folder / "stage").iterdir())])
            assert not list((folder / "stage").iterdir())
            build.forget()
        finally:
            shutil.rmtree(folder)
        return public | {name: Counter(tuple(map(as_integer, row)) for row in each) for name, each in rows.items()}
