"""A planted bug: a small change of the source, and the audit or law that should notice it."""

from dataclasses import dataclass

LAWS = "tests/"
"""What begins so is no audit but a file of laws, or one law of it."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One text of one file, which occurs there exactly once, and what takes its place."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Bug:
    """A planted bug, and the audit that is tried first because it should notice; or the law that has to."""

    name: str
    first: str
    edits: tuple[Edit, ...]

    @property
    def by_law(self) -> bool:
        """Whether a law of the tests has to notice it, not an audit."""
        return self.first.startswith(LAWS)


def planned(name: str, first: str, *edits: tuple[str, str, str]) -> Bug:
    """Return a bug of some edits: file, old text, new text."""
    return Bug(name, first, tuple(Edit(*edit) for edit in edits))
