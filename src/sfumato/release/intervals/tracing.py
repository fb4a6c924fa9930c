"""Where a row comes from: a flow with the number of every row of its tables carried along.

Between two computed tables a flow is row-local: each of its rows comes from one row of each table below, and each of
its columns is a scalar of those rows' columns. The tables below are noisy groups, rows that the text spells out, and
what is computed from several rows: aggregates, windows, rows that were marked or stacked. `trace` follows the rows of
the answer; `possible_rows` finds all rows that noise may have left out.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import (
    AggregateNode,
    FilterNode,
    InputNode,
    Item,
    JoinNode,
    LimitNode,
    MarkJoinNode,
    ProjectNode,
    RelNode,
    SortNode,
    UnionAllNode,
    WindowNode,
    nodes,
    outputs,
)
from sfumato.language.scalar import Operator, Scalar, column, columns_read
from sfumato.query.relation import JoinKind
from sfumato.query.types import Type

_MAX_EXPRESSION_NODES = 2_000
"""An expression that has more parts than this, with what it refers to written out, gets no interval."""
_MAX_JOINED_PAIRS = 1_000_000
"""Maximum row pairs of a join with a noisy condition; all of them are evaluated."""
_SHOWN_NUMBERS = frozenset({Operator.NUMBER_TEXT, Operator.REAL_TEXT})
_PLACE = Facts(Type.INTEGER, Kind.INTEGER, high=1 << 62)

Extended = WindowNode | MarkJoinNode | UnionAllNode
"""Tables whose rows are those of the tables below, with columns that other rows decide."""
Computed = AggregateNode | Extended
"""Tables that are computed from other tables. All their columns have one label."""
ColumnScalars = Mapping[tuple[str, str], Scalar | None]
"""What each column is, in terms of the given tables' columns; None where it would be too large to write out."""


@dataclass(frozen=True, slots=True)
class Traced:
    """The top of an outcome: its flow with the rows' numbers as last columns, one for each of the tables below."""

    flow: ProjectNode
    items: tuple[Scalar | None, ...]
    """Each column of the answer as a scalar of the tables' columns; of a number that is shown as text, the number."""
    tables: tuple[InputNode, ...]
    computed: tuple[Computed, ...]
    """What some of the tables are, by their labels."""
    conditions: tuple[Scalar | None, ...]
    """What decided which rows there are: conditions, and the keys of an order of which only a part was taken."""
    met: Mapping[str, tuple[Scalar | None, ...]]
    """For each table on the right of a left join: what decided whether a row of it was met."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A table with the numbers of the rows below that each of its rows comes from, as last columns."""

    flow: ProjectNode
    tables: tuple[InputNode, ...]
    computed: tuple[Computed, ...]


@dataclass(frozen=True, slots=True)
class PossibleFlow:
    """Every row that can be below a computed table, whatever the noise."""

    flow: ProjectNode
    """The numbers of the tables' rows, one column for each."""
    tables: tuple[InputNode, ...]
    origins: "ColumnScalars"
    doubts: tuple[Scalar | None, ...]
    """The noisy conditions under which a row is there; None is one of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Noise:
    """What is known of the tables below a computed one."""

    noisy: Callable[[Scalar | None], bool]
    """Whether a scalar of the tables' columns depends on noise."""
    sizes: Mapping[str, int]
    doubtful: frozenset[str]
    """The tables whose rows are not surely there."""
    partial: frozenset[str] = frozenset()
    """The tables that do not surely have all rows: those of selected keys."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A flow with its numbers: the columns that hold them, what every column is, and what decided about rows."""

    flow: RelNode
    places: tuple[Scalar, ...]
    origins: ColumnScalars
    tables: tuple[InputNode, ...]
    conditions: tuple[Scalar | None, ...]
    order: tuple[Scalar | None, ...] = ()
    """The keys of the order that the rows are in."""
    doubts: tuple[Scalar | None, ...] = ()
    lost: bool = False
    """Whether it is unknown which rows there are."""
    met: Mapping[str, tuple[Scalar | None, ...]] = field(default_factory=dict)


def trace(outcome: ProjectNode) -> Traced:
    """Return the top of an outcome with its rows' numbers."""
    cut, computed = _cut(outcome.source)
    everything = (outcome, *nodes(cut))
    number = _unused(everything)
    step = _traced(cut, number, None)
    if not any(isinstance(node, SortNode | LimitNode) for node in everything):
        step = replace(step, flow=SortNode(step.flow, _by_place(step)))  # without an order, that of the keys
    marks = tuple(Item(f"{number}{index}", scalar) for index, scalar in enumerate(step.places))
    flow = ProjectNode(step.flow, outcome.label, (*outcome.items, *marks))
    items = tuple(_number_of(written_out(item.scalar, step.origins)) for item in outcome.items)
    return Traced(flow, items, step.tables, computed, step.conditions, step.met)


