"""Where a row of the answer comes from: the outcome's flow with the number of every noisy cell carried along.

An outcome without aggregates above the noisy groups is row-local: each of its rows comes from one cell of each group,
and each of its columns is a scalar of that cell's columns. Then error bars need no second run of HAVING or LIMIT.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sfumato.analysis.facts import Facts, Kind
from sfumato.analysis.flow import Flow, Fold, Given, Item, Keep, Order, Pair, Read, Show, Take, below
from sfumato.analysis.scalar import Operator, Scalar, column, columns
from sfumato.query.types import Type

_LARGEST = 2_000
"""An expression that has more parts than this, with what it refers to written out, gets no interval."""
_PLACE = Facts(Type.INTEGER, Kind.INTEGER, high=1 << 62)

Origins = Mapping[tuple[str, str], Scalar | None]
"""What each column is, in terms of the given tables' columns; None where it would be too large to write out."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A row-local outcome: its flow with the cells' numbers as last columns, one for each of the given tables."""

    flow: Show
    items: tuple[Scalar | None, ...]
    """Each column of the answer as a scalar of the given tables' columns."""
    tables: tuple[Given, ...]
    conditions: tuple[Scalar | None, ...]
    """What decided which rows there are: conditions, and the keys of an order of which only a part was taken."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A flow with its numbers: the columns that hold them, what every column is, and what decided about rows."""

    flow: Flow
    places: tuple[Scalar, ...]
    origins: Origins
    tables: tuple[Given, ...]
    conditions: tuple[Scalar | None, ...]
    order: tuple[Scalar | None, ...] = ()
    """The keys of the order that the rows are in."""


def trace(outcome: Show) -> Traced | None:
    """Return the outcome with its cells' numbers; None where an aggregate or a stored table stands in the way."""
    nodes = tuple(_nodes(outcome))
    if any(isinstance(node, Fold | Read) for node in nodes):
        return None
    number = _unused(nodes)
    step = _traced(outcome.source, number)
    if not any(isinstance(node, Order | Take) for node in nodes):
        step = replace(step, flow=Order(step.flow, _by_place(step)))  # without an order, that of the keys
    marks = tuple(Item(f"{number}{place}", scalar) for place, scalar in enumerate(step.places))
    flow = Show(step.flow, outcome.label, (*outcome.items, *marks))
    items = tuple(written_out(item.scalar, step.origins) for item in outcome.items)
    return Traced(flow, items, step.tables, step.conditions)


def place_name(given: Given) -> str:
    """Return the name of the column of numbers that a given table of a traced flow must have."""
    return given.columns[-1][0]


def written_out(scalar: Scalar, origins: Origins) -> Scalar | None:
    """Return a scalar in terms of what its columns are; None if that is too large."""
    if scalar.operator is Operator.COLUMN:
        return next((origins[name] for name in columns(scalar)), None)
    arguments = [written_out(argument, origins) for argument in scalar.arguments]
    known = tuple(argument for argument in arguments if argument is not None)
    if len(known) < len(arguments) or sum(map(_size, known)) >= _LARGEST:
        return None
    return replace(scalar, arguments=known)


def _traced(flow: Flow, number: str) -> _Step:
    match flow:
        case Given(label, known, rows):
            numbered = Given(label, (*known, (number, _PLACE)), None if rows is None else _numbered(rows))
            origins = {(label, name): column(label, name, facts) for name, facts in known}
            return _Step(numbered, (column(label, number, _PLACE),), origins, (numbered,), ())
        case Keep(source, condition):
            step = _traced(source, number)
            conditions = (*step.conditions, written_out(condition, step.origins))
            return replace(step, flow=Keep(step.flow, condition), conditions=conditions)
        case Pair(_, left, right, _):
            return _paired(flow, _traced(left, number), _traced(right, number))
        case Show(source, label, items):
            step = _traced(source, number)
            marks = tuple(Item(f"{number}{place}", scalar) for place, scalar in enumerate(step.places))
            shown = {(label, item.name): written_out(item.scalar, step.origins) for item in items}
            places = tuple(column(label, mark.name, _PLACE) for mark in marks)
            return replace(step, flow=Show(step.flow, label, (*items, *marks)), places=places, origins=shown)
        case Order(source, keys):
            step = _traced(source, number)
            order = tuple(written_out(scalar, step.origins) for scalar, _, _ in keys)
            return replace(step, flow=Order(step.flow, (*keys, *_by_place(step))), order=order)
        case Take(source):
            return _taken(flow, _traced(source, number))
    raise TypeError(type(flow).__name__)  # `trace` lets no other node through


def _paired(pair: Pair, left: _Step, right: _Step) -> _Step:
    origins = {**left.origins, **right.origins}
    condition = () if pair.condition is None else (written_out(pair.condition, origins),)
    return _Step(
        replace(pair, left=left.flow, right=right.flow),
        left.places + right.places,
        origins,
        left.tables + right.tables,
        left.conditions + right.conditions + condition,
    )


def _taken(take: Take, step: _Step) -> _Step:
    flow = step.flow if step.order else Order(step.flow, _by_place(step))
    return replace(step, flow=replace(take, source=flow), conditions=step.conditions + step.order)


def _by_place(step: _Step) -> tuple[tuple[Scalar, bool, bool], ...]:
    """Return the order of the cells: equal rows come in it too, so that the same release is always the same."""
    return tuple((place, False, False) for place in step.places)


def _numbered(
    rows: tuple[tuple[int | float | str | bool | None, ...], ...],
) -> tuple[tuple[int | float | str | bool | None, ...], ...]:
    return tuple((*row, place) for place, row in enumerate(rows))


def _size(scalar: Scalar) -> int:
    return 1 + sum(map(_size, scalar.arguments))


def _nodes(flow: Flow) -> Iterator[Flow]:
    yield flow
    for source in below(flow):
        yield from _nodes(source)


def _unused(nodes: tuple[Flow, ...]) -> str:
    """Return a name that no column begins with."""
    names = {name for node in nodes if isinstance(node, Given) for name, _ in node.columns}
    names |= {item.name for node in nodes if isinstance(node, Show) for item in node.items}
    number = "#"
    while any(name.startswith(number) for name in names):
        number += "#"
    return number
