"""Window functions by the definition, row by row, in plain Python: what flows are compared with."""

from collections.abc import Callable
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

from sfumato.language.rel_nodes import AggregateItem, SortKeys, WindowAggregate, WindowNode, WindowValue
from sfumato.language.scalar import Scalar
from sfumato.query.windows import WindowFunction

Row = dict[tuple[str, str], Any]
Value = Callable[[Scalar, Row], Any]
Aggregate = Callable[[AggregateItem, list[Row]], Any]


def windowed_rows(flow: WindowNode, rows: list[Row], value: Value, aggregate: Aggregate) -> list[Row]:
    """Return every row with what its windows say of it."""
    return [
        row | {(flow.label, one.name): _looked(one, rows, at, value, aggregate) for one in flow.values}
        for at, row in enumerate(rows)
    ]


def _compared(one: Row, other: Row, order: SortKeys, value: Value) -> int:
    """Return -1, 0 or 1: which of the two comes first."""
    for scalar, descending, nulls_first in order:
        first, second = value(scalar, one), value(scalar, other)
        if first == second:
            continue
        if first is None or second is None:
            return -1 if (first is None) == nulls_first else 1
        return -1 if (first < second) != descending else 1
    return 0


def _looked(one: WindowValue | WindowAggregate, rows: list[Row], at: int, value: Value, aggregate: Aggregate) -> Any:
    around, row = one.around, rows[at]
    mine = [
        place
        for place, other in enumerate(rows)
        if all(value(key, other) == value(key, row) for key in around.partition)
    ]

    def first(one_place: int, other: int) -> int:
        return _compared(rows[one_place], rows[other], around.order, value) or one_place - other

    ordered = sorted(mine, key=cmp_to_key(first))
    here = ordered.index(at)

    def equal(place: int) -> bool:
        return _compared(rows[place], row, around.order, value) == 0

    def inside(position: int) -> bool:
        place, frame = ordered[position], around.frame
        for end, sign in ((frame.start, 1), (frame.end, -1)):
            if end is None:
                continue
            if frame.rows:
                far = Fraction(position - here)
            elif end == 0 or value(around.order[0][0], row) is None or value(around.order[0][0], rows[place]) is None:
                far = Fraction(_compared(rows[place], row, around.order, value)) * 1000
                far = far if far else end
            else:
                distance = value(around.order[0][0], rows[place]) - value(around.order[0][0], row)
                far = Fraction(-distance if around.order[0][1] else distance)
            if sign * far < sign * end:
                return False
        return True

    framed = [ordered[position] for position in range(len(ordered)) if inside(position)]
    if isinstance(one, WindowAggregate):
        return aggregate(one.folded, [rows[place] for place in sorted(framed)])
    before = [place for place in ordered if _compared(rows[place], row, around.order, value) < 0]
    match one.call.function:
        case WindowFunction.ROW_NUMBER:
            return here + 1
        case WindowFunction.RANK:
            return len(before) + 1
        case WindowFunction.DENSE_RANK:
            return len({tuple(value(key, rows[place]) for key, _, _ in around.order) for place in before}) + 1
        case WindowFunction.PERCENT_RANK:
            return len(before) / (len(ordered) - 1) if len(ordered) > 1 else 0.0
        case WindowFunction.CUME_DIST:
            return sum(place in before or equal(place) for place in ordered) / len(ordered)
        case WindowFunction.NTILE:
            tiles = one.call.count
            sizes = [len(ordered) // tiles + (tile < len(ordered) % tiles) for tile in range(tiles)]
            return next(tile for tile in range(1, tiles + 1) if sum(sizes[:tile]) > here)
        case WindowFunction.LAG | WindowFunction.LEAD:
            far = here + (one.call.count if one.call.function is WindowFunction.LEAD else -one.call.count)
            if 0 <= far < len(ordered):
                return value(one.call.arguments[0], rows[ordered[far]])
            return value(one.call.arguments[1], row) if len(one.call.arguments) > 1 else None
        case WindowFunction.FIRST_VALUE:
            chosen = framed[:1]
        case WindowFunction.LAST_VALUE:
            chosen = framed[-1:]
        case WindowFunction.NTH_VALUE:
            chosen = framed[one.call.count - 1 : one.call.count]
    return value(one.call.arguments[0], rows[chosen[0]]) if chosen else None
