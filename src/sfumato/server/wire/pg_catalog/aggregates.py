"""Groups and windows of catalogue queries: computed before the columns of a SELECT, as columns of their own."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlglot import exp

from sfumato.server.wire import oids
from sfumato.server.wire.pg_catalog.compiled import ColumnScope, Compiled, Execution, Frames, Row, weight
from sfumato.server.wire.pg_catalog.expressions import Expressions
from sfumato.server.wire.pg_catalog.functions import joined_texts
from sfumato.server.wire.pg_catalog.trees import refused
from sfumato.server.wire.sqlstates import WireError
from sfumato.server.wire.values import text_of

T = TypeVar("T")
_NAMES = {
    "count": oids.INT8,
    "array_agg": 0,
    "string_agg": oids.TEXT,
    "max": 0,
    "min": 0,
    "sum": oids.INT8,
    "bool_or": oids.BOOL,
    "bool_and": oids.BOOL,
    "every": oids.BOOL,
}


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node calls an aggregate."""
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in _NAMES


@dataclass(frozen=True, slots=True)
class _Aggregate:
    name: str
    oid: int
    arguments: tuple[Compiled, ...]
    order: tuple[tuple[Compiled, bool], ...]
    distinct: bool
    where: Compiled | None

    def value(self, rows: list[Row], run: Execution, frames: Frames) -> Any:
        if self.where is not None:
            rows = [row for row in run.each(rows) if self.where.run(run, (row, *frames)) is True]
        for key, descending in reversed(self.order):
            rows = _sorted(rows, [key.run(run, (row, *frames)) for row in run.each(rows)], descending, run)
        if not self.arguments:
            return len(rows)
        values = [self.arguments[0].run(run, (row, *frames)) for row in run.each(rows)]
        run.room(len(values), 1)
        if self.distinct:
            values = list(dict.fromkeys(tuple(one) if isinstance(one, list) else one for one in values))
        if self.name == "array_agg":
            return values or None
        there = [value for value in values if value is not None]
        if self.name == "count":
            return len(there)
        if not there:
            return None
        return self._folded(there, rows, run, frames)

    def _folded(self, there: list[Any], rows: list[Row], run: Execution, frames: Frames) -> Any:
        match self.name:
            case "max":
                return max(there)
            case "min":
                return min(there)
            case "sum":
                return sum(there)
            case "bool_or":
                return any(there)
            case "string_agg":
                separator = self.arguments[1].run(run, (rows[0], *frames)) if len(self.arguments) > 1 else ""
                texts = [one if isinstance(one, str) else (text_of(one, 0) or b"").decode() for one in there]
                return joined_texts(str(separator or ""), texts)
        return all(there)


def _sorted(items: list[T], values: list[Any], descending: bool, run: Execution) -> list[T]:
    """Return items in the order of their values; each value is compared at most log n times."""
    run.spend(sum(map(weight, values)) * len(values).bit_length())
    run.room(len(values), 2)
    try:
        places = sorted(range(len(items)), key=lambda at: _sortable(values[at]), reverse=descending)
    except TypeError:
        raise WireError("42883", "values of different types have no order") from None
    return [items[at] for at in places]


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is None, 0 if value is None else value)


class CatalogueAggregates:
    """The aggregates of one SELECT."""

    def __init__(self, nodes: list[exp.Expr], read: Expressions, scope: ColumnScope, width: int) -> None:
        self.found: list[_Aggregate] = []
        self.slots: dict[int, Compiled] = {}
        for node in nodes:
            made = _aggregate(node, read, scope)
            self.slots[id(node)] = _slot(width + len(self.found), made.oid)
            self.found.append(made)

    @property
    def used(self) -> list[Compiled]:
        """Every expression in them."""
        return [part for one in self.found for part in (*one.arguments, *(key for key, _ in one.order))]


def _slot(at: int, oid: int) -> Compiled:
    return Compiled(oid, lambda run, frames: run.read(frames[0][at]), frozenset({(0, at)}))


def _aggregate(node: exp.Expr, read: Expressions, scope: ColumnScope) -> _Aggregate:
    where = None
    if isinstance(node, exp.Filter):
        where = read.read(node.expression.this, scope)
        node = node.this
    name = str(node.this).lower()
    parts, order, distinct = list(node.expressions), [], False
    if len(parts) == 1 and isinstance(parts[0], exp.Distinct):
        distinct, parts = True, list(parts[0].expressions)
    last = parts[-1] if parts else None
    if isinstance(last, exp.Order):
        order = list(last.expressions)
        parts = [*parts[:-1], *([last.this] if last.this is not None else [])]
    if parts and isinstance(parts[0], exp.Distinct):
        distinct, parts = True, [*parts[0].expressions, *parts[1:]]
    if any(isinstance(part, exp.Star) for part in parts):
        parts = []
    elif not parts and name != "count":
        raise WireError("42883", f"{name} needs an argument")
    arguments = tuple(read.settled(read.read(part, scope)) for part in parts)
    oid = _NAMES[name] or (arguments[0].oid if arguments else oids.INT8)
    if name == "array_agg":
        oid = oids.ARRAYS.get(oid, oids.ARRAYS[oids.TEXT])
    keys = tuple((read.read(part.this, scope), bool(part.args.get("desc"))) for part in order)
    return _Aggregate(name, oid, arguments, keys, distinct, where)


