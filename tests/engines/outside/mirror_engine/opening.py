"""How a folder of Parquet files is copied and asked: DuckDB runs the statements, and rows are bounded by a shuffle."""

from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from sfumato.engines.duckdb.build import Build, build_table
from sfumato.engines.duckdb.connection import COPY, STAGE, closed_connection, execute
from sfumato.engines.duckdb.dialect import DUCKDB
from sfumato.engines.duckdb.engine import DuckDB
from sfumato.engines.duckdb.file_listing import check_place, source_files, source_root
from sfumato.engines.duckdb.loading import load_tables
from sfumato.engines.duckdb.shape import read_shape, write_shape
from sfumato.engines.duckdb.source import read_schema
from sfumato.engines.engine import Limits, Progress
from sfumato.engines.snapshot_manifest import read_files_while_unchanged, stamp_of
from sfumato.engines.snapshots import BuildDirectory, backend
from sfumato.engines.sql.bounded_copy import CopiedTable
from sfumato.engines.sql.dialect import ByShuffle
from sfumato.engines.sql.names import literal
from sfumato.engines.sql.statements import Statements, prepared
from sfumato.planning.plan import Plan
from sfumato.policy.policy import Policy

DIALECT = replace(
    DUCKDB,
    name="mirror",
    bounding=ByShuffle(lambda query, name: query),  # one process: all rows are where the others are
    filtered=lambda aggregate, condition: f"{aggregate} FILTER (WHERE ({condition}) IS TRUE)",
)


class Mirror(DuckDB):
    """DuckDB's engine with the SQL of another dialect."""

    def prepare(self, plan: Plan) -> Statements:
        """Return what will be run."""
        self._reader.ready()
        return prepared(plan, self._tables, self.public, DIALECT)


@dataclass(frozen=True, slots=True, repr=False)
class _BuiltFile:
    stamp: str
    file: Path

    def commit(self) -> None:
        """Do nothing: the file is everything."""

    def discard(self) -> None:
        """Do nothing: the file is everything."""


@dataclass(frozen=True, slots=True)
class MirrorCopying:
    """`snapshots.Copying` of such a folder."""

    written: Policy = field(repr=False)
    limits: Limits
    stamps_tell_all: bool = True

    @property
    def policy(self) -> Policy:
        """The policy as DuckDB's reader of files takes it."""
        return replace(self.written, source=replace(self.written.source, scheme="parquet"))

    def check_place(self) -> None:
        """Refuse a source that is not there."""
        check_place(self.policy.source)

    def stamp(self, salt: bytes) -> str:
        """Return names, sizes and times of the files, under the salt."""
        source = self.policy.source
        return stamp_of(source_root(source), source_files(source), salt)

    def build(self, aside: BuildDirectory, salt: bytes, progress: Progress) -> _BuiltFile:
        """Build the copy of a source that stays as it is meanwhile."""
        source = self.policy.source
        return _BuiltFile(
            *read_files_while_unchanged(
                source_root(source), lambda: source_files(source), salt, lambda: self._built(aside, salt, progress)
            )
        )

    def _built(self, aside: BuildDirectory, salt: bytes, progress: Progress) -> Path:
        policy, folder = self.policy, aside.folder
        folder.mkdir(mode=0o700)
        with closing(
            closed_connection([folder, source_root(policy.source)], self.limits, folder / "spill")
        ) as connection:
            for name in (COPY, STAGE):
                execute(connection, f"ATTACH {literal(str(folder / name))} AS {name}")
            found = read_schema(connection, policy)
            read = load_tables(connection, policy, found)
            build = Build(connection, policy, found, salt, read, dialect=DIALECT)
            write_shape(connection, [one for table in policy.tables for one in build_table(build, table, progress)])
            execute(connection, f"DETACH {COPY}")
        return folder / COPY

    def shape(self, file: Path) -> tuple[CopiedTable, ...] | None:
        """Return what is public about a copy."""
        return read_shape(file, self.limits)

    def sweep(self, salt: bytes, kept: Collection[str]) -> None:
        """Do nothing: the file is everything."""


BACKEND = backend(MirrorCopying, Mirror)
