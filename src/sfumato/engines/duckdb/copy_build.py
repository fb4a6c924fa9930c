"""Building a bounded copy in DuckDB: everything that reads rows of a source is imported here, and only then."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from sfumato.engines.duckdb.build import Build, build_table
from sfumato.engines.duckdb.built_file import KEPT_FILE_NAME, CopiedFile
from sfumato.engines.duckdb.cohorts import write_cohorts
from sfumato.engines.duckdb.connection import BEFORE, COPY, SCRATCH, STAGE, closed_connection, execute
from sfumato.engines.duckdb.file_digests import digest_files, write_marks
from sfumato.engines.duckdb.file_listing import ENDINGS
from sfumato.engines.duckdb.incremental_refresh import carried_tables, drop_all_but, load_arrivals
from sfumato.engines.duckdb.parquet_repair import mended
from sfumato.engines.duckdb.shape import write_shape
from sfumato.engines.duckdb.source import Files, attached, read_schema
from sfumato.engines.duckdb.spilling import spill_folder
from sfumato.engines.engine import Limits, Progress
from sfumato.engines.resource_failures import explain_to_owner
from sfumato.engines.snapshots import BuildDirectory
from sfumato.engines.sql.names import literal
from sfumato.errors import EngineFailed
from sfumato.policy.policy import Policy, fold_name

_BYTES_PER_VALUE = 16
"""About how many bytes a value takes in a table that is not compressed."""
_SCRATCH_SHARE = Fraction(1, 4)
"""The part of the memory that intermediate rows may take."""


def build_copy(policy: Policy, aside: BuildDirectory, salt: bytes, progress: Progress, limits: Limits) -> CopiedFile:
    """Build a copy in a folder of its own, which only its owner may enter: what spills to disk is private too."""
    folder, building = aside.folder, _Building(policy, aside.folder, salt, progress, limits, aside.kept_cohorts)
    folder.mkdir(mode=0o700)
    try:
        if aside.before is not None and policy.source.scheme in ENDINGS:
            try:
                return building.built({}, aside.before)
            except EngineFailed as failure:  # otherwise everything is read again
                if failure.cause:
                    raise
            building.forget()
        try:
            return building.built({})
        except EngineFailed as failure:
            # where memory or disk ran out the files can be read: mending them would take longer, and fail again
            if failure.cause or policy.source.scheme not in ("parquet", "files"):
                raise
        building.forget()
        return building.built(mended(policy, folder / "mended"))
    except EngineFailed as failure:
        shutil.rmtree(folder, ignore_errors=True)
        told = explain_to_owner(failure, limits)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    raise told


@dataclass(frozen=True, slots=True, repr=False)
class _Building:
    policy: Policy
    folder: Path
    salt: bytes
    progress: Progress
    limits: Limits
    kept_cohorts: Path | None

    def forget(self) -> None:
        """Remove what an attempt left."""
        for name in (COPY, STAGE, KEPT_FILE_NAME):
            (self.folder / name).unlink(missing_ok=True)

    @contextmanager
    def _temporary(self) -> Iterator[Path]:
        """Give a private folder for intermediate rows: that of the build, or one in the folder of the policy."""
        if self.limits.temp is None:
            yield self.folder
            return
        folder = spill_folder(self.folder, self.limits.temp)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def built(self, instead: Mapping[str, Files], before: Path | None = None) -> CopiedFile:
        """Build the copy. If an earlier copy is given, only people with new rows are bounded again."""
        policy, cohorts = self.policy, None
        sources = [path for path in (policy.source.path, before, self.kept_cohorts) if path is not None]
        with (
            self._temporary() as temporary,
            closing(
                closed_connection([self.folder, temporary, *sources], self.limits, temporary / "spill")
            ) as connection,
        ):
            execute(connection, f"ATTACH {literal(str(temporary / STAGE))} AS {STAGE}")
            if before is not None:
                execute(connection, f"ATTACH {literal(str(before))} AS {BEFORE} (READ_ONLY)")
            with attached(connection, policy.source) as streams:
                found = read_schema(connection, policy, streams, instead)
                now = digest_files(policy, policy.source, self.salt) if policy.source.scheme in ENDINGS else {}
                loaded = load_arrivals(connection, policy, found, now, self.progress)
            carried = carried_tables(policy, loaded) if before is not None else frozenset()
            if not carried or before is None or not _copy_previous(before, self.folder / COPY):
                carried = frozenset()  # everything is written, from the copy before where nothing arrived
            execute(connection, f"ATTACH {literal(str(self.folder / COPY))} AS {COPY}")
            drop_all_but(connection, carried)
            build = Build(connection, policy, loaded.sources, self.salt, loaded.read, loaded.added, carried)
            if _fits_into_memory(policy, loaded.rows, self.limits):
                execute(connection, f"ATTACH ':memory:' AS {SCRATCH}")  # what does not fit after all is spilled
                build = replace(build, staging=SCRATCH)
            write_shape(
                connection, [entry for table in policy.tables for entry in build_table(build, table, self.progress)]
            )
            if policy.cohort is not None:
                cohorts = write_cohorts(build, self.folder / KEPT_FILE_NAME, self.kept_cohorts)
            write_marks(connection, now, loaded.rows)
            execute(connection, f"DETACH {COPY}")  # writes everything into the file
        return CopiedFile(self.folder / COPY, cohorts)


def _fits_into_memory(policy: Policy, rows: Mapping[str, int], limits: Limits) -> bool:
    """Whether the rows of the largest table leave most of the memory to the statements that sort them."""
    sizes = [
        rows.get(fold_name(table.name), 0) * (len(table.columns) + 1) for table in policy.tables if not table.public
    ]
    return _BYTES_PER_VALUE * max(sizes, default=0) <= _SCRATCH_SHARE * limits.memory_bytes


def _copy_previous(before: Path, target: Path) -> bool:
    """Copy the file of the copy before, so that only what changed is written; False where that fails."""
    try:
        shutil.copyfile(before, target)
    except OSError:
        target.unlink(missing_ok=True)
        return False
    return True
