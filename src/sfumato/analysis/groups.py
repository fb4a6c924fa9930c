"""Groups of private rows: within one person they stay that person's; across people they are where noise is added.

Proof: proofs/lineage.md §4, §5
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from sfumato.analysis.catalog import PublicData
from sfumato.analysis.keys import MAX_GROUP_CELLS, cells_of, cells_together, computation, possible_cells
from sfumato.analysis.lineage import OWNER, Analysed, UnitLineage, Visibility, is_unit_id
from sfumato.analysis.private_query import Cell, Contribution, Group, Key, RequestedAggregate
from sfumato.analysis.rounding import round_until_summable
from sfumato.errors import LoosenedPolicy, QueryTooLarge, UnitRevealed, UnsupportedSql, position_prefix
from sfumato.language.cost_limits import MAX_DECLARED_CELLS
from sfumato.language.facts import MAX_INTERMEDIATE_STEPS, STORED_LIMIT, Facts, Kind, Outside
from sfumato.language.lowering import ScalarScope, lower, narrow_scope
from sfumato.language.outside import as_key, bare
from sfumato.language.rel_nodes import AggregateItem, AggregateNode, InputNode, Item
from sfumato.language.scalar import Operator, Scalar, column
from sfumato.query.aggregate import Aggregate
from sfumato.query.expression import Expression
from sfumato.query.functions import LEVELLED, Aggregation
from sfumato.query.relation import GroupBy, Measure
from sfumato.query.types import NUMBERS, Type

_MAX_NOISY_STEPS = STORED_LIMIT // 2
"""A noisy count or sum that goes further is cut there; no answer of practical size does."""
_AVERAGE_STEPS_PER_STEP = 1000
"""One person's average is kept in thousandths of the column's step."""


@dataclass(frozen=True, slots=True)
class RequestedBounds:
    """Contribution bounds of the query's OPTIONS; they may only tighten the policy."""

    rows: int | None
    groups: int | None


def lower_aggregate(aggregate: Aggregate[Expression], scope: ScalarScope) -> Aggregate[Scalar]:
    """Return an aggregate of total scalars; what its filter promises of the arguments counts."""
    where = None if aggregate.where is None else lower(aggregate.where, scope)
    inner = scope if aggregate.where is None else narrow_scope(scope, aggregate.where)
    counts_values = aggregate.distinct and aggregate.function is Aggregation.COUNT
    seen = as_key if counts_values else lambda scalar: scalar
    return replace(aggregate.mapped(lambda part: seen(lower(part, inner))), where=where)


def private_group_by(
    relation: GroupBy,
    keys: tuple[Item, ...],
    source: Analysed,
    owned: UnitLineage,
    limits: RequestedBounds,
    public: PublicData,
) -> tuple[Group, Analysed]:
    """Return the group whose cells get noise, and what the rest of the query may do with them."""
    cells = [cells_of(key.scalar, source.cells, source.origins, public) for key in keys]
    named = _group_keys(keys, cells, source, public)
    aggregates = tuple(
        _with_values(_requested_aggregate(measure, source.scope), source) for measure in relation.measures
    )
    together = cells_together(keys, source.origins, public) if all(key.cells is not None for key in named) else None
    # plain counts and sums of public cells move as far, however a person's rows are spread: cutting would gain nothing
    pays = any(key.cells is None for key in named) or any(aggregate.aggregate.distinct for aggregate in aggregates)
    contribution = _contribution(owned, limits, _cells_of_a_person(keys, cells, owned) if pays else None)
    aggregates = round_until_summable(aggregates, contribution.rows)
    group = Group(relation.label, source.flow, owned.unit, owned.shared_ids, named, aggregates, contribution, together)
    if group.public_keys and group.cells <= group.contribution.groups:  # no person can be in more cells than exist
        fewer = replace(group.contribution, groups=max(1, group.cells), bound_groups=False)
        group = replace(group, contribution=fewer)
    columns = [(key.name, replace(key.scalar.facts, nullable=False)) for key in named]
    types = (measure.type for measure in relation.measures)
    columns += [
        (aggregate.name, noisy_facts(aggregate.aggregate, type))
        for aggregate, type in zip(aggregates, types, strict=True)
    ]
    scope = {(relation.label, name): column(relation.label, name, facts) for name, facts in columns}
    return group, Analysed(InputNode(relation.label, tuple(columns), None), scope, Visibility.RELEASED)


