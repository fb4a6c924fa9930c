"""SELECT, UNION, VALUES and WITH over the shadow schema, written for SQLite with the types of their columns."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from sfumato.server.wire import oids
from sfumato.server.wire.pg_catalog.aggregates import Gathered, in_order, order_by, row_number
from sfumato.server.wire.pg_catalog.compiled import ColumnScope, Compiled, InferredTypes, ScopeColumn, select
from sfumato.server.wire.pg_catalog.expressions import Expressions, is_ordered
from sfumato.server.wire.pg_catalog.functions import Builtin
from sfumato.server.wire.pg_catalog.naming import output_name
from sfumato.server.wire.pg_catalog.relations import VirtualCatalog
from sfumato.server.wire.pg_catalog.sources import SharedQuery, Sources
from sfumato.server.wire.pg_catalog.trees import identifier, refused
from sfumato.server.wire.sqlstates import WireError

MAX_COLUMNS = 1664
_MAX_READS_OF_WITH = 500
"""Maximum number of queries after each WITH is written out where it is read, as SQLite does."""
_CONSTANTS_PER_ROW = 8
"""Maximum number of constants of a row that SQLite stores without an instruction for each."""
_TABLE_OID = "tableoid"


@dataclass(frozen=True, slots=True)
class Plan:
    """A query: its columns, which SQLite calls c1, c2, …, and its text."""

    columns: tuple[tuple[str, int], ...]
    sql: str
    has_one_row: bool = False


@dataclass(frozen=True, slots=True)
class CatalogueItem:
    """One column of a SELECT."""

    name: str
    value: Compiled


class Queries:
    """Compiles the queries of one text."""

    def __init__(self, shadow: VirtualCatalog, forms: dict[str, Builtin], learned: InferredTypes) -> None:
        self.shadow, self.learned = shadow, learned
        self.expressions = Expressions(shadow, forms, learned, self.read)
        self.shared: Mapping[str, SharedQuery] = {}
        self.used: set[tuple[str, str]] = set()
        """The tables of SQLite that the text reads."""
        self._names = 0
        self._reads = 0

    def name(self) -> str:
        """Return a name that nothing else has."""
        self._names += 1
        return f"t{self._names}"

    def read(self, node: exp.Expr, parent: ColumnScope | None) -> Plan:
        """Return the plan of any query."""
        before, slots, self.expressions.slots = self.shared, self.expressions.slots, {}
        self.reads(1)
        try:
            defined = self._define(node, parent)
            plan = self._query(node, parent)
            self.learned.spend_text(plan.sql)
            return replace(plan, sql=f"{defined} {plan.sql}") if defined else plan
        finally:
            self.shared, self.expressions.slots = before, slots

    def reads(self, count: int) -> None:
        """Count queries that SQLite writes out."""
        self._reads += count
        if self._reads > _MAX_READS_OF_WITH:
            raise WireError(
                "54001",
                "This question about the catalogue is too complex.",
                f"The limit is {_MAX_READS_OF_WITH} queries, counting each WITH where it is read.",
                "Ask for less at once.",
            )

    def _query(self, node: exp.Expr, parent: ColumnScope | None) -> Plan:
        match node:
            case exp.Subquery():
                inner = self.read(node.this, parent)
                return self._order_by(node, inner, parent) if _is_cut(node) else inner
            case exp.Select():
                return self._select(node, parent)
            case exp.SetOperation():
                combined = self._combine(node, parent)
                return self._order_by(node, combined, parent) if _is_cut(node) else combined
            case exp.Values():
                return self._values(node, parent)
            case exp.Table() | exp.Paren():
                return self.read(exp.select("*").from_(node.copy()), parent)
        raise refused(node)

    # ── WITH ──

    def _define(self, node: exp.Expr, parent: ColumnScope | None) -> str:
        clause = node.args.get("with_")
        if clause is None:
            return ""
        parts = []
        for definition in clause.expressions:
            alias, name, before = definition.args["alias"], self.name(), self._reads
            names = [identifier(column) for column in alias.args.get("columns") or []]
            if clause.args.get("recursive") and isinstance(definition.this, exp.SetOperation):
                plan = self._recursive(definition.this, parent, identifier(alias.this), names, name)
            else:
                plan = _rename_columns(self.read(definition.this, parent), names)
            self.shared = {
                **self.shared, identifier(alias.this): SharedQuery(name, plan.columns, self._reads - before + 1)
            }  # fmt: skip
            columns = ", ".join(f"c{at}" for at in range(1, len(plan.columns) + 1))
            parts.append(f"{name}({columns}) AS ({plan.sql})")
        return f"WITH {'RECURSIVE ' if clause.args.get('recursive') else ''}{', '.join(parts)}"

    def _recursive(self, node: exp.Expr, parent: ColumnScope | None, own: str, names: list[str], name: str) -> Plan:
        first, before = _rename_columns(self.read(node.this, parent), names), self.shared
        self.shared = {**self.shared, own: SharedQuery(name, first.columns, 1)}
        again = self.read(node.expression, parent)
        self.shared = before
        word = "UNION" if node.args.get("distinct", True) else "UNION ALL"
        return replace(first, sql=f"{first.sql} {word} {again.sql}", has_one_row=False)

    # ── SELECT ──

    def _select(self, node: exp.Select, parent: ColumnScope | None) -> Plan:
        sources = Sources(self, parent)
        sources.read(node)
        scope, read = sources.scope, self.expressions
        where = [read.fit(read.read(node.args["where"].this, scope), oids.BOOL)] if node.args.get("where") else []
        gathered = Gathered(node, read, scope)
        read.slots = gathered.slots
        items = self._items(node, scope, sources)
        having = node.args.get("having")
        kept = f" HAVING {read.fit(read.read(having.this, scope), oids.BOOL).sql}" if having is not None else ""
        on = self._distinct_on(node, scope)
        order = self._order(node, items, scope, by_position=on is None)
        cut = self._cut(node, scope)
        read.slots = {}
        if sources.sql:
            items = self._with_instructions(items)
        shown = ", ".join(f"{item.value.sql} AS c{at}" for at, item in enumerate(items, 1))
        tail = sources.clause([part.sql for part in where]) + gathered.sql + kept
        if on is None:
            distinct = "DISTINCT " if node.args.get("distinct") is not None else ""
            sql = f"SELECT {distinct}{shown}{tail}{order_by(order)}{cut}"
        else:
            inner = f"SELECT {shown}, {row_number(on, order)} AS first, row_number() OVER ({order_by(order)}) AS place"
            names = ", ".join(f"c{at}" for at in range(1, len(items) + 1))
            sql = select(names, f"({inner}{tail})", f" WHERE first = 1 ORDER BY place{cut}")
        columns = tuple((item.name, oids.TEXT if item.value.oid == oids.UNKNOWN else item.value.oid) for item in items)
        return Plan(columns, sql, gathered.is_one_group or not (sources.sql or where))

    def _items(self, node: exp.Select, scope: ColumnScope, sources: Sources) -> list[CatalogueItem]:
        items: list[CatalogueItem] = []
        for part in node.expressions:
            star = part if isinstance(part, exp.Star) else part.this if isinstance(part, exp.Column) else None
            if isinstance(star, exp.Star):
                table = identifier(part.args["table"]) if isinstance(part, exp.Column) else ""
                self.learned.spend(len(scope.fields), len(scope.fields))
                items += [
                    CatalogueItem(known.name, Compiled(known.oid, known.sql))
                    for known in scope.fields
                    if table in ("", known.table) and not (known.hidden and (not table or known.name == _TABLE_OID))
                ]
            elif (made := sources.series(part.this if isinstance(part, exp.Alias) else part, scope)) is not None:
                items.append(CatalogueItem(output_name(part), made))
            else:
                items.append(CatalogueItem(output_name(part), self._output(part, scope)))
            if len(items) > MAX_COLUMNS:
                raise WireError("54011", f"target lists can have at most {MAX_COLUMNS} entries")
        return items

    def _output(self, part: exp.Expr, scope: ColumnScope) -> Compiled:
        value = self.expressions.read(part, scope)
        return value if isinstance(part, exp.Null) else self.expressions.settled(value)

    def _with_instructions(self, items: list[CatalogueItem]) -> list[CatalogueItem]:
        """Return the items with all but a few constants computed for each row, as the memory of a row is counted."""
        constants = [at for at, item in enumerate(items) if item.value.is_constant][_CONSTANTS_PER_ROW:]
        per_row = {at: replace(items[at], value=self.expressions.calls.per_row(items[at].value)) for at in constants}
        return [per_row.get(at, item) for at, item in enumerate(items)]

    def _order(
        self, node: exp.Expr, items: list[CatalogueItem], scope: ColumnScope, by_position: bool = True
    ) -> list[str]:
        clause = node.args.get("order")
        keys = []
        for part in clause.expressions if clause is not None else []:
            by = part.this if isinstance(part, exp.Ordered) else part
            at = _chosen(by, items)
            value = items[at].value if at is not None else self.expressions.read(by, scope)
            if not is_ordered(value) and value.oid in (oids.NUMERIC, oids.INTERVAL):
                value = self.expressions.cast(value, oids.FLOAT8)
            elif at is not None and by_position:
                value = replace(value, sql=str(at + 1), is_constant=False)
            keys.append(in_order(value, part))
        return keys

    def _distinct_on(self, node: exp.Select, scope: ColumnScope) -> list[Compiled] | None:
        distinct = node.args.get("distinct")
        on = distinct.args.get("on") if distinct is not None else None
        if on is None:
            return None
        parts = on.expressions if isinstance(on, exp.Tuple) else [on.this if isinstance(on, exp.Paren) else on]
        return [self.expressions.read(part, scope) for part in parts]

    def _cut(self, node: exp.Expr, scope: ColumnScope) -> str:
        """Return LIMIT and OFFSET; below zero none is meant, and NULL means no limit."""
        count, offset = node.args.get("limit"), node.args.get("offset")
        if count is None and offset is None:
            return ""
        around = ColumnScope(parent=scope.parent)
        most = "-1" if count is None else self._number(count, around, -1)
        return f" LIMIT {most}" + (f" OFFSET {self._number(offset, around, 0)}" if offset is not None else "")

    def _number(self, node: exp.Expr, scope: ColumnScope, missing: int) -> str:
        inner = node.args.get("count") if isinstance(node, exp.Fetch) else node.expression
        part = self.expressions.fit(self.expressions.read(inner, scope), oids.INT8)
        number = self.expressions.calls.add(
            lambda _run, value: missing if value is None else max(int(value), 0), oids.INT8, [part], "LIMIT"
        )
        return number.sql

    # ── UNION and what follows it, VALUES ──

    def _combine(self, node: exp.Expr, parent: ColumnScope | None) -> Plan:
        left, right = self.read(node.this, parent), self.read(node.expression, parent)
        if len(left.columns) != len(right.columns):
            raise WireError("42601", "each UNION query must have the same number of columns")
        kind, distinct = type(node).__name__.upper(), bool(node.args.get("distinct", True))
        if kind != "UNION" and not distinct:
            raise refused(node)
        columns = tuple(
            (name, other if oid == oids.UNKNOWN else oid)
            for (name, oid), (_, other) in zip(left.columns, right.columns, strict=True)
        )
        sides = [
            select("*", f"({plan.sql})") if _is_cut(side) or side.args.get("with_") or at else plan.sql
            for at, (plan, side) in enumerate(((left, node.this), (right, node.expression)))
        ]
        return Plan(columns, f" {kind}{'' if distinct else ' ALL'} ".join(sides))

    def _order_by(self, node: exp.Expr, plan: Plan, parent: ColumnScope | None) -> Plan:
        listed = [(name, Compiled(oid, f"c{at}")) for at, (name, oid) in enumerate(plan.columns, 1)]
        scope = ColumnScope(tuple(ScopeColumn("", name, value.oid, value.sql) for name, value in listed), parent)
        order = self._order(node, [CatalogueItem(*item) for item in listed], scope)
        return replace(plan, sql=select("*", f"({plan.sql})", order_by(order) + self._cut(node, scope)))

    def _values(self, node: exp.Expr, parent: ColumnScope | None) -> Plan:
        scope, read = ColumnScope(parent=parent), self.expressions
        cells = [
            [read.read(cell, scope) for cell in (row.expressions if isinstance(row, exp.Tuple) else [row])]
            for row in node.expressions
        ]
        if len({len(row) for row in cells}) != 1:
            raise WireError("42601", "VALUES lists must all be the same length")
        columns = [read.alike(list(column)) for column in zip(*cells, strict=True)]
        rows = ", ".join(f"({', '.join(cell.sql for cell in row)})" for row in zip(*columns, strict=True))
        names = [f"column{at}" for at in range(1, len(columns) + 1)]
        shown = ", ".join(f"{name} AS c{at}" for at, name in enumerate(names, 1))
        listed = tuple((name, column[0].oid) for name, column in zip(names, columns, strict=True))
        return Plan(listed, select(shown, f"(VALUES {rows})"))


def _chosen(node: exp.Expr, items: list[CatalogueItem]) -> int | None:
    """Return which column of the answer an ordinal or a name means; None if it is an expression of its own."""
    if isinstance(node, exp.Literal) and not node.args.get("is_string") and str(node.this).isdigit():
        at = int(str(node.this)[:6]) - 1
        if not 0 <= at < len(items):
            raise WireError("42P10", f"ORDER BY position {at + 1} is not in select list")
        return at
    if isinstance(node, exp.Column) and node.args.get("table") is None:
        name = identifier(node.this)
        return next((at for at, item in enumerate(items) if item.name == name), None)
    return None


def _rename_columns(plan: Plan, names: list[str]) -> Plan:
    columns = tuple((names[at] if at < len(names) else name, oid) for at, (name, oid) in enumerate(plan.columns))
    return replace(plan, columns=columns)


def _is_cut(node: exp.Expr) -> bool:
    return any(node.args.get(key) is not None for key in ("order", "limit", "offset"))
