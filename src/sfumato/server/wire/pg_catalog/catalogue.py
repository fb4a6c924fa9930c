"""Which questions are about the catalogue or the session, and their answers. No data is behind it, and no engine."""

import re
from asyncio import Semaphore
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from sys import getsizeof
from threading import Lock
from typing import Any

from sqlglot import exp

from sfumato.errors import Refusal
from sfumato.policy.policy import Policy
from sfumato.query.parsing.tree import foreign_tree
from sfumato.server.wire import oids
from sfumato.server.wire.oids import Column
from sfumato.server.wire.pg_catalog.calls import PythonCall
from sfumato.server.wire.pg_catalog.casting import NAMED_OID_TYPES, type_number
from sfumato.server.wire.pg_catalog.compiled import CatalogRow, Execution, InferredTypes
from sfumato.server.wire.pg_catalog.functions import BARE, functions
from sfumato.server.wire.pg_catalog.queries import Plan, Queries
from sfumato.server.wire.pg_catalog.relations import make_virtual_catalog, relations
from sfumato.server.wire.pg_catalog.sandbox import Sandbox
from sfumato.server.wire.pg_catalog.trees import identifier
from sfumato.server.wire.pg_catalog.view_rows import CataloguedView, with_views
from sfumato.server.wire.sqlstates import WireError

MAX_CACHED_PLAN_BYTES = 8 << 20
"""Maximum memory of the plans that one account's catalogue keeps."""
MAX_SESSION_PLAN_BYTES = 256 << 10
"""Maximum memory of the plans of a session that has temporary views."""
_PLAN_BYTES, _EXPRESSION_BYTES = 4000, 2500
"""Memory of a plan, and of each expression or column in it, in bytes: upper bounds, measured."""
MAX_EVALUATIONS = 2
"""Maximum number of questions about the catalogue that one account computes at once."""
_SCHEMAS = ("pg_catalog", "information_schema")
_FROM = re.compile(r"\bfrom\b", re.IGNORECASE)
_NAMES = re.compile(r"\bpg_|\binformation_schema\b|\bcurrent_|\bversion\s*\(|\bformat_type\b", re.IGNORECASE)
_PLAIN = (exp.Literal, exp.Null, exp.Boolean, exp.Parameter, exp.ByteString, exp.RawString)
MAX_ROWS = 100_000
"""Maximum rows of an answer about the catalogue."""


@dataclass(frozen=True, slots=True)
class CataloguePlan:
    """A question about the catalogue: its columns and parameters; its rows come from the shadow schema."""

    columns: tuple[Column, ...]
    parameters: Mapping[str, int]
    size: int
    """The memory that it takes, in bytes, as an upper bound."""
    plan: Plan = field(repr=False)
    calls: tuple[PythonCall, ...] = field(repr=False)
    used: frozenset[tuple[str, str]] = field(repr=False)
    catalogue: "Catalogue" = field(repr=False)

    def rows(self, run: Execution) -> Sequence[Sequence[object]]:
        """Return the answer of an execution; it stops when it takes too long or grows too large."""
        types = [oid for _, oid in self.plan.columns]
        found: list[CatalogRow] = []
        with self.catalogue.sandbox() as sandbox:
            for row in sandbox.rows(self.plan.sql, self.calls, self.used, types, run):
                found.append(row)
                if len(found) > MAX_ROWS:
                    raise WireError(
                        "54000", "The answer has too many rows.", f"The limit is {MAX_ROWS:,}.", "Use LIMIT."
                    )
        named = [at for at, oid in enumerate(types) if oid in NAMED_OID_TYPES]
        return [self._show_row(row, named) for row in run.each(found)] if named else found

    def _show_row(self, row: tuple[Any, ...], named: list[int]) -> tuple[Any, ...]:
        cells = list(row)
        for at in named:
            value = cells[at]
            cells[at] = None if value is None else self.catalogue.shadow.name(self.plan.columns[at][1], value)
        return tuple(cells)


