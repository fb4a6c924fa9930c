"""Where a text reads rows from a name that it does not define itself: a table, or a temporary view."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlglot import exp

from sfumato.errors import Refusal
from sfumato.policy.policy import fold_name
from sfumato.query.parsing.tree import foreign_tree, read_tree
from sfumato.server.wire.pg_catalog.trees import identifier
from sfumato.server.wire.pg_catalog.view_rows import TEMPORARY_SCHEMAS


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
    keys: frozenset[str] = frozenset()
    """The names that are read, without case."""
    defined: frozenset[str] = frozenset()

    def of(self, known: Collection[str]) -> tuple[ViewReference, ...]:
        """Return those that mean one of some views."""
        return tuple(reference for reference in self.read if reference.key in known)


def find_references(text: str) -> ViewReferences:
    """Return what a text reads; a text that cannot be read names nothing, and is refused where it is answered."""
    try:
        tree: exp.Expr = foreign_tree(text)
    except Refusal:
        try:
            tree = read_tree(text, True)[0]
        except Refusal:
            return ViewReferences()
    clauses = {id(clause): _Clause(clause) for clause in tree.find_all(exp.With)}
    found = [_reference(table, clauses) for table in tree.find_all(exp.Table)]
    read = sorted((reference for reference in found if reference is not None), key=lambda reference: reference.start)
    defined = frozenset(key for clause in clauses.values() for key in clause.places)
    return ViewReferences(tuple(read), frozenset(reference.key for reference in read), defined)


class _Clause:
    """The names of a WITH clause: each with where it is first defined."""

    def __init__(self, clause: exp.With) -> None:
        self._recursive = bool(clause.args.get("recursive"))
        self._order = {id(definition): at for at, definition in enumerate(clause.expressions)}
        self.places: dict[str, int] = {}
        for at, definition in enumerate(clause.expressions):
            self.places.setdefault(fold_name(identifier(definition.args["alias"].this)), at)

    def defines(self, key: str, within: exp.Expr | None) -> bool:
        """Whether a name is defined for what stands in one of the definitions; None for the query itself."""
        if within is None or self._recursive:
            return key in self.places
        return self.places.get(key, len(self._order)) < self._order[id(within)]


def _reference(table: exp.Table, clauses: Mapping[int, _Clause]) -> ViewReference | None:
    name, schema, catalog = table.this, table.args.get("db"), table.args.get("catalog")
    if not isinstance(name, exp.Identifier) or (schema is not None and identifier(schema) not in TEMPORARY_SCHEMAS):
        return None
    first = catalog or schema or name
    if "start" not in first.meta or "end" not in name.meta:
        return None
    written, key = identifier(name), fold_name(identifier(name))
    if schema is None and _is_defined(table, key, clauses):
        return None
    label = written if table.args.get("alias") is None else None
    return ViewReference(key, first.meta["start"], name.meta["end"] + 1, written if schema is None else "", label)


def _is_defined(table: exp.Table, key: str, clauses: Mapping[int, _Clause]) -> bool:
    """Whether a WITH clause of the text defines the name that a table reference has."""
    child: exp.Expr = table
    definition: exp.Expr | None = None
    node = table.parent
    while node is not None:
        if isinstance(child, exp.CTE):
            definition = child
        clause = node.args.get("with_")
        if clause is not None and clauses[id(clause)].defines(key, definition if child is clause else None):
            return True
        child, node = node, node.parent
    return False
