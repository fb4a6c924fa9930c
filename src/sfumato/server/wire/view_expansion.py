"""Where a text reads temporary views, and the same text with the views written before it as WITH clauses.

A WITH clause sees the tables and the clauses before it, so names inside a view mean what they meant when it was made,
whatever names the text defines. What is asked is the expanded text: rights, limits and prices are those of that text.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from re import IGNORECASE
from re import compile as pattern
from typing import Protocol

from sqlglot import exp

from sfumato.errors import Refusal
from sfumato.policy.policy import fold_name
from sfumato.query.parsing.tree import MAX_SQL_CHARS, foreign_tree, read_tree
from sfumato.server.wire.pg_catalog.trees import identifier
from sfumato.server.wire.pg_catalog.view_rows import TEMPORARY_SCHEMAS
from sfumato.server.wire.sql_words import BLANK
from sfumato.server.wire.sqlstates import WireError, reported

MAX_VIEW_DEPTH = 20
"""Maximum number of views that read each other in a chain."""
_WITH = pattern(r"WITH\s+(?:RECURSIVE\s+)?(?!DIFFERENTIAL_PRIVACY\b|ANONYMIZATION\b)", IGNORECASE)


@dataclass(frozen=True, slots=True)
class ViewReference:
    """A place in a text where rows are read from a name that the text itself does not define."""

    key: str
    """The name without its case, as tables and views are found."""
    start: int
    end: int
    written: str
    """The name, folded unless it is quoted; "" where its schema is written as well."""
    label: str | None
    """How the columns are qualified where no alias is given."""


@dataclass(frozen=True, slots=True)
class ViewReferences:
    """What a text reads, and the names that its WITH clauses define."""

    read: tuple[ViewReference, ...] = ()
    defined: frozenset[str] = frozenset()

    def of(self, known: Iterable[str]) -> tuple[ViewReference, ...]:
        """Return those that mean one of some views."""
        return tuple(reference for reference in self.read if reference.key in known)


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

    def without_rows(self) -> "Expansion":
        """Return a text with the columns of this one and no rows."""
        opening, closing = "SELECT * FROM (\n", "\n) AS probe LIMIT 0"
        moved = tuple((first + len(opening), last + len(opening), there) for first, last, there in self._kept)
        return Expansion(f"{opening}{self.sql}{closing}", self.views, moved)

    def located(self, error: Refusal | WireError) -> Refusal | WireError:
        """Return an error about the expanded text as one about the text that was written."""
        said = reported(error, self.sql)
        if not self.views or said.position is None or said.severity == "FATAL":
            return error
        at = said.position - 1
        place = next((there + at - first + 1 for first, last, there in self._kept if first <= at < last), None)
        words = said.message if place is not None else f"In a temporary view: {said.message}"
        return WireError(said.sqlstate, words, said.detail, said.hint, place)


def find_references(text: str) -> ViewReferences:
    """Return what a text reads; a text that cannot be read names nothing, and is refused where it is answered."""
    try:
        tree: exp.Expr = foreign_tree(text)
    except Refusal:
        try:
            tree = read_tree(text, True)[0]
        except Refusal:
            return ViewReferences()
    defined = {fold_name(identifier(clause.args["alias"].this)) for clause in tree.find_all(exp.CTE)}
    found = [_reference(table) for table in tree.find_all(exp.Table)]
    read = sorted((one for one in found if one is not None), key=lambda one: one.start)
    return ViewReferences(tuple(read), frozenset(defined))


def _reference(table: exp.Table) -> ViewReference | None:
    name, schema, catalog = table.this, table.args.get("db"), table.args.get("catalog")
    if not isinstance(name, exp.Identifier) or (schema is not None and identifier(schema) not in TEMPORARY_SCHEMAS):
        return None
    first = catalog or schema or name
    if "start" not in first.meta or "end" not in name.meta:
        return None
    written, key = identifier(name), fold_name(identifier(name))
    if schema is None and _is_defined(table, key):
        return None
    label = written if table.args.get("alias") is None else None
    return ViewReference(key, first.meta["start"], name.meta["end"] + 1, written if schema is None else "", label)


def _is_defined(table: exp.Table, key: str) -> bool:
    """Whether a WITH clause of the text defines the name that a table reference has."""
    child: exp.Expr = table
    within: exp.Expr | None = None
    node = table.parent
    while node is not None:
        if isinstance(child, exp.CTE):
            within = child
        clause = node.args.get("with_")
        if clause is not None:
            visible = list(clause.expressions)
            if child is clause and not clause.args.get("recursive"):
                visible = visible[: next(at for at, one in enumerate(visible) if one is within)]
            if any(fold_name(identifier(one.args["alias"].this)) == key for one in visible):
                return True
        child, node = node, node.parent
    return False


def expand(text: str, known: Mapping[str, Expandable]) -> Expansion:
    """Return a text with the views that it reads written out; limits hold before anything is written."""
    folded = fold_name(text)
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
    return _edited(text, edits, tuple(views))


def closure(keys: Iterable[str], known: Mapping[str, Expandable]) -> list[str]:
    """Return views and those that they read, each after what it reads; a chain that is too long is refused."""
    depths: dict[str, int] = {}

    def visit(key: str, path: tuple[str, ...]) -> int:
        if key not in depths:
            below = {reference.key for reference in known[key].references.of(known)}
            if key in path or len(path) >= MAX_VIEW_DEPTH:
                raise _too_deep(known[key].name)
            depths[key] = 1 + max((visit(one, (*path, key)) for one in sorted(below)), default=0)
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
    taken = set(references.defined) | {reference.key for reference in references.read} | set(known)
    for key in order:
        taken |= known[key].references.defined | {reference.key for reference in known[key].references.read}
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
    columns = ", ".join(_quoted(name) for name in view.column_names)
    body = _edited(view.sql, _renamings(view.references.of(names), names), ()).sql
    head = _quoted(names[fold_name(view.name)]) + (f"({columns})" if columns else "")
    return f"{head} AS (\n{body}\n)"


def _renamings(references: Iterable[ViewReference], names: Mapping[str, str]) -> list[tuple[int, int, str]]:
    """Return what has to be written in place of names that do not spell the clause of their view."""
    edits = []
    for reference in references:
        name = names[reference.key]
        if reference.written != name:
            label = f" AS {_quoted(reference.label)}" if reference.label is not None else ""
            edits.append((reference.start, reference.end, _quoted(name) + label))
    return edits


def _edited(text: str, edits: Sequence[tuple[int, int, str]], views: tuple[Expandable, ...]) -> Expansion:
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


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