class Catalogue:
    """The catalogue that one analyst sees. Its methods compute: they are called in worker threads."""

    def __init__(
        self,
        policy: Policy,
        columns: Mapping[str, Mapping[str, str]],
        user: str,
        views: Collection[CataloguedView] | None = None,
    ) -> None:
        shadow = make_virtual_catalog(policy, columns, user)
        self._parts = policy, columns, user
        self.shadow = shadow if views is None else with_views(shadow, views)
        self._max_plan_bytes = MAX_CACHED_PLAN_BYTES if views is None else MAX_SESSION_PLAN_BYTES
        self._forms = functions(self.shadow)
        self._plans: OrderedDict[tuple[str, tuple[tuple[str, int], ...]], CataloguePlan | None] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()
        self._idle: list[Sandbox] = []
        self.turns = Semaphore(MAX_EVALUATIONS)
        """Every evaluation takes a turn, so that one account leaves threads to others."""

    def with_views(self, views: Collection[CataloguedView]) -> "Catalogue":
        """Return the same catalogue for a session that has made temporary views; they take turns together."""
        made = Catalogue(*self._parts, views)
        made.turns = self.turns
        return made

    @property
    def cached_bytes(self) -> int:
        """The memory of the plans that are kept, in bytes, as an upper bound."""
        return self._bytes

    def plan(self, sql: str, types: Mapping[str, int]) -> CataloguePlan | None:
        """Return the plan of a question about the catalogue or the session; None if it is one about data."""
        key = (sql, tuple(sorted(types.items())))
        with self._lock:
            if key in self._plans:
                self._plans.move_to_end(key)
                return self._plans[key]
        tree = self._own(sql)
        made = None if tree is None else self._plan_query(tree, types)
        with self._lock:
            if key not in self._plans:
                self._plans[key] = made
                self._bytes += _cached_size(key, made)
            while self._bytes > self._max_plan_bytes:
                self._bytes -= _cached_size(*self._plans.popitem(last=False))
        return made

    @contextmanager
    def sandbox(self) -> Iterator[Sandbox]:
        """Give a database that nothing else uses; there are as many as are evaluated at once."""
        with self._lock:
            taken = self._idle.pop() if self._idle else None
        taken = taken or Sandbox(self.shadow)
        try:
            yield taken
        finally:
            with self._lock:
                is_kept = len(self._idle) < MAX_EVALUATIONS
                if is_kept:
                    self._idle.append(taken)
            if not is_kept:
                taken.close()

    def constants(self, sql: str) -> CataloguePlan:
        """Return the plan of values that are spelled out."""
        try:
            tree = foreign_tree(sql)
        except Refusal:
            raise WireError("42601", "the values of EXECUTE cannot be read") from None
        if any(isinstance(node, exp.Table | exp.Query | exp.Unnest) for node in tree.walk() if node is not tree):
            raise WireError("0A000", "the values of EXECUTE are spelled out, and read no table")
        return self._plan_query(tree, {})

    def type_named(self, name: str) -> int:
        """Return the number of a type."""
        return type_number(name)

    def _plan_query(self, tree: exp.Expr, types: Mapping[str, int]) -> CataloguePlan:
        learned = InferredTypes(dict(types))
        queries = Queries(self.shadow, self._forms, learned)
        plan = queries.read(tree, None)
        parameters = {name: _described_type(learned.of(name)) for name in learned.types}
        columns = tuple(Column(name, _described_type(oid)) for name, oid in plan.columns)
        size = _PLAN_BYTES + learned.made * _EXPRESSION_BYTES + getsizeof(plan.sql)
        calls = tuple(queries.expressions.calls.made)
        return CataloguePlan(columns, parameters, size, plan, calls, frozenset(queries.used), self)

    def _own(self, sql: str) -> exp.Expr | None:
        """Return the tree of a question that is answered here, or None."""
        if _FROM.search(sql) and not _NAMES.search(sql) and not self._calls_set(sql):
            return None
        try:
            tree = foreign_tree(sql)
        except Refusal:
            return None  # the part that answers questions about data says what is wrong
        own, others = self._tables(tree)
        if own and others:
            raise WireError(
                "0A000",
                "A question reads the catalogue or the data, not both.",
                "The catalogue is answered from the policy alone.",
                "Ask two questions.",
            )
        if others:
            return None
        return tree if own or self._is_about_session(tree) else None

    @staticmethod
    def _calls_set(sql: str) -> bool:
        return (
            re.search(
                r"\bfrom\s+(generate_series|unnest|pg_show_all_settings)\s*\(|\bvalues\b|\brecursive\b",
                sql,
                re.IGNORECASE,
            )
            is not None
        )

    @staticmethod
    def _tables(tree: exp.Expr) -> tuple[bool, bool]:
        """Tell whether relations of the catalogue are named, and whether others are."""
        shared = {identifier(expression.args["alias"].this) for expression in tree.find_all(exp.CTE)}
        own = others = False
        for table in tree.find_all(exp.Table):
            if not isinstance(table.this, exp.Identifier):
                continue
            name = identifier(table.this)
            schema = identifier(table.args["db"]) if table.args.get("db") is not None else ""
            if schema in _SCHEMAS or (not schema and ("pg_catalog", name) in relations()):
                own = True
            elif schema or name not in shared:
                others = True
        return own, others

    def _is_about_session(self, tree: exp.Expr) -> bool:
        shared = tree.args.get("with_")
        if isinstance(tree, exp.Values) or (shared is not None and shared.args.get("recursive")):
            return True
        for node in tree.walk():
            name = str(node.this).lower() if isinstance(node, exp.Anonymous) else BARE.get(type(node).__name__, "")
            if name.startswith("pg_") or (name in self._forms and (self._forms[name].session or name in _ABOUT)):
                return True
            if name in ("generate_series", "unnest") or isinstance(node, exp.Unnest):
                return True
            bare = isinstance(node, exp.Column) and node.args.get("table") is None and identifier(node.this)
            if bare and bare in self._forms and self._forms[bare].session:
                return True
        return isinstance(tree, exp.Select) and _is_plain(tree)


_ABOUT = frozenset(
    {"format_type", "obj_description", "col_description", "to_regclass", "to_regtype", "to_regnamespace"}
)
_ABOUT |= {f"has_{kind}_privilege" for kind in ("table", "column", "any_column", "schema", "database", "function")}
_ABOUT |= {"quote_ident", "parse_ident"}


def _is_plain(tree: exp.Select) -> bool:
    """Whether a SELECT only repeats its own values: clients send it to check that the server answers."""
    if any(value for key, value in tree.args.items() if key != "expressions"):
        return False
    for part in tree.expressions:
        inner = part.this if isinstance(part, exp.Alias) else part
        while isinstance(inner, exp.Cast | exp.Neg | exp.Paren):
            inner = inner.this
        if not isinstance(inner, _PLAIN):
            return False
    return bool(tree.expressions)


def _cached_size(key: tuple[str, tuple[tuple[str, int], ...]], plan: CataloguePlan | None) -> int:
    return 500 + getsizeof(key[0]) + 100 * len(key[1]) + (plan.size if plan is not None else 0)


def _described_type(oid: int) -> int:
    """Return the type that is sent to a client: names are texts, and so are values of unknown type."""
    return oids.TEXT if oid in NAMED_OID_TYPES or oid == oids.UNKNOWN else oid
