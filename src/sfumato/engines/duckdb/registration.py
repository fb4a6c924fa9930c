"""How files and DuckDB databases are copied: into a DuckDB file, in a folder of its own until it is complete."""

import shutil
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.engines.duckdb.built_file import BuiltFile, CopiedFile
from sfumato.engines.duckdb.file_listing import check_place, source_files, source_root
from sfumato.engines.duckdb.shape import read_shape
from sfumato.engines.engine import Limits, Progress
from sfumato.engines.snapshot_manifest import read_files_while_unchanged, stamp_of
from sfumato.engines.snapshots import BuildDirectory, Copying, Registered, Snapshot
from sfumato.engines.snapshots import snapshot as snapshot_of
from sfumato.engines.sql.bounded_copy import CopiedTable
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

    def build(self, aside: BuildDirectory, salt: bytes, progress: Progress) -> BuiltFile:
        """Build the copy of a source that stays as it is meanwhile."""
        from sfumato.engines.duckdb.copy_build import build_copy

        source = self.policy.source
        if source.scheme == "sqlite":  # one transaction: concurrent writes are not seen, and count as a change
            stamp = self.stamp(salt)  # before it is read
            copied = build_copy(self.policy, aside, salt, progress, self.limits)
            return BuiltFile(stamp, copied, aside.kept_cohorts)

        def built() -> CopiedFile:
            shutil.rmtree(aside.folder, ignore_errors=True)
            return build_copy(self.policy, aside, salt, progress, self.limits)

        try:
            stamp, copied = read_files_while_unchanged(source_root(source), lambda: source_files(source), salt, built)
            return BuiltFile(stamp, copied, aside.kept_cohorts)
        except BaseException:
            shutil.rmtree(aside.folder, ignore_errors=True)
            raise

    def shape(self, file: Path) -> tuple[CopiedTable, ...] | None:
        """Return what is public about a copy."""
        return read_shape(file, self.limits)

    def sweep(self, salt: bytes, kept: Collection[str]) -> None:
        """Do nothing: the file is everything."""


def copying_of(policy: Policy, limits: Limits) -> Copying:
    """Return how the source of a policy is copied."""
    if policy.source.scheme != "frames":
        return FileCopying(policy, limits)
    from sfumato.engines.duckdb.frame_registration import FrameCopying

    return FrameCopying(policy, limits)
