"""Which values a key can have, where the public knows: from the policy, from public tables and from the text itself.

Theorem: `cells_of` depends on text, policy and public tables alone, and every value of the scalar that is not NULL on a
row of any database is among the cells.  Proof: proofs/lineage.md §5
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import product
from math import prod
from operator import le, lt

from sfumato.analysis.catalog import PublicData
from sfumato.analysis.possible_cells import Computation, DeferredCells, KnownCells, PossibleCells
from sfumato.analysis.private_query import Cell
from sfumato.language.facts import Facts, Kind
from sfumato.language.outside import bare, is_stored
from sfumato.language.rel_nodes import FilterNode, InputNode, Item, JoinNode, RelNode
from sfumato.language.scalar import Operator, Scalar, Sides, address, column, walk
from sfumato.query.relation import JoinKind

MAX_GROUP_CELLS = 10_000
"""How many cells an answer with public keys may have; beyond, keys are chosen privately."""

_MAX_EXPRESSION_NODES = 200
"""Expressions of more parts are not looked into step by step."""
_CHOOSE = frozenset({Operator.COALESCE, Operator.LEAST, Operator.GREATEST})
"""Operators whose value is always that of one of their arguments, or NULL."""

_ORDER = {Operator.LESS: lt, Operator.AT_MOST: le}


def computation(scalar: Scalar) -> Computation:
    """Return the computation of a scalar, without its facts."""
    return (scalar.operator, scalar.constant, *(computation(argument) for argument in scalar.arguments))


def cells_of(
    scalar: Scalar, cells: PossibleCells, origins: Mapping[str, RelNode], public: PublicData
) -> tuple[Cell, ...] | None:
    """Return every value that the scalar can have, sorted, or None where they are not public or too many."""
    scalar = bare(scalar)
    listed = cells.get(computation(scalar))
    if listed is not None:
        return listed
    if scalar.facts.kind in {Kind.REAL, Kind.UNIT}:
        return None
    spelled = _possible_cells(scalar, cells, origins, public)
    if spelled is None and scalar.facts.kind is Kind.BOOLEAN:
        spelled = (False, True)
    if spelled is None:
        spelled = _image(scalar, cells, origins, public)
    if spelled is None:
        spelled = _step_by_step(scalar, cells, origins, public)
    if spelled is None and scalar.facts.bounded and scalar.facts.span <= MAX_GROUP_CELLS:
        spelled = tuple(range(scalar.facts.low, scalar.facts.high + 1))
    return spelled


def _possible_cells(
    scalar: Scalar, cells: PossibleCells, origins: Mapping[str, RelNode], public: PublicData
) -> tuple[Cell, ...] | None:
    """Return the values of what chooses between others: constants, CASE, COALESCE."""
    if scalar.operator is Operator.CONSTANT:
        value = scalar.constant
        return (value,) if isinstance(value, int | str | bool) else () if value is None else None
    if scalar.operator is Operator.CASE:
        chosen = (*scalar.arguments[1:-1:2], scalar.arguments[-1])
    elif scalar.operator in _CHOOSE:
        chosen = scalar.arguments
    elif scalar.operator is Operator.NULLIF:
        chosen = scalar.arguments[:1]
    else:
        return None
    parts = [cells_of(part, cells, origins, public) for part in chosen]
    union = {value for part in parts if part is not None for value in part if _is_possible(value, scalar.facts)}
    return None if None in parts or len(union) > MAX_GROUP_CELLS else tuple(sorted(union, key=_cell_order))


def _is_possible(value: Cell, facts: Facts) -> bool:
    """Whether an expression can have this value of one of its parts: LEAST(x, 5) is never 6."""
    if facts.kind is not Kind.INTEGER or not isinstance(value, int):
        return True
    return facts.low <= value <= facts.high


def _image(
    scalar: Scalar, cells: PossibleCells, origins: Mapping[str, RelNode], public: PublicData
) -> tuple[Cell, ...] | None:
    """Return the values over all combinations of the columns' public values, computed by the engine itself."""
    used = {computation(part): part for part in walk(scalar) if part.operator is Operator.COLUMN}
    labels = {_label(part) for part in used.values()}
    if len(labels) == 1 and (origin := origins.get(next(iter(labels)))) is not None:
        return public.distinct(origin, scalar, MAX_GROUP_CELLS)
    if scalar.operator is Operator.COLUMN or not used:
        return None
    known = {key: cells_of(part, cells, origins, public) for key, part in used.items()}
    values = {key: part for key, part in known.items() if part is not None}
    if len(values) < len(known) or prod(map(len, values.values())) > MAX_GROUP_CELLS:
        return None
    if (narrowed := _clipped_cells(scalar, *values.values())) is not None:
        return narrowed
    flows = [_combinations(label, used, values) for label in sorted(labels)]
    return public.distinct(reduce(_cross_join, flows), scalar, MAX_GROUP_CELLS)