def follow(table: Extended) -> Followed:
    """Return a table with the numbers of the rows that each of its rows comes from."""
    sides = (table.left.source, table.right.source) if isinstance(table, UnionAllNode) else (_first(table),)
    cuts = [_cut(side) for side in sides]
    number = _unused(tuple(node for side in (table, *sides) for node in nodes(side)))
    steps = [_traced(cut, number, None) for cut, _ in cuts]
    places = [index for step in steps for index in step.places]
    names = [f"{number}{at}" for at in range(len(places))]
    if isinstance(table, UnionAllNode):
        shown = [
            ProjectNode(step.flow, table.label, (*side.items, *_marks(names, places, step.places)))
            for side, step in zip((table.left, table.right), steps, strict=True)
        ]
        flow: RelNode = replace(table, left=shown[0], right=shown[1])
        marks = tuple(Item(name, column(table.label, name, _PLACE)) for name in names)
    else:
        source = steps[0].flow
        flow = replace(table, left=source) if isinstance(table, MarkJoinNode) else replace(table, source=source)
        marks = tuple(Item(name, place) for name, place in zip(names, places, strict=True))
    items = tuple(Item(name, column(label, name, facts)) for label, name, facts in outputs(table))
    tables = tuple(given for step in steps for given in step.tables)
    return Followed(
        ProjectNode(flow, table.label, (*items, *marks)), tables, tuple(one for _, own in cuts for one in own)
    )


def _first(table: WindowNode | MarkJoinNode) -> RelNode:
    return table.left if isinstance(table, MarkJoinNode) else table.source


def _marks(names: list[str], places: list[Scalar], own: tuple[Scalar, ...]) -> Iterator[Item]:
    """Give the numbers of one side's rows; those of the other side are NULL."""
    for name, place in zip(names, places, strict=True):
        yield Item(name, place if any(place is one for one in own) else Scalar(Operator.CONSTANT, (), _PLACE, None))


def _number_of(scalar: Scalar | None) -> Scalar | None:
    return scalar.arguments[0] if scalar is not None and scalar.operator in _SHOWN_NUMBERS else scalar


def tables_below(flow: RelNode) -> tuple[tuple[InputNode, ...], tuple[Computed, ...]]:
    """Return the tables that a flow is made of, and what some of them are computed from."""
    cut, computed = _cut(flow)
    return tuple(node for node in nodes(cut) if isinstance(node, InputNode)), computed


def possible_rows(flow: RelNode, noise: Noise) -> PossibleFlow | None:
    """Return every row that a flow can have; None where that cannot be said."""
    cut, _ = _cut(flow)
    number = _unused(tuple(nodes(cut)))
    step = _traced(cut, number, noise)
    if step.lost:
        return None
    marks = tuple(Item(f"{number}{index}", scalar) for index, scalar in enumerate(step.places))
    return PossibleFlow(ProjectNode(step.flow, "rows", marks), step.tables, step.origins, step.doubts)


def _cut(flow: RelNode) -> tuple[RelNode, tuple[Computed, ...]]:
    """Return the flow with a given table in place of every computed one nearest to its top, and those."""
    if isinstance(flow, AggregateNode | WindowNode | UnionAllNode | MarkJoinNode):
        return InputNode(flow.label, tuple((name, facts) for _, name, facts in outputs(flow)), None), (flow,)
    if isinstance(flow, JoinNode):
        (left, one), (right, other) = _cut(flow.left), _cut(flow.right)
        return replace(flow, left=left, right=right), one + other
    if isinstance(flow, FilterNode | ProjectNode | SortNode | LimitNode):
        source, computed = _cut(flow.source)
        return replace(flow, source=source), computed
    return flow, ()


def place_name(given: InputNode) -> str:
    """Return the name of the column of numbers that a given table of a traced flow must have."""
    return given.columns[-1][0]


def written_out(scalar: Scalar, origins: ColumnScalars) -> Scalar | None:
    """Return a scalar in terms of what its columns are; None if that is too large."""
    if scalar.operator is Operator.COLUMN:
        return next((origins[name] for name in columns_read(scalar)), None)
    arguments = [written_out(argument, origins) for argument in scalar.arguments]
    known = tuple(argument for argument in arguments if argument is not None)
    if len(known) < len(arguments) or sum(map(_size, known)) >= _MAX_EXPRESSION_NODES:
        return None
    return replace(scalar, arguments=known)


def _traced(flow: RelNode, number: str, noise: Noise | None) -> _Step:
    """Number the rows of a flow; with `noise`, whatever depends on it is left out of the flow and kept as a doubt."""
    match flow:
        case InputNode():
            return _numbered(flow, number, noise)
        case FilterNode(source, condition):
            step = _traced(source, number, noise)
            written = written_out(condition, step.origins)
            if noise is not None and noise.noisy(written):
                return replace(step, doubts=(*step.doubts, written))
            return replace(step, flow=FilterNode(step.flow, condition), conditions=(*step.conditions, written))
        case JoinNode(_, left, right, _):
            return _paired(flow, _traced(left, number, noise), _traced(right, number, noise), noise)
        case ProjectNode(source, label, items):
            step = _traced(source, number, noise)
            marks = tuple(Item(f"{number}{index}", scalar) for index, scalar in enumerate(step.places))
            shown = {(label, item.name): written_out(item.scalar, step.origins) for item in items}
            kept = tuple(item for item in items if noise is None or not noise.noisy(shown[label, item.name]))
            places = tuple(column(label, mark.name, _PLACE) for mark in marks)
            return replace(step, flow=ProjectNode(step.flow, label, (*kept, *marks)), places=places, origins=shown)
        case SortNode(source, keys):
            step = _traced(source, number, noise)
            order = tuple(written_out(scalar, step.origins) for scalar, _, _ in keys)
            if noise is not None and any(map(noise.noisy, order)):
                return replace(step, order=order)
            return replace(step, flow=SortNode(step.flow, (*keys, *_by_place(step))), order=order)
        case LimitNode(source):
            return _taken(flow, _traced(source, number, noise), noise)
    raise TypeError(type(flow).__name__)  # what is computed from noisy tables reads no others


