"""One reading of one text: where its nodes stand, which labels are taken, and how much of the limits is used."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn

from sqlglot import exp

from sfumato.errors import BadSql
from sfumato.query.catalog import Catalog
from sfumato.query.declared import Admitted, beyond_bounds, never_equal
from sfumato.query.expression import Call, Column, Expression, Literal, Position, walk
from sfumato.query.functions import Function
from sfumato.query.literal import Unbound
from sfumato.query.names import Name, Scope, unused_name
from sfumato.query.parameters import Bindings, LiteralList
from sfumato.query.parsing.rewriting import first_union_part, group_query
from sfumato.query.parsing.tree import ARRAY_REFUSAL, MAX_NESTING, span
from sfumato.query.position import SourceSpan, example, source_span

MAX_JOINS = 64
MAX_COLUMNS = 200
MAX_SYNTAX_NODES = 20_000
_ORDERS = frozenset({Function.LESS, Function.AT_MOST})
_DIFFERENCES = frozenset({Function.DIFFERENT, Function.DISTINCT_FROM})


class ParseContext:
    """The text, the catalog, and what has been used up so far."""

    def __init__(
        self,
        text: str,
        catalog: Catalog,
        accepts: Callable[[str], bool],
        bindings: Bindings | None = None,
        used: set[int] | None = None,
    ) -> None:
        self.text = text
        self.catalog = catalog
        self.accepts = accepts  # whether a question that a remedy would show can be read
        self.bindings = bindings
        self.used = set() if used is None else used  # the WITH definitions that have been read
        self.looks_ahead = 0  # how many readings this one is inside of, each to know the types of a list
        self.around: tuple[Scope, ...] = ()  # the names that a subquery may use of the rows around it, nearest last
        self.asks_for_bars = False  # whether dp_low, dp_high or dp_margin was read
        self._labels: set[str] = set()
        self._declared: dict[tuple[str, str], Admitted] = {}
        self._impossible: dict[Expression, BadSql] = {}
        self._certain: dict[Expression, BadSql] = {}
        self._orders: dict[int, BadSql] = {}
        self._notes: dict[str, None] = {}
        self._joins = 0
        self._nodes = 0

    def place(self, node: exp.Expr) -> SourceSpan:
        """Return where a node stands in the text."""
        return source_span(self.text, *span(node))

    def at(self, node: exp.Expr) -> Position:
        """Return the line and column of a node."""
        return self.place(node).at

    def apart(self) -> "ParseContext":
        """Return another reading of the same text, with limits of its own."""
        return ParseContext(self.text, self.catalog, self.accepts, self.bindings, self.used)

    def parameter(self, node: exp.Expr) -> Literal:
        """Return the value that stands for `$1` or `:name`."""
        start, end = span(node)
        begins = start if self.text[start : start + 1] in ("$", ":") else start - 1
        where = source_span(self.text, begins, end)
        literal = (self.bindings or {}).get(parameter_name(node))
        if literal is None:
            raise where.bad(
                "no value is given for this parameter.",
                "A parameter is $1, $2, … or :name, and its value comes beside the text.",
                "Give it a value, or write the value itself.",
            )
        if isinstance(literal, LiteralList):
            raise where.bad(
                "a list is given where one value is needed.",
                "A parameter with a list of values stands for an array.",
                "Compare with any of them: x = ANY($1), or with none: x <> ALL($1).",
            )
        return replace(literal, at=where.at)

    def array(self, node: exp.Expr) -> tuple[Literal, ...] | Literal:
        """Return the items of a parameter that stands for an array; a parameter with one value is that value."""
        bound = (self.bindings or {}).get(parameter_name(node))
        if isinstance(bound, LiteralList):
            at = self.at(node)
            return tuple(replace(item, at=at) for item in bound.items)
        literal = self.parameter(node)
        if isinstance(literal.value, Unbound):
            literal.value.arrays.add(literal.value.name)
            return (literal,)
        return literal

    @contextmanager
    def inside(self, scope: Scope) -> Iterator[None]:
        """Read a subquery, which may use the names of the rows around it."""
        before = self.around
        self.around = (*before, scope)
        try:
            yield
        finally:
            self.around = before

    def label(self, name: str) -> str:
        """Return a label that no other relation of this query has."""
        label = unused_name(name, self._labels)
        self._labels.add(label)
        return label

    def declare(self, label: str, name: str, declared: Admitted | None) -> None:
        """Note what the policy says a column can hold."""
        if declared is not None:
            self._declared[label, name] = declared

    def declared(self, expression: Expression) -> Admitted | None:
        """Return the declared values of a column; None for other expressions and undeclared columns."""
        return self._declared.get((expression.of, expression.name)) if isinstance(expression, Column) else None

    def never_equal(self, left: Expression, right: Expression, where: SourceSpan) -> BadSql | None:
        """Return the refusal of an equality that the policy alone decides."""
        found = (
            never_equal(first, other, self.declared(first), where) for first, other in ((left, right), (right, left))
        )
        return next((refusal for refusal in found if refusal is not None), None)

    def decided(self, expression: Expression, refusal: BadSql | None, *, holds: bool = False) -> Expression:
        """Note a comparison with a literal that a column never has; `holds`: it may still be true."""
        if refusal is not None:
            self._notes[f"{refusal.what} {refusal.why}"] = None
        if refusal is not None and not holds:
            differs = isinstance(expression, Call) and expression.function in _DIFFERENCES
            (self._certain if differs else self._impossible).setdefault(expression, refusal)
        return expression

    def ordered(self, comparison: Expression, lesser: Expression, greater: Expression, where: SourceSpan) -> Expression:
        """Note an order in which a literal lies beyond a column's bounds, where it may decide a condition."""
        declared = self.declared(lesser) or self.declared(greater)
        is_order = isinstance(comparison, Call) and comparison.function in _ORDERS
        if is_order and (beyond := beyond_bounds(lesser, greater, declared, where)) is not None:
            self.decided(comparison, beyond[0], holds=beyond[1])
            self._orders[id(beyond[0])] = beyond[0]
        return comparison

    def refuse_impossible(self, condition: Expression, *, orders: bool = True) -> None:
        """Refuse a condition that can never hold, by the policy alone; without `orders`, one that compares is a note.

        A CASE often has a branch for values that should not be there.
        """
        refusal = self._never(condition)
        if refusal is not None and (orders or id(refusal) not in self._orders):
            raise refusal

    def _never(self, condition: Expression) -> BadSql | None:
        """Return why a condition can never hold; None where it may."""
        match condition:
            case Call(Function.AND, parts):
                return next((found for part in parts if (found := self._never(part)) is not None), None)
            case Call(Function.OR, parts):
                reasons = [self._never(part) for part in parts]
                return None if None in reasons else reasons[0]
            case Call(Function.NOT, (Call(function) as inner,)) if function in _DIFFERENCES:
                return self._certain.get(inner)
        return self._impossible.get(condition)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on literals that a column never has, in conditions that may hold without them."""
        return tuple(self._notes)

    def count_join(self, node: exp.Expr) -> None:
        """Count a join, those of inlined subqueries included."""
        self._joins += 1
        if self._joins > MAX_JOINS:
            raise self.place(node).too_large(
                f"the query has more than {MAX_JOINS} joins.",
                "Each use of a WITH clause counts its own.",
                "Join fewer tables.",
            )

    def settle(self, expression: Expression, node: exp.Expr) -> Expression:
        """Count an expression as it is after inlining; one that grew too large is refused before it is walked."""
        for _, depth in walk(expression):
            self._nodes += 1
            if self._nodes > MAX_SYNTAX_NODES or depth > MAX_NESTING:
                raise self.place(node).too_large(
                    f"with everything it names written out, the query has more than {MAX_SYNTAX_NODES} parts."
                    if self._nodes > MAX_SYNTAX_NODES
                    else f"with everything it names written out, the expression is more than {MAX_NESTING} deep.",
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
        """Refuse a node by the name of what it is; where another question says the same, the remedy shows it."""
        what, why, remedy = _reason(node, key)
        other = _OTHERWISE.get(type(node))
        instead = other(node, self.catalog) if other is not None else None
        raise self.place(node).unsupported(what, why, self.with_example(remedy, instead))

    def with_example(self, remedy: str, instead: str | None) -> str:
        """Return a remedy with the question that follows it, if that one can be read."""
        end = example(instead) if instead is not None and self.accepts(instead) else ""
        return f"{remedy.removesuffix('.')}{end}." if end else remedy


_OTHERWISE: Mapping[type[exp.Expr], Callable[[exp.Expr, Catalog], str | None]] = {
    exp.Window: group_query,
    exp.Union: first_union_part,
}

_ROWS = "A window looks at single rows, which no noise can protect."
_WINDOW = ("window functions are not supported.", _ROWS, "Use GROUP BY, or compute it from the answer, which is free.")
_CLOCK = (
    "the clock is read.",
    "A question must mean the same whenever it is asked.",
    "Write the date: DATE '2024-12-31'.",
)
_SAMPLE = (
    "sampling is not supported.",
    "Which rows count is decided by the policy, and the noise by the price.",
    "Leave the sampling out.",
)
_LATERAL = (
    "LATERAL is not supported.",
    "It runs a query for each row.",
    "Use a join with a condition, or a subquery as a column: SELECT k, (SELECT COUNT(*) FROM … WHERE … = k) FROM ….",
)
_REASONS: Mapping[str, tuple[str, str, str]] = {
    "Window": _WINDOW,
    "windows": _WINDOW,
    "Union": (
        "UNION of people's rows with others is not supported.",
        "Each row must belong to a known person on both sides.",
        "Ask each part separately, and combine the answers.",
    ),
    "Intersect": (
        "INTERSECT is not supported.",
        "It compares rows of different people.",
        "Use a join with the second table, or AND in WHERE.",
    ),
    "Except": (
        "EXCEPT is not supported.",
        "It compares rows of different people.",
        "Use NOT in WHERE, or a LEFT JOIN that keeps the rows without a partner.",
    ),
    "CurrentDate": _CLOCK,
    "CurrentTime": _CLOCK,
    "CurrentTimestamp": _CLOCK,
    "Localtime": _CLOCK,
    "Localtimestamp": _CLOCK,
    "sample": _SAMPLE,
    "TableSample": _SAMPLE,
    "into": ("SELECT INTO is not supported.", "A question cannot change data.", "Leave INTO out."),
    "locks": ("FOR UPDATE is not supported.", "A question cannot change data.", "Leave it out."),
    "qualify": ("QUALIFY is not supported.", _ROWS, "Use HAVING to choose groups, or WHERE to choose rows."),
    "Lateral": _LATERAL,
    "laterals": _LATERAL,
    "Unnest": ("UNNEST is not supported.", "A column holds single values, not lists.", "Join a table of the values."),
    "pivots": (
        "PIVOT is not supported.",
        "Its columns come from the data.",
        "Use GROUP BY, or one COUNT(*) FILTER (WHERE …) for each column.",
    ),
    "on": (
        "DISTINCT ON without an order is not supported.",
        "Which row is the first has to follow from the text.",
        "Write ORDER BY with the same columns first, then what decides: DISTINCT ON (a) … ORDER BY a, day.",
    ),
    "Tuple": (
        "several values stand where one is needed.",
        "A column holds single values.",
        "Join them into one text, a || ' ' || b; or count the rows of SELECT DISTINCT a, b FROM ….",
    ),
    "Array": ARRAY_REFUSAL,
    "Any": (
        "ANY stands alone.",
        "It belongs behind a comparison.",
        "Write x = ANY(ARRAY['a', 'b']), or x IN ('a', 'b').",
    ),
    "All": ("ALL stands alone.", "It belongs behind a comparison.", "Write x <> ALL(ARRAY['a', 'b'])."),
}


def _reason(node: exp.Expr, key: str) -> tuple[str, str, str]:
    name = type(node).__name__
    known = _REASONS.get(key) or _REASONS.get(name)
    if known:
        return known
    words = key.replace("_", " ").strip() or "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()
    return (
        f"{words} is not supported.",
        "It is not part of the SQL that is answered here; docs/sql/index.md lists what is.",
        "Write it another way.",
    )


def parameter_name(node: exp.Expr) -> str:
    """Return the name after the $ or the colon of a parameter."""
    return str(node.this.this) if isinstance(node.this, exp.Expr) else str(node.this or "")


def name_of(node: exp.Expr) -> Name:
    """Return the name that an identifier spells."""
    return Name(str(node.this), bool(node.args.get("quoted")))
