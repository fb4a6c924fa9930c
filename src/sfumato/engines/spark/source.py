"""Where the tables of a Spark source lie, and what columns they have: read from footers and the catalog, not from rows.

A folder is read by its files, as DuckDB's engine does; a catalog by the names that the session knows.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.engines.duckdb.source import Files, files_of, foreign_keys, no_column, not_parquet
from sfumato.engines.spark.column import NANOSECONDS, READING
from sfumato.engines.spark.column import stored as as_stored
from sfumato.engines.spark.connection import guarded
from sfumato.engines.spark.dialect import quoted
from sfumato.engines.sql.column import Kind, Part, Stored, check_type
from sfumato.errors import BadSource, EngineFailed
from sfumato.policy.policy import Location, Policy, Table, fold_name

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, repr=False)
class SparkTable:
    """A table as the source has it."""

    parts: tuple[Part, ...]
    """Its rows, those together that are stored alike."""

    def column(self, name: str) -> Stored | None:
        """Return the column of this name in any case, as the first part that knows it has it; or None."""
        found = [stored for part in self.parts for known, stored in part.columns if fold_name(known) == fold_name(name)]
        return next((stored for stored in found if stored.kind is not Kind.NOTHING), found[0] if found else None)

    @property
    def columns(self) -> dict[str, Stored]:
        """Every column, by the name that the first part that knows it gives it."""
        names = {fold_name(name): name for part in reversed(self.parts) for name, _ in part.columns}
        return {name: stored for name in names.values() if (stored := self.column(name)) is not None}


def is_catalog(location: Location) -> bool:
    """Tell whether a source names a catalog, and no folder."""
    return location.path is None


def folder_of(location: Location) -> Location:
    """Return the folder of a source as the engine of files knows it."""
    return replace(location, scheme="parquet")


def read_schema(session: Any, policy: Policy, begins: str, views: set[str]) -> dict[str, SparkTable]:
    """Find every table of the policy and check its columns, or refuse by the policy's own key.

    Each part becomes a view of the session, whose name begins so and is added to `views`.
    """
    found = {}
    for at, table in enumerate(policy.tables):
        if is_catalog(policy.source):
            source = _of_catalog(session, policy.source, table)
        else:
            source = _of_folder(session, policy.source, table, f"{begins}{at}_", views)
        for column in table.columns:
            if source.column(column.name) is None:
                raise no_column(table, column.name)
            for part in source.parts:
                stored = part.column(column.name)
                check_type(table.name, column, stored)
                if not table.public:
                    READING.check_range(table.name, column, stored)
        for key in foreign_keys(policy, table):
            if source.column(key) is None:
                raise no_column(table, key)
        found[table.name] = source
    return found


def _of_folder(session: Any, location: Location, table: Table, begins: str, views: set[str]) -> SparkTable:
    return read_files(session, table, files_of(folder_of(location), table), begins, views)


def read_files(session: Any, table: Table, files: Files, begins: str, views: set[str]) -> SparkTable:
    """Return what some files of a table hold; each part becomes a view, as in `read_schema`."""
    if len(files.partitions) > 1:
        raise BadSource(
            f"tables.{table.name} has files with different partition columns.",
            "All files of a table must lie at the same depth, in folders with the same names.",
            "Move the files that differ.",
        )
    groups: dict[str, tuple[pa.Schema, list[Path]]] = {}
    for path in files.paths:
        schema = _footer(table, files, path)
        key = repr(sorted((field.name, str(field.type)) for field in schema))
        groups.setdefault(key, (schema, []))[1].append(path)
    parts = [
        _part(session, table, files, schema, paths, f"{begins}{at}")
        for at, (schema, paths) in enumerate(groups.values())
    ]
    views.update(part.relation.strip("`") for part in parts)
    return SparkTable(tuple(parts))


def _footer(table: Table, files: Files, path: Path) -> pa.Schema:
    refusal = not_parquet(table, files, path)
    if refusal is not None:
        raise refusal
    return pq.read_schema(path)


def _part(session: Any, table: Table, files: Files, schema: pa.Schema, paths: list[Path], view: str) -> Part:
    keys = next(iter(files.partitions))

    def described() -> list[tuple[str, str]]:
        reader = session.read.option("basePath", str(files.root)) if keys else session.read
        frame = reader.parquet(*(_escape_pattern(path) for path in paths))
        frame.createOrReplaceTempView(view)
        return [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]

    try:
        columns = guarded(described)
    except EngineFailed:
        columns = None
    if columns is None:
        raise BadSource(
            f"tables.{table.name} has a column that Spark cannot read.",
            "Spark cannot read a file that contains a type it does not know.",
            'Write the files again without that column, or use source = "parquet:…".',
        )
    partitions = {fold_name(key) for key in keys}
    return Part(
        quoted(view),
        tuple(
            (name, as_stored(quoted(name), _type(schema, name, type), fold_name(name) in partitions))
            for name, type in columns
        ),
    )


def _type(schema: pa.Schema, name: str, type: str) -> str:
    """Return a type as Spark names it, unless the file knows better."""
    at = schema.get_field_index(name)
    if at < 0:
        return type
    known = schema.field(at).type
    if pa.types.is_null(known):
        return "void"
    return NANOSECONDS if pa.types.is_timestamp(known) and known.unit == "ns" else type


def _escape_pattern(path: Path) -> str:
    """Return a path in which nothing is a pattern to Spark."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", str(path))


def relation_of(location: Location, table: Table) -> str:
    """Return how a table is named in its catalog and database; without these, in the session's current ones."""
    return ".".join(quoted(name) for name in [*location.target.split(".")[1:], table.stored or table.name])


def _of_catalog(session: Any, location: Location, table: Table) -> SparkTable:
    relation = relation_of(location, table)
    columns = _look_up(
        table, lambda: [(field.name, field.dataType.simpleString()) for field in session.table(relation).schema.fields]
    )
    return SparkTable((Part(relation, tuple((name, as_stored(quoted(name), type)) for name, type in columns)),))


def files_in_catalog(session: Any, location: Location, table: Table) -> list[str]:
    """Return the files of a table of a catalog."""
    return _look_up(table, lambda: sorted(session.table(relation_of(location, table)).inputFiles()))


def _look_up(table: Table, work: Callable[[], Result]) -> Result:
    """Return what a catalog knows of a table, or refuse by the policy's own key."""
    try:
        known = guarded(work)
    except EngineFailed:
        known = None
    if known is None:
        raise BadSource(
            f"tables.{table.name} is not in the source, or may not be read.",
            "A table of this name, in the same case, is looked for in the catalog of the Spark session.",
            f'Correct it, write from = "NAME" in [tables.{table.name}], or start a session that knows the catalog.',
        )
    return known
