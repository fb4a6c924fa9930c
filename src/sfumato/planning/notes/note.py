"""A note with a quote or an answer, its rank among others, and how many of them are printed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

MAX_PRINTED_NOTES = 3
"""Maximum number of notes that are printed with an answer unless all are requested."""
_ITEMS_PER_NOTE = 3


class NoteRank(IntEnum):
    """How much a note matters to the reader of a number; lower ranks come first."""

    MEANING = 1
    """It changes what the number means."""
    LACK = 2
    """It says what the number lacks, and whether its interval covers that."""
    HINT = 3
    """It says what the reader can do or look up."""


@dataclass(frozen=True, slots=True)
class Note:
    """One or two plain sentences about an answer."""

    rank: NoteRank
    text: str
    if_empty: str | None = None
    """The label of a group; then the note applies only where none of its keys was released."""


def texts_by_rank(notes: Iterable[Note]) -> tuple[str, ...]:
    """Return each text once, the most important first."""
    return tuple(dict.fromkeys(note.text for note in sorted(notes, key=lambda note: note.rank)))


def printed_notes(notes: Sequence[str], rest: str | None) -> list[str]:
    """Return the lines to print: the first notes, and `rest`, where to find the others; all notes for None.

    >>> printed_notes(["A.", "B.", "C.", "D.", "E."], "release.notes")
    ['note: A.', 'note: B.', 'note: C.', '2 more notes: release.notes']
    """
    shown = notes if rest is None else notes[:MAX_PRINTED_NOTES]
    more = len(notes) - len(shown)
    return [*(f"note: {note}" for note in shown), *([f"{more_notes(more)}: {rest}"] if more else [])]


def more_notes(count: int) -> str:
    """Return how many notes are not shown, in words."""
    return f"{count} more note{'s' * (count != 1)}"


def few_at_a_time(items: Sequence[str]) -> Iterator[str]:
    """Yield lists of at most three items each, so that a note about many columns stays short."""
    for start in range(0, len(items), _ITEMS_PER_NOTE):
        yield ", ".join(items[start : start + _ITEMS_PER_NOTE])