def _numbered(given: InputNode, number: str, noise: Noise | None) -> _Step:
    label, known = given.label, given.columns
    origins = {(label, name): column(label, name, facts) for name, facts in known}
    kept = tuple((name, facts) for name, facts in known if noise is None or not noise.noisy(origins[label, name]))
    rows = given.rows
    if rows is not None:
        shown = [index for index, pair in enumerate(known) if pair in kept]
        rows = tuple((*(row[index] for index in shown), at) for at, row in enumerate(rows))
    table = replace(given, columns=(*kept, (number, _PLACE)), rows=rows)
    return _Step(table, (column(label, number, _PLACE),), origins, (table,), ())


def _paired(pair: JoinNode, left: _Step, right: _Step, noise: Noise | None) -> _Step:
    origins = {**left.origins, **right.origins}
    parts = () if pair.condition is None else (pair.condition,) if noise is None else tuple(conjuncts(pair.condition))
    written = [written_out(part, origins) for part in parts]
    noisy = [noise is not None and noise.noisy(one) for one in written]
    kept = [part for part, doubtful in zip(parts, noisy, strict=True) if not doubtful]
    doubts = tuple(one for one, doubtful in zip(written, noisy, strict=True) if doubtful)
    lost = left.lost or right.lost
    if noise is not None:
        unsure = noise.doubtful | noise.partial
        shaky = bool(doubts or right.doubts) or any(table.label in unsure for table in right.tables)
        rows = prod(noise.sizes[table.label] for table in (*left.tables, *right.tables))
        if pair.kind is JoinKind.FULL:
            shaky = shaky or bool(left.doubts) or any(table.label in unsure for table in left.tables)
        # a row that may have met none would be there twice; and all pairs of large tables take too long
        lost = lost or (pair.kind is not JoinKind.INNER and shaky) or (bool(doubts) and rows > _MAX_JOINED_PAIRS)
    return _Step(
        replace(pair, left=left.flow, right=right.flow, condition=_all(kept)),
        left.places + right.places,
        origins,
        left.tables + right.tables,
        (*left.conditions, *right.conditions, *written),
        (),
        (*left.doubts, *right.doubts, *doubts),
        lost,
        {
            **left.met,
            **right.met,
            **(_met(right, written) if pair.kind is not JoinKind.INNER else {}),
            **(_met(left, written) if pair.kind is JoinKind.FULL else {}),
        },
    )


def _met(side: _Step, condition: list[Scalar | None]) -> dict[str, tuple[Scalar | None, ...]]:
    return {table.label: (*side.met.get(table.label, ()), *side.conditions, *condition) for table in side.tables}


def _taken(take: LimitNode, step: _Step, noise: Noise | None) -> _Step:
    if noise is not None:
        doubtful = any(table.label in noise.doubtful for table in step.tables)
        if step.doubts or doubtful or any(map(noise.noisy, step.order)):
            return replace(step, doubts=(*step.doubts, None))
    flow = step.flow if step.order else SortNode(step.flow, _by_place(step))
    return replace(step, flow=replace(take, source=flow), conditions=step.conditions + step.order)


def conjuncts(condition: Scalar) -> Iterator[Scalar]:
    """Give the conditions that all have to hold."""
    if condition.operator is Operator.AND:
        for argument in condition.arguments:
            yield from conjuncts(argument)
    else:
        yield condition


def _all(conditions: list[Scalar]) -> Scalar | None:
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    nullable = any(condition.facts.nullable for condition in conditions)
    return Scalar(Operator.AND, tuple(conditions), Facts(Type.BOOLEAN, Kind.BOOLEAN, nullable))


def _by_place(step: _Step) -> tuple[tuple[Scalar, bool, bool], ...]:
    """Return the order of the cells: equal rows come in it too, so that the same release is always the same."""
    return tuple((index, False, False) for index in step.places)


def _size(scalar: Scalar) -> int:
    return 1 + sum(map(_size, scalar.arguments))


def _unused(nodes: tuple[RelNode, ...]) -> str:
    """Return a name that no column begins with."""
    names = {name for node in nodes if isinstance(node, InputNode) for name, _ in node.columns}
    names |= {item.name for node in nodes if isinstance(node, ProjectNode) for item in node.items}
    number = "#"
    while any(name.startswith(number) for name in names):
        number += "#"
    return number
