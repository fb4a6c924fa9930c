"""FROM: relations of the catalogue, queries, VALUES and functions, as SQLite joins them.

SQLite has no LATERAL and no functions that give rows. Both become a join with a table of numbers: the rows are an array
of ours, and a number chooses one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from sqlglot import exp

from sfumato.server.wire import oids
from sfumato.server.wire.pg_catalog.compiled import ColumnScope, Compiled, InferredTypes, ScopeColumn, select
from sfumato.server.wire.pg_catalog.expressions import Expressions, Nested
from sfumato.server.wire.pg_catalog.folds import Fold
from sfumato.server.wire.pg_catalog.naming import alias_of
from sfumato.server.wire.pg_catalog.relations import VirtualCatalog, relations
from sfumato.server.wire.pg_catalog.rows import EMPTY_SETS, LISTS, series
from sfumato.server.wire.pg_catalog.sandbox import NUMBERS, table_name
from sfumato.server.wire.pg_catalog.trees import identifier, refused
from sfumato.server.wire.sqlstates import WireError

_TABLE_OID = "tableoid"
"""A column that every relation has, and that * never shows."""
_SETS = frozenset({"unnest", "generate_series", "generate_subscripts"}) | EMPTY_SETS
_ROWS_OF = {"pg_show_all_settings": "pg_settings"}
"""Functions that give the rows of a relation."""
_Fields = tuple[ScopeColumn, ...]


@dataclass(frozen=True, slots=True)
class SharedQuery:
    """A WITH clause: its columns, and what SQLite calls it."""

    name: str
    columns: tuple[tuple[str, int], ...]
    reads: int
    """How many queries it is, with all that it reads."""


class QueryCompiler(Protocol):
    """What compiles the queries in a FROM clause."""

    shadow: VirtualCatalog
    learned: InferredTypes
    expressions: Expressions
    shared: Mapping[str, SharedQuery]
    used: set[tuple[str, str]]

    def name(self) -> str: ...

    def read(self, node: exp.Expr, parent: ColumnScope | None) -> Nested: ...

    def reads(self, count: int) -> None: ...


class Sources:
    """The FROM clause of one SELECT, as it is read from left to right."""

    def __init__(self, queries: QueryCompiler, parent: ColumnScope | None) -> None:
        self._queries = queries
        self._read = queries.expressions
        self._parent = parent
        self._fields: _Fields = ()
        self._conditions: list[str] = []
        self._sets: list[Compiled] = []
        self.sql = ""

    @property
    def scope(self) -> ColumnScope:
        """The columns in sight."""
        return ColumnScope(self._fields, self._parent)

    def read(self, node: exp.Expr) -> None:
        """Read the FROM clause of a SELECT."""
        origin = node.args.get("from_")
        if origin is not None:
            self._first(origin.this)
        for join in node.args.get("joins") or []:
            self._join(join)
        for lateral in node.args.get("laterals") or []:
            self._add("JOIN", lateral, None)

    def clause(self, where: list[str]) -> str:
        """Return FROM and WHERE."""
        if self._sets:
            lengths = [f"coalesce({self._read.calls.length(made).sql}, 0)" for made in self._sets]
            longest = lengths[0] if len(lengths) == 1 else f"max({', '.join(lengths)})"
            self._queries.used.add(NUMBERS)
            self.sql = f"{self.sql} CROSS JOIN " * bool(self.sql) + f"{table_name(NUMBERS)} AS sets"
            self._conditions.append(f"sets.n < {longest}")
        conditions = [*self._conditions, *where]
        return f" FROM {self.sql}" * bool(self.sql) + f" WHERE {' AND '.join(conditions)}" * bool(conditions)

    def series(self, node: exp.Expr, scope: ColumnScope) -> Compiled | None:
        """Return an item of a function that gives rows, which a SELECT may call; None if it is another function."""
        made = self._list(node, scope)
        if made is None:
            return None
        self._sets.append(made)
        self.sql = self.sql or ""
        item = self._read.calls.item(made, Compiled(oids.INT4, "sets.n"))
        return replace(item, is_constant=False)

    def _list(self, node: exp.Expr, scope: ColumnScope) -> Compiled | None:
        call = node.expression if isinstance(node, exp.Dot) else node
        if isinstance(call, exp.Unnest):
            name = "unnest"
        elif isinstance(call, exp.Anonymous) and str(call.this).lower() in _SETS:
            name = str(call.this).lower()
        else:
            return None
        parts = [self._read.read(part, scope) for part in call.expressions]
        element = oids.ELEMENTS.get(parts[0].oid, oids.TEXT) if name == "unnest" else oids.INT4
        array = oids.ARRAYS.get(element, oids.ARRAYS[oids.TEXT])
        return self._read.calls.add(lambda run, *values: series(name, list(values), run), array, parts, name)

    # ── joins ──

    def _first(self, node: exp.Expr) -> None:
        joins = node.args.get("joins") or []
        first = node.copy() if joins else node
        first.set("joins", None)
        self._add("JOIN", first, None)
        for join in joins:
            self._join(join)

    def _join(self, node: exp.Expr) -> None:
        side = str(node.args.get("side") or "").upper()
        nested = node.this.args.get("joins") if isinstance(node.this, exp.Table | exp.Subquery) else None
        self._add(f"{side} JOIN".strip(), node.this, node, bool(nested) and not _is_named(node.this))

    def _add(self, word: str, node: exp.Expr, join: exp.Expr | None, bracketed: bool = False) -> None:
        around = self.scope
        if bracketed or _is_bracketed(node):
            sql, fields, needed = self._join_in_brackets(node)
        else:
            sql, fields, needed = self._source(node, around)
        start = len(self._fields)
        self._fields += fields
        self._queries.learned.spend(len(self._fields), 1 + len(fields) // 4)
        conditions = [needed] * bool(needed)
        if join is not None and join.args.get("on") is not None:
            conditions.append(self._read.fit(self._read.read(join.args["on"], self.scope), oids.BOOL).sql)
        for name in (join.args.get("using") or []) if join is not None else []:
            conditions.append(self._using(identifier(name), start))
        if not self.sql:
            self.sql = sql
            self._conditions += conditions
        else:
            forced = "CROSS JOIN" if needed and word == "JOIN" else word  # SQLite keeps the order of a cross join
            self.sql += f" {forced} {sql} ON {' AND '.join(conditions) or '1'}"

    def _using(self, name: str, start: int) -> str:
        left = next((known for known in self._fields[:start] if known.name == name), None)
        right = next((known for known in self._fields[start:] if known.name == name), None)
        if left is None or right is None:
            raise WireError("42703", f'column "{name[:63]}" does not exist')
        hidden = (replace(known, hidden=known.hidden or known.name == name) for known in self._fields[start:])
        self._fields = (*self._fields[:start], *hidden)
        return f"{left.sql} = {right.sql}"

    def _join_in_brackets(self, node: exp.Expr) -> tuple[str, _Fields, str]:
        """Return a join in brackets as one source, its columns under their own tables' names."""
        inner = Sources(self._queries, self._parent)
        first = node.copy()
        more = first.args.pop("joins", None) or []
        inner._first(first.this if isinstance(first, exp.Subquery) and not first.alias else first)
        for join in more:
            inner._join(join)
        where = f" ON {' AND '.join(inner._conditions)}" if inner._conditions else ""
        return f"({inner.sql}{f' JOIN (SELECT 1){where}' if where else ''})", inner._fields, ""

    # ── one source ──

    def _source(self, node: exp.Expr, scope: ColumnScope) -> tuple[str, _Fields, str]:
        """Return a source, its columns, and the condition that it is joined on beside those that are written."""
        alias, names = alias_of(node)
        match node:
            case exp.Lateral():
                inner = node.this
                if isinstance(inner, exp.Subquery):
                    return self._derived_table(self._queries.read(inner.this, scope), scope, alias, names)
                return self._function(inner, scope, alias, names, False)
            case exp.Subquery():
                return self._derived_table(self._queries.read(node.this, scope), scope, alias, names)
            case exp.Values():
                return self._derived_table(self._queries.read(_bare(node), scope), scope, alias, names)
            case exp.Unnest():
                ordinal = node.args.get("offset")
                if isinstance(ordinal, exp.Identifier):
                    names = [*names, identifier(ordinal)]
                return self._function(node, scope, alias, names, bool(ordinal))
            case exp.Table():
                return self._table(node, scope, alias, names)
        raise refused(node)

    def _derived_table(
        self, plan: Nested, scope: ColumnScope, alias: str, names: list[str]
    ) -> tuple[str, _Fields, str]:
        name = self._queries.name()
        if not scope.is_read:
            fields = [(column, oid, f"{name}.c{at}") for at, (column, oid) in enumerate(plan.columns, 1)]
            return f"({plan.sql}) AS {name}", _named_fields(fields, alias, names), ""
        types = tuple(oid for _, oid in plan.columns)
        number = self._read.calls.number(Fold("rows", len(types)), types)
        listed = ", ".join(f"c{at}" for at in range(1, len(types) + 1))
        rows = Compiled(oids.ANYARRAY, f"({select(f'fold({number}, {listed})', f'({plan.sql})')})")
        at = Compiled(oids.INT4, f"{name}.n")

        row = replace(self._read.calls.item(rows, at), oid=oids.ANYARRAY)
        cells = [self._read.calls.item(row, self._read.calls.constant(index, oids.INT4)) for index in range(len(types))]
        fields = [(column, oid, cell.sql) for (column, oid), cell in zip(plan.columns, cells, strict=True)]
        return self._numbers(name), _named_fields(fields, alias, names), self._within([rows], name)

    def _numbers(self, name: str) -> str:
        self._queries.used.add(NUMBERS)
        return f"{table_name(NUMBERS)} AS {name}"

    def _within(self, lists: list[Compiled], name: str) -> str:
        """Return the condition that a number is below the length of the longest list."""
        lengths = [self._read.calls.length(values).sql for values in lists]
        if len(lengths) == 1:
            return f"{name}.n < {lengths[0]}"
        return f"{name}.n < max({', '.join(f'coalesce({length}, 0)' for length in lengths)})"

    def _rows(self, call: exp.Expr, scope: ColumnScope) -> Compiled:
        """Return the rows of a function as an array; those of a function that gives one value are that value."""
        made = self._list(call, scope)
        if made is not None:
            return made
        value = self._read.read(call, scope)
        array = oids.ARRAYS.get(value.oid, oids.ARRAYS[oids.TEXT])
        return self._read.calls.add(lambda _run, item: [item], array, [value])

    def _table(self, node: exp.Expr, scope: ColumnScope, alias: str, names: list[str]) -> tuple[str, _Fields, str]:
        if not isinstance(node.this, exp.Identifier):
            call = node.this.expression if isinstance(node.this, exp.Dot) else node.this
            return self._function(call, scope, alias, names, bool(node.args.get("ordinality")))
        name, own = identifier(node.this), self._queries.name()
        schema = identifier(node.args["db"]) if node.args.get("db") is not None else ""
        shared = self._queries.shared.get(name) if not schema else None
        if shared is not None:
            self._queries.reads(shared.reads)
            fields = [(column, oid, f"{own}.c{at}") for at, (column, oid) in enumerate(shared.columns, 1)]
            return f"{shared.name} AS {own}", _named_fields(fields, alias or name, names), ""
        relation = relations().get((schema or "pg_catalog", name))
        if relation is None:
            raise WireError("42P01", f'relation "{f"{schema}.{name}" if schema else name}" does not exist'[:120])
        key = (relation.schema, relation.name)
        self._queries.used.add(key)
        fields = [(column, oid, f'{own}."{column}"') for column, oid in relation.columns]
        found = _named_fields(fields, alias or name, names)
        if (_TABLE_OID, oids.OID) not in relation.columns:
            number = self._queries.shadow.number(oids.REGCLASS, f"{key[0]}.{key[1]}")
            sql = f"({own}.rowid * 0 + {number})"
            found += (ScopeColumn(alias or name, _TABLE_OID, oids.OID, sql, hidden=True),)
        return f"{table_name(key)} AS {own}", found, ""

    def _function(
        self, node: exp.Expr, scope: ColumnScope, alias: str, names: list[str], ordinal: bool
    ) -> tuple[str, _Fields, str]:
        call = node.expression if isinstance(node, exp.Dot) else node
        name, own = "unnest" if isinstance(call, exp.Unnest) else str(call.this).lower(), self._queries.name()
        if name in _ROWS_OF:
            table = exp.Table(this=exp.to_identifier(_ROWS_OF[name]))
            return self._table(table, scope, alias or name, names)
        if name in LISTS:
            return self._fixed_rows(name, own, alias, names)
        several = name == "unnest" and len(call.expressions) > 1
        calls = [exp.Unnest(expressions=[array]) for array in call.expressions] if several else [call]
        lists = [self._rows(function, scope) for function in calls]
        items = [self._read.calls.item(made, Compiled(oids.INT4, f"{own}.n")) for made in lists]
        column = name if several else alias or name
        fields = [(column, item.oid, item.sql) for item in items]
        fields += [("ordinality", oids.INT8, f"({own}.n + 1)")] * ordinal
        source, within = self._numbers(own), self._within(lists, own)
        if scope.is_read:
            return source, _named_fields(fields, alias or name, names), within
        shown = ", ".join(f"{sql} AS c{at}" for at, (_, _, sql) in enumerate(fields, 1))
        stored = select(shown, source, f" WHERE {within} LIMIT -1")  # SQLite stores what has a limit, and indexes it
        fields = [(column, oid, f"{own}.c{at}") for at, (column, oid, _) in enumerate(fields, 1)]
        return f"({stored}) AS {own}", _named_fields(fields, alias or name, names), ""

    def _fixed_rows(self, name: str, own: str, alias: str, names: list[str]) -> tuple[str, _Fields, str]:
        columns, rows = LISTS[name]
        fields = [(column, oids.TEXT, f"{own}.column{at}") for at, column in enumerate(columns, 1)]
        cells = ", ".join(
            f"({', '.join(self._read.calls.constant(value, oids.TEXT).sql for value in row)})"
            for row in rows or [(None,) * len(columns)]
        )
        sql = select("*", f"(VALUES {cells})", " WHERE 0" * (not rows))
        return f"({sql}) AS {own}", _named_fields(fields, alias, names), ""


def _named_fields(columns: list[tuple[str, int, str]], alias: str, names: list[str]) -> _Fields:
    return tuple(
        ScopeColumn(alias, names[at] if at < len(names) else name, oid, sql)
        for at, (name, oid, sql) in enumerate(columns)
    )


def _is_named(node: exp.Expr) -> bool:
    return isinstance(node, exp.Subquery) and bool(node.alias)


def _is_bracketed(node: exp.Expr) -> bool:
    """Whether a join stands in brackets, and not a query."""
    inner = node.this if isinstance(node, exp.Subquery) and not _is_named(node) else None
    return isinstance(inner, exp.Table) or (
        inner is not None and (bool(inner.args.get("joins")) or _is_bracketed(inner))
    )


def _bare(node: exp.Expr) -> exp.Expr:
    return exp.Values(expressions=node.expressions)
