"""How files and DuckDB databases are copied: into a DuckDB file, in a folder of its own until it is complete."""

import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.engines.cohort_set import CohortSet
from sfumato.engines.duckdb.build import Build, build_table
from sfumato.engines.duckdb.cohorts import KEPT, write_cohorts
from sfumato.engines.duckdb.connection import BEFORE, COPY, STAGE, closed_connection, execute
from sfumato.engines.duckdb.file_digests import digest_files, write_marks
from sfumato.engines.duckdb.frames import Frames
from sfumato.engines.duckdb.incremental_refresh import load_arrivals
from sfumato.engines.duckdb.parquet_repair import mended
from sfumato.engines.duckdb.shape import read_shape, write_shape
from sfumato.engines.duckdb.source import ENDINGS, Files, attached, check_place, read_schema, source_files, source_root
from sfumato.engines.engine import Limits, Progress
from sfumato.engines.snapshot_manifest import keyed_digest, read_files_while_unchanged, stamp_of
from sfumato.engines.snapshots import BuildDirectory, Registered, Snapshot
from sfumato.engines.snapshots import snapshot as snapshot_of
from sfumato.engines.sql.bounded_copy import CopiedTable
from sfumato.engines.sql.names import literal
from sfumato.errors import EngineFailed
from sfumato.policy.policy import Policy
from sfumato.secure_files import publish


def register(policy: Policy, progress: Progress, limits: Limits | None = None, *, again: bool = False) -> Registered:
    """Return the current snapshot, or take one: for those who open no ledger."""
    with snapshot(policy, progress, limits, again=again) as taken:
        return taken.keep(taken.ledger)


def snapshot(
    policy: Policy,
    progress: Progress,
    limits: Limits | None = None,
    *,
    again: bool = False,
    first: Callable[[], None] | None = None,
) -> AbstractContextManager[Snapshot]:
    """Find the current snapshot, or take one aside: see `snapshots.snapshot`."""
    return snapshot_of(policy, copying_of(policy, limits or Limits()), progress, again=again, first=first)


@dataclass(frozen=True, slots=True, repr=False)
class CopiedFile:
    """The file of a copy that lies aside, and the cohorts of its people."""

    file: Path
    cohorts: CohortSet | None


@dataclass(frozen=True, slots=True, repr=False)
class _BuiltFile:
    stamp: str
    copied: CopiedFile
    kept_cohorts: Path | None
    """Where the cohorts of people are kept."""

    @property
    def file(self) -> Path:
        return self.copied.file

    @property
    def cohorts(self) -> CohortSet | None:
        return self.copied.cohorts

    def commit(self) -> None:
        """Keep the cohorts of people who came: before a manifest names the copy, and whatever becomes of it."""
        if self.copied.cohorts is not None and self.kept_cohorts is not None:
            publish(self.copied.file.with_name(KEPT), self.kept_cohorts)

    def discard(self) -> None:
        """Do nothing: the file is everything."""


@dataclass(frozen=True, slots=True)
class FileCopying:
    """`snapshots.Copying` of files and databases in files."""

    policy: Policy = field(repr=False)
    limits: Limits
    stamps_tell_all: bool = True

    def check_place(self) -> None:
        """Refuse a source that is not there."""
        check_place(self.policy.source)

    def stamp(self, salt: bytes) -> str:
        """Return names, sizes and times of the source's files, under the salt."""
        source = self.policy.source
        return stamp_of(source_root(source), source_files(source), salt)

    def build(self, aside: BuildDirectory, salt: bytes, progress: Progress) -> _BuiltFile:
        """Build the copy of a source that stays as it is meanwhile."""
        source = self.policy.source
        if source.scheme == "sqlite":  # one transaction: what is written meanwhile is not seen, and counts as a change
            copied = _build(self.policy, aside, salt, progress, self.limits)
            return _BuiltFile(self.stamp(salt), copied, aside.kept_cohorts)

        def built() -> CopiedFile:
            shutil.rmtree(aside.folder, ignore_errors=True)
            return _build(self.policy, aside, salt, progress, self.limits)

        try:
            stamp, copied = read_files_while_unchanged(source_root(source), lambda: source_files(source), salt, built)
            return _BuiltFile(stamp, copied, aside.kept_cohorts)
        except BaseException:
            shutil.rmtree(aside.folder, ignore_errors=True)
            raise

    def shape(self, file: Path) -> tuple[CopiedTable, ...] | None:
        """Return what is public about a copy."""
        return read_shape(file, self.limits)

    def sweep(self, salt: bytes, kept: Collection[str]) -> None:
        """Do nothing: the file is everything."""


