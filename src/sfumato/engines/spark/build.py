"""One build of a bounded copy in Spark: every table that is written is a folder of Parquet files of its own."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from sfumato.diagnostics import record_engine_failure
from sfumato.engines.public_store import PublicBatches, declared_columns
from sfumato.engines.spark.column import NANOSECONDS, READING
from sfumato.engines.spark.connection import execute, guarded
from sfumato.engines.spark.dialect import SPARK, quoted
from sfumato.engines.spark.source import SparkTable
from sfumato.engines.sql.build_protocol import copied_name, source_table
from sfumato.engines.sql.builder import select, union_all
from sfumato.engines.sql.column import Kind, Part, Stored, ValueForms
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.names import quoted as standard_quoted
from sfumato.errors import EngineFailed
from sfumato.policy.policy import Policy, Table, fold_name

ROWS = "rows"
"""The folder of a build that becomes the copy's."""
_LAZY = ("rows", "found", "keys", "pairs", "owners")
"""Intermediate tables that are read once or twice and cheap to compute: Spark computes them where they are read."""
_HIDDEN = (Kind.OTHER, Kind.NOTHING)


def view_name(identity: str, name: str) -> str:
    """Return the view of a session for a table of a copy: never a name of the source."""
    return f"c_{identity}_{name}"


@dataclass(frozen=True, slots=True, repr=False)
class SparkBuild:
    """`sql.copy.Building`: a session, a folder for its owner alone, and the salt in a file of its own."""

    session: Any
    identity: str
    folder: Path
    policy: Policy
    sources: Mapping[str, SparkTable]
    read: Mapping[str, int]
    views: set[str]
    """Every view that was made, by name."""
    added: Mapping[str, Sequence[Part]] = field(default_factory=dict)
    """The rows that arrived since the copy before, by the folded name of each table that is not written anew."""
    rows_before: Path = Path()
    """The folder of the copy before, if any table is not written anew."""
    dialect: Dialect = SPARK
    reading: ValueForms = READING
    salt_sql: str = "salt.salt"
    """A column of a row that is joined: plans hold literals and parameters, and are shown to many."""

    @property
    def salt_join(self) -> str:
        """The one row of the file with the salt."""
        return f" CROSS JOIN {self.stage('salt')} AS salt"

    def bring_salt(self, salt: bytes) -> None:
        """Write the salt into a file that only its owner may read."""
        path = self.place(self.stage("salt"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        pq.write_table(pa.table({"salt": [salt.hex()]}), path, use_dictionary=False, write_statistics=False)
        self.show(self.stage("salt"))

    def source(self, name: str) -> SparkTable:
        """Return the source's table of this name."""
        return source_table(self.sources, name)

    def parts(self, table: str) -> Sequence[Part]:
        """Return the rows of a table of the source, those together that are stored alike."""
        return self.source(table).parts

    def new_files(self, table: str) -> Sequence[Part] | None:
        """Return the rows of a private table that were added since the copy before; None: it is written anew."""
        return self.added.get(fold_name(table))

    def before(self, table: str) -> str:
        """Return how a table of the copy before is named: a view, which is made when it is asked for."""
        name = copied_name(self.policy, table)
        view = view_name(self.identity, f"b_{name}")
        if view not in self.views:
            guarded(lambda: self.session.read.parquet(str(self.rows_before / name)).createOrReplaceTempView(view))
            self.views.add(view)
        return quoted(view)

    def stage(self, name: str) -> str:
        """Return how an intermediate table is named."""
        return quoted(view_name(self.identity, f"s_{name}"))

    def copy_relation(self, table: str) -> str:
        """Return how a table of the copy is named."""
        return quoted(view_name(self.identity, copied_name(self.policy, table)))

    def place(self, relation: str) -> Path:
        """Return the folder or file of a table."""
        name = relation.strip("`").removeprefix(view_name(self.identity, ""))
        return self.folder / ("stage" if name.startswith("s_") else ROWS) / name

    def create_table_as(self, relation: str, query: str, *, salted: bool = False) -> None:
        """Write the rows of a query, in its order, into a new folder."""
        path = self.place(relation)
        if path.name.removeprefix("s_").startswith(_LAZY):
            name = relation.strip("`")
            guarded(lambda: self.session.sql(query).createOrReplaceTempView(name))
            self.views.add(name)
            return
        guarded(lambda: self.session.sql(query).write.parquet(str(path)))
        self.show(relation)

    def append_rows(self, relation: str, query: str) -> None:
        """Write the rows of a query, in its order, into further files of a folder of the copy."""
        path = self.place(relation)
        guarded(lambda: self.session.sql(query).write.mode("append").parquet(str(path)))
        self.show(relation)

    def show(self, relation: str) -> None:
        """Make what lies at the place of a table readable under its name."""
        path, name = self.place(relation), relation.strip("`")
        guarded(lambda: self.session.read.parquet(str(path)).createOrReplaceTempView(name))
        self.views.add(name)

    def is_carried_over(self, relation: str) -> bool:
        """Tell that no table is: each is written anew."""
        return False

    def delete_rows(self, relation: str, where: str) -> None:
        """Refuse: no table is carried over."""
        raise AssertionError(f"{relation} is written again")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query about the build itself."""
        return execute(query)

    def drop(self, names: Sequence[str]) -> None:
        """Throw intermediate tables away that there may be."""
        for name in names:
            path = self.place(self.stage(name))
            guarded(partial(self.session.catalog.dropTempView, self.stage(name).strip("`")))
            path.unlink() if path.is_file() else shutil.rmtree(path, ignore_errors=True)

    def forget(self) -> None:
        """Drop every view of the build."""
        while self.views:
            guarded(partial(self.session.catalog.dropTempView, self.views.pop()))


def public_rows(build: SparkBuild) -> PublicBatches:
    """Return the public tables of the source: Spark writes them, and they are read again beside the ledger."""
    return {table.name: _public(build, table) for table in build.policy.tables if table.public}


def _public(build: SparkBuild, table: Table) -> tuple[dict[str, str], pa.RecordBatchReader]:
    source = build.source(table.name)
    columns = [column for column in source.columns.items() if column[1].kind not in _HIDDEN]
    columns = declared_columns(table, columns)
    names = [f"c{at}" for at in range(len(columns))]

    def listed(part: Part) -> list[str]:
        pairs = zip(names, columns, strict=True)
        return [f"{_value(part.column(name), stored)} AS {at}" for at, (name, stored) in pairs]

    query = union_all(select(listed(part) or "0 AS c0", part.relation) for part in source.parts)
    target = build.stage(f"public{copied_name(build.policy, table.name)}")
    build.create_table_as(target, query)
    batches = _batches(build, target)
    return {name: standard_quoted(at) for at, (name, _) in zip(names, columns, strict=True)}, batches


def _value(stored: Stored, alike: Stored) -> str:
    """Return a public value as the type that its column has in the whole table; one with a zone is read in UTC."""
    type = "TIMESTAMP_NTZ" if alike.kind is Kind.CLOCK else alike.type
    value = f"timestamp_micros({stored.sql} div 1000)" if stored.type == NANOSECONDS else stored.sql
    return f"try_cast({value} AS {type})"


def _batches(build: SparkBuild, relation: str) -> pa.RecordBatchReader:
    try:
        scanner = ds.dataset(build.place(relation), format="parquet").scanner()
        return scanner.to_reader()
    except (pa.ArrowException, OSError) as error:
        record_engine_failure(error)
    raise EngineFailed()
