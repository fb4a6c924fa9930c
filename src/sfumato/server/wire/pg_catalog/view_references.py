"""Where a text reads rows from a name that it does not define itself: a table, or a temporary view."""

from collections.abc import Iterable
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
    defined: frozenset[str] = frozenset()

    def of(self, known: Iterable[str]) -> tuple[ViewReference, ...]:
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
