"""A copy that is complete and lies aside: one file."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, repr=False)
class BuiltFile:
    """`snapshots.Built`: a copy that is one file."""

    stamp: str
    file: Path

    def commit(self) -> None:
        """Do nothing: the file is everything."""

    def discard(self) -> None:
        """Do nothing: the file is everything."""
