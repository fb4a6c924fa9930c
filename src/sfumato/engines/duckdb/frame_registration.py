"""How frames are copied: into a DuckDB file, as files are."""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.engines.duckdb.built_file import BuiltFile
from sfumato.engines.duckdb.copy_build import build_copy
from sfumato.engines.duckdb.frames import Frames
from sfumato.engines.duckdb.shape import read_shape
from sfumato.engines.engine import Limits, Progress
from sfumato.engines.snapshot_manifest import keyed_digest
from sfumato.engines.snapshots import BuildDirectory
from sfumato.engines.sql.bounded_copy import CopiedTable
from sfumato.policy.policy import Policy


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

    def build(self, aside: BuildDirectory, salt: bytes, progress: Progress) -> BuiltFile:
        """Build the copy; every frame is written down once before it is read."""
        stamp = self.stamp(salt)
        return BuiltFile(stamp, build_copy(self.policy, aside, salt, progress, self.limits), aside.kept_cohorts)

    def shape(self, file: Path) -> tuple[CopiedTable, ...] | None:
        """Return what is public about a copy."""
        return read_shape(file, self.limits)

    def sweep(self, salt: bytes, kept: Collection[str]) -> None:
        """Do nothing: the file is everything."""
