"""SELECT, UNION, VALUES and WITH over the shadow schema: compiled once, run as often as needed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sfumato.server.wire import oids
from sfumato.server.wire.pg_catalog.aggregates import Gathered
from sfumato.server.wire.pg_catalog.compiled import (
    ColumnScope,
    Compiled,
    Execution,
    Frames,
    InferredTypes,
    Row,
    ScopeColumn,
    deeper,
)
from sfumato.server.wire.pg_catalog.expressions import Expressions
from sfumato.server.wire.pg_catalog.functions import Builtin
from sfumato.server.wire.pg_catalog.naming import alias_of, output_name
from sfumato.server.wire.pg_catalog.relations import VirtualCatalog, relations
from sfumato.server.wire.pg_catalog.rows import (
    LISTS,
    CatalogueItem,
    Key,
    chosen,
    column_at,
    cut,
    first_of_each,
    numbered,
    ordered,
    projected,
    row_key,
    series,
    unique,
)
from sfumato.server.wire.pg_catalog.sources import (
    CatalogueJoin,
    Condition,
    RowSource,
    conjuncts,
    joined_rows,
    place,
    scope_of,
)
from sfumato.server.wire.pg_catalog.trees import identifier, refused
from sfumato.server.wire.sqlstates import WireError

_MOST_COLUMNS = 1664
_TABLE_OID = "tableoid"
"""A column that every relation has, and that * never shows."""
_MOST_ROUNDS = 1000
"""So often a recursive query may go on."""
_SETS = frozenset({"unnest", "generate_series", "generate_subscripts"})


@dataclass(frozen=True, slots=True)
class Plan:
    """A query that can be run: its columns, what it reads of the rows around it, and its rows."""

    columns: tuple[tuple[str, int], ...]
    uses: frozenset[tuple[int, int]]
    rows: Callable[[Execution, Frames], list[Row]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Shared:
    """A WITH clause: a number under which a run keeps its rows."""

    number: int
    columns: tuple[tuple[str, int], ...]
    plan: Plan | None
    """None while a recursive one is being compiled."""


class Queries:
    """Compiles the queries of one text."""

    def __init__(self, shadow: VirtualCatalog, forms: dict[str, Builtin], learned: InferredTypes) -> None:
        self.shadow = shadow
        self.expressions = Expressions(shadow, forms, learned, self.read)
        self._shared: Mapping[str, _Shared] = {}
        self._numbers = 0

    def read(self, node: exp.Expr, parent: ColumnScope | None) -> Plan:
        """Return the plan of any query."""
        before, slots, self.expressions.slots = self._shared, self.expressions.slots, {}
        try:
            self._define(node, parent)
            return self._query(node, parent)
        finally:
            self._shared, self.expressions.slots = before, slots

    def _query(self, node: exp.Expr, parent: ColumnScope | None) -> Plan:
        match node:
            case exp.Subquery():
                inner = self.read(node.this, parent)
                return self._ordered(node, inner, parent) if _is_cut(node) else inner
            case exp.Select():
                return self._select(node, parent)
            case exp.SetOperation():
                return self._ordered(node, self._combined(node, parent), parent)
            case exp.Values():
                source = self._values(node, parent, "")
                columns = tuple((known.name, known.oid) for known in source.fields)
                return Plan(columns, deeper(source.uses), source.rows)
            case exp.Table() | exp.Paren():
                return self.read(exp.select("*").from_(node.copy()), parent)
        raise refused(node)

    # ── WITH ──

    def _define(self, node: exp.Expr, parent: ColumnScope | None) -> None:
        clause = node.args.get("with_")
        if clause is None:
            return
        for definition in clause.expressions:
            alias = definition.args["alias"]
            name = identifier(alias.this)
            names = [identifier(column) for column in alias.args.get("columns") or []]
            self._numbers += 1
            number = self._numbers
            if clause.args.get("recursive") and isinstance(definition.this, exp.SetOperation):
                plan = self._recursive(definition.this, parent, name, names, number)
            else:
                plan = _renamed(self.read(definition.this, parent), names)
            self._shared = {**self._shared, name: _Shared(number, plan.columns, plan)}

    def _recursive(self, node: exp.Expr, parent: ColumnScope | None, name: str, names: list[str], number: int) -> Plan:
        first, before = _renamed(self.read(node.this, parent), names), self._shared
        self._shared = {**self._shared, name: _Shared(number, first.columns, None)}
        again = self.read(node.expression, parent)
        self._shared = before
        distinct = bool(node.args.get("distinct", True))

        def rows(run: Execution, frames: Frames) -> list[Row]:
            working = unique(first.rows(run, frames), run) if distinct else first.rows(run, frames)
            found = list(working)
            seen = {row_key(row, run) for row in found} if distinct else set()
            for _ in range(_MOST_ROUNDS):
                if not working:
                    return found
                run.held[number] = working
                working = again.rows(run, frames)
                run.room(len(working) + 1, 1)
                if distinct:
                    working = [row for row in unique(working, run) if row_key(row, run) not in seen]
                    seen.update(row_key(row, run) for row in working)
                found += working
            raise WireError("54000", "A recursion does not end.")

        return Plan(first.columns, first.uses | again.uses, rows)

    # ── SELECT ──

    def _select(self, node: exp.Select, parent: ColumnScope | None) -> Plan:
        joins = self._from(node, parent)
        scope = scope_of(joins, parent)
        width, read = len(scope.fields), self.expressions
        where = node.args.get("where")
        conditions = [self._condition(part, scope) for part in conjuncts(where.this if where is not None else None)]
        last = place(conditions, joins)
        gathered = Gathered(node, read, scope, width)
        read.slots = gathered.aggregates.slots | gathered.windows.slots
        items = self._items(node, scope)
        having = node.args.get("having")
        kept = read.fit(read.read(having.this, scope), oids.BOOL) if having is not None else None
        order = self._order(node, items, scope)
        distinct_on, distinct = self._distinct_on(node, items, scope), node.args.get("distinct") is not None
        counts = (self._number(node.args.get("limit"), scope), self._number(node.args.get("offset"), scope))
        read.slots = {}

        def rows(run: Execution, frames: Frames) -> list[Row]:
            found = joined_rows(joins, run, frames)
            for condition in last:
                found = [row for row in run.each(found) if condition.whole.run(run, (row, *frames)) is True]
            found = gathered.rows(found, run, frames)
            if kept is not None:
                found = [row for row in run.each(found) if kept.run(run, (row, *frames)) is True]
            shown = projected(items, found, run, frames)
            if order:
                shown = ordered(shown, order, run, frames)
            if distinct_on is not None:
                shown = first_of_each(shown, distinct_on, run, frames)
            elif distinct:
                shown = first_of_each(shown, None, run, frames)
            return [row for row, _ in cut(shown, counts, run, frames)]

        columns = tuple((item.name, oids.TEXT if item.value.oid == oids.UNKNOWN else item.value.oid) for item in items)
        used = [item.value for item in items] + [condition.whole for join in joins for condition in join.on]
        used += [condition.whole for condition in (*conditions, *last)] + [key.value for key in order] + gathered.used
        used += [part for part in (kept, *counts) if part is not None]
        uses = frozenset(use for part in used for use in part.uses if use[0] > 0)
        uses |= frozenset(use for join in joins for use in join.source.uses if use[0] > 0)
        return Plan(columns, uses, rows)

    def _condition(self, node: exp.Expr, scope: ColumnScope) -> Condition:
        read = self.expressions
        if isinstance(node, exp.EQ) and not isinstance(node.expression, exp.Any | exp.All):
            left, right = read.alike([read.read(node.this, scope), read.read(node.expression, scope)])
            return Condition(read.read(node, scope), (left, right))
        return Condition(read.fit(read.read(node, scope), oids.BOOL))

    def _items(self, node: exp.Select, scope: ColumnScope) -> list[CatalogueItem]:
        items: list[CatalogueItem] = []
        for part in node.expressions:
            star = part if isinstance(part, exp.Star) else part.this if isinstance(part, exp.Column) else None
            if isinstance(star, exp.Star):
                table = identifier(part.args["table"]) if isinstance(part, exp.Column) else ""
                self.expressions.learned.spend(len(scope.fields), len(scope.fields))
                items += [
                    CatalogueItem(known.name, column_at(at, known.oid))
                    for at, known in enumerate(scope.fields)
                    if table in ("", known.table) and not (known.hidden and (not table or known.name == _TABLE_OID))
                ]
            elif (made := self._set(part.this if isinstance(part, exp.Alias) else part, scope)) is not None:
                items.append(CatalogueItem(output_name(part), made, is_set=True))
            else:
                items.append(CatalogueItem(output_name(part), self._output(part, scope)))
            if len(items) > _MOST_COLUMNS:
                raise WireError("54011", f"target lists can have at most {_MOST_COLUMNS} entries")
        return items

    def _output(self, part: exp.Expr, scope: ColumnScope) -> Compiled:
        value = self.expressions.read(part, scope)
        if value.oid in (oids.REGCLASS, oids.REGTYPE, oids.REGPROC, oids.REGNAMESPACE, oids.REGROLE):
            return value
        return value if isinstance(part, exp.Null) else self.expressions.settled(value)

    def _set(self, node: exp.Expr, scope: ColumnScope) -> Compiled | None:
        """Return the list of a function that gives rows, which a SELECT may call."""
        call = node.expression if isinstance(node, exp.Dot) else node
        if isinstance(call, exp.Unnest):
            arguments, name = list(call.expressions), "unnest"
        elif isinstance(call, exp.Anonymous) and str(call.this).lower() in _SETS:
            arguments, name = list(call.expressions), str(call.this).lower()
        else:
            return None
        parts = [self.expressions.read(part, scope) for part in arguments]
        element = oids.ELEMENTS.get(parts[0].oid, oids.TEXT) if name == "unnest" else oids.INT4
        uses = frozenset(use for part in parts for use in part.uses)
        return Compiled(element, lambda run, frames: series(name, [part.run(run, frames) for part in parts], run), uses)

    def _order(self, node: exp.Expr, items: list[CatalogueItem], scope: ColumnScope) -> list[Key]:
        clause = node.args.get("order")
        keys = []
        for part in clause.expressions if clause is not None else []:
            by = part.this if isinstance(part, exp.Ordered) else part
            at = chosen(by, items)
            value = column_at(at, items[at].value.oid) if at is not None else self.expressions.read(by, scope)
            descending = bool(part.args.get("desc"))
            keys.append(Key(value, at is not None, descending, bool(part.args.get("nulls_first"))))
        return keys

    def _distinct_on(self, node: exp.Select, items: list[CatalogueItem], scope: ColumnScope) -> list[Key] | None:
        distinct = node.args.get("distinct")
        on = distinct.args.get("on") if distinct is not None else None
        if on is None:
            return None
        parts = on.expressions if isinstance(on, exp.Tuple) else [on.this if isinstance(on, exp.Paren) else on]
        return [Key(self.expressions.read(part, scope), False, False, False) for part in parts]

    def _number(self, node: exp.Expr | None, scope: ColumnScope) -> Compiled | None:
        if node is None:
            return None
        inner = node.args.get("count") if isinstance(node, exp.Fetch) else node.expression
        return self.expressions.fit(self.expressions.read(inner, ColumnScope(parent=scope.parent)), oids.INT8)

    # ── UNION and what follows it ──

    def _combined(self, node: exp.Expr, parent: ColumnScope | None) -> Plan:
        left, right = self.read(node.this, parent), self.read(node.expression, parent)
        if len(left.columns) != len(right.columns):
            raise WireError("42601", "each UNION query must have the same number of columns")
        kind, distinct = type(node).__name__, bool(node.args.get("distinct", True))
        columns = tuple(
            (name, other if oid == oids.UNKNOWN else oid)
            for (name, oid), (_, other) in zip(left.columns, right.columns, strict=True)
        )

        def rows(run: Execution, frames: Frames) -> list[Row]:
            first, second = left.rows(run, frames), right.rows(run, frames)
            run.room(len(first) + len(second), 1)
            if kind == "Union":
                found = first + second
            else:
                keys = {row_key(row, run) for row in second}
                found = [row for row in first if (row_key(row, run) in keys) is (kind == "Intersect")]
            return unique(found, run) if distinct else found

        return Plan(columns, left.uses | right.uses, rows)

    def _ordered(self, node: exp.Expr, plan: Plan, parent: ColumnScope | None) -> Plan:
        scope = ColumnScope(tuple(ScopeColumn("", name, oid) for name, oid in plan.columns), parent)
        items = [CatalogueItem(name, column_at(at, oid)) for at, (name, oid) in enumerate(plan.columns)]
        order = self._order(node, items, scope)
        counts = (self._number(node.args.get("limit"), scope), self._number(node.args.get("offset"), scope))

        def rows(run: Execution, frames: Frames) -> list[Row]:
            shown = [(row, row) for row in plan.rows(run, frames)]
            return [row for row, _ in cut(ordered(shown, order, run, frames), counts, run, frames)]

        return replace(plan, rows=rows)

    # ── FROM ──

    def _from(self, node: exp.Expr, parent: ColumnScope | None) -> list[CatalogueJoin]:
        joins: list[CatalogueJoin] = []
        origin = node.args.get("from_")
        if origin is not None:
            self._add(joins, origin.this, parent)
        for join in node.args.get("joins") or []:
            self._join(joins, join, parent)
        for lateral in node.args.get("laterals") or []:
            self._add(joins, lateral, parent)
        return joins

    def _join(self, joins: list[CatalogueJoin], node: exp.Expr, parent: ColumnScope | None) -> None:
        kind = str(node.args.get("side") or "INNER").upper()
        start = len(scope_of(joins, parent).fields)
        nested = node.this.args.get("joins") if isinstance(node.this, exp.Table | exp.Subquery) else None
        if nested and not (isinstance(node.this, exp.Subquery) and node.this.alias):
            source = self._bracketed(node.this, parent)
            joins.append(CatalogueJoin(source, kind, start))
        else:
            joins.append(CatalogueJoin(self._source(node.this, scope_of(joins, parent)), kind, start))
        scope = scope_of(joins, parent)
        self.expressions.learned.spend(len(scope.fields), 1 + len(joins[-1].source.fields) // 4)
        for part in conjuncts(node.args.get("on")):
            joins[-1].on.append(self._condition(part, scope))
        for name in node.args.get("using") or []:
            self._using(joins, identifier(name), start, scope)

    def _using(self, joins: list[CatalogueJoin], name: str, start: int, scope: ColumnScope) -> None:
        left = next((at for at, known in enumerate(scope.fields[:start]) if known.name == name), None)
        right = next((at for at, known in enumerate(scope.fields[start:], start) if known.name == name), None)
        if left is None or right is None:
            raise WireError("42703", f'column "{name[:63]}" does not exist')
        one, other = column_at(left, scope.fields[left].oid), column_at(right, scope.fields[right].oid)
        whole = Compiled(
            oids.BOOL, lambda run, frames: one.run(run, frames) == other.run(run, frames), one.uses | other.uses
        )
        joins[-1].on.append(Condition(whole, (one, other)))
        source = joins[-1].source
        hidden = tuple(replace(known, hidden=known.hidden or known.name == name) for known in source.fields)
        joins[-1].source = replace(source, fields=hidden)

    def _bracketed(self, node: exp.Expr, parent: ColumnScope | None) -> RowSource:
        """Return a join in brackets as one source, its columns under their own tables' names."""
        inner: list[CatalogueJoin] = []
        first = node.copy()
        more = first.args.pop("joins", None) or []
        self._add(inner, first.this if isinstance(first, exp.Subquery) and not first.alias else first, parent)
        for join in more:
            self._join(inner, join, parent)
        fields = scope_of(inner, parent).fields
        return RowSource(fields, lambda run, frames: joined_rows(inner, run, frames[1:]))

    def _add(self, joins: list[CatalogueJoin], node: exp.Expr, parent: ColumnScope | None) -> None:
        start = len(scope_of(joins, parent).fields)
        inner = node.args.get("joins") if isinstance(node, exp.Table | exp.Subquery) else None
        joins.append(CatalogueJoin(self._source(node, scope_of(joins, parent)), "INNER", start))
        for join in inner or []:
            self._join(joins, join, parent)

    def _source(self, node: exp.Expr, scope: ColumnScope) -> RowSource:
        alias, names = alias_of(node)
        match node:
            case exp.Lateral():
                inner = node.this
                if isinstance(inner, exp.Subquery):
                    return self._derived(inner.this, scope, alias, names)
                return self._function(inner, scope, alias, names, False)
            case exp.Subquery():
                if isinstance(node.this, exp.Table) and not alias:
                    return self._bracketed(node, scope.parent)
                return self._derived(node.this, scope, alias, names)
            case exp.Values():
                return _named(self._values(node, scope, alias), alias, names)
            case exp.Unnest():
                ordinal = node.args.get("offset")
                if isinstance(ordinal, exp.Identifier):
                    names = [*names, identifier(ordinal)]
                return self._function(node, scope, alias, names, bool(ordinal))
            case exp.Table():
                return self._table(node, scope, alias, names)
        raise refused(node)

    def _derived(self, node: exp.Expr, scope: ColumnScope, alias: str, names: list[str]) -> RowSource:
        plan = self.read(node, scope)
        fields = tuple(ScopeColumn(alias, name, oid) for name, oid in plan.columns)
        return _named(RowSource(fields, plan.rows, deeper(plan.uses)), alias, names)

    def _table(self, node: exp.Expr, scope: ColumnScope, alias: str, names: list[str]) -> RowSource:
        if not isinstance(node.this, exp.Identifier):
            call = node.this.expression if isinstance(node.this, exp.Dot) else node.this
            return self._function(call, scope, alias, names, bool(node.args.get("ordinality")))
        name = identifier(node.this)
        schema = identifier(node.args["db"]) if node.args.get("db") is not None else ""
        shared = self._shared.get(name) if not schema else None
        if shared is not None:
            fields = tuple(ScopeColumn(alias or name, column, oid) for column, oid in shared.columns)
            return _named(RowSource(fields, _held(shared)), alias or name, names)
        relation = relations().get((schema or "pg_catalog", name))
        if relation is None:
            raise WireError("42P01", f'relation "{f"{schema}.{name}" if schema else name}" does not exist'[:120])
        fields = tuple(ScopeColumn(alias or name, column, oid) for column, oid in relation.columns)
        shadow, key = self.shadow, (relation.schema, relation.name)
        if (_TABLE_OID, oids.OID) not in relation.columns:
            fields += (ScopeColumn(alias or name, _TABLE_OID, oids.OID, hidden=True),)
        number = shadow.number(oids.REGCLASS, f"{key[0]}.{key[1]}")
        return _named(
            RowSource(fields, lambda run, _frames: numbered(shadow.rows(*key), number, run)), alias or name, names
        )

    def _function(self, node: exp.Expr, scope: ColumnScope, alias: str, names: list[str], ordinal: bool) -> RowSource:
        call = node.expression if isinstance(node, exp.Dot) else node
        name = "unnest" if isinstance(call, exp.Unnest) else str(call.this).lower()
        if name in LISTS:
            columns, listed = LISTS[name]
            return _named(
                RowSource(tuple(ScopeColumn(alias, one, oids.TEXT) for one in columns), lambda *_: list(listed)),
                alias,
                names,
            )
        made = self._set(call, scope)
        if made is None:
            value = self.expressions.read(call, scope)
            one = (ScopeColumn(alias or name, alias or name, value.oid),)
            return _named(RowSource(one, lambda run, frames: [(value.run(run, frames),)], value.uses), alias, names)
        numbered = [ScopeColumn(alias or name, "ordinality", oids.INT8)] * ordinal
        fields = (ScopeColumn(alias or name, alias or name, made.oid), *numbered)

        def rows(run: Execution, frames: Frames) -> list[Row]:
            values = made.run(run, frames) or []
            run.room(len(values), 2)
            return [(one, at) if ordinal else (one,) for at, one in enumerate(values, 1)]

        return _named(RowSource(fields, rows, made.uses), alias, names)

    def _values(self, node: exp.Expr, parent: ColumnScope | None, alias: str) -> RowSource:
        scope = ColumnScope(parent=parent)
        read = self.expressions
        cells = [
            [read.read(cell, scope) for cell in (row.expressions if isinstance(row, exp.Tuple) else [row])]
            for row in node.expressions
        ]
        if len({len(row) for row in cells}) != 1:
            raise WireError("42601", "VALUES lists must all be the same length")
        columns = [read.alike(list(column)) for column in zip(*cells, strict=True)]
        fields = tuple(ScopeColumn(alias, f"column{at}", column[0].oid) for at, column in enumerate(columns, 1))
        listed = list(zip(*columns, strict=True))
        uses = frozenset((depth - 1, at) for row in listed for cell in row for depth, at in cell.uses if depth > 0)
        return RowSource(
            fields,
            lambda run, frames: [tuple(cell.run(run, ((), *frames)) for cell in row) for row in run.each(listed)],
            uses,
        )


def _held(shared: _Shared) -> Callable[[Execution, Frames], list[Row]]:
    def rows(run: Execution, frames: Frames) -> list[Row]:
        if shared.plan is None:
            return run.held.get(shared.number, [])
        if shared.number not in run.held:
            run.held[shared.number] = shared.plan.rows(run, frames[1:])
        return run.held[shared.number]

    return rows


def _renamed(plan: Plan, names: list[str]) -> Plan:
    if not names:
        return plan
    columns = tuple((names[at] if at < len(names) else name, oid) for at, (name, oid) in enumerate(plan.columns))
    return replace(plan, columns=columns)


def _named(source: RowSource, alias: str, names: list[str]) -> RowSource:
    if not names and (not alias or all(known.table == alias for known in source.fields)):
        return source
    fields = tuple(
        replace(known, table=alias or known.table, name=names[at] if at < len(names) else known.name)
        for at, known in enumerate(source.fields)
    )
    return replace(source, fields=fields)


def _is_cut(node: exp.Expr) -> bool:
    return any(node.args.get(key) is not None for key in ("order", "limit", "offset"))
