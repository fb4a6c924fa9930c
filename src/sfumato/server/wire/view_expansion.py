"""Where a text reads temporary views, and the same text with the views written before it as WITH clauses.

A WITH clause sees the tables and the clauses before it, so names inside a view mean what they meant when it was made,
whatever names the text defines. The question is the expanded text: rights, limits and prices are those of that text.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from re import IGNORECASE
from re import compile as pattern
from typing import Protocol

from sfumato.errors import Refusal
from sfumato.policy.policy import fold_name
from sfumato.query.parsing.tree import MAX_SQL_CHARS
from sfumato.server.wire.pg_catalog.view_references import ViewReference, ViewReferences, find_references
from sfumato.server.wire.sql_words import BLANK
from sfumato.server.wire.sqlstates import WireError, reported

MAX_VIEW_DEPTH = 20
"""Maximum number of views that read each other in a chain."""
_WITH = pattern(r"WITH\s+(?:RECURSIVE\s+)?(?!DIFFERENTIAL_PRIVACY\b|ANONYMIZATION\b)", IGNORECASE)


class Expandable(Protocol):
    """A view as an expansion needs it."""

    @property
    def name(self) -> str: ...
    @property
    def sql(self) -> str: ...
    @property
    def column_names(self) -> tuple[str, ...]: ...
    @property
    def references(self) -> ViewReferences: ...


@dataclass(frozen=True, slots=True)
class Expansion:
    """A text with its views written out."""

    sql: str
    views: tuple[Expandable, ...] = ()
    _kept: tuple[tuple[int, int, int], ...] = field(default=(), repr=False)
    """Which parts of the original text are where: first and last position here, first position there."""
    is_emptied: bool = False
    """Whether its rows are left out."""

    def without_rows(self) -> "Expansion":
        """Return a text with the columns of this one and no rows."""
        opening, closing = "SELECT * FROM (\n", "\n) AS probe LIMIT 0"
        moved = tuple((first + len(opening), last + len(opening), there) for first, last, there in self._kept)
        return Expansion(f"{opening}{self.sql}{closing}", self.views, moved, True)

    def located(self, error: Refusal | WireError) -> Refusal | WireError:
        """Return an error about the expanded text as one about the text that was written."""
        said = reported(error, self.sql)
        if not self.views or said.position is None or said.severity == "FATAL":
            return error
        at = said.position - 1
        place = next((there + at - first + 1 for first, last, there in self._kept if first <= at < last), None)
        words = said.message if place is not None else f"In a temporary view: {said.message}"
        return WireError(said.sqlstate, words, said.detail, said.hint, place)


def expand(text: str, known: Mapping[str, Expandable]) -> Expansion:
    """Return a text with the views that it reads written out; limits hold before anything is written."""
    folded = fold_name(text).replace('""', '"')  # as a name in quotes spells a quote
    if not any(key in folded for key in known):
        return Expansion(text)
    references = find_references(text)
    used = references.of(known)
    order = closure((reference.key for reference in used), known)
    if not order:
        return Expansion(text)
    views = [known[key] for key in order]
    names = _clause_names(references, order, known)
    size = len(text) + sum(len(view.sql) + 100 + sum(len(name) + 4 for name in view.column_names) for view in views)
    if size > MAX_SQL_CHARS:
        raise WireError(
            "54001",
            f"With its temporary views written out, the text has more than {MAX_SQL_CHARS:,} characters.",
            "The views that a view reads count as well.",
            "Use fewer or shorter views.",
        )
    clauses = ",\n".join(_clause(view, names) for view in views)
    blank = BLANK.match(text)
    begin = blank.end() if blank else 0
    opening = _WITH.match(text, begin)
    first = (opening.end(), f"{clauses},\n") if opening else (begin, f"WITH {clauses}\n")
    edits = [(first[0], first[0], first[1]), *_renamings(used, names)]
    return _apply_edits(text, edits, tuple(views))


def closure(keys: Iterable[str], known: Mapping[str, Expandable]) -> list[str]:
    """Return views and those that they read, each after what it reads; a chain that is too long is refused."""
    depths: dict[str, int] = {}

    def visit(key: str, path: tuple[str, ...]) -> int:
        if key not in depths:
            below = known[key].references.keys & known.keys()
            if key in path or len(path) >= MAX_VIEW_DEPTH:
                raise _too_deep(known[key].name)
            depths[key] = 1 + max((visit(name, (*path, key)) for name in sorted(below)), default=0)
        return depths[key]

    for key in dict.fromkeys(keys):
        if visit(key, ()) > MAX_VIEW_DEPTH:
            raise _too_deep(known[key].name)
    return list(depths)


def _too_deep(name: str) -> WireError:
    return WireError(
        "54001",
        f'view "{name}" reads too many views in a chain',
        f"The limit is {MAX_VIEW_DEPTH}, and a view cannot read itself.",
        "Write the question of one of them into another.",
    )


def _clause_names(references: ViewReferences, order: Sequence[str], known: Mapping[str, Expandable]) -> dict[str, str]:
    """Return what the clause of each view is called: as the view, unless the text defines that name itself."""
    taken = set(references.defined | references.keys | known.keys())
    for key in order:
        taken |= known[key].references.defined | known[key].references.keys
    names: dict[str, str] = {}
    for key in order:
        name, number = known[key].name, 1
        if key in references.defined:
            while fold_name(name) in taken:
                name, number = f"{known[key].name}_{number}", number + 1
            taken.add(fold_name(name))
        names[key] = name
    return names


def _clause(view: Expandable, names: Mapping[str, str]) -> str:
    columns = ", ".join(_quote(name) for name in view.column_names)
    body = _apply_edits(view.sql, _renamings(view.references.of(names), names), ()).sql
    head = _quote(names[fold_name(view.name)]) + (f"({columns})" if columns else "")
    return f"{head} AS (\n{body}\n)"


def _renamings(references: Iterable[ViewReference], names: Mapping[str, str]) -> list[tuple[int, int, str]]:
    """Return what has to be written in place of names that do not spell the clause of their view."""
    edits = []
    for reference in references:
        name = names[reference.key]
        if reference.written != name:
            label = f" AS {_quote(reference.label)}" if reference.label is not None else ""
            edits.append((reference.start, reference.end, _quote(name) + label))
    return edits


def _apply_edits(text: str, edits: Sequence[tuple[int, int, str]], views: tuple[Expandable, ...]) -> Expansion:
    parts: list[str] = []
    kept: list[tuple[int, int, int]] = []
    length = position = 0
    for start, end, written in [*edits, (len(text), len(text), "")]:
        for part, there in ((text[position:start], position), (written, -1)):
            if there >= 0:
                kept.append((length, length + len(part), there))
            parts.append(part)
            length += len(part)
        position = end
    return Expansion("".join(parts), views, tuple(kept))


def _quote(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
