"""How the tables of a Spark source are copied: into a folder of Parquet files of random name, beside the ledger."""

import shutil
from collections.abc import Callable, Collection, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sfumato.diagnostics import record_engine_failure
from sfumato.engines.cohort_set import CohortSet
from sfumato.engines.duckdb.built_file import KEPT_FILE_NAME
from sfumato.engines.duckdb.connection import COPY, open_copy
from sfumato.engines.duckdb.file_digests import NO_PREVIOUS_COPY, PreviousCopy, added_files, digest_files, read_marks
from sfumato.engines.duckdb.file_listing import check_place, source_files, source_root
from sfumato.engines.duckdb.shape import read_shape
from sfumato.engines.duckdb.source import files_of
from sfumato.engines.engine import Limits, Progress
from sfumato.engines.public_store import write_public_store
from sfumato.engines.snapshot_manifest import keyed_digest, read_files_while_unchanged, read_while_unchanged, stamp_of
from sfumato.engines.snapshot_paths import SnapshotPaths, places_of
from sfumato.engines.snapshots import BuildDirectory, identity_of
from sfumato.engines.spark.build import ROWS, SparkBuild, public_rows, view_name
from sfumato.engines.spark.cohorts import write_cohorts
from sfumato.engines.spark.connection import execute, session
from sfumato.engines.spark.source import files_in_catalog, folder_of, is_catalog, read_files, read_schema
from sfumato.engines.sql.bounded_copy import CopiedTable
from sfumato.engines.sql.builder import select
from sfumato.engines.sql.column import Part
from sfumato.engines.sql.private_tables import write_private_tables
from sfumato.errors import EngineFailed
from sfumato.policy.policy import Policy, fold_name
from sfumato.secure_files import publish, sync_folder

_COMPLETE_FILE_NAME = "whole"
"""The file that is written last: a folder without it is not a copy."""


def rows_folder(places: SnapshotPaths, identity: str) -> Path:
    """Return the folder of a copy, given its random id."""
    return places.sidecar(f"rows-{identity}")


def is_whole(folder: Path) -> bool:
    """Tell whether the folder of a copy is there, to its end."""
    return (folder / _COMPLETE_FILE_NAME).is_file()


@dataclass(slots=True, repr=False)
class _BuiltFolder:
    """A copy in the folder of its build: if we die, it goes with that."""

    stamp: str
    file: Path
    rows: Path
    place: Path
    cohorts: CohortSet | None = None
    kept_cohorts: Path | None = None
    """Where the cohorts of people are kept."""

    def commit(self) -> None:
        """Keep the cohorts of people who came, and move the rows to their place."""
        if self.cohorts is not None and self.kept_cohorts is not None:
            publish(self.file.with_name(KEPT_FILE_NAME), self.kept_cohorts)
        self.rows.replace(self.place)
        sync_folder(self.place.parent)

    def discard(self) -> None:
        """Do nothing: uncommitted tables are removed with the folder of the build."""


