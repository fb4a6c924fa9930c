"""Bound selection, planned: candidate bounds of what one person may add, and the histogram that selects one of them.

A small part of the price buys a histogram of people by how much they have, between rising bounds. The rest buys one
measurement, at the bound that errs least according to the noisy histogram.

Theorem: one person moves the histogram by `whole`, in L1, and what is measured at a bound by its sensitivity.
Proof: proofs/chosen_caps.md
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm

from sfumato.accounting.event import Neighbours
from sfumato.analysis.private_query import Contribution, Group
from sfumato.language.facts import Kind
from sfumato.language.lower_logic import all_true, present
from sfumato.language.rel_nodes import AggregateNode, FilterNode, Item
from sfumato.language.scalar import Operator, Scalar, column
from sfumato.mechanisms.counted_keys import CountedKeys
from sfumato.mechanisms.laplace import Laplace
from sfumato.planning.aggregates.average import AverageColumn
from sfumato.planning.aggregates.count import CountColumn
from sfumato.planning.aggregates.families import OutputColumn
from sfumato.planning.aggregates.others import PAIR_COLUMNS
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.aggregates.sum import SumColumn
from sfumato.planning.bounding.candidates import MIN_SELECTABLE_CONTRIBUTION, ContributionBound, candidate_thresholds
from sfumato.planning.bounding.selectable import (
    chosen_groups,
    chosen_rows,
    has_chosen_bounds,
    is_plain,
    rank_of,
)
from sfumato.planning.budget_split import LAPLACE_ROOT, laplace_weights
from sfumato.planning.measurements import Measurement, MeasurementSet
from sfumato.planning.plan import GroupPlan, KeySelection, Plan, PlannedMeasurement
from sfumato.planning.sensitivities import of_quantity, of_sum
from sfumato.planning.shared_marginals import unlabelled
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation
from sfumato.sensitivity.norms import Sensitivity

SELECTION_SHARE_SCALAR, SELECTION_SHARE_TABLE = Fraction(1, 5), Fraction(1, 10)
"""The part of the price that finds a bound: of a single number, and of tables, where noise weighs more than bias."""
PEOPLE = "people"
_PAIRS = "pairs of people and groups"
_STRICT = frozenset(
    {
        Operator.ADD,
        Operator.SUBTRACT,
        Operator.MULTIPLY,
        Operator.NEGATE,
        Operator.ABS,
        Operator.POWER,
        Operator.CLIPPED,
    }
)
"""Operators on integers that are NULL exactly where an argument is."""
_Rows = tuple[frozenset[Scalar], frozenset[Scalar]]
"""Which rows count: what must be true of them, and what must not be NULL."""


def with_candidate_bounds(
    needs: Sequence[MeasurementSet], neighbours: Neighbours
) -> tuple[tuple[MeasurementSet, ...], tuple[MeasurementSet, ...]]:
    """Return the needs with candidate bounds where the policy leaves bounds to the question, and their selections.

    Groups that count the same by other keys share one choice: they stay margins of one table.
    """
    choices: dict[object, MeasurementSet] = {}
    found = []
    for need in needs:
        made = _made(need)
        measured = [_with_candidates(measurement, made, neighbours, choices) for measurement in need.measurements]
        found.append(replace(need, measurements=tuple(measured)))
    return tuple(found), tuple(choices.values())


def price_selections(
    choices: Sequence[MeasurementSet], needs: tuple[MeasurementSet, ...]
) -> tuple[MeasurementSet, ...]:
    """Return the choices, each with the importance that gives it its part of the price."""
    if not choices:
        return ()
    roots = sum(float(weight) ** (1 / LAPLACE_ROOT) for weight in laplace_weights(needs))
    tables = _chosen_for_tables(needs)
    priced = []
    for need in choices:
        (one,) = need.measurements
        own = SELECTION_SHARE_TABLE if need.group.label in tables else SELECTION_SHARE_SCALAR
        root = roots * float(own / (1 - min(len(choices) * own, Fraction(1, 2))))
        sides = Fraction(one.sensitivity.l1, one.sensitivity.linf)
        weight = Fraction(root**LAPLACE_ROOT).limit_denominator(10**6) / sides**2
        priced.append(replace(need, measurements=(replace(one, importance=weight),)))
    return tuple(priced)


def _chosen_for_tables(needs: Sequence[MeasurementSet]) -> frozenset[str]:
    """Return the labels of the choices by which a table is measured, and not single numbers alone."""
    tables = (need for need in needs if not need.group.public_keys or need.group.cells != 1)
    return frozenset(
        measurement.candidates.selection_label
        for need in tables
        for measurement in need.measurements
        if measurement.candidates is not None
    )


def selects_a_bound(need: MeasurementSet) -> bool:
    """Whether anything of a group is measured at a selected bound."""
    return any(measurement.candidates is not None for measurement in need.measurements)


@dataclass(frozen=True, slots=True)
class _Made:
    """What is looked up for each measurement of a group: it is found once, so that work grows with their number."""

    group: Group
    weights: Mapping[_Rows, Quantity]
    columns: Mapping[str, Sequence[OutputColumn]]
    """The columns that are made of each measurement, by its name."""
    clipped: frozenset[str]
    """The measurements of which what a person adds is clipped, rather than the number of rows."""


def _made(need: MeasurementSet) -> _Made:
    columns: dict[str, list[OutputColumn]] = {measurement.name: [] for measurement in need.measurements}
    for made in need.derived:
        for name in dict.fromkeys(made.measured):
            columns.setdefault(name, []).append(made)
    clipped = (
        measurement.name
        for measurement in need.measurements
        if _is_clipped(measurement, need.group, columns[measurement.name])
    )
    return _Made(need.group, _weights(need), columns, frozenset(clipped))


def _with_candidates(
    one: Measurement, made: _Made, neighbours: Neighbours, choices: dict[object, MeasurementSet]
) -> Measurement:
    group, quantity, weights = made.group, one.quantity, made.weights
    if selects_groups(group, quantity):
        return _with_candidate_groups(one, group, neighbours, choices)
    if not is_plain(group) or quantity.distinct or quantity.function not in {Aggregation.COUNT, Aggregation.SUM}:
        return one
    by_rows = one.name not in made.clipped
    weight = weights[_rows(quantity)] if by_rows else quantity
    if by_rows and not chosen_rows(group):
        return one
    high = 1 if by_rows else quantity.arguments[0].facts.high
    amounts = candidate_thresholds(group.contribution.rows * high)
    if amounts[-1] < MIN_SELECTABLE_CONTRIBUTION or (by_rows and group.contribution.rows < MIN_SELECTABLE_CONTRIBUTION):
        return one
    same = unlabelled(replace(group, keys=()), _conditions(quantity) if by_rows else (weight,))
    key = (same.rows, frozenset(same.quantities), amounts)
    if key not in choices:
        choices[key] = _choice(f"choice {len(choices) + 1}", group, weight, amounts, by_rows, neighbours)
    label = choices[key].group.label
    cells = max(1, group.cells) if group.public_keys else None
    moved = tuple(
        sensitivity_at_bound(quantity, group.contribution, cells, amount, by_rows, neighbours) for amount in amounts
    )
    averages = _only_means(one, made)
    bound = ContributionBound(
        amounts, weight, amounts[-1], by_rows, label, rank_of(group), moved, only_averages=averages
    )
    return replace(one, bound=bound, side=None)  # its noise is its own


def selects_groups(group: Group, quantity: Quantity) -> bool:
    """Whether a question selects in how many groups people count, for a measurement: a number of people by keys.

    Sums and counts of rows move as far, in however many groups a person's rows are.
    """
    if not group.keys or quantity.function is not Aggregation.COUNT or quantity.arguments != (group.unit,):
        return False
    most = min(group.contribution.rows, group.contribution.groups)
    return chosen_groups(group) and group.identity and quantity.distinct and most >= MIN_SELECTABLE_CONTRIBUTION


def _with_candidate_groups(
    one: Measurement, group: Group, neighbours: Neighbours, choices: dict[object, MeasurementSet]
) -> Measurement:
    """Return a number of people with candidate bounds on groups; the pairs of people and groups select among them.

    Proof: proofs/chosen_caps.md, 10
    """
    contribution, cells = group.contribution, max(1, group.cells) if group.public_keys else None
    amounts = candidate_thresholds(min(contribution.rows, contribution.groups))
    pairs = _person_groups(group, one.quantity)
    key = (pairs.rows, amounts)
    if key not in choices:
        choices[key] = _choice(
            f"choice {len(choices) + 1}", pairs, Aggregate(Aggregation.COUNT), amounts, True, neighbours
        )
    label = choices[key].group.label
    moved = tuple(
        of_quantity(one.quantity, replace(contribution, groups=amount), cells, neighbours) for amount in amounts
    )
    bound = ContributionBound(amounts, one.quantity, amounts[-1], True, label, sensitivities=moved, bounds_groups=True)
    return replace(one, bound=bound, side=None)


def _person_groups(group: Group, quantity: Quantity) -> Group:
    """Return a group whose rows are the pairs of a person and a group in which the person counts."""
    tests = [*map(present, (key.scalar for key in group.keys if key.scalar.facts.nullable))]
    tests += [] if quantity.where is None else [quantity.where]
    rows = FilterNode(group.rows, all_true(tests) if len(tests) > 1 else tests[0]) if tests else group.rows
    items = (Item(PEOPLE, group.unit), *(Item(f"key {at}", key.scalar) for at, key in enumerate(group.keys)))
    pairs = AggregateNode(rows, _PAIRS, items, ())
    most = min(group.contribution.rows, group.contribution.groups)
    limit = Contribution(most, 1, bound_rows=False, bound_groups=False)
    return replace(group, rows=pairs, unit=column(_PAIRS, PEOPLE, group.unit.facts), keys=(), contribution=limit)


def _is_clipped(one: Measurement, group: Group, made: Sequence[OutputColumn]) -> bool:
    """Whether what a person adds is clipped, rather than the number of rows.

    An average is of rows: its sum and its count keep the same ones, unless nothing bounds the values.
    """
    if one.quantity.function is not Aggregation.SUM or one.quantity.arguments[0].facts.low < 0:
        return False
    if has_chosen_bounds(one.quantity.arguments[0], group):
        return all(isinstance(column, SumColumn | AverageColumn) for column in made)
    return chosen_rows(group) and all(isinstance(column, SumColumn) for column in made)


def _only_means(one: Measurement, made: _Made) -> bool:
    """Whether only averages are made of it whose sum and count lose the same rows: what is cut hardly changes them.

    Where the sum is clipped, the count keeps other rows, or all: then each has to be right by itself.
    """
    columns = made.columns[one.name]
    apart = any(isinstance(column, AverageColumn) and column.total in made.clipped for column in columns)
    return not apart and not any(isinstance(column, CountColumn | SumColumn) for column in columns)


def _weights(need: MeasurementSet) -> dict[_Rows, Quantity]:
    """Return what fills the bounds of everything that is measured of the same rows: one count for all of it.

    So all parts of a number lose the same rows, whatever its sums are sums of.  Proof: proofs/chosen_caps.md, 8
    """
    found: dict[_Rows, Quantity] = {}
    counts = [
        measurement.quantity for measurement in need.measurements if measurement.quantity.function is Aggregation.COUNT
    ]
    for quantity in (*counts, *(measurement.quantity for measurement in need.measurements)):
        if not quantity.distinct and quantity.function in {Aggregation.COUNT, Aggregation.SUM}:
            found.setdefault(_rows(quantity), _row_count(quantity))
    return found


def _rows(quantity: Quantity) -> _Rows:
    """Return which rows count for a quantity, however it is written."""
    conditions = list(_conjuncts(quantity.where))
    presences = [part for part in conditions if _is_presence(part)]
    nullable = [part.arguments[0].arguments[0] for part in presences] + list(quantity.arguments)
    return (
        frozenset(part for part in conditions if part not in presences),
        frozenset(base for part in nullable for base in _null_with(part)),
    )


def _row_count(quantity: Quantity) -> Quantity:
    """Return the count of the rows that count for a quantity."""
    bases = sorted({base for part in quantity.arguments for base in _null_with(part)}, key=repr)
    where = [*_conjuncts(quantity.where), *map(present, bases[1:])]
    condition = quantity.where if len(bases) < PAIR_COLUMNS else all_true(where) if len(where) > 1 else where[0]
    return Aggregate(Aggregation.COUNT, tuple(bases[:1]), where=condition)


def _conditions(quantity: Quantity) -> tuple[Quantity, ...]:
    """Return what decides which rows count, as counts: groups of other labels are compared by them."""
    conditions, bases = _rows(quantity)
    present_ones: list[Quantity] = [Aggregate(Aggregation.COUNT, (base,)) for base in bases]
    true_ones: list[Quantity] = [Aggregate(Aggregation.COUNT, where=condition) for condition in conditions]
    return (*present_ones, *true_ones)


def _conjuncts(where: Scalar | None) -> Iterator[Scalar]:
    if where is not None and where.operator is Operator.AND:
        for argument in where.arguments:
            yield from _conjuncts(argument)
    elif where is not None:
        yield where


def _is_presence(condition: Scalar) -> bool:
    return condition.operator is Operator.NOT and condition.arguments[0].operator is Operator.IS_NULL


def _null_with(argument: Scalar) -> frozenset[Scalar]:
    """Return scalars of which one is NULL exactly where the argument is; nothing where it never is."""
    if not argument.facts.nullable:
        return frozenset()
    parts = [part for part in argument.arguments if part.facts.nullable]
    if argument.operator in _STRICT and argument.facts.kind is Kind.INTEGER and parts:
        return frozenset(base for part in parts for base in _null_with(part))
    return frozenset({argument})


def _choice(
    label: str, group: Group, weight: Quantity, amounts: tuple[int, ...], by_rows: bool, neighbours: Neighbours
) -> MeasurementSet:
    whole, sides = unit_of(amounts), 1 if neighbours is Neighbours.ADD_REMOVE else 2
    moved = Sensitivity(sides * whole, sides * whole**2, whole, neighbours)
    candidates = (moved,) * len(amounts)
    bound = ContributionBound(amounts, weight, amounts[-1], by_rows, label, rank_of(group), candidates)
    own = replace(group, label=label, keys=(), asked=(), combinations=None)
    return MeasurementSet(own, None, (Measurement(PEOPLE, weight, moved, Fraction(1), bound=bound),), ())


def sensitivity_at_bound(
    quantity: Quantity,
    contribution: Contribution,
    cells: int | None,
    amount: int,
    by_rows: bool,
    neighbours: Neighbours,
) -> Sensitivity:
    """Return how far one person moves what is measured at a bound, over all cells together."""
    if by_rows:
        fewer = replace(contribution, rows=amount, groups=min(amount, contribution.groups))
        return of_quantity(quantity, fewer, cells, neighbours)
    return of_sum(replace(contribution, rows=1, groups=1), cells, 0, amount, neighbours)


def at_bounds(plan: Plan, selected: Mapping[str, int]) -> Plan:
    """Return the plan at the selected bounds: every measurement has its sensitivity and its noise there.

    `selected` gives the index of a threshold by the label of its selection.
    """
    if not selected:
        return plan
    return replace(plan, groups=tuple(_group_at_bounds(group, selected) for group in plan.groups))


def _group_at_bounds(group: GroupPlan, selected: Mapping[str, int]) -> GroupPlan:
    if group.is_bound_selection:
        return group
    measured = tuple(_measurement_at_bound(measurement, selected) for measurement in group.measured)
    return replace(group, measured=measured, selection=_selection_at_bound(group, measured))


def _selection_at_bound(group: GroupPlan, measured: Sequence[PlannedMeasurement]) -> KeySelection | None:
    """Return what selects keys at the selected bound: by fewer rows of a person, in fewer groups, at the same price.

    Proof: proofs/chosen_caps.md, 9
    """
    selection = group.selection
    one = next((measurement for measurement in measured if measurement.name == group.selecting_measurement), None)
    if not isinstance(selection, CountedKeys) or one is None or one.candidates is None or one.selected is None:
        return selection
    groups = min(selection.groups_per_unit, one.candidates.thresholds[one.selected])
    noise = laplace_noise_of(one)
    return CountedKeys.by_delta(noise, selection.core, groups, selection.delta, one.sensitivity.linf)


def _measurement_at_bound(one: PlannedMeasurement, selected: Mapping[str, int]) -> PlannedMeasurement:
    if one.candidates is None:
        return one
    index = selected[one.selection_label]
    moved, noise = one.candidates.sensitivities[index], laplace_noise_of(one)
    # the same loss at every candidate: the noise is as many times larger as one person moves it farther
    scale = noise.scale * moved.l1 / noise.sensitivity
    return replace(one, sensitivity=moved, mechanism=Laplace(moved.l1, scale, moved.neighbours), selected=index)


def laplace_noise_of(one: PlannedMeasurement) -> Laplace:
    """Return the noise of a measurement with candidate bounds: the planner gives it no other."""
    if not isinstance(one.mechanism, Laplace):
        raise AssertionError("a bound that is selected has Laplace noise")
    return one.mechanism


def widths_of(amounts: Sequence[int]) -> tuple[int, ...]:
    """Return how far each bound lies above the one before."""
    return tuple(amount - before for before, amount in zip((0, *amounts), amounts, strict=False))


def unit_of(amounts: Sequence[int]) -> int:
    """Return what one person is in the histogram, so that parts of people are whole numbers."""
    return lcm(*widths_of(amounts))


def histogram_of(totals: Sequence[int], amounts: Sequence[int]) -> list[int]:
    """Return the people by what they have, from the exact totals at all bounds.

    Who has what lies between two bounds is shared by both, in the parts that add up to what they have.

    >>> histogram_of([3, 6, 10], [1, 2, 4])  # three people with 2, 4 and 4
    [0, 2, 4]
    """
    unit, widths = unit_of(amounts), widths_of(amounts)
    above = [
        (total - before) * (unit // width) for before, total, width in zip((0, *totals), totals, widths, strict=False)
    ]
    return [here - there for here, there in zip(above, [*above[1:], 0], strict=True)]
