"""sqlglot's expressions become functions of rows; what is not known here is refused by name."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any, Protocol

from sqlglot import exp

from sfumato.server.wire import oids
from sfumato.server.wire.pg_catalog.casting import NAMED, TEXTS, is_array, type_number
from sfumato.server.wire.pg_catalog.compiled import (
    ColumnScope,
    Compiled,
    Execution,
    Frames,
    InferredTypes,
    constant,
    counted,
    deeper,
    joined_uses,
    weight,
)
from sfumato.server.wire.pg_catalog.fitting import Fitting
from sfumato.server.wire.pg_catalog.functions import BARE, Builtin
from sfumato.server.wire.pg_catalog.operators import (
    ARITHMETIC,
    COMPARISONS,
    Binary,
    conjunction,
    disjunction,
    every,
    joined,
    like,
    matches,
    member,
)
from sfumato.server.wire.pg_catalog.relations import VirtualCatalog
from sfumato.server.wire.pg_catalog.rows import single_value
from sfumato.server.wire.pg_catalog.trees import identifier, number, refused, type_name
from sfumato.server.wire.sqlstates import WireError

_SCHEMAS = ("pg_catalog", "information_schema")
_STORED = frozenset({"Boolean", "Column", "Literal", "Null", "Parameter"})
"""Expressions that make nothing new."""
_PASSED = frozenset({"Alias", "Collate", "Paren"})
"""Expressions that are what stands in them, which is counted there."""


class Nested(Protocol):
    """A query inside an expression."""

    @property
    def columns(self) -> tuple[tuple[str, int], ...]: ...

    @property
    def uses(self) -> frozenset[tuple[int, int]]: ...

    def rows(self, run: Execution, frames: Frames) -> list[tuple[Any, ...]]: ...


class Expressions:
    """Compiles expressions; `subquery` compiles the queries inside them."""

    def __init__(
        self,
        shadow: VirtualCatalog,
        forms: dict[str, Builtin],
        learned: InferredTypes,
        subquery: Callable[[exp.Expr, ColumnScope], Nested],
    ) -> None:
        self.forms, self.learned, self.subquery = forms, learned, subquery
        types = Fitting(shadow, learned)
        self.alike, self.fit, self.settled, self.cast = types.alike, types.fit, types.settled, types.cast
        self.slots: dict[int, Compiled] = {}
        """Aggregates and window functions of the query at hand, by node: columns that are computed before."""

    def read(self, node: exp.Expr | None, scope: ColumnScope) -> Compiled:
        """Return an expression as a function."""
        if node is None:
            return constant(None, oids.UNKNOWN)
        found = self.slots.get(id(node))
        if found is not None:
            return found
        self.learned.spend(1 + len(scope.fields))
        name = type(node).__name__
        reader = getattr(self, f"_{name.lower()}", None)
        if reader is not None:
            result: Compiled = reader(node, scope)
            return counted(result, name not in _STORED) if name not in _PASSED else result
        if name in COMPARISONS:
            return counted(self._compared(COMPARISONS[name], node.this, node.expression, scope), False)
        if name in ARITHMETIC:
            return counted(self._arithmetic(ARITHMETIC[name], node, scope), True)
        if name in BARE:
            return counted(self._called(BARE[name], [], scope), False)
        raise refused(node)

    # ── values ──

    def _literal(self, node: exp.Expr, _: ColumnScope) -> Compiled:
        if node.args.get("is_string"):
            return self._bytestring(node, _)
        return number(str(node.this))

    def _bytestring(self, node: exp.Expr, _: ColumnScope) -> Compiled:
        return replace(constant(str(node.this), oids.UNKNOWN), literal=str(node.this))

    _rawstring = _bytestring

    def _boolean(self, node: exp.Expr, _: ColumnScope) -> Compiled:
        return constant(bool(node.this), oids.BOOL)

    def _null(self, _node: exp.Expr, _: ColumnScope) -> Compiled:
        return constant(None, oids.UNKNOWN)

    def _parameter(self, node: exp.Expr, _: ColumnScope) -> Compiled:
        name = str(node.this.this if isinstance(node.this, exp.Expr) else node.this)
        if not (name.isascii() and name.isdigit()) or len(name) > 4 or name == "0":
            raise WireError("42P02", "there is no such parameter")
        known = self.learned.of(name)
        self.learned.types.setdefault(name, oids.UNKNOWN)
        return Compiled(
            known, lambda run, _frames: run.values.get(name), parameter=name if known == oids.UNKNOWN else None
        )

    def _column(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        table = node.args.get("table")
        name, owner = identifier(node.this), identifier(table) if table is not None else ""
        found = scope.find(owner, name)
        if found is None:
            if not owner and name in self.forms and self.forms[name].session:
                return self._called(name, [], scope)  # CURRENT_SCHEMA and the like, without brackets
            if not owner and any(field.table == name for field in scope.fields):
                return constant(None, oids.TEXT)  # a whole row, which nothing here shows
            shown = f"{owner}.{name}" if owner else name
            raise WireError("42703", f'column "{shown[:63]}" does not exist')
        depth, at, oid = found
        return Compiled(oid, lambda _run, frames: frames[depth][at], frozenset({(depth, at)}))

    def _paren(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self.read(node.this, scope)

    def _collate(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self.read(node.this, scope)

    def _alias(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self.read(node.this, scope)

    def _array(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        parts = [self.read(part, scope) for part in node.expressions]
        element = next((part.oid for part in parts if part.oid != oids.UNKNOWN), oids.TEXT)
        parts = [self.fit(part, element) for part in parts]
        oid = oids.ARRAYS.get(element, oids.ARRAYS[oids.TEXT])
        return Compiled(oid, lambda run, frames: [part.run(run, frames) for part in parts], joined_uses(parts))

    def _tuple(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        parts = [self.read(part, scope) for part in node.expressions]
        return Compiled(oids.TEXT, lambda run, frames: tuple(p.run(run, frames) for p in parts), joined_uses(parts))

    def _bracket(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        values = self.read(node.this, scope)
        if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
            raise refused(node)
        index = self.read(node.expressions[0], scope)
        literal = isinstance(node.expressions[0], exp.Literal)
        shift = 0 if literal or values.oid in (oids.INT2VECTOR, oids.OIDVECTOR) else 1  # sqlglot has counted from 0

        def run(run: Execution, frames: Frames) -> Any:
            listed, at = values.run(run, frames), index.run(run, frames)
            if listed is None or at is None or not isinstance(at, int):
                return None
            return listed[at - shift] if 0 <= at - shift < len(listed) else None

        return Compiled(oids.ELEMENTS.get(values.oid, oids.TEXT), run, values.uses | index.uses)

    def _dot(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        """A function of a schema, or a part of a row, which nothing here has."""
        if isinstance(node.this, exp.Identifier) and identifier(node.this) in _SCHEMAS:
            return self.read(node.expression, scope)
        return replace(self.read(node.this, scope), oid=oids.INT4, run=lambda _run, _frames: None)

    # ── conditions ──

    def _and(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._logical(conjunction, exp.And, node, scope)

    def _or(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._logical(disjunction, exp.Or, node, scope)

    def _logical(self, operator: Binary, kind: type[exp.Expr], node: exp.Expr, scope: ColumnScope) -> Compiled:
        parts: list[Compiled] = []
        waiting: list[exp.Expr] = [node]
        while waiting:
            part = waiting.pop()
            if isinstance(part, kind):
                waiting += [part.expression, part.this]
            else:
                parts.append(self.fit(self.read(part, scope), oids.BOOL))
        decisive = operator is disjunction

        def run(run: Execution, frames: Frames) -> Any:
            result: Any = not decisive
            for part in parts:
                result = operator(result, part.run(run, frames))
                if result is decisive:
                    return result
            return result

        return Compiled(oids.BOOL, run, joined_uses(parts))

    def _not(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        inner = self.fit(self.read(node.this, scope), oids.BOOL)

        def run(run: Execution, frames: Frames) -> Any:
            value = inner.run(run, frames)
            return None if value is None else not value

        return Compiled(oids.BOOL, run, inner.uses)

    def _compared(self, compare: Binary, left: exp.Expr, right: exp.Expr, scope: ColumnScope) -> Compiled:
        if isinstance(right, exp.Anonymous) and str(right.this).upper() in ("ALL", "SOME") and right.expressions:
            kind = exp.All if str(right.this).upper() == "ALL" else exp.Any
            right = kind(this=right.expressions[0])
        if isinstance(right, exp.Any | exp.All):
            return self._quantified(compare, left, right, scope)
        if isinstance(left, exp.Any | exp.All):
            return self._quantified(lambda one, other: compare(other, one), right, left, scope)
        first, second = self.alike([self.read(left, scope), self.read(right, scope)])
        return Compiled(
            oids.BOOL,
            lambda run, frames: compare(first.run(run, frames), second.run(run, frames)),
            first.uses | second.uses,
        )

    def _quantified(self, compare: Binary, left: exp.Expr, right: exp.Expr, scope: ColumnScope) -> Compiled:
        value = self.read(left, scope)
        inner = right.this.unnest() if isinstance(right.this, exp.Paren) else right.this
        if isinstance(inner, exp.Query):
            values = self._listed(inner, scope)
        else:
            values = self.fit(self.read(inner, scope), oids.ARRAYS.get(value.oid, oids.ARRAYS[oids.TEXT]))
        value = self.fit(value, oids.ELEMENTS.get(values.oid, oids.TEXT))
        several = member if isinstance(right, exp.Any) else every

        def run(run: Execution, frames: Frames) -> Any:
            listed = values.run(run, frames)
            return None if listed is None else several(value.run(run, frames), listed, compare)

        return Compiled(oids.BOOL, run, value.uses | values.uses)

    def _nullsafeeq(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        first, second = self.alike([self.read(node.this, scope), self.read(node.expression, scope)])
        return Compiled(
            oids.BOOL, lambda run, frames: first.run(run, frames) == second.run(run, frames), first.uses | second.uses
        )

    def _nullsafeneq(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        same = self._nullsafeeq(node, scope)
        return Compiled(oids.BOOL, lambda run, frames: not same.run(run, frames), same.uses)

    def _is(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        inner, other = self.read(node.this, scope), node.expression
        negated = bool(node.args.get("negate"))
        if isinstance(other, exp.Not):
            other, negated = other.this, not negated
        wanted = None if isinstance(other, exp.Null) else bool(other.this) if isinstance(other, exp.Boolean) else ...
        if wanted is ...:
            raise refused(node)
        return Compiled(oids.BOOL, lambda run, frames: (inner.run(run, frames) is wanted) is not negated, inner.uses)

    def _between(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        low = self._compared(COMPARISONS["LTE"], node.args["low"], node.this, scope)
        high = self._compared(COMPARISONS["LTE"], node.this, node.args["high"], scope)
        return Compiled(
            oids.BOOL,
            lambda run, frames: conjunction(low.run(run, frames), high.run(run, frames)),
            low.uses | high.uses,
        )

    def _in(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        value = self.read(node.this, scope)
        query = node.args.get("query")
        if query is not None:
            inner = self._listed(query.unnest() if isinstance(query, exp.Subquery) else query, scope)
            value = self.fit(value, oids.ELEMENTS.get(inner.oid, oids.TEXT))
            return Compiled(
                oids.BOOL,
                lambda run, frames: member(value.run(run, frames), inner.run(run, frames)),
                value.uses | inner.uses,
            )
        value, *parts = self.alike([value, *(self.read(part, scope) for part in node.expressions)])
        return Compiled(
            oids.BOOL,
            lambda run, frames: member(value.run(run, frames), [part.run(run, frames) for part in parts]),
            joined_uses([value, *parts]),
        )

    def _like(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._matched(like, False, node, scope)

    def _ilike(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._matched(like, True, node, scope)

    def _regexplike(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._matched(matches, False, node, scope)

    def _regexpilike(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._matched(matches, True, node, scope)

    def _matched(
        self, match: Callable[..., Any], ignore: bool, node: exp.Expr, scope: ColumnScope, *more: str
    ) -> Compiled:
        value, pattern = self.read(node.this, scope), self.fit(self.read(node.expression, scope), oids.TEXT)
        negated = bool(node.args.get("negate"))

        def run(run: Execution, frames: Frames) -> Any:
            text, wanted = value.run(run, frames), pattern.run(run, frames)
            found = match(run, text, wanted, ignore, *more)
            return found if found is None or not negated else not found

        return Compiled(oids.BOOL, run, value.uses | pattern.uses)

    def _escape(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        inner, escape = node.this, node.expression
        if not isinstance(inner, exp.Like | exp.ILike) or not isinstance(escape, exp.Literal) or len(escape.name) > 1:
            raise refused(node)
        return self._matched(like, isinstance(inner, exp.ILike), inner, scope, escape.name)

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

        def run(run: Execution, frames: Frames) -> Any:
            whole, part = first.run(run, frames), second.run(run, frames)
            if whole is None or part is None:
                return None
            run.spend(len(whole) * weight(part))
            return all(one in whole for one in part)

        return Compiled(oids.BOOL, run, first.uses | second.uses)

    # ── arithmetic, texts, cases ──

    def _arithmetic(self, operator: Binary, node: exp.Expr, scope: ColumnScope) -> Compiled:
        first, second = self.alike([self.read(node.this, scope), self.read(node.expression, scope)], oids.INT4)
        oid = second.oid if second.oid in (oids.FLOAT8, oids.NUMERIC) else first.oid
        return Compiled(
            oid, lambda run, frames: operator(first.run(run, frames), second.run(run, frames)), first.uses | second.uses
        )

    def _neg(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        inner = self.read(node.this, scope)

        def run(run: Execution, frames: Frames) -> Any:
            value = inner.run(run, frames)
            return None if value is None else -value

        return replace(inner, run=run, literal=None, parameter=None)

    def _dpipe(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        first, second = (self.read(part, scope) for part in (node.this, node.expression))
        oid = first.oid if is_array(first.oid) else second.oid if is_array(second.oid) else oids.TEXT
        if not is_array(oid):
            first, second = (
                self.fit(part, oids.TEXT) if part.oid in TEXTS | NAMED else part for part in (first, second)
            )
        return Compiled(
            oid, lambda run, frames: joined(first.run(run, frames), second.run(run, frames)), first.uses | second.uses
        )

    def _case(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        whens = []
        for branch in node.args["ifs"]:
            if node.this is not None:
                whens.append(self._compared(COMPARISONS["EQ"], node.this, branch.this, scope))
            else:
                whens.append(self.fit(self.read(branch.this, scope), oids.BOOL))
        results = [self.read(branch.args.get("true"), scope) for branch in node.args["ifs"]]
        results = self.alike([*results, self.read(node.args.get("default"), scope)])

        def run(run: Execution, frames: Frames) -> Any:
            for when, result in zip(whens, results, strict=False):
                if when.run(run, frames) is True:
                    return result.run(run, frames)
            return results[-1].run(run, frames)

        return Compiled(results[0].oid, run, joined_uses([*whens, *results]))

    def _cast(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self.cast(self.read(node.this, scope), type_number(type_name(node.args["to"])))

    _trycast = _cast

    def _extract(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        inner, part = self.read(node.expression, scope), node.this.name.lower()
        if part not in ("epoch", "year", "month", "day", "hour", "minute", "second"):
            raise refused(node)

        def run(run: Execution, frames: Frames) -> Any:
            value = inner.run(run, frames)
            if not isinstance(value, date):
                return None
            moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
            return int(moment.replace(tzinfo=UTC).timestamp()) if part == "epoch" else getattr(moment, part)

        return Compiled(oids.NUMERIC, run, inner.uses)

    def _substring(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        parts = [node.this, node.args.get("start"), node.args.get("length")]
        return self._called("substring", [part for part in parts if part is not None], scope)

    def _strposition(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._called("strpos", [node.this, node.args["substr"]], scope)

    def _trim(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "btrim")
        more = node.args.get("expression")
        return self._called(name, [node.this, *([more] if more is not None else [])], scope)

    # ── functions and queries ──

    def _anonymous(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        name = str(node.this.this if isinstance(node.this, exp.Expr) else node.this).lower()
        if name == "array" and len(node.expressions) == 1:
            return self._listed(node.expressions[0], scope)
        if name in ("coalesce", "ifnull", "nullif", "greatest", "least"):
            return self._chosen(name, [self.read(part, scope) for part in node.expressions])
        if name == "pg_typeof" and len(node.expressions) == 1:
            return constant(self.read(node.expressions[0], scope).oid, oids.REGTYPE)
        return self._called(name, list(node.expressions), scope)

    def _coalesce(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._chosen("coalesce", [self.read(part, scope) for part in (node.this, *node.expressions)])

    def _chosen(self, name: str, parts: list[Compiled]) -> Compiled:
        if not parts:
            raise WireError("42601", f"{name} needs an argument")
        parts = self.alike(parts)

        def run(run: Execution, frames: Frames) -> Any:
            if name in ("coalesce", "ifnull"):
                return next((value for part in parts if (value := part.run(run, frames)) is not None), None)
            values = [part.run(run, frames) for part in parts]
            if name == "nullif":
                return None if values[0] == values[-1] else values[0]
            there = [value for value in values if value is not None]
            return (max(there) if name == "greatest" else min(there)) if there else None

        return Compiled(parts[0].oid, run, joined_uses(parts))

    def _called(self, name: str, arguments: list[exp.Expr], scope: ColumnScope) -> Compiled:
        form = self.forms.get(name)
        if form is None:
            raise WireError("42883", f"function {name[:63]} does not exist here")
        parts = [self.settled(self.read(part, scope)) for part in arguments]
        gives = form.gives or (parts[0].oid if parts else oids.TEXT)
        strict, call = form.strict, form.run

        def run(run: Execution, frames: Frames) -> Any:
            values = [part.run(run, frames) for part in parts]
            if strict and None in values:
                return None
            try:
                return call(run, *values)
            except (TypeError, AttributeError, ValueError, ArithmeticError):
                raise WireError("42883", f"function {name[:63]} does not take these arguments") from None

        return Compiled(gives, run, joined_uses(parts))

    def _exists(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        query = self.subquery(node.this, scope)
        return Compiled(oids.BOOL, lambda run, frames: bool(query.rows(run, frames)), deeper(query.uses))

    def _subquery(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        query = self.subquery(node.this, scope)

        def run(run: Execution, frames: Frames) -> Any:
            rows = query.rows(run, frames)
            return single_value(rows)

        return Compiled(query.columns[0][1], run, deeper(query.uses))

    def _select(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        return self._subquery(exp.Subquery(this=node), scope)

    def _listed(self, node: exp.Expr, scope: ColumnScope) -> Compiled:
        query = self.subquery(node, scope)
        oid = oids.ARRAYS.get(query.columns[0][1], oids.ARRAYS[oids.TEXT])
        return Compiled(oid, lambda run, frames: [row[0] for row in query.rows(run, frames)], deeper(query.uses))
