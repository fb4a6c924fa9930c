"""One reading of one text: where its nodes stand, which labels are taken, and how much of the limits is used."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn

from sqlglot import exp

from sfumato.query.catalog import Catalog
from sfumato.query.expression import Expression, Literal, Position, walk
from sfumato.query.names import Name, free
from sfumato.query.parameters import Bindings
from sfumato.query.parse_tree import DEEPEST, span
from sfumato.query.position import Place, place

MOST_JOINS = 64
MOST_COLUMNS = 200
MOST_ITEMS = 1000
MOST_NODES = 20_000


class Reading:
    """The text, the catalog, and what has been used up so far."""

    def __init__(
        self, text: str, catalog: Catalog, bindings: Bindings | None = None, used: set[int] | None = None
    ) -> None:
        self.text = text
        self.catalog = catalog
        self.bindings = bindings
        self.used = set() if used is None else used  # the WITH definitions that have been read
        self._labels: set[str] = set()
        self._joins = 0
        self._nodes = 0

    def place(self, node: exp.Expr) -> Place:
        """Return where a node stands in the text."""
        return place(self.text, *span(node))

    def at(self, node: exp.Expr) -> Position:
        """Return the line and column of a node."""
        return self.place(node).at

    def apart(self) -> "Reading":
        """Return another reading of the same text, with limits of its own."""
        return Reading(self.text, self.catalog, self.bindings, self.used)

    def parameter(self, node: exp.Expr) -> Literal:
        """Return the value that stands for `$1` or `:name`."""
        start, end = span(node)
        begins = start if self.text[start : start + 1] in ("$", ":") else start - 1
        inner, where = node.this, place(self.text, begins, end)
        name = str(inner.this) if isinstance(inner, exp.Expr) else str(inner or "")
        literal = (self.bindings or {}).get(name)
        if literal is None:
            raise where.bad(
                "no value is given for this parameter.",
                "A parameter is $1, $2, … or :name, and its value comes beside the text.",
                "Give it a value, or write the value itself.",
            )
        return replace(literal, at=where.at)

    def label(self, name: str) -> str:
        """Return a label that no other relation of this query has."""
        label = free(name, self._labels)
        self._labels.add(label)
        return label

    def count_join(self, node: exp.Expr) -> None:
        """Count a join, those of inlined subqueries included."""
        self._joins += 1
        if self._joins > MOST_JOINS:
            raise self.place(node).too_large(
                f"the query has more than {MOST_JOINS} joins.",
                "Each use of a WITH clause counts its own.",
                "Join fewer tables.",
            )

    def settle(self, expression: Expression, node: exp.Expr) -> Expression:
        """Count an expression as it is after inlining; one that grew too large is refused before anybody walks it."""
        for _, depth in walk(expression):
            self._nodes += 1
            if self._nodes > MOST_NODES or depth > DEEPEST:
                raise self.place(node).too_large(
                    f"with everything it names written out, the query has more than {MOST_NODES} parts."
                    if self._nodes > MOST_NODES
                    else f"with everything it names written out, the expression is more than {DEEPEST} deep.",
                    "A column of a subquery counts as the expression behind it; a chain of operators counts like "
                    "brackets, except AND, OR and ||.",
                    "Split the question.",
                )
        return expression

    def only(self, node: exp.Expr, *known: str) -> None:
        """Refuse a node with any part that its reader does not know: nothing is ever skipped."""
        for key, value in node.args.items():
            if value and key not in known:
                part = value[0] if isinstance(value, list) else value
                self.refuse(part if isinstance(part, exp.Expr) and "first" in part.meta else node, key)

    def refuse(self, node: exp.Expr, key: str = "") -> NoReturn:
        """Refuse a node by the name of what it is."""
        what, why, remedy = _reason(node, key)
        raise self.place(node).unsupported(what, why, remedy)


_NOT_ROWS = "It would show or reorder single rows, which no noise can protect."
_CLOCK = (
    "the clock is read.",
    "The same question has to mean the same tomorrow.",
    "Write the date: DATE '2024-12-31'.",
)
_PATTERN = (
    "regular expressions are not supported.",
    "Some of them take very long on some values, and time is a side channel.",
    "Use LIKE, STARTS_WITH or POSITION.",
)
_REASONS: Mapping[str, tuple[str, str, str]] = {
    "Window": ("window functions are not supported.", _NOT_ROWS, "Use GROUP BY, or a subquery per unit."),
    "windows": ("window functions are not supported.", _NOT_ROWS, "Use GROUP BY, or a subquery per unit."),
    "WithinGroup": (
        "quantiles are not answered yet.",
        "Their noise is of another kind.",
        "Count over buckets instead.",
    ),
    "Union": ("UNION is not supported.", "A person's rows on both sides would be counted twice.", "Ask each part."),
    "Intersect": ("INTERSECT is not supported.", "It compares rows of different people.", "Use WHERE or a join."),
    "Except": ("EXCEPT is not supported.", "It compares rows of different people.", "Use WHERE or a join."),
    "RegexpLike": _PATTERN,
    "RegexpILike": _PATTERN,
    "SimilarTo": _PATTERN,
    "CurrentDate": _CLOCK,
    "CurrentTime": _CLOCK,
    "CurrentTimestamp": _CLOCK,
    "Localtime": _CLOCK,
    "Localtimestamp": _CLOCK,
    "sample": ("sampling is not supported.", "Bounds and noise are chosen by the system.", "Remove it."),
    "TableSample": ("sampling is not supported.", "Bounds and noise are chosen by the system.", "Remove it."),
    "into": ("SELECT INTO is not supported.", "Nothing here can change data.", "Remove INTO."),
    "locks": ("FOR UPDATE is not supported.", "Nothing here can change data.", "Remove it."),
    "qualify": ("QUALIFY is not supported.", _NOT_ROWS, "Use HAVING."),
    "grouping_sets": ("GROUPING SETS is not supported.", "Each is a question.", "Ask one GROUP BY at a time."),
    "cube": ("CUBE is not supported.", "Each of its groupings is a question.", "Ask one GROUP BY at a time."),
    "rollup": ("ROLLUP is not supported.", "Each of its groupings is a question.", "Ask one GROUP BY at a time."),
    "Lateral": ("LATERAL is not supported.", "It runs a query per row.", "Use a join with a condition."),
    "laterals": ("LATERAL is not supported.", "It runs a query per row.", "Use a join with a condition."),
    "Unnest": ("UNNEST is not supported.", "Columns hold single values.", "Use a table."),
    "pivots": ("PIVOT is not supported.", "Its columns come from the data.", "Use GROUP BY, or FILTER per column."),
    "Any": ("ANY is not supported.", "It needs an array or a subquery.", "Use IN (…) with values."),
    "All": ("ALL is not supported.", "It needs an array or a subquery.", "Use comparisons with AND."),
}


def _reason(node: exp.Expr, key: str) -> tuple[str, str, str]:
    name = type(node).__name__
    known = _REASONS.get(key) or _REASONS.get(name)
    if known:
        return known
    words = key.replace("_", " ").strip() or "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()
    return (
        f"{words} is not supported.",
        "It is not part of the SQL that is answered here; docs/sql.md lists what is.",
        "Write it another way.",
    )


def name_of(node: exp.Expr) -> Name:
    """Return the name that an identifier spells."""
    return Name(str(node.this), bool(node.args.get("quoted")))
