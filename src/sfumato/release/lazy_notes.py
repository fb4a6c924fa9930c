"""Notes that are found when they are first read: the margin of a note may take longer than the whole answer."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial


@dataclass(slots=True)
class LazyNotes:
    """The notes of an answer, the most important first; a function of noisy numbers and the plan.

    >>> LazyNotes.of(["B."]).after(["A."])()
    ('A.', 'B.')
    """

    find: Callable[[], Iterable[str]] = tuple
    _found: tuple[str, ...] | None = field(default=None, init=False)

    def __call__(self) -> tuple[str, ...]:
        """Return the notes."""
        if self._found is None:
            self._found = tuple(self.find())
        return self._found

    @classmethod
    def of(cls, notes: Iterable[str]) -> "LazyNotes":
        """Return notes that are known."""
        return cls(partial(tuple, tuple(notes)))

    def after(self, first: Iterable[str]) -> "LazyNotes":
        """Return the notes with others in front."""
        first = tuple(first)
        return LazyNotes(partial(_joined, first, self)) if first else self


def _joined(first: tuple[str, ...], others: LazyNotes) -> tuple[str, ...]:
    return (*first, *others())