@dataclass(frozen=True, slots=True)
class SparkCopying:
    """`snapshots.Copying` of a folder of Parquet files, or of a catalog of Spark's."""

    policy: Policy = field(repr=False)
    limits: Limits

    @property
    def stamps_tell_all(self) -> bool:
        """A catalog says which files there are, and not when they were written."""
        return not is_catalog(self.policy.source)

    def check_place(self) -> None:
        """Refuse a source that is not there."""
        if not is_catalog(self.policy.source):
            check_place(folder_of(self.policy.source))

    def stamp(self, salt: bytes) -> str:
        """Return names, sizes and times of the files; of a catalog, which files its tables have."""
        if is_catalog(self.policy.source):
            return self._files_of_catalog(salt)
        root, files = self._files()
        return stamp_of(root, files(), salt)

    def _files(self) -> tuple[Path, Callable[[], list[Path]]]:
        source = folder_of(self.policy.source)
        return source_root(source), lambda: source_files(source)

    def _files_of_catalog(self, salt: bytes) -> str:
        spark = session(self.limits)
        return keyed_digest(
            salt, "stamp", [files_in_catalog(spark, self.policy.source, table) for table in self.policy.tables]
        )

    def build(self, aside: BuildDirectory, salt: bytes, progress: Progress) -> _BuiltFolder:
        """Build the copy of a source that stays as it is meanwhile."""
        identity, folder = aside.identity, aside.folder

        def built() -> CohortSet | None:
            shutil.rmtree(folder, ignore_errors=True)
            spark = session(self.limits)
            folder.mkdir(mode=0o700)
            try:
                return self._build_from(spark, aside, salt, progress)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise

        if is_catalog(self.policy.source):
            stamp, cohorts = read_while_unchanged(lambda: (self._files_of_catalog(salt),) * 2, built)
        else:
            stamp, cohorts = read_files_while_unchanged(*self._files(), salt, built)
        place = rows_folder(places_of(self.policy), identity)
        return _BuiltFolder(stamp, folder / "copy", folder / ROWS, place, cohorts, aside.kept_cohorts)

    def _build_from(self, spark: Any, aside: BuildDirectory, salt: bytes, progress: Progress) -> CohortSet | None:
        """Build the copy. If there is an earlier copy, only people with new rows are bounded again."""
        if aside.before is not None and not is_catalog(self.policy.source):
            with suppress(EngineFailed):  # then everything is read again
                return self._build(spark, aside, salt, progress, _said_before(aside.before, self.limits))
            shutil.rmtree(aside.folder, ignore_errors=True)
            aside.folder.mkdir(mode=0o700)
        return self._build(spark, aside, salt, progress, NO_PREVIOUS_COPY)

    def _build(
        self, spark: Any, aside: BuildDirectory, salt: bytes, progress: Progress, before: PreviousCopy
    ) -> CohortSet | None:
        identity, folder, policy = aside.identity, aside.folder, self.policy
        views: set[str] = set()
        sources = read_schema(spark, policy, view_name(identity, "s_source"), views)
        now = {} if is_catalog(policy.source) else digest_files(policy, folder_of(policy.source), salt)
        new = added_files(policy, before, now)
        added = {name: self._added_parts(spark, name, paths, identity, views) for name, paths in new.items()}
        rows = {fold_name(name): _count(source.parts) for name, source in sources.items()}
        read = {
            name: _count(added[fold_name(name)]) if fold_name(name) in added else rows[fold_name(name)]
            for name in sources
        }
        kept = Path() if aside.before is None else rows_folder(places_of(policy), identity_of(aside.before))
        build = SparkBuild(spark, identity, folder, policy, sources, read, views, added, kept)
        (folder / ROWS).mkdir(mode=0o700)
        try:
            if any(
                rows[fold_name(name)] - read[name] != before.rows[fold_name(name)]
                for name in read
                if fold_name(name) in added
            ):
                record_engine_failure("A file differs although its mark does not: everything is read again.")
                raise EngineFailed()
            build.bring_salt(salt)
            copied = write_private_tables(build, progress)
            cohorts = None
            if policy.cohort is not None:
                cohorts = write_cohorts(build, aside.kept_cohorts, salt, self.limits)
            build.drop(["salt"])
            write_public_store(folder / "copy", copied, public_rows(build), self.limits, (now, rows))
            (folder / ROWS / _COMPLETE_FILE_NAME).touch(mode=0o600)
            return cohorts
        finally:
            with suppress(EngineFailed):  # a session that ended has no views
                build.forget()

    def _added_parts(
        self, spark: Any, name: str, paths: tuple[Path, ...], identity: str, views: set[str]
    ) -> tuple[Part, ...]:
        """Return the rows of files that were added to the table of this folded name."""
        at, table = next(
            (at, declared) for at, declared in enumerate(self.policy.tables) if fold_name(declared.name) == name
        )
        files = replace(files_of(folder_of(self.policy.source), table), paths=paths)
        return read_files(spark, table, files, view_name(identity, f"s_added{at}_"), views).parts if paths else ()

    def shape(self, file: Path) -> tuple[CopiedTable, ...] | None:
        """Return what is public about a copy; None where its folder is gone."""
        folder = rows_folder(places_of(self.policy), identity_of(file))
        return read_shape(file, self.limits) if is_whole(folder) else None

    def sweep(self, salt: bytes, kept: Collection[str]) -> None:
        """Remove the folders whose copies are gone."""
        places = places_of(self.policy)
        begins = f"{places.ledger.name}.rows-"
        for path in places.ledger.parent.iterdir():
            if path.name.startswith(begins) and path.name.removeprefix(begins) not in kept:
                shutil.rmtree(path, ignore_errors=True)


def _count(parts: Sequence[Part]) -> int:
    return sum(int(execute(select("count(*)", part.relation))[0][0]) for part in parts)


def _said_before(file: Path, limits: Limits) -> PreviousCopy:
    with closing(open_copy(file, limits)) as connection:
        return read_marks(connection, COPY)
