"""Which columns of an outcome are sums over an ordered key: running totals, moving sums, ranges, totals.

What is found decides how a price is split, and nothing else: anything unknown counts as single cells.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sfumato.language.rel_nodes import (
    FOUND,
    AggregateItem,
    AggregateNode,
    FilterNode,
    InputNode,
    JoinNode,
    LimitNode,
    MarkJoinNode,
    MaterializedNode,
    ProjectNode,
    RelNode,
    ScanNode,
    SortNode,
    UnionAllNode,
    WindowAggregate,
    WindowNode,
    WindowValue,
)
from sfumato.language.scalar import Operator, Scalar, columns_read
from sfumato.planning.column_origins import GroupColumn
from sfumato.planning.range_strategies import OrderedSum, SumKind
from sfumato.query.functions import Aggregation

_CELLS = OrderedSum(SumKind.CELLS)
_TOTAL = OrderedSum(SumKind.TOTAL)
_ADDED = frozenset({Aggregation.SUM, Aggregation.AVG})
_MAX_WIDTH = 10_000
"""A window of more cells counts as a running total."""


class SumUse(NamedTuple):
    """A column of a noisy group, which sums over its cells are used, and the key along which; empty for none."""

    source: GroupColumn
    used: OrderedSum
    key: str


@dataclass(frozen=True, slots=True)
class _Value:
    """What a column is made of; `plain` if it is a column of a noisy group, unchanged."""

    uses: frozenset[SumUse]
    plain: GroupColumn | None = None


@dataclass(frozen=True, slots=True)
class _Table:
    """The columns of a flow, what conditions on its rows are made of, and which columns of groups these read."""

    columns: Mapping[tuple[str, str], _Value]
    conditions: frozenset[SumUse] = frozenset()
    filtered: frozenset[GroupColumn] = frozenset()

    def value(self, scalar: Scalar) -> _Value:
        """Return what a scalar over the flow is made of."""
        read = [self.columns[name] for name in columns_read(scalar) if name in self.columns]
        if scalar.operator is Operator.COLUMN and read:
            return read[0]
        return _Value(frozenset(use for value in read for use in value.uses))

    def sources(self, scalar: Scalar) -> frozenset[GroupColumn]:
        """Return the columns of noisy groups that a scalar is computed from."""
        return frozenset(use.source for use in self.value(scalar).uses)

    def under(self, scalars: Iterable[Scalar]) -> "_Table":
        """Return the table with conditions on its rows."""
        known = list(scalars)
        more = (use for scalar in known for use in self.value(scalar).uses)
        read = (source for scalar in known for source in self.sources(scalar))
        return _Table(self.columns, self.conditions.union(more), self.filtered.union(read))


def ordered_sums(outcomes: Sequence[ProjectNode]) -> frozenset[SumUse]:
    """Return how the outcomes use the columns of noisy groups; keys are used as cells, too."""
    found: set[SumUse] = set()
    for outcome in outcomes:
        below = _table(outcome.source)
        found |= below.conditions
        found.update(use for item in outcome.items for use in below.value(item.scalar).uses)
    return frozenset(found)


def _table(flow: RelNode) -> _Table:
    match flow:
        case ScanNode() | MaterializedNode():
            return _Table({})
        case InputNode(label, given, None):
            sources = {name: (flow.table, name) for name, _ in given}
            return _Table(
                {(label, name): _Value(frozenset({SumUse(at, _CELLS, "")}), at) for name, at in sources.items()}
            )
        case InputNode():
            return _Table({})
        case JoinNode(_, left, right, condition):
            one, other = _table(left), _table(right)
            both = _Table(
                {**one.columns, **other.columns}, one.conditions | other.conditions, one.filtered | other.filtered
            )
            return both if condition is None else both.under([condition])
        case FilterNode(source, condition):
            return _table(source).under([condition])
        case SortNode(source, keys):
            below = _table(source)
            uses = (use for scalar, *_ in keys for use in below.value(scalar).uses)
            return _Table(below.columns, below.conditions.union(uses), below.filtered)
        case LimitNode(source):
            return _table(source)
        case ProjectNode(source, label, items):
            below = _table(source)
            columns = {(label, item.name): below.value(item.scalar) for item in items}
            return _Table(columns, below.conditions, below.filtered)
        case AggregateNode(source, label, keys, measures):
            below = _table(source)
            by = frozenset(source for item in keys for source in below.sources(item.scalar))
            columns = {(label, item.name): _Value(below.value(item.scalar).uses) for item in keys}
            columns |= {(label, one.name): _folded(one, below, by) for one in measures}
            return _Table(columns, below.conditions)
        case WindowNode(source, label, values):
            below = _table(source)
            more = {(label, value.name): _windowed(value, below) for value in values}
            return _Table({**below.columns, **more}, below.conditions, below.filtered)
        case UnionAllNode(left, right, label):
            one, other = _table(left), _table(right)
            columns = {}
            for (_, name), value in [*one.columns.items(), *other.columns.items()]:
                columns[label, name] = _Value(columns.get((label, name), value).uses | value.uses)
            return _Table(columns, one.conditions | other.conditions)
        case MarkJoinNode(left, right, label, condition):
            one, other = _table(left), _table(right)
            met = _Table({**one.columns, **other.columns})
            found = _Value(frozenset() if condition is None else met.value(condition).uses)
            columns = {**one.columns, (label, FOUND): found}
            return _Table(columns, one.conditions | other.conditions, one.filtered)


def _folded(one: AggregateItem, below: _Table, by: frozenset[GroupColumn]) -> _Value:
    """Return what an aggregate is made of: a sum of cells is a range of a key that decides which cells it has."""
    aggregate = one.aggregate
    parts = [*aggregate.arguments, *([] if aggregate.where is None else [aggregate.where])]
    uses = frozenset(use for part in parts for use in below.value(part).uses)
    if aggregate.function not in _ADDED or aggregate.distinct or len(aggregate.arguments) != 1:
        return _Value(uses)
    cell, tests = _summed_cell(aggregate.arguments[0], below)
    deciding = below.filtered | by
    deciding |= {source for part in (*tests, *parts[1:]) for source in below.sources(part)}
    keys = [source for source in deciding if cell is not None and source[0] == cell[0]]
    if cell is None or cell in deciding or len(keys) > 1:
        return _Value(uses)
    used = OrderedSum(SumKind.RANGES) if keys else _TOTAL
    return _Value(frozenset({SumUse(cell, used, keys[0][1] if keys else "")}))


def _summed_cell(scalar: Scalar, below: _Table) -> tuple[GroupColumn | None, tuple[Scalar, ...]]:
    """Return the column of cells that is added up, and conditions that decide which of its cells are."""
    if scalar.operator is not Operator.CASE:
        return (below.value(scalar).plain if scalar.operator is Operator.COLUMN else None), ()
    chosen = [part for part in (*scalar.arguments[1:-1:2], scalar.arguments[-1]) if columns_read(part)]
    cells = {below.value(part).plain if part.operator is Operator.COLUMN else None for part in chosen}
    return (next(iter(cells)) if len(cells) == 1 else None), scalar.arguments[:-1:2]


def _windowed(value: WindowValue | WindowAggregate, below: _Table) -> _Value:
    """Return what a window function is made of: a sum along one key, within each combination of the others."""
    around = value.around
    scalars = [*around.partition, *(scalar for scalar, *_ in around.order)]
    if isinstance(value, WindowValue):
        scalars += value.call.arguments
    else:
        aggregate = value.folded.aggregate
        scalars += [*aggregate.arguments, *([] if aggregate.where is None else [aggregate.where])]
        added = aggregate.function in _ADDED and not aggregate.distinct and aggregate.where is None
        cell = below.value(aggregate.arguments[0]).plain if added and len(aggregate.arguments) == 1 else None
        if cell is not None and (found := _along(cell, value, below)) is not None:
            return _Value(frozenset({found}))
    return _Value(frozenset(use for scalar in scalars for use in below.value(scalar).uses))


def _along(cell: GroupColumn, value: WindowAggregate, below: _Table) -> SumUse | None:
    around = value.around
    beside = [below.value(scalar).plain for scalar in around.partition]
    if any(key is None or key[0] != cell[0] for key in beside):
        return None
    if around.frame.whole:
        return SumUse(cell, _TOTAL, "")
    keys = [below.value(scalar).plain for scalar, *_ in around.order]
    if len(keys) != 1 or keys[0] is None or keys[0][0] != cell[0]:
        return None
    start, end = around.frame.start, around.frame.end
    if start is None or end is None:
        return SumUse(cell, OrderedSum(SumKind.RUNNING), keys[0][1])
    width = int(end - start) + 1
    if not 1 < width < _MAX_WIDTH:
        return None
    return SumUse(cell, OrderedSum(SumKind.WINDOW, width), keys[0][1])