@dataclass(frozen=True, slots=True)
class FrameCopying:
    """`snapshots.Copying` of frames: what they hold now is all that can be said of them."""

    policy: Policy = field(repr=False)
    limits: Limits
    stamps_tell_all: bool = False

    def check_place(self) -> None:
        """Accept: frames that were handed over are there."""

    def stamp(self, salt: bytes) -> str:
        """Return names and lengths, under the salt: values are never compared."""
        return keyed_digest(salt, "stamp", Frames(self.policy.source).shapes())

    def build(self, aside: BuildDirectory, salt: bytes, progress: Progress) -> _BuiltFile:
        """Build the copy; every frame is written down once before it is read."""
        copied = _build(self.policy, aside, salt, progress, self.limits)
        return _BuiltFile(self.stamp(salt), copied, aside.kept_cohorts)

    def shape(self, file: Path) -> tuple[CopiedTable, ...] | None:
        """Return what is public about a copy."""
        return read_shape(file, self.limits)

    def sweep(self, salt: bytes, kept: Collection[str]) -> None:
        """Do nothing: the file is everything."""


def copying_of(policy: Policy, limits: Limits) -> FileCopying | FrameCopying:
    """Return how the source of a policy is copied."""
    return FrameCopying(policy, limits) if policy.source.scheme == "frames" else FileCopying(policy, limits)


def _build(policy: Policy, aside: BuildDirectory, salt: bytes, progress: Progress, limits: Limits) -> CopiedFile:
    """Build a copy in a folder of its own, which only its owner may enter: what spills to disk is private too."""
    folder, building = aside.folder, _Building(policy, aside.folder, salt, progress, limits, aside.kept_cohorts)
    folder.mkdir(mode=0o700)
    try:
        if aside.before is not None and policy.source.scheme in ENDINGS:
            with suppress(EngineFailed):  # then everything is read again
                return building.built({}, aside.before)
            building.forget()
        try:
            return building.built({})
        except EngineFailed:
            if policy.source.scheme not in ("parquet", "files"):
                raise
        building.forget()
        return building.built(mended(policy, folder / "mended"))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


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
        for name in (COPY, STAGE, KEPT):
            (self.folder / name).unlink(missing_ok=True)

    def built(self, instead: Mapping[str, Files], before: Path | None = None) -> CopiedFile:
        """Build the copy; where one before it is given, only the people are bounded again to whom rows arrived."""
        policy, cohorts = self.policy, None
        sources = [path for path in (policy.source.path, before, self.kept_cohorts) if path is not None]
        with closing(closed_connection([self.folder, *sources], self.limits, self.folder / "spill")) as connection:
            for name in (COPY, STAGE):
                execute(connection, f"ATTACH {literal(str(self.folder / name))} AS {name}")
            if before is not None:
                execute(connection, f"ATTACH {literal(str(before))} AS {BEFORE} (READ_ONLY)")
            with attached(connection, policy.source) as streams:
                found = read_schema(connection, policy, streams, instead)
                now = digest_files(policy, policy.source, self.salt) if policy.source.scheme in ENDINGS else {}
                loaded = load_arrivals(connection, policy, found, now, self.progress)
            build = Build(connection, policy, loaded.sources, self.salt, loaded.read, loaded.added)
            write_shape(
                connection, [one for table in policy.tables for one in build_table(build, table, self.progress)]
            )
            if policy.cohort is not None:
                cohorts = write_cohorts(build, self.folder / KEPT, self.kept_cohorts)
            write_marks(connection, now, loaded.rows)
            execute(connection, f"DETACH {COPY}")  # writes everything into the file
        return CopiedFile(self.folder / COPY, cohorts)