def _clipped_cells(scalar: Scalar, *values: tuple[Cell, ...]) -> KnownCells:
    """Return the values of a column that a condition narrowed, without an engine; None for any other scalar.

    What lies outside the bounds is brought to an end of what the condition left. So is NULL where the condition
    excludes it: that is what an engine makes of it.
    """
    if scalar.operator is not Operator.CLIPPED or scalar.arguments[0].operator is not Operator.COLUMN:
        return None
    facts, narrowed = scalar.facts, scalar.constant
    every = {value for value in (*_outside_cells(scalar.arguments[0]), *values[0]) if isinstance(value, int)}
    if isinstance(narrowed, Sides) and not facts.nullable:
        every.add(facts.high if narrowed.low is None else facts.low)
    return tuple(sorted({min(max(value, facts.low), facts.high) for value in every}))


def _step_by_step(
    scalar: Scalar, cells: PossibleCells, origins: Mapping[str, RelNode], public: PublicData
) -> tuple[Cell, ...] | None:
    """Return the values over all combinations of its arguments' public values, such as the days of a timestamp."""
    inner = {f"a{index}": part for index, part in enumerate(scalar.arguments) if part.operator is not Operator.CONSTANT}
    if not inner or scalar.operator in _CHOOSE | {Operator.CASE, Operator.NULLIF}:
        return None  # `_possible_cells` has asked the arguments; asking again would double the work at each level
    if sum(1 for _ in walk(scalar)) > _MAX_EXPRESSION_NODES:
        return None
    known = {name: cells_of(part, cells, origins, public) for name, part in inner.items()}
    values = {name: part for name, part in known.items() if part is not None}
    if len(values) < len(known) or prod(map(len, values.values())) > MAX_GROUP_CELLS:
        return None
    columns = tuple((name, inner[name].facts) for name in values)
    node = InputNode("arguments", columns, tuple(product(*((*part, None) for part in values.values()))))
    arguments = tuple(
        column("arguments", f"a{index}", part.facts) if f"a{index}" in inner else part
        for index, part in enumerate(scalar.arguments)
    )
    return public.distinct(node, replace(scalar, arguments=arguments), MAX_GROUP_CELLS)


def cells_together(
    keys: Sequence[Item], origins: Mapping[str, RelNode], public: PublicData
) -> tuple[tuple[Cell, ...], ...] | None:
    """Return the combinations that occur in one public table, where all keys are of it; None where they are not."""
    labels = {_label(part) for key in keys for part in walk(key.scalar) if part.operator is Operator.COLUMN}
    flows = {origins.get(label) for label in labels}
    if len(keys) < 2 or len(flows) != 1 or (flow := flows.pop()) is None:
        return None
    rows = public.rows(flow, tuple(key.scalar for key in keys), 10 * MAX_GROUP_CELLS)
    if rows is None:
        return None
    whole = {row for row in rows if all(isinstance(value, int | str | bool) for value in row)}
    return tuple(sorted(whole))  # type: ignore[arg-type]


def _combinations(
    label: str, used: Mapping[Computation, Scalar], values: Mapping[Computation, tuple[Cell, ...]]
) -> RelNode:
    """Return all combinations of the public values of a label's columns."""
    own = {key: part for key, part in used.items() if _label(part) == label}
    columns = tuple((_column_name(part), part.facts) for part in own.values())
    # a value may also be NULL, which CASE and COALESCE can turn into something else
    return InputNode(label, columns, tuple(product(*((*_outside_cells(own[key]), *values[key], None) for key in own))))


def _outside_cells(leaf: Scalar) -> tuple[Cell, ...]:
    """Return what a column holds where its value lies outside its bounds: a condition sees it."""
    return (leaf.facts.low - 1, leaf.facts.high + 1) if is_stored(leaf) else ()


def _cross_join(left: RelNode, right: RelNode) -> RelNode:
    return JoinNode(JoinKind.INNER, left, right, None)


def possible_cells(
    scalars: Mapping[Computation, Scalar], cells: PossibleCells, origins: Mapping[str, RelNode], public: PublicData
) -> PossibleCells:
    """Return the values of the columns of a relation, each computed from one below it."""

    def deferred(scalar: Scalar) -> DeferredCells:
        return DeferredCells(lambda _: cells_of(scalar, cells, origins, public))

    too_many = (shown for shown, scalar in scalars.items() if computation(bare(scalar)) in cells.too_many)
    return PossibleCells({shown: deferred(scalar) for shown, scalar in scalars.items()}, frozenset(too_many))


