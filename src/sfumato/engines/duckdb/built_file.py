"""A copy that is complete and lies aside: one file, and the cohorts of its people."""

from dataclasses import dataclass
from pathlib import Path

from sfumato.engines.cohort_set import CohortSet
from sfumato.secure_files import publish

KEPT_FILE_NAME = "kept"
"""The file of a build that becomes the one beside the salt."""


@dataclass(frozen=True, slots=True, repr=False)
class CopiedFile:
    """The file of a copy that lies aside, and the cohorts of its people."""

    file: Path
    cohorts: CohortSet | None


@dataclass(frozen=True, slots=True, repr=False)
class BuiltFile:
    """`snapshots.Built`: a copy that is one file."""

    stamp: str
    copied: CopiedFile
    kept_cohorts: Path | None
    """Where the cohorts of people are kept."""

    @property
    def file(self) -> Path:
        """The file of the copy."""
        return self.copied.file

    @property
    def cohorts(self) -> CohortSet | None:
        """The cohorts of its people."""
        return self.copied.cohorts

    def commit(self) -> None:
        """Keep the cohorts of people who came: before a manifest names the copy, and whatever becomes of it."""
        if self.copied.cohorts is not None and self.kept_cohorts is not None:
            publish(self.copied.file.with_name(KEPT_FILE_NAME), self.kept_cohorts)

    def discard(self) -> None:
        """Do nothing: the file is everything."""