def _group_keys(
    keys: tuple[Item, ...], cells: list[tuple[Cell, ...] | None], source: Analysed, public: PublicData
) -> tuple[Key, ...]:
    for key, known in zip(keys, cells, strict=True):
        if key.scalar.facts.kind is Kind.UNIT:
            raise UnitRevealed(
                "The query groups by a column that names people.",
                "An answer about a single person cannot be private.",
                "Group by something else; to count people, use COUNT(DISTINCT …).",
            )
        if key.scalar.facts.kind is Kind.REAL:
            raise UnsupportedSql(
                "The query groups by a number that is not on a grid.",
                "Groups are compared exactly, and floating-point numbers cannot be.",
                "Declare a step for the column, or group by FLOOR or ROUND of a column that has one.",
            )
        named = bare(key.scalar)
        named = named.arguments[0] if named.operator is Operator.CLIPPED else named
        if computation(named) in source.cells.too_many and known is None and isinstance(named.constant, tuple):
            raise QueryTooLarge(
                f"A public table declares more than {MAX_DECLARED_CELLS:,} keys of {named.constant[1]}.",
                f"An answer shows every declared key, and at most {MAX_DECLARED_CELLS:,}.",
                "Group by a coarser column, or list the keys that you need: WHERE column IN (…). Or ask the owner to "
                "leave out `values` of the column: then keys are selected privately.",
            )
    together = cells_together(keys, source.origins, public)
    count = prod(len(part or ()) for part in cells) if together is None else len(together)
    public_keys = all(part is not None for part in cells)
    declared = public_keys and any(len(part or ()) > MAX_GROUP_CELLS for part in cells)
    if declared and count > MAX_DECLARED_CELLS:
        raise QueryTooLarge(
            f"The groups of this query have {count:,} declared keys.",
            f"An answer shows each of them, and at most {MAX_DECLARED_CELLS:,}.",
            "Group by fewer or coarser columns, or list the keys that you need: WHERE column IN (…).",
        )
    few = public_keys and (declared or count <= MAX_GROUP_CELLS)
    return tuple(Key(key.name, key.scalar, part if few else None) for key, part in zip(keys, cells, strict=True))


def _requested_aggregate(measure: Measure, scope: ScalarScope) -> RequestedAggregate:
    aggregate = lower_aggregate(measure.aggregate, scope)
    people = [argument for argument in aggregate.arguments if argument.facts.kind is Kind.UNIT]
    if people and aggregate.function is not Aggregation.COUNT:
        raise UnitRevealed(
            f"{position_prefix(measure.at)}{aggregate.function} would compute with the column that names people.",
            "A column that names people can only be counted.",
            "Use COUNT(DISTINCT …) to count people.",
        )
    if people and not aggregate.distinct and not people[0].facts.nullable:
        aggregate = replace(aggregate, arguments=())  # every person has a name: this counts rows
    return RequestedAggregate(measure.name, aggregate, measure.at)


def _with_values(aggregate: RequestedAggregate, source: Analysed) -> RequestedAggregate:
    """Return a DISTINCT aggregate with the number of public keys of its column: its rows hold no other values.

    No engine is asked for them, and no noise depends on them. Proof: proofs/lineage.md §5
    """
    argument = aggregate.aggregate.argument
    if not aggregate.aggregate.distinct or argument is None or argument.facts.kind is Kind.UNIT:
        return aggregate
    known = source.cells.get(computation(bare(argument)))
    return aggregate if known is None else replace(aggregate, values=len(known))


def noisy_facts(aggregate: Aggregate[Scalar], type: Type) -> Facts:
    """Return the facts of an aggregate after noise: it is unbounded, and counts and sums are never NULL."""
    argument = aggregate.argument
    step = None
    extreme = aggregate.function in {Aggregation.MIN, Aggregation.MAX, Aggregation.MODE}
    if argument is not None and argument.facts.kind is Kind.INTEGER and (extreme or picks_a_value(aggregate, type)):
        return replace(argument.facts, type=type, nullable=False, outside=Outside.NONE)
    if aggregate.function is Aggregation.COUNT:
        step = Fraction(1)
    elif aggregate.function is Aggregation.SUM and argument is not None and argument.facts.kind is Kind.INTEGER:
        step = argument.facts.step
    if step is None:
        return Facts(type, Kind.REAL, True)
    return Facts(
        type, Kind.INTEGER, False, step, -_MAX_NOISY_STEPS, _MAX_NOISY_STEPS, declared_low=False, declared_high=False
    )


def picks_a_value(aggregate: Aggregate[Scalar], type: Type) -> bool:
    """Whether a quantile is one of the values of its argument, on their grid; between two numbers a median is not."""
    argument, between = aggregate.argument, aggregate.function is Aggregation.QUANTILE_CONT and type in NUMBERS
    on_grid = argument is not None and argument.facts.kind is Kind.INTEGER
    return aggregate.function in LEVELLED and on_grid and not between


def _cells_of_a_person(keys: tuple[Item, ...], cells: list[tuple[Cell, ...] | None], owned: UnitLineage) -> int | None:
    """Return in how many cells the rows of one person can be: keys that are settled do not tell them apart.

    None where other keys have values that are not public. Proof: proofs/lineage.md §5
    """
    others = [known for key, known in zip(keys, cells, strict=True) if not owned.is_settled(key.scalar)]
    return None if any(known is None for known in others) else prod(max(1, len(known or ())) for known in others)


