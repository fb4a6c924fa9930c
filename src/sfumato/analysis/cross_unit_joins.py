"""Joins in which rows of different people meet, because the text says so: the owners are compared by `<>`, or `<`.

Such a row belongs to several people, so it may only be counted, and only where rows meet by equal columns: then the
number follows from how many rows of each side have each key. Proof: proofs/elastic_joins.md
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from math import factorial, prod
from typing import NoReturn

from sfumato.analysis.catalog import Catalog, PublicData
from sfumato.analysis.groups import RequestedBounds, private_group_by
from sfumato.analysis.lineage import Analysed, UnitLineage, is_unit_id
from sfumato.analysis.possible_cells import PossibleCells
from sfumato.analysis.private_query import Group
from sfumato.errors import UnsafeJoin, position_prefix
from sfumato.language.cost_limits import check_characters
from sfumato.language.facts import Facts, Kind
from sfumato.language.lower_logic import all_true
from sfumato.language.lowering import ScalarScope, lower
from sfumato.language.outside import as_key
from sfumato.language.rel_nodes import FilterNode, Item, JoinNode, RelNode, outputs
from sfumato.language.scalar import Operator, Scalar, address, column
from sfumato.language.scalar import columns_read as columns_read
from sfumato.query.aggregate import Aggregate
from sfumato.query.expression import Call, Column, Expression, Position, conjunction, conjuncts, sources
from sfumato.query.functions import Aggregation, Function
from sfumato.query.private_rows import reads_private_tables
from sfumato.query.relation import (
    Filter,
    GroupBy,
    Join,
    JoinKind,
    MarkJoin,
    Options,
    Project,
    Relation,
    Scan,
    UnionAll,
    Values,
    Window,
    inputs,
)
from sfumato.query.types import Type
from sfumato.query.unlabelled import number_labels

MAX_JOIN_SIDES = 3
MAX_OWN_COMBINATIONS = 10**9
"""The product of what one person has of one key on every side: sums of such products stay in 64 bits."""
_COMPARABLE_KINDS = frozenset({Kind.INTEGER, Kind.TEXT, Kind.BOOLEAN})
_TRUTH = Facts(Type.BOOLEAN, Kind.BOOLEAN, nullable=False)
_REMEDY = (
    "Count them with COUNT(*), compare the people of every two tables by `<>` alone, and join all tables by the same "
    "columns: … FROM t a JOIN t b ON a.x = b.x AND a.person <> b.person."
)


CROSS_UNIT_NOTE = (
    "This query joins rows of different people. Part of epsilon estimates its sensitivity, so the margin is known only "
    "with the answer."
)


@dataclass(slots=True)
class _Side:
    """One private relation, with the public ones that meet it alone, and what the text says of it alone."""

    relation: Relation
    labels: set[str]
    conditions: list[Expression] = field(default_factory=list)

    def reads(self, expression: Expression) -> bool:
        return sources(expression) <= self.labels

    @property
    def whole(self) -> Relation:
        return Filter(self.relation, conjunction(tuple(self.conditions))) if self.conditions else self.relation


@dataclass(frozen=True, slots=True)
class _JoinedSide:
    """A side that was analysed: its owner, and by which of its values it meets the others."""

    analysed: Analysed
    owned: UnitLineage
    keys: tuple[Scalar, ...]

    @property
    def repeats(self) -> int:
        """How many rows of one person can have one key: one, where a part of it is unique within the person."""
        return 1 if any(address(key) in self.owned.unique for key in self.keys) else self.owned.rows


def analyse_cross_unit_join(
    relation: GroupBy, catalog: Catalog, options: Options, public: PublicData, analyse: Callable[[Relation], Analysed]
) -> tuple[Group, Analysed] | None:
    """Return the group of rows of different people, and what may be done with its noisy cells; None if it is none."""
    leaves, conditions = _flatten_joins(relation.source)
    differing = [part for part in conditions if _is_differing(part, relation.source, catalog)]
    if not differing:
        return None
    rest = [part for part in conditions if part not in differing]
    sides = _join_sides(leaves, rest, relation, catalog)
    if len(sides) > MAX_JOIN_SIDES:
        _refuse_join(
            relation.at, f"rows of {len(sides)} different people are joined; at most {MAX_JOIN_SIDES} are allowed."
        )
    _check_differing(differing, sides, relation)
    analysed = [analyse(side.whole) for side in sides]
    met = _sides_with_keys(analysed, _owners(analysed, differing, relation), sides, rest)
    if met is None:
        _refuse_join(relation.at, "not all tables are joined on the same columns.")
    if prod(side.repeats for side in met) > MAX_OWN_COMBINATIONS:
        _refuse_join(relation.at, "one person can have too many rows with the same key.")
    for side in met:
        check_characters(side.analysed.flow, side.owned.rows, side.keys, relation.at)
    source = _source(met)
    keys = tuple(Item(key.name, as_key(lower(key.expression, source.scope))) for key in relation.keys)
    _check_keys(keys, met, relation)
    if options.max_rows_contributed is not None or options.max_groups_contributed is not None:
        _refuse_join(relation.at, "OPTIONS cannot tighten a join of rows of different people.")
    owned = replace(met[0].owned, rows=max(side.owned.rows for side in met), groups=None)
    group, noisy = private_group_by(relation, keys, source, owned, RequestedBounds(None, None), public)
    if not group.public_keys:
        _refuse_join(relation.at, "this groups joined rows of different people by keys that are not declared.")
    if any(aggregate.aggregate != Aggregate(Aggregation.COUNT) for aggregate in group.asked):
        _refuse_join(relation.at, "rows of different people can only be counted.")
    counted = _count_aggregate(met, bool(keys), _equivalent_orders(differing, sides, met, relation))
    fewer = replace(group.contribution, bound_groups=False)
    aggregates = tuple(replace(aggregate, aggregate=counted) for aggregate in group.asked)
    return replace(group, asked=aggregates, contribution=fewer), noisy


def _flatten_joins(relation: Relation) -> tuple[list[Relation], list[Expression]]:
    """Return the joined relations and all their conditions."""
    match relation:
        case Filter(source, condition):
            leaves, conditions = _flatten_joins(source)
            return leaves, [*conditions, *conjuncts(condition)]
        case Join(JoinKind.INNER, left, right, condition):
            (first, ours), (second, theirs) = _flatten_joins(left), _flatten_joins(right)
            own = [] if condition is None else conjuncts(condition)
            return first + second, [*ours, *theirs, *own]
    return [relation], []


def _is_differing(part: Expression, relation: Relation, catalog: Catalog) -> bool:
    return bool(_differing_parts(part)) and all(
        _names_people(side, relation, catalog) for side in _differing_parts(part)
    )


def _differing_parts(part: Expression) -> tuple[Expression, ...]:
    """Return the inequalities of a condition; empty where it says something else."""
    match part:
        case Call(Function.DIFFERENT | Function.DISTINCT_FROM | Function.LESS, arguments):
            return arguments
        case Call(Function.NOT, (Call(Function.EQUAL, arguments),)):
            return arguments
    return ()


def _names_people(expression: Expression, relation: Relation, catalog: Catalog) -> bool:
    """Whether an expression is a column that names people, in a table or in what a subquery shows of one."""
    if not isinstance(expression, Column):
        return False
    match relation:
        case Scan(table, label) if label == expression.of:
            return catalog.tables[table].field(expression.name).facts.kind is Kind.UNIT
        case Project(source, label, named) | GroupBy(source, label, named) if label == expression.of:
            shown = [item.expression for item in named if item.name == expression.name]
            return any(_names_people(argument, source, catalog) for argument in shown)
    return any(_names_people(expression, source, catalog) for source in inputs(relation))


def _join_sides(leaves: Sequence[Relation], rest: list[Expression], relation: GroupBy, catalog: Catalog) -> list[_Side]:
    """Return the relations that meet: tables of one and the same person are one, with the public ones that they meet.

    Conditions on only one of them are removed from `rest`.
    """
    sides = [_Side(leaf, set(_labels(leaf))) for leaf in leaves if reads_private_tables(leaf, catalog)]
    waiting = [_Side(leaf, set(_labels(leaf))) for leaf in leaves if not reads_private_tables(leaf, catalog)]
    for part in [part for part in rest if _is_same_person(part, relation.source, catalog)]:
        first, *others = [side for side in sides if sources(part) & side.labels]
        for other in others:
            _merge_sides(first, other, rest, relation)
            sides.remove(other)
    while waiting:
        for candidate in waiting:
            touched = [side for side in sides if any(_links(part, candidate, side) for part in rest)]
            if touched:
                _merge_sides(touched[0], candidate, rest, relation)
                waiting.remove(candidate)
                break
        else:
            _refuse_join(relation.at, "a public table is not joined with any private table.")
    for side in sides:
        side.conditions += [part for part in rest if side.reads(part)]
    rest[:] = [part for part in rest if not any(side.reads(part) for side in sides)]
    return sides


def _is_same_person(part: Expression, relation: Relation, catalog: Catalog) -> bool:
    match part:
        case Call(Function.EQUAL, arguments):
            return all(_names_people(side, relation, catalog) for side in arguments)
    return False


def _links(part: Expression, first: _Side, second: _Side) -> bool:
    return bool(sources(part) & first.labels) and bool(sources(part) & second.labels)


def _merge_sides(side: _Side, other: _Side, rest: list[Expression], relation: GroupBy) -> None:
    """Make one side of two, by what the text says of both."""
    labels = side.labels | other.labels
    both = [part for part in rest if _links(part, side, other) and sources(part) <= labels]
    condition = conjunction(tuple(both)) if both else None
    side.relation = Join(JoinKind.INNER, side.relation, other.relation, condition, relation.at)
    side.labels = labels
    rest[:] = [part for part in rest if part not in both]


def _labels(relation: Relation) -> Iterator[str]:
    """Give the labels under which the columns of a relation are known."""
    match relation:
        case Scan(label=label) | Values(label=label) | Project(label=label) | GroupBy(label=label):
            yield label
            return
        case Window(label=label) | UnionAll(label=label) | MarkJoin(label=label):
            yield label
    for source in inputs(relation):
        yield from _labels(source)


def _check_differing(differing: Sequence[Expression], sides: Sequence[_Side], relation: GroupBy) -> None:
    """Refuse what does not say of every two sides that their people differ."""
    compared = {
        frozenset(index for index, side in enumerate(sides) if sources(part) & side.labels) for part in differing
    }
    if any(len(pair) != 2 for pair in compared):
        _refuse_join(relation.at, "this condition requires rows of one person to belong to different people.")
    compared |= {frozenset(pair) for pair in _person_order(differing, sides)}
    if not {frozenset(pair) for pair in combinations(range(len(sides)), 2)} <= compared:
        _refuse_join(
            relation.at, "this joins rows of different people, but not every two of them are compared by `<>`."
        )


def _person_order(differing: Sequence[Expression], sides: Sequence[_Side]) -> set[tuple[int, int]]:
    """Return which side's person comes before which other's, by what the text says and what follows from it."""
    order = set()
    for part in differing:
        if isinstance(part, Call) and part.function is Function.LESS:
            first, second = (
                next(index for index, side in enumerate(sides) if side.reads(expression))
                for expression in part.arguments
            )
            order.add((first, second))
    return order | {(first, last) for first, key in order for other, last in order if key == other}


def _equivalent_orders(
    differing: Sequence[Expression], sides: Sequence[_Side], met: Sequence[_JoinedSide], relation: GroupBy
) -> int:
    """Return in how many orders the same people meet, of which the text counts one by `<`; without it, all count.

    Ids are in an order that means nothing. But where all sides are alike, every order of the same people meets, too.
    """
    order = _person_order(differing, sides)
    if not order:
        return 1
    names = [next(iter(side.labels)) for side in sides]
    alike = (
        all(len(side.labels) == 1 for side in sides)
        and len({number_labels(side.whole) for side in sides}) == 1
        and all(
            tuple(_relabel(key, names[0]) for key in side.keys) == tuple(_relabel(key, names[0]) for key in met[0].keys)
            for side in met
        )
    )
    if not alike or len(order) != len(list(combinations(sides, 2))) or any(pair[::-1] in order for pair in order):
        _refuse_join(relation.at, "this puts names of people in order, but the joined rows are not alike.")
    return factorial(len(sides))


def _relabel(scalar: Scalar, label: str) -> Scalar:
    if (ref := address(scalar)) is not None:
        return column(label, ref.name, scalar.facts)
    return replace(scalar, arguments=tuple(_relabel(part, label) for part in scalar.arguments))


def _owners(analysed: Sequence[Analysed], differing: Sequence[Expression], relation: GroupBy) -> list[UnitLineage]:
    """Return the owners of the sides: the query says that these people differ."""
    scope = _scope(analysed)
    for part in differing:
        if not all(is_unit_id(lower(expression, scope)) for expression in _differing_parts(part)):
            _refuse_join(part.at, "this compares people who may be absent.")
    owners = [
        operand.state for operand in analysed if isinstance(operand.state, UnitLineage) and operand.state.shared_ids
    ]
    if len(owners) < len(analysed):
        _refuse_join(relation.at, "these tables have no person in common.")
    return owners


def _sides_with_keys(
    analysed: Sequence[Analysed], owners: Sequence[UnitLineage], sides: Sequence[_Side], across: Sequence[Expression]
) -> tuple[_JoinedSide, ...] | None:
    """Return the sides with their keys: values that are equal in all rows that meet, one of each side.

    None where not all of them meet by the same columns.
    """
    classes: list[set[tuple[int, Scalar]]] = []
    for part in across:
        named = set(_compared_sides(part, sides, analysed))
        touched = [known for known in classes if known & named]
        classes = [known for known in classes if not known & named] + [named.union(*touched)]
    if not classes or any({index for index, _ in known} != set(range(len(sides))) for known in classes):
        return None
    joined_sides = []
    for index, (operand, owned) in enumerate(zip(analysed, owners, strict=True)):
        flow, keys = operand.flow, []
        for known in classes:
            first, *others = sorted((scalar for side, scalar in known if side == index), key=repr)
            keys.append(first)
            for other in others:
                flow = FilterNode(flow, _equal(first, other))
        joined_sides.append(_JoinedSide(replace(operand, flow=flow), owned, tuple(keys)))
    return tuple(joined_sides)


def _compared_sides(
    part: Expression, sides: Sequence[_Side], analysed: Sequence[Analysed]
) -> Iterator[tuple[int, Scalar]]:
    """Give the two sides of an equality with what each compares, or refuse the condition."""
    arguments = part.arguments if isinstance(part, Call) and part.function is Function.EQUAL else ()
    equal = lower(part, _scope(analysed))
    if equal.operator is Operator.EQUAL and all(
        argument.facts.kind in _COMPARABLE_KINDS for argument in equal.arguments
    ):
        for argument, scalar in zip(arguments, equal.arguments, strict=False):
            for index, side in enumerate(sides):
                if side.reads(argument) and columns_read(scalar) <= _columns_of_side(analysed[index]):
                    yield index, scalar
                    break
            else:
                _refuse_join(part.at, "rows of different people can be joined only on equal columns.")
        if arguments:
            return
    _refuse_join(part.at, "rows of different people can be joined only on equal columns.")


def _columns_of_side(analysed: Analysed) -> set[tuple[str, str]]:
    """Return the columns of the rows of a side, by the names that they have there: public ones have others."""
    return {(label, name) for label, name, _ in outputs(analysed.flow)}


def _equal(first: Scalar, second: Scalar) -> Scalar:
    return Scalar(Operator.EQUAL, (first, second), replace(_TRUTH, nullable=True))


def _scope(analysed: Sequence[Analysed]) -> ScalarScope:
    return {name: scalar for operand in analysed for name, scalar in operand.scope.items()}


def _source(met: Sequence[_JoinedSide]) -> Analysed:
    """Return the joined rows as one node without an owner. It is never run, but describes what is counted."""
    flow: RelNode = met[0].analysed.flow
    for index, side in enumerate(met[1:], 1):
        equal = [_equal(*pair) for pair in zip(met[0].keys, side.keys, strict=True)]
        apart = [
            Scalar(Operator.NOT, (Scalar(Operator.EQUAL, (other.owned.unit, side.owned.unit), _TRUTH),), _TRUTH)
            for other in met[:index]
        ]
        flow = JoinNode(JoinKind.INNER, flow, side.analysed.flow, all_true((*equal, *apart)))
    return Analysed(
        flow,
        _scope([side.analysed for side in met]),
        met[0].owned,
        PossibleCells.merged(*(side.analysed.cells for side in met)),
        {name: origin for side in met for name, origin in side.analysed.origins.items()},
    )


def _check_keys(keys: Sequence[Item], met: Sequence[_JoinedSide], relation: GroupBy) -> None:
    for key in keys:
        if not any(key.scalar in side.keys for side in met):
            _refuse_join(relation.at, "this groups joined rows of different people by a column that is not a join key.")


def _count_aggregate(met: Sequence[_JoinedSide], several: bool, times: int) -> Aggregate[Scalar]:
    """Return the count of what meets: of each side its owner and its keys, and how many rows a person has of it."""
    arguments = tuple(scalar for side in met for scalar in (side.owned.unit, *side.keys))
    bounds = tuple(Fraction(number) for side in met for number in (side.owned.rows, side.repeats))
    return Aggregate(Aggregation.CROSS_UNIT_COUNT, arguments, parameters=(Fraction(several), Fraction(times), *bounds))


def _refuse_join(position: Position, what: str) -> NoReturn:
    raise UnsafeJoin(
        f"{position_prefix(position)}{what}",
        "A joined row of several people belongs to no single person; only plain counts of such rows are supported.",
        _REMEDY,
    )
