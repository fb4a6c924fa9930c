"""Facts known before any private row is read: from public tables and the text alone.

It is given the public tables and no others, so that a flow over a private one has no statement here. It costs nothing,
so that rows, bytes and seconds are limited.
"""

import os
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from threading import Lock, local
from typing import Any, Protocol, TypeVar
from weakref import finalize

from sfumato.analysis.private_query import Cell
from sfumato.caches import SizedCache
from sfumato.engines.sql.builder import create_table_as, select, subquery
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.flow import Tables, projected
from sfumato.engines.sql.names import RANK
from sfumato.engines.time_limit import TimeLimit
from sfumato.errors import FreeLimit
from sfumato.language.cost_limits import check_work
from sfumato.language.facts import STORED_LIMIT, Kind
from sfumato.language.rel_nodes import (
    InputNode,
    Item,
    JoinNode,
    MarkJoinNode,
    MaterializedNode,
    RelNode,
    ScanNode,
    UnionAllNode,
)
from sfumato.language.scalar import Scalar

Rows = list[tuple[Any, ...]]
Fact = TypeVar("Fact")
MAX_MATERIALIZED_ROWS = 100_000_000
MAX_BROUGHT_ROWS = 10_000_000
"""How many public rows may meet people's rows in one join; and where another engine has people's rows, to which public
rows are brought one by one."""
MIN_MATERIALIZED_BYTES = 1 << 29
"""Maximum number of bytes of public rows in a join with people's rows; the engine's memory, if that is more."""
MAX_FACT_BYTES = 1 << 26
"""Bytes of facts that are kept, for all accounts together."""
MAX_ACCOUNT_FACT_BYTES = 1 << 24
"""Bytes of facts that are kept because one account asked."""
MIN_KEPT_BYTES = 1 << 30
_KEPT_TABLES = 200
"""How much of computed rows is kept for the next question; those in use are kept besides."""
_FIXED_SIZES = {Kind.BOOLEAN: 1, Kind.REAL: 8}