def _contribution(owned: UnitLineage, limits: RequestedBounds, cells: int | None) -> Contribution:
    rows = _requested_bound(limits.rows, owned.rows, "max_rows_contributed", "rows")
    most = rows if owned.groups is None else min(rows, owned.groups)
    most = most if cells is None else min(most, cells)
    if owned.groups is not None:
        _requested_bound(limits.groups, owned.groups, "max_groups_contributed", "groups")
    groups = most if limits.groups is None else min(most, limits.groups)
    return Contribution(rows, groups, rows < owned.rows, groups < rows)


def _requested_bound(wanted: int | None, most: int, option: str, what: str) -> int:
    if wanted is None:
        return most
    if wanted > most:
        raise LoosenedPolicy(
            f"{option} = {wanted} is more than the policy's {most} {what} per person.",
            "A query may tighten the policy, never loosen it.",
            f"Write {option} = {most} or less, or leave it out.",
        )
    return wanted


def group_by_unit(
    relation: GroupBy, keys: tuple[Item, ...], source: Analysed, owned: UnitLineage, public: PublicData
) -> Analysed:
    """Group by the person (and perhaps more): every row of the result belongs to that person alone.

    Where the text names no person, the owner of the rows is one more key, so that nothing depends on why it may not.
    """
    if not any(is_unit_id(key.scalar) for key in keys):
        keys = (*keys, Item(OWNER, owned.unit))
    measures = tuple(own_measure(measure, source.scope, owned.rows) for measure in relation.measures)
    facts = [(key.name, key.scalar.facts) for key in keys] + [(item.name, item.facts) for item in measures]
    scope = {(relation.label, name): column(relation.label, name, known) for name, known in facts}
    person = next(key for key in keys if is_unit_id(key.scalar))
    others = [key for key in keys if not is_unit_id(key.scalar)]  # the id of an outer-joined table may also be NULL
    unique = {(relation.label, key.name) for key in others} if len(others) == 1 else set()
    shown_as = {computation(scope[relation.label, key.name]): key.scalar for key in others}
    cells = possible_cells(shown_as, source.cells, source.origins, public)
    unit = scope.pop((relation.label, OWNER), None) or scope[relation.label, person.name]
    lineage = replace(
        owned,
        unit=unit,
        rows=owned.rows if others else 1,
        unique=frozenset(unique),
        constant_per_unit=frozenset((relation.label, key.name) for key in keys if owned.is_settled(key.scalar)),
    )
    return Analysed(AggregateNode(source.flow, relation.label, keys, measures), scope, lineage, cells)


def own_measure(measure: Measure, scope: ScalarScope, rows: int) -> AggregateItem:
    """Return an aggregate of at most the given number of rows of one person."""
    aggregate = lower_aggregate(measure.aggregate, scope)
    return AggregateItem(measure.name, aggregate, _own_facts(measure, aggregate, rows))


def _own_facts(measure: Measure, aggregate: Aggregate[Scalar], rows: int) -> Facts:
    """Return the facts of one person's aggregate of at most `rows` rows."""
    function, argument = aggregate.function, aggregate.argument
    if function is Aggregation.COUNT:
        least = 1 if not aggregate.parts else 0
        return Facts(Type.INTEGER, Kind.INTEGER, False, Fraction(1), least, rows)
    if argument is None or argument.facts.kind is Kind.UNIT:
        raise UnitRevealed(
            f"{position_prefix(measure.at)}{function} would compute with the column that names people.",
            "A column that names people can only be counted.",
            "Use COUNT.",
        )
    known = replace(argument.facts, outside=Outside.NONE)
    if function in {Aggregation.MIN, Aggregation.MAX} or picks_a_value(aggregate, measure.type):
        return replace(known, nullable=True, type=measure.type)
    if function not in {Aggregation.SUM, Aggregation.AVG} or known.kind is not Kind.INTEGER:
        raise UnsupportedSql(
            f"{position_prefix(measure.at)}{function} of one person's rows is not supported here.",
            "Inside one person, values are added exactly, on the grid of a column with a step.",
            "Use COUNT, SUM, AVG, MIN, MAX or QUANTILE_DISC of a column that has a step.",
        )
    low, high = min(known.low, known.low * rows), max(known.high, known.high * rows)
    finer = _AVERAGE_STEPS_PER_STEP if function is Aggregation.AVG else 1
    if max(-low, high) * finer * 2 >= MAX_INTERMEDIATE_STEPS:
        raise QueryTooLarge(
            f"{position_prefix(measure.at)}one person's {function} could reach 2^125 steps.",
            "Sums are exact, in 128 bits.",
            "Declare bounds for the column, or narrow it with LEAST and GREATEST.",
        )
    if function is Aggregation.AVG:
        return replace(
            known,
            type=measure.type,
            nullable=True,
            step=known.step / finer,
            low=known.low * finer,
            high=known.high * finer,
        )
    return replace(known, type=measure.type, nullable=True, low=low, high=high)