@dataclass(frozen=True, slots=True)
class _Window:
    partition: tuple[Compiled, ...]
    order: tuple[tuple[Compiled, bool], ...]


class Windows:
    """ROW_NUMBER() OVER (…), the only window function that clients use."""

    def __init__(self, nodes: list[exp.Expr], read: Expressions, scope: ColumnScope, width: int) -> None:
        self.found: list[_Window] = []
        self.slots: dict[int, Compiled] = {}
        for node in nodes:
            call = node.this.expression if isinstance(node.this, exp.Dot) else node.this
            name = str(call.this).lower() if isinstance(call, exp.Anonymous) else type(call).__name__.lower()
            if name not in ("row_number", "rownumber"):
                raise refused(node)
            partition = tuple(read.read(part, scope) for part in node.args.get("partition_by") or [])
            clause = node.args.get("order")
            keys = clause.expressions if clause is not None else []
            order = tuple((read.read(part.this, scope), bool(part.args.get("desc"))) for part in keys)
            self.slots[id(node)] = _slot(width + len(self.found), oids.INT8)
            self.found.append(_Window(partition, order))

    def numbers(self, rows: list[Row], run: Execution, frames: Frames) -> list[Row]:
        """Return the rows with a number each, for every window."""
        for window in self.found:
            order = list(range(len(rows)))
            for key, descending in reversed(window.order):
                values = [key.run(run, (rows[at], *frames)) for at in run.each(order)]
                order = _sorted(order, values, descending, run)
            counts: dict[Row, int] = {}
            numbers = [0] * len(rows)
            for at in run.each(order):
                group = tuple(_hashable(part.run(run, (rows[at], *frames))) for part in window.partition)
                counts[group] = numbers[at] = counts.get(group, 0) + 1
            run.room(len(rows), len(rows[0]) if rows else 0)
            rows = [(*row, number) for row, number in zip(rows, numbers, strict=True)]
        return rows


class Gathered:
    """What a SELECT computes before its columns: groups with their aggregates, or numbers of windows."""

    def __init__(self, node: exp.Select, read: Expressions, scope: ColumnScope, width: int) -> None:
        calls = [call for part in _parts(node) for call in _calls(part)]
        windows: list[exp.Expr] = [call for call in calls if isinstance(call, exp.Window)]
        plain = [call for call in calls if not isinstance(call, exp.Window)]
        self.aggregates = CatalogueAggregates(plain, read, scope, width)
        self.windows = Windows(windows, read, scope, width + len(plain))
        self._width = width
        group = node.args.get("group")
        self._grouped = group is not None or bool(plain)
        self._keys = [self._key(part, node, read, scope) for part in (group.expressions if group is not None else [])]

    @property
    def used(self) -> list[Compiled]:
        """Every expression in it."""
        return [*self.aggregates.used, *self._keys]

    def rows(self, rows: list[Row], run: Execution, frames: Frames) -> list[Row]:
        """Return the groups, each with its first row and its aggregates, then the numbers of windows."""
        if self._grouped:
            groups: dict[Row, list[Row]] = {} if self._keys else {(): []}
            for row in run.each(rows):
                key = tuple(_hashable(part.run(run, (row, *frames))) for part in self._keys)
                groups.setdefault(key, []).append(row)
            run.room(len(groups), self._width)
            empty = (None,) * self._width
            rows = [
                (members[0] if members else empty)
                + tuple(run.made(one.value(members, run, frames)) for one in self.aggregates.found)
                for members in groups.values()
            ]
        return self.windows.numbers(rows, run, frames)

    def _key(self, part: exp.Expr, node: exp.Select, read: Expressions, scope: ColumnScope) -> Compiled:
        if isinstance(part, exp.Literal) and str(part.this).isdigit():
            at = int(str(part.this)[:6]) - 1
            if not 0 <= at < len(node.expressions):
                raise WireError("42P10", f"GROUP BY position {at + 1} is not in select list")
            part = node.expressions[at]
        elif (
            isinstance(part, exp.Column)
            and part.args.get("table") is None
            and scope.find("", part.name.lower()) is None
        ):
            named = [item for item in node.expressions if isinstance(item, exp.Alias) and item.alias == part.name]
            part = named[0] if named else part
        return read.read(part, scope)


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _parts(node: exp.Select) -> Iterator[exp.Expr]:
    yield from node.expressions
    for key in ("having", "order"):
        if node.args.get(key) is not None:
            yield node.args[key]


def _calls(node: exp.Expr) -> Iterator[exp.Expr]:
    """Give the aggregates and windows of an expression, those of queries inside it left out."""
    if isinstance(node, exp.Query) and not isinstance(node, exp.Table):
        return
    if isinstance(node, exp.Window) or is_aggregate(node) or (isinstance(node, exp.Filter) and is_aggregate(node.this)):
        yield node
        return
    for child in node.iter_expressions():
        yield from _calls(child)
