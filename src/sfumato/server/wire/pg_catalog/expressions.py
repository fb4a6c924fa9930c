"""sqlglot's expressions become SQLite's, with their types. Unknown ones are refused by name."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any, Protocol

from sqlglot import exp

from sfumato.server.wire import oids
from sfumato.server.wire.pg_catalog.calls import MAX_ARGUMENTS, Calls, array_of
from sfumato.server.wire.pg_catalog.casting import INTEGERS, NAMED_OID_TYPES, TEXTS, is_array, type_number
from sfumato.server.wire.pg_catalog.compiled import ColumnScope, Compiled, Execution, InferredTypes, select, weight
from sfumato.server.wire.pg_catalog.fitting import Fitting
from sfumato.server.wire.pg_catalog.folds import Fold
from sfumato.server.wire.pg_catalog.functions import BARE, Builtin
from sfumato.server.wire.pg_catalog.operators import (
    ARITHMETIC,
    COMPARISONS,
    BinaryFunction,
    every,
    joined,
    like,
    matches,
    member,
)
from sfumato.server.wire.pg_catalog.relations import VirtualCatalog
from sfumato.server.wire.pg_catalog.row_values import part_type, row_object
from sfumato.server.wire.pg_catalog.trees import identifier, number, refused, type_name
from sfumato.server.wire.sqlstates import WireError

_SCHEMAS = ("pg_catalog", "information_schema")
_SIGNS = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_ORDERED_TYPES = (
    INTEGERS | NAMED_OID_TYPES | {oids.FLOAT4, oids.FLOAT8},
    TEXTS,
    frozenset({oids.BOOL}),
    frozenset({oids.DATE}),
    frozenset({oids.TIMESTAMP, oids.TIMESTAMPTZ}),
)
"""Types whose values SQLite compares as PostgreSQL does, each with those of the same kind."""


def is_ordered(*parts: Compiled) -> bool:
    """Whether SQLite itself compares these values as PostgreSQL does."""
    return any(all(part.oid in kind for part in parts) for kind in _ORDERED_TYPES)


def _chain(node: exp.Expr, is_part: Callable[[exp.Expr], bool]) -> tuple[exp.Expr, list[exp.Expr]]:
    """Return the first operand of a chain such as a + b - c, and its operations in turn: SQLite nests few calls."""
    operations = []
    while is_part(node):
        operations.append(node)
        node = node.this
    return node, operations[::-1]


def _in_turn(operators: Sequence[BinaryFunction]) -> Callable[..., Any]:
    def run(run: Execution, first: Any, *others: Any) -> Any:
        for operator, other in zip(operators, others, strict=True):
            first = run.read(operator(first, other))
        return first

    return run


class Nested(Protocol):
    """A query inside an expression."""

    @property
    def columns(self) -> tuple[tuple[str, int], ...]: ...

    @property
    def sql(self) -> str: ...

    @property
    def has_one_row(self) -> bool: ...


class Expressions:
    """Compiles expressions; `subquery` compiles the queries inside them."""

    def __init__(
        self,
        shadow: VirtualCatalog,
        forms: dict[str, Builtin],
        learned: InferredTypes,
        subquery: Callable[[exp.Expr, ColumnScope], Nested],
    ) -> None:
        self.forms, self.learned, self.subquery, self.calls = forms, learned, subquery, Calls(learned)
        types = Fitting(shadow, learned, self.calls)
        self.alike, self.fit, self.settled, self.cast = types.alike, types.fit, types.settled, types.cast
        self.slots: dict[int, Compiled] = {}
        """Aggregates and window functions of the query at hand, by node."""

    def read(self, node: exp.Expr | None, scope: ColumnScope) -> Compiled:
        """Return an expression."""
        if node is None:
            return self.calls.constant(None, oids.UNKNOWN)
        found = self.slots.get(id(node))
        if found is not None:
            return found
        self.learned.spend(1 + len(scope.fields))
        made = self._read(node, scope)
        self.learned.spend_text(made.sql)
        return made

    def _read(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        name = type(node).__name__
        reader = getattr(self, f"_{name.lower()}", None)
        if reader is not None:
            result: Compiled = reader(node, scope)
            return result
        if name in COMPARISONS:
            return self._comparison(name, node.this, node.expression, scope)
        if name in ARITHMETIC:
            return self._arithmetic(node, scope)
        if name in BARE:
            return self._call(BARE[name], [], scope)
        raise refused(node)

    # ── values ──

    def _literal(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        if node.args.get("is_string"):
            return self._bytestring(node, scope)
        return self.calls.constant(*number(str(node.this)))

    def _bytestring(self, node: exp.Expr, _: ColumnScope) -> Compiled:
        return replace(self.calls.constant(str(node.this), oids.UNKNOWN), literal=str(node.this))

    _rawstring = _bytestring

    def _boolean(self, node: exp.Expr, _: ColumnScope) -> Compiled:
        return self.calls.constant(bool(node.this), oids.BOOL)

    def _null(self, _node: exp.Expr, _: ColumnScope) -> Compiled:
        return self.calls.constant(None, oids.UNKNOWN)

    def _parameter(self, node: exp.Expr, _: ColumnScope) -> Compiled:
        name = str(node.this.this if isinstance(node.this, exp.Expr) else node.this)
        if not (name.isascii() and name.isdigit()) or len(name) > 4 or name == "0":
            raise WireError("42P02", "there is no such parameter")
        known = self.learned.of(name)
        self.learned.types.setdefault(name, oids.UNKNOWN)
        made = self.calls.add(lambda run: run.values.get(name), known)
        return replace(made, parameter=name if known == oids.UNKNOWN else None)

    def _column(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        table = node.args.get("table")
        name, owner = identifier(node.this), identifier(table) if table is not None else ""
        found = scope.find(owner, name)
        if found is not None:
            return Compiled(found.oid, found.sql)
        if not owner and name in self.forms and self.forms[name].session:
            return self._call(name, [], scope)  # CURRENT_SCHEMA and the like, without brackets
        if not owner and any(field.table == name for field in scope.fields):
            return self.calls.constant(None, oids.TEXT)  # a whole row, which nothing here shows
        shown = f"{owner}.{name}" if owner else name
        raise WireError("42703", f'column "{shown[:63]}" does not exist')

    def _paren(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self.read(node.this, scope)

    _collate = _alias = _paren

    def _array(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        parts = [self.read(part, scope) for part in node.expressions]
        element = next((part.oid for part in parts if part.oid != oids.UNKNOWN), oids.TEXT)
        parts = [self.fit(part, element) for part in parts]
        made = self.calls.add(lambda _run, *values: list(values), array_of(element), parts[:100])
        for at in range(100, len(parts), 99):
            rest = parts[at : at + 99]
            made = self.calls.add(lambda _run, first, *values: [*first, *values], made.oid, [made, *rest])
        return made

    def _tuple(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        parts = [self.read(part, scope) for part in node.expressions]
        return self.calls.add(lambda _run, *values: values, oids.TEXT, parts)

    def _bracket(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        values = self.read(node.this, scope)
        if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
            raise refused(node)
        index = self.read(node.expressions[0], scope)
        literal = isinstance(node.expressions[0], exp.Literal)
        shift = 0 if literal or values.oid in (oids.INT2VECTOR, oids.OIDVECTOR) else 1  # sqlglot has counted from 0

        def item(_: Execution, listed: Any, at: Any) -> Any:
            return listed[at - shift] if isinstance(at, int) and 0 <= at - shift < len(listed) else None

        return self.calls.add(item, oids.ELEMENTS.get(values.oid, oids.TEXT), [values, index], "[]", strict=True)

    def _dot(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        """A function of a schema, or a part of a row, which nothing here has."""
        if isinstance(node.this, exp.Identifier) and identifier(node.this) in _SCHEMAS:
            return self.read(node.expression, scope)
        self.read(node.this, scope)
        return self.calls.constant(None, part_type(node.expression))

    # ── conditions ──

    def _and(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._logical("AND", exp.And, node, scope)

    def _or(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._logical("OR", exp.Or, node, scope)

    def _logical(self, word: str, kind: type[exp.Expr], node: exp.Expr, scope: ColumnScope) -> Compiled:
        parts: list[Compiled] = []
        waiting: list[exp.Expr] = [node]
        while waiting:
            part = waiting.pop()
            if isinstance(part, kind):
                waiting += [part.expression, part.this]
            else:
                parts.append(self.fit(self.read(part, scope), oids.BOOL))
        return self._condition(f" {word} ".join(part.sql for part in parts), *parts)

    def _condition(self, sql: str, *parts: Compiled) -> Compiled:
        return Compiled(oids.BOOL, f"({sql})", all(part.is_constant for part in parts))

    def _not(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        inner = self.fit(self.read(node.this, scope), oids.BOOL)
        return self._condition(f"NOT {inner.sql}", inner)

    def _comparison(self, name: str, left: exp.Expr, right: exp.Expr, scope: ColumnScope) -> Compiled:
        if isinstance(right, exp.Anonymous) and str(right.this).upper() in ("ALL", "SOME") and right.expressions:
            kind = exp.All if str(right.this).upper() == "ALL" else exp.Any
            right = kind(this=right.expressions[0])
        if isinstance(right, exp.Any | exp.All):
            return self._quantified_comparison(name, left, right, scope)
        if isinstance(left, exp.Any | exp.All):
            turned = {"LT": "GT", "GT": "LT", "LTE": "GTE", "GTE": "LTE"}.get(name, name)
            return self._quantified_comparison(turned, right, left, scope)
        first, second = self.alike([self.read(left, scope), self.read(right, scope)])
        return self._compare(name, first, second)

    def _compare(self, name: str, first: Compiled, second: Compiled) -> Compiled:
        if is_ordered(first, second):
            return self._condition(f"{first.sql} {_SIGNS[name]} {second.sql}", first, second)
        compare = COMPARISONS[name]
        return self.calls.add(lambda _run, left, other: compare(left, other), oids.BOOL, [first, second], _SIGNS[name])

    def _quantified_comparison(self, name: str, left: exp.Expr, right: exp.Expr, scope: ColumnScope) -> Compiled:
        value = self.read(left, scope)
        inner = right.this.unnest() if isinstance(right.this, exp.Paren) else right.this
        if isinstance(inner, exp.Query):
            values = self._list_items(inner, scope)
        else:
            values = self.fit(self.read(inner, scope), array_of(value.oid))
        value = self.fit(value, oids.ELEMENTS.get(values.oid, oids.TEXT))
        several, compare = member if isinstance(right, exp.Any) else every, COMPARISONS[name]

        def quantified(run: Execution, one: Any, listed: Any) -> Any:
            return None if listed is None else several(one, listed, compare)

        return self.calls.add(quantified, oids.BOOL, [value, values], _SIGNS[name])

    def _nullsafeeq(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._null_safe(node, scope, "IS")

    def _nullsafeneq(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._null_safe(node, scope, "IS NOT")

    def _null_safe(self, node: exp.Expr, scope: ColumnScope, word: str) -> Compiled:
        first, second = self.alike([self.read(node.this, scope), self.read(node.expression, scope)])
        return self._condition(f"{first.sql} {word} {second.sql}", first, second)

    def _is(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        inner, other = self.read(node.this, scope), node.expression
        negated = bool(node.args.get("negate"))
        if isinstance(other, exp.Not):
            other, negated = other.this, not negated
        if not isinstance(other, exp.Null | exp.Boolean):
            raise refused(node)
        wanted = "NULL" if isinstance(other, exp.Null) else str(int(bool(other.this)))
        return self._condition(f"{inner.sql} {'IS NOT' if negated else 'IS'} {wanted}", inner)

    def _between(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        low = self._comparison("LTE", node.args["low"], node.this, scope)
        high = self._comparison("LTE", node.this, node.args["high"], scope)
        return self._condition(f"{low.sql} AND {high.sql}", low, high)

    def _in(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        value = self.read(node.this, scope)
        query = node.args.get("query")
        if query is not None:
            return self._in_query(value, query.unnest() if isinstance(query, exp.Subquery) else query, scope)
        value, *parts = self.alike([value, *(self.read(part, scope) for part in node.expressions)])
        if is_ordered(value, *parts):
            return self._condition(f"{value.sql} IN ({', '.join(part.sql for part in parts)})", value, *parts)
        compared = [self._compare("EQ", value, part) for part in parts]
        return self._condition(" OR ".join(part.sql for part in compared), *compared)

    def _in_query(self, value: Compiled, query: exp.Expr, scope: ColumnScope) -> Compiled:
        inner = self.subquery(query, scope)
        value = self.fit(value, inner.columns[0][1])
        if len(inner.columns) == 1 and is_ordered(value, Compiled(inner.columns[0][1], "")):
            return Compiled(oids.BOOL, f"({value.sql} IN ({inner.sql}))")
        listed = self._list_of(inner)
        return self.calls.add(lambda _run, item, values: member(item, values), oids.BOOL, [value, listed], "IN")

    def _like(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._pattern_match(like, False, node, scope)

    def _ilike(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._pattern_match(like, True, node, scope)

    def _regexplike(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._pattern_match(matches, False, node, scope)

    def _regexpilike(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._pattern_match(matches, True, node, scope)

    def _pattern_match(
        self, match: Callable[..., Any], ignore: bool, node: exp.Expr, scope: ColumnScope, *more: str
    ) -> Compiled:
        value, pattern = self.read(node.this, scope), self.fit(self.read(node.expression, scope), oids.TEXT)
        negated = bool(node.args.get("negate"))

        def matched(run: Execution, text: Any, wanted: Any) -> Any:
            found = match(run, text, wanted, ignore, *more)
            return found if found is None or not negated else not found

        return self.calls.add(matched, oids.BOOL, [value, pattern], "LIKE")

    def _escape(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        inner, escape = node.this, node.expression
        if not isinstance(inner, exp.Like | exp.ILike) or not isinstance(escape, exp.Literal) or len(escape.name) > 1:
            raise refused(node)
        return self._pattern_match(like, isinstance(inner, exp.ILike), inner, scope, escape.name)

    def _operator(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        symbol = str(node.args["operator"]).split(".")[-1].strip()
        known: dict[str, type[exp.Expr]] = {"~": exp.RegexpLike, "~*": exp.RegexpILike, "=": exp.EQ, "<>": exp.NEQ}
        known |= {"~~": exp.Like, "<": exp.LT, ">": exp.GT, "||": exp.DPipe}
        if symbol in ("!~", "!~~"):
            inner = known[symbol[1:]](this=node.this, expression=node.expression)
            return self._not(exp.Not(this=inner), scope)
        if symbol not in known:
            raise refused(node)
        return self.read(known[symbol](this=node.this, expression=node.expression), scope)

    def _arraycontainsall(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        first, second = self.alike([self.read(node.this, scope), self.read(node.expression, scope)])

        def contains(run: Execution, whole: Any, part: Any) -> bool:
            run.spend(len(whole) * weight(part))
            return all(item in whole for item in part)

        return self.calls.add(contains, oids.BOOL, [first, second], "@>", strict=True)

    # ── arithmetic, texts, cases ──

    def _arithmetic(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        first, rest = _chain(node, lambda part: type(part).__name__ in ARITHMETIC)
        made = self.read(first, scope)
        operators: list[BinaryFunction] = []
        parts: list[Compiled] = []
        for operation in rest:
            made, second = self.alike([made, self.read(operation.expression, scope)], oids.INT4)
            parts = [*parts, second] if parts else [made, second]
            operators.append(ARITHMETIC[type(operation).__name__])
            oid = second.oid if second.oid in (oids.FLOAT8, oids.NUMERIC) else made.oid
            made = Compiled(oid, "")
            if len(parts) == MAX_ARGUMENTS or operation is rest[-1]:
                made = self.calls.add(_in_turn(operators), oid, parts, "arithmetic")
                operators, parts = [], []
        return made

    def _neg(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        inner = self.read(node.this, scope)
        return self.calls.add(lambda _run, value: -value, inner.oid, [inner], "-", strict=True)

    def _dpipe(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        first, rest = _chain(node, lambda part: isinstance(part, exp.DPipe))
        read = [self.read(part, scope) for part in (first, *(operation.expression for operation in rest))]
        oid = next((part.oid for part in read if is_array(part.oid)), oids.TEXT)
        if not is_array(oid):
            read = [self.fit(part, oids.TEXT) if part.oid in TEXTS | NAMED_OID_TYPES else part for part in read]
        made, *others = read
        for at in range(0, len(others), MAX_ARGUMENTS - 1):
            parts = [made, *others[at : at + MAX_ARGUMENTS - 1]]
            made = self.calls.add(_in_turn([joined] * (len(parts) - 1)), oid, parts, "||")
        return made

    def _case(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        whens = []
        for branch in node.args["ifs"]:
            if node.this is not None:
                whens.append(self._comparison("EQ", node.this, branch.this, scope))
            else:
                whens.append(self.fit(self.read(branch.this, scope), oids.BOOL))
        results = [self.read(branch.args.get("true"), scope) for branch in node.args["ifs"]]
        results = self.alike([*results, self.read(node.args.get("default"), scope)])
        branches = " ".join(f"WHEN {when.sql} THEN {result.sql}" for when, result in zip(whens, results, strict=False))
        return Compiled(results[0].oid, f"CASE {branches} ELSE {results[-1].sql} END")

    def _cast(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self.cast(self.read(node.this, scope), type_number(type_name(node.args["to"])))

    _trycast = _cast

    def _extract(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        inner, part = self.read(node.expression, scope), node.this.name.lower()
        if part not in ("epoch", "year", "month", "day", "hour", "minute", "second"):
            raise refused(node)

        def extract(_: Execution, value: Any) -> Any:
            if not isinstance(value, date):
                return None
            moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
            return int(moment.replace(tzinfo=UTC).timestamp()) if part == "epoch" else getattr(moment, part)

        return self.calls.add(extract, oids.NUMERIC, [inner], "extract")

    def _substring(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        parts = [node.this, node.args.get("start"), node.args.get("length")]
        return self._call("substring", [part for part in parts if part is not None], scope)

    def _strposition(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._call("strpos", [node.this, node.args["substr"]], scope)

    def _trim(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "btrim")
        more = node.args.get("expression")
        return self._call(name, [node.this, *([more] if more is not None else [])], scope)

    # ── functions and queries ──

    def _anonymous(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        name = str(node.this.this if isinstance(node.this, exp.Expr) else node.this).lower()
        if name == "array" and len(node.expressions) == 1:
            return self._list_items(node.expressions[0], scope)
        if name in ("coalesce", "ifnull", "nullif", "greatest", "least"):
            return self._chosen(name, [self.read(part, scope) for part in node.expressions])
        if name == "pg_typeof" and len(node.expressions) == 1:
            return self.calls.constant(self.read(node.expressions[0], scope).oid, oids.REGTYPE)
        if name == "row_to_json" and node.expressions:
            return row_object(node.expressions[0], scope, self.calls, self.forms["json_build_object"])
        return self._call(name, list(node.expressions), scope)

    def _coalesce(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._chosen("coalesce", [self.read(part, scope) for part in (node.this, *node.expressions)])

    def _chosen(self, name: str, parts: list[Compiled]) -> Compiled:
        if not parts:
            raise WireError("42601", f"{name} needs an argument")
        parts = self.alike(parts)
        if name in ("coalesce", "ifnull"):
            listed = ", ".join([*(part.sql for part in parts), "NULL"])  # of one alone SQLite knows nothing
            return Compiled(parts[0].oid, f"coalesce({listed})", all(part.is_constant for part in parts))

        def choose(_: Execution, *values: Any) -> Any:
            if name == "nullif":
                return None if values[0] == values[-1] else values[0]
            there = [value for value in values if value is not None]
            return (max(there) if name == "greatest" else min(there)) if there else None

        return self.calls.add(choose, parts[0].oid, parts, name)

    def _call(self, name: str, arguments: list[exp.Expr], scope: ColumnScope) -> Compiled:
        form = self.forms.get(name)
        if form is None:
            raise WireError("42883", f"function {name[:63]} does not exist here")
        parts = [self.settled(self.read(part, scope)) for part in arguments]
        gives = form.gives or (parts[0].oid if parts else oids.TEXT)
        return self.calls.add(form.run, gives, parts, name, form.strict)

    def _exists(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return Compiled(oids.BOOL, f"EXISTS ({self.subquery(node.this, scope).sql})")

    def _subquery(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        query = self.subquery(node.this, scope)
        oid = query.columns[0][1]
        if query.has_one_row:
            return Compiled(oid, f"({query.sql})" if len(query.columns) == 1 else f"({select('c1', f'({query.sql})')})")
        return Compiled(oid, self._fold_query("single_value", query))

    def _select(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._subquery(exp.Subquery(this=node), scope)

    def _list_items(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._list_of(self.subquery(node, scope))

    def _list_of(self, query: Nested) -> Compiled:
        empty = self.calls.constant([], oids.TEXT)
        return Compiled(array_of(query.columns[0][1]), f"coalesce({self._fold_query('array_agg', query)}, {empty.sql})")

    def _fold_query(self, name: str, query: Nested) -> str:
        number = self.calls.number(Fold(name, 1), (query.columns[0][1],))
        return f"({select(f'fold({number}, c1)', f'({query.sql})')})"
