"""How files and DuckDB databases are copied: into a DuckDB file, in a folder of its own until it is complete."""

import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.engines.duckdb.build import Build, build_table
from sfumato.engines.duckdb.connection import COPY, STAGE, closed_connection, execute
from sfumato.engines.duckdb.frames import Frames
from sfumato.engines.duckdb.loading import load_tables
from sfumato.engines.duckdb.parquet_mending import mended
from sfumato.engines.duckdb.shape import read_shape, write_shape
from sfumato.engines.duckdb.source import Files, attached, check_place, read_schema, source_files, source_root
from sfumato.engines.engine import Limits, Progress
from sfumato.engines.snapshots import Registered, Snapshot
from sfumato.engines.snapshots import snapshot as snapshot_of
from sfumato.engines.sql.copy import CopiedTable
from sfumato.engines.sql.names import literal
from sfumato.engines.versions import keyed, stamp_of, steady
from sfumato.errors import EngineFailed
from sfumato.policy.policy import Policy


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
class _BuiltFile:
    stamp: str
    file: Path

    def commit(self) -> None:
        """Do nothing: the file is everything."""

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

    def build(self, identity: str, folder: Path, salt: bytes, progress: Progress) -> _BuiltFile:
        """Build the copy of a source that stays as it is meanwhile."""
        source = self.policy.source
        if source.scheme == "sqlite":  # one transaction: what is written meanwhile is not seen, and counts as a change
            return _BuiltFile(self.stamp(salt), _build(self.policy, folder, salt, progress, self.limits))

        def built() -> Path:
            shutil.rmtree(folder, ignore_errors=True)
            return _build(self.policy, folder, salt, progress, self.limits)

        try:
            return _BuiltFile(*steady(source_root(source), lambda: source_files(source), salt, built))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
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
        return keyed(salt, "stamp", Frames(self.policy.source).shapes())

    def build(self, identity: str, folder: Path, salt: bytes, progress: Progress) -> _BuiltFile:
        """Build the copy; every frame is written down once before it is read."""
        return _BuiltFile(self.stamp(salt), _build(self.policy, folder, salt, progress, self.limits))

    def shape(self, file: Path) -> tuple[CopiedTable, ...] | None:
        """Return what is public about a copy."""
        return read_shape(file, self.limits)

    def sweep(self, salt: bytes, kept: Collection[str]) -> None:
        """Do nothing: the file is everything."""


def copying_of(policy: Policy, limits: Limits) -> FileCopying | FrameCopying:
    """Return how the source of a policy is copied."""
    return FrameCopying(policy, limits) if policy.source.scheme == "frames" else FileCopying(policy, limits)


def _build(policy: Policy, folder: Path, salt: bytes, progress: Progress, limits: Limits) -> Path:
    """Build a copy in a folder of its own, which only its owner may enter: what spills to disk is private too."""
    folder.mkdir(mode=0o700)
    try:
        try:
            return _built(policy, folder, salt, progress, limits, {})
        except EngineFailed:
            if policy.source.scheme not in ("parquet", "files"):
                raise
        for name in (COPY, STAGE):
            (folder / name).unlink(missing_ok=True)
        return _built(policy, folder, salt, progress, limits, mended(policy, folder / "mended"))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _built(
    policy: Policy, folder: Path, salt: bytes, progress: Progress, limits: Limits, instead: Mapping[str, Files]
) -> Path:
    copy = folder / COPY
    sources = [policy.source.path] if policy.source.path is not None else []
    with closing(closed_connection([folder, *sources], limits, folder / "spill")) as connection:
        for name in (COPY, STAGE):
            execute(connection, f"ATTACH {literal(str(folder / name))} AS {name}")
        with attached(connection, policy.source) as streams:
            found = read_schema(connection, policy, streams, instead)
            read = load_tables(connection, policy, found, progress)
        build = Build(connection, policy, found, salt, read)
        write_shape(connection, [one for table in policy.tables for one in build_table(build, table, progress)])
        execute(connection, f"DETACH {COPY}")  # writes everything into the file
    return copy