def chosen_cells(condition: Scalar, cells: PossibleCells, public: PublicData) -> PossibleCells:
    """Return the public values that are left where the condition is true: IN lists, and tests of one known column."""
    listed = _compared_constants(condition)
    if listed is not None:
        return left_cells(*listed, cells)
    for implied, values in _implied_constants(condition).items():
        cells = left_cells(implied, values, cells)
    used = {computation(part): part for part in walk(condition) if part.operator is Operator.COLUMN}
    if len(used) != 1 or not cells.may_have(tested := next(iter(used))):
        return cells
    return cells.narrowed(tested, partial(_left_where, condition, used[tested], public))


def left_cells(tested: Computation, values: tuple[Cell, ...], cells: PossibleCells) -> PossibleCells:
    """Return the public values that are left where something is one of these."""
    chosen = set(values)
    return cells.narrowed(
        tested, lambda before: values if before is None else tuple(value for value in before if value in chosen)
    )


def _left_where(condition: Scalar, part: Scalar, public: PublicData, before: KnownCells) -> KnownCells:
    """Return the values of a column for which a condition on it alone is true."""
    if before is None:
        return None
    ordered = _left_in_order(condition, part, before)
    if ordered is not None:
        return ordered
    node = InputNode(_label(part), ((_column_name(part), part.facts),), tuple((value,) for value in before))
    remaining = public.distinct(FilterNode(node, condition), part, MAX_GROUP_CELLS)
    return before if remaining is None else remaining


def _left_in_order(condition: Scalar, part: Scalar, before: tuple[Cell, ...]) -> KnownCells:
    """Return what the comparison of a column with an integer leaves, without an engine; None for other conditions."""
    compare = _ORDER.get(condition.operator)
    if compare is None:
        return None
    first, second = condition.arguments
    flipped = first.operator is Operator.CONSTANT
    side, limit = (second, first) if flipped else (first, second)
    end = limit.constant
    if (
        limit.operator is not Operator.CONSTANT
        or type(end) is not int
        or bare(side) != part
        or {side.facts.kind, limit.facts.kind} != {Kind.INTEGER}
        or side.facts.step != limit.facts.step
    ):
        return None
    numbers = {value for value in before if type(value) is int}
    kept = (value for value in numbers if (compare(end, value) if flipped else compare(value, end)))
    return tuple(sorted(kept)) if len(numbers) == len(before) else None


def _compared_constants(condition: Scalar) -> tuple[Computation, tuple[Cell, ...]] | None:
    """Return scalars with the constants they are compared with, for `x = c`, `x IN (…)` or an OR of such."""
    if condition.operator is Operator.OR:
        parts = [_compared_constants(part) for part in condition.arguments]
        constants = [part for part in parts if part is not None]
        if len(constants) < len(parts) or len({tested for tested, _ in constants}) > 1:
            return None
        return constants[0][0], tuple(sorted({value for _, values in constants for value in values}, key=_cell_order))
    if condition.operator not in {Operator.EQUAL, Operator.IN} or len(condition.arguments) < 2:
        return None
    first, *others = condition.arguments
    if first.operator is Operator.CONSTANT and len(others) == 1:
        first, others = others[0], [first]
    constant = first.operator is Operator.CONSTANT
    if (
        constant
        or first.facts.kind in {Kind.REAL, Kind.UNIT}
        or any(other.operator is not Operator.CONSTANT for other in others)
    ):
        return None
    values = {other.constant for other in others if isinstance(other.constant, int | str | bool)}
    return computation(bare(first)), tuple(sorted(values, key=_cell_order))


def _implied_constants(condition: Scalar) -> dict[Computation, tuple[Cell, ...]]:
    """Return the constants that every side of an OR compares something with: (a = 1 AND b = 2) OR (a = 2 AND b = 1)."""
    if condition.operator is not Operator.OR:
        return {}
    sides = []
    for side in condition.arguments:
        parts = side.arguments if side.operator is Operator.AND else (side,)
        sides.append(dict(found for part in parts if (found := _compared_constants(part)) is not None))
    common = [tested for tested in sides[0] if all(tested in side for side in sides)]
    return {
        tested: tuple(sorted({value for side in sides for value in side[tested]}, key=_cell_order)) for tested in common
    }


def _cell_order(value: Cell) -> tuple[str, Cell]:
    return (type(value).__name__, value)


def _label(scalar: Scalar) -> str:
    return ref.label if (ref := address(scalar)) is not None else ""


def _column_name(scalar: Scalar) -> str:
    return ref.name if (ref := address(scalar)) is not None else ""