class RunStatement(Protocol):
    """Runs one statement; a clock may stop it."""

    def __call__(self, statement: str, clock: TimeLimit | None = None) -> Rows:
        """Return its rows."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False, repr=False)
class MaterializedTable:
    """Public rows in a table of their own, which is dropped when no handle is left."""

    relation: str
    """The text after FROM."""
    rows: int
    size: int
    """Bytes, about."""
    max_rows_per_key: int
    home: object
    """Whose they are: this process's, and this engine's."""


def map_materialized(flow: RelNode, change: Callable[[MaterializedNode], MaterializedNode]) -> RelNode:
    """Return a flow in which all kept rows are changed in this way."""
    match flow:
        case MaterializedNode():
            return change(flow)
        case ScanNode() | InputNode():
            return flow
        case JoinNode() | UnionAllNode() | MarkJoinNode():
            left, right = map_materialized(flow.left, change), map_materialized(flow.right, change)
            return replace(flow, left=left, right=right)  # type: ignore[arg-type]  # a Show stays a Show
        case _:
            return replace(flow, source=map_materialized(flow.source, change))


class PublicTables:
    """`engine.FreePublic` over the public tables of a copy, whose data does not change while it is open.

    Kept rows lie in tables of the schema `shelf`, which only this connection sees. The engine has `memory` bytes, and
    writes to disk beyond them. `brought`: the rows are brought to another engine.
    """

    def __init__(
        self, tables: Tables, run: RunStatement, dialect: Dialect, shelf: str, memory: int = 0, *, brought: bool = False
    ) -> None:
        self._tables = tables
        self._max_bytes, self._kept_bytes = max(memory, MIN_MATERIALIZED_BYTES), max(memory, MIN_KEPT_BYTES)
        self._brought = brought
        self._run = run
        self._dialect = dialect
        self._shelf = shelf
        self._clocks = local()
        self._names = count(1)  # it goes on in a forked process: no table there has the name of a parent's
        self._forget()

    def _forget(self) -> None:
        """Begin anew: in a process that was forked, nothing that was computed is there."""
        self._lock = Lock()
        self._known = SizedCache(MAX_FACT_BYTES, MAX_ACCOUNT_FACT_BYTES)
        self._held: OrderedDict[Hashable, MaterializedTable] = OrderedDict()
        self._unused: deque[str] = deque()
        self._home = object()
        self._process = os.getpid()  # last: another thread that finds it must find nothing of the parent's

    @contextmanager
    def one_question(self, account: str = "") -> Iterator[None]:
        """Give everything that the body asks, in this thread, one allowance of time together, for an account."""
        self._clocks.clock, self._clocks.account = TimeLimit(), account
        try:
            yield
        finally:
            del self._clocks.clock, self._clocks.account

    def materialize(self, flow: RelNode, columns: tuple[Item, ...], keys: tuple[Scalar, ...]) -> MaterializedTable:
        """Return the rows of a public flow, computed once: the columns by their places, and their rank among equals."""
        self._here()
        self._drop_unused()
        question = (flow, columns, keys)
        with self._lock:
            held = self._held.get(question)
            if held is not None:
                self._held.move_to_end(question)
                return held
        check_work(flow, self._size)
        made = self._make(flow, tuple(item.scalar for item in columns), keys)
        with self._lock:
            self._held[question] = made
            while len(self._held) > _KEPT_TABLES or sum(table.size for table in self._held.values()) > self._kept_bytes:
                self._held.popitem(last=False)
        return made

    def _make(self, flow: RelNode, columns: tuple[Scalar, ...], keys: tuple[Scalar, ...]) -> MaterializedTable:
        relation = f"{self._shelf}.public{next(self._names)}"
        named = {f"c{at}": scalar for at, scalar in enumerate(columns)}
        compared = {f"k{at}": key for at, key in enumerate(keys)}
        found = f"({self._projected(flow, named | compared)} LIMIT {self._max_rows + 1}) AS found"
        listed = [*named, f"{self._rank(list(compared))} AS {self._dialect.quote_identifier(RANK)}"]
        try:
            self._ask(create_table_as(relation, select(listed, found)))
            made = self._measured(relation, columns)
        except BaseException:
            self._unused.append(relation)  # not before: another thread drops what is in there
            raise
        finalize(made, self._unused.append, relation).atexit = False
        return made

    @property
    def _max_rows(self) -> int:
        return MAX_BROUGHT_ROWS if self._brought else MAX_MATERIALIZED_ROWS

    def _measured(self, relation: str, columns: tuple[Scalar, ...]) -> MaterializedTable:
        texts = [f"c{at}" for at, scalar in enumerate(columns) if scalar.facts.kind is Kind.TEXT]
        characters = " + ".join(["0", *(f"coalesce(sum({self._dialect.utf8_length(text)}), 0)" for text in texts)])
        measured = f"count(*), {characters}, max({self._dialect.quote_identifier(RANK)})"
        ((rows, text, most),) = self._ask(select(measured, relation))
        width = sum(_FIXED_SIZES.get(scalar.facts.kind, 16 if _is_long(scalar) else 8) for scalar in columns)
        size = int(text) + rows * (width + 8)
        if rows > self._max_rows or size > self._max_bytes:
            raise FreeLimit(
                "Too many public rows are joined with people's rows.",
                f"There may be {self._max_rows:,} of them, and {self._max_bytes >> 20:,} MB.",
                "Choose them with WHERE, or use fewer of their columns; more memory allows more MB: [engine] memory.",
            )
        return MaterializedTable(relation, int(rows), size, int(most or 0), self._home)

    def with_local_tables(self, flow: RelNode) -> RelNode:
        """Return a flow whose kept rows are this engine's.

        They are, unless a plan was made in another process or by another engine: then they are computed here, and cut
        at what was accounted for there.
        """
        self._here()
        return map_materialized(flow, self._home_of)

    def _home_of(self, kept: MaterializedNode) -> MaterializedNode:
        foreign = isinstance(kept.rows, MaterializedTable) and kept.rows.home is not self._home
        return replace(kept, rows=self.materialize(kept.source, kept.columns, kept.keys)) if foreign else kept

    def _drop_unused(self) -> None:
        """Drop the tables that have no handle left. It is done here: a finalizer may run at any moment."""
        while self._unused:
            try:
                relation = self._unused.popleft()
            except IndexError:  # another thread was quicker
                return
            self._run(f"DROP TABLE IF EXISTS {relation}")

    def _size(self, node: ScanNode | InputNode | MaterializedNode) -> int:
        match node:
            case ScanNode(table):
                return self._once(("size", table), lambda: self._count(table))
            case InputNode(rows=rows):
                return len(rows or ())
            case MaterializedNode(rows=rows):
                return rows.rows if isinstance(rows, MaterializedTable) else 0

    def _count(self, table: str) -> int:
        ((rows,),) = self._ask(select("count(*)", f"{self._tables[table]} AS t"))
        return int(rows)

    def check(self, flow: RelNode) -> None:
        """Refuse a flow over public tables alone that would take too long."""
        check_work(flow, self._size)

    def value_range(self, flow: RelNode, scalar: Scalar) -> tuple[int, int] | None:
        """Return the least and greatest integer of an INTEGER scalar over a public flow; None if all are NULL."""
        return self._known_of("reach", flow, (scalar,), lambda: self._reach(flow, scalar))

    def distinct(self, flow: RelNode, scalar: Scalar, most: int) -> tuple[Cell, ...] | None:
        """Return the distinct values of a scalar over a public flow, sorted, without NULL; None if more than `most`."""
        return self._known_of("distinct", flow, (scalar, most), lambda: self._distinct(flow, scalar, most))

    def rows(
        self, flow: RelNode, scalars: tuple[Scalar, ...], most: int
    ) -> tuple[tuple[Cell | float | None, ...], ...] | None:
        """Return the scalars over every row of a public flow; None if there are more than `most` rows."""
        return self._known_of("rows", flow, (scalars, most), lambda: self._all_rows(flow, scalars, most))

    def _all_rows(
        self, flow: RelNode, scalars: tuple[Scalar, ...], most: int
    ) -> tuple[tuple[Cell | float | None, ...], ...] | None:
        named = {f"c{at}": scalar for at, scalar in enumerate(scalars)}
        found = self._ask(f"{self._projected(flow, named)} LIMIT {most + 1}")
        return None if len(found) > most else tuple(row[: len(scalars)] for row in found)

    def _reach(self, flow: RelNode, scalar: Scalar) -> tuple[int, int] | None:
        values = self._projected(flow, {"v": scalar})
        ((low, high),) = self._ask(select("min(v), max(v)", subquery(values, "p")))
        return None if low is None else (low, high)

    def _distinct(self, flow: RelNode, scalar: Scalar, most: int) -> tuple[Cell, ...] | None:
        values = self._projected(flow, {"v": scalar})
        found = self._ask(select("DISTINCT v", subquery(values, "p"), where="v IS NOT NULL", limit=most + 1))
        return None if len(found) > most else tuple(sorted(value for (value,) in found))

    def _ask(self, statement: str) -> Rows:
        return self._run(statement, getattr(self._clocks, "clock", None) or TimeLimit())

    def _known_of(self, kind: str, flow: RelNode, more: Hashable, answer: Callable[[], Fact]) -> Fact:
        """Return what is known of a flow. Kept rows are named by their table: other rows may differ."""

        def checked() -> Fact:
            if not isinstance(flow, ScanNode):  # a single table is checked when it is opened, however long it is
                self.check(flow)
            return answer()

        if not isinstance(flow, MaterializedNode):
            return self._once((kind, flow, more), checked)
        if not isinstance(flow.rows, MaterializedTable):
            return checked()
        return self._once((kind, flow.rows.relation, more), checked)

    def _once(self, question: Hashable, answer: Callable[[], Fact]) -> Fact:
        self._here()
        found: tuple[Fact] | None = self._known.get(question)
        if found is None:
            found = (answer(),)  # a fact may be None
            self._known.put(question, found, getattr(self._clocks, "account", ""))
        return found[0]

    def _here(self) -> None:
        if self._process != os.getpid():
            self._forget()

    def _projected(self, flow: RelNode, columns: Mapping[str, Scalar]) -> str:
        return projected(flow, self._tables, columns, self._dialect)

    def _rank(self, keys: list[str]) -> str:
        """Return the number of a row among those that agree with it; 0 where a key is NULL, which equals nothing."""
        number = self._dialect.row_number(keys, [])
        present = " AND ".join(f"{key} IS NOT NULL" for key in keys)
        return f"CASE WHEN {present} THEN {number} ELSE 0 END" if keys else number


def _is_long(scalar: Scalar) -> bool:
    """Whether a value takes more than 8 bytes, besides the characters of a text."""
    facts = scalar.facts
    return facts.kind is not Kind.INTEGER or not -STORED_LIMIT <= facts.low <= facts.high < STORED_LIMIT
