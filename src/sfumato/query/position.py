"""Places in the text: every refusal of a query says where, and quotes what stands there."""

from dataclasses import dataclass
from typing import TypeVar

from sfumato.errors import (
    BadSql,
    QueryTooLarge,
    Refusal,
    UnknownName,
    UnsupportedSql,
    closest_names,
    excerpt,
    position_prefix,
)
from sfumato.query.expression import Position

MAX_EXAMPLE_CHARS = 600
"""Maximum number of characters of a query that a remedy proposes."""

_MAX_SPAN_CHARS = 240
"""Maximum number of characters that a source span keeps; a message shows fewer."""

R = TypeVar("R", bound=Refusal)


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """A piece of the text and where it begins."""

    at: Position

    @property
    def fragment(self) -> str:
        """The words that stand there, or the first of them."""
        return self.at.fragment

    def bad(self, what: str, why: str, remedy: str) -> BadSql:
        """Refuse SQL that has no meaning."""
        return self._refuse(BadSql, what, why, remedy)

    def unsupported(self, what: str, why: str, remedy: str) -> UnsupportedSql:
        """Refuse SQL that has a meaning elsewhere."""
        return self._refuse(UnsupportedSql, what, why, remedy)

    def too_large(self, what: str, why: str, remedy: str) -> QueryTooLarge:
        """Refuse what is over a limit."""
        return self._refuse(QueryTooLarge, what, why, remedy)

    def undeclared(self, kind: str, name: str, known: list[str], why: str) -> UnknownName:
        """Refuse the name of a table or column, which another account may be able to use."""
        refusal = self.unknown(kind, name, known, why)
        refusal.undeclared = kind, name
        return refusal

    def unknown(self, kind: str, name: str, known: list[str], why: str) -> UnknownName:
        """Refuse a name, with the closest names that exist."""
        close = closest_names(name, known, 3)
        if close:
            remedy = f"Did you mean {' or '.join(excerpt(word) for word in close)}?"
        elif known:
            shown = ", ".join(excerpt(word) for word in sorted(known)[:12])
            remedy = f"There {'is' if len(known) == 1 else 'are'} {shown}{', …' if len(known) > 12 else ''}."
        else:
            remedy = "There is none here."
        return self._refuse(UnknownName, f"there is no {kind} {excerpt(name)}.", why, remedy)

    def _refuse(self, kind: type[R], what: str, why: str, remedy: str) -> R:
        return kind(f"{position_prefix(self.at)}{what}", why, remedy)


def source_span(text: str, start: int, end: int) -> SourceSpan:
    """Return the place of text[start:end]."""
    line = text.count("\n", 0, start) + 1
    column = start - (text.rfind("\n", 0, start) + 1) + 1
    return SourceSpan(Position(line, column, text[start : min(end, start + _MAX_SPAN_CHARS)]))


def example(sql: str) -> str:
    """Return a question as the end of a remedy, on one line; nothing where it is too long to be read there.

    >>> example("SELECT 1")
    ': `SELECT 1`'
    """
    line = " ".join(sql.split())
    return f": `{line}`" if len(line) <= MAX_EXAMPLE_CHARS and line.isprintable() and "`" not in line else ""
