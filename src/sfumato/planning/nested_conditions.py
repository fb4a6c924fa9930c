"""Counts and sums whose conditions contain each other, as a funnel's do: measured as steps that exclude each other.

Theorem: no row moves two steps of a tree, and a count or sum is the sum of the steps inside it.
Proof: proofs/disjoint_conditions.md, 4
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import PrivacyLoss
from sfumato.language.lower_logic import all_true, case_scalar
from sfumato.language.numbers import constant
from sfumato.language.scalar import Operator, Scalar
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.laplace_sums import margin_of_sum, margin_of_two
from sfumato.mechanisms.max_norm import MaxNormPart
from sfumato.planning.accuracy_target import CONFIDENCE
from sfumato.planning.aggregates.average import AverageColumn
from sfumato.planning.aggregates.count import CountColumn
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.aggregates.sum import SumColumn
from sfumato.planning.derived_measurement import SumOfSteps
from sfumato.planning.disjoint_conditions import (
    MAX_VECTOR_CANDIDATES,
    conditions_of,
    conjuncts,
    exclude_each_other,
    implies,
)
from sfumato.planning.measurements import Measurement, MeasurementSet
from sfumato.planning.noise import fraction_of_fresh_budget
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.query.functions import Aggregation
from sfumato.query.types import Type

_MAX_MARGIN_RATIO = Fraction(103, 100)
"""A margin may be up to this many times as long as without steps, where all errors together are smaller."""
_MAX_SCALE_RATIO = Fraction(11, 10)
"""Laplace noises whose scales differ by less are told as if all had the largest."""
_ONE_BRANCH = 3
"""Number of arguments of a CASE of one branch: condition, value, and otherwise."""
_Base = tuple[Aggregation, tuple[Scalar, ...]]


@dataclass(slots=True, eq=False)
class _Node:
    """A measurement, what is true of the rows that move it, and those inside it."""

    one: Measurement
    conditions: tuple[Scalar, ...]
    base: _Base
    children: list["_Node"] = field(default_factory=list)

    def is_inside(self, other: "_Node") -> bool:
        """Whether every row that moves it moves the other, as far."""
        return self.base == other.base and implies(self.conditions, other.conditions)

    def nodes(self) -> list["_Node"]:
        """Return it and all that is inside it."""
        return [self, *(node for child in self.children for node in child.nodes())]


def with_steps(need: MeasurementSet, neighbours: Neighbours) -> MeasurementSet:
    """Return the needs with steps in place of counts and sums that contain others; as they are where none do."""
    if neighbours is not Neighbours.ADD_REMOVE or need.top is not None:
        return need
    simple = simple_names(need)
    roots = _forest(
        [node for measurement in need.measurements if measurement.name in simple and (node := _node(measurement, need))]
    )
    if not any(root.children for root in roots):
        return need
    steps: dict[str, Measurement] = {}
    sums: list[SumOfSteps] = []
    for root in roots:
        _place(root, Fraction(0), steps, sums)
    measurements = tuple(steps.get(measurement.name, measurement) for measurement in need.measurements)
    names = tuple(steps[measurement.name].name for measurement in need.measurements if measurement.name in steps)
    return replace(need, measurements=measurements, vector=names, sums=tuple(sums))


def simple_names(need: MeasurementSet) -> set[str]:
    """Return the measurements of which only counts, sums and averages are made."""
    others = {name for made in need.derived if not isinstance(made, _PLAIN) for name in made.measured}
    return {name for made in need.derived if isinstance(made, _PLAIN) for name in made.measured} - others


_PLAIN = (CountColumn, SumColumn, AverageColumn)


def _node(one: Measurement, need: MeasurementSet) -> _Node | None:
    quantity = one.quantity
    moved = one.side is not None and one.sensitivity.l1 >= one.side * need.moved_rows
    if not moved or one.bound is not None or one is need.selecting or quantity.distinct:
        return None
    argument, where = quantity.argument, tuple(conjuncts(quantity.where))
    inner = None if argument is None else _value_in(argument)
    if quantity.function is Aggregation.SUM and argument is not None:
        if inner is None:
            return _Node(one, where, (Aggregation.SUM, (argument,)))
        return _Node(one, conditions_of(quantity), (Aggregation.SUM, (inner,)))
    if quantity.function is not Aggregation.COUNT:
        return None
    if argument is None or not argument.facts.nullable:
        return _Node(one, where, (Aggregation.COUNT, ()))
    # a step reads no column that the conditions of the question do not read
    plain = inner is not None and not inner.facts.nullable and argument.arguments[2].constant is None
    return _Node(one, conditions_of(quantity), (Aggregation.COUNT, ())) if plain else None


def _value_in(argument: Scalar) -> Scalar | None:
    """Return the value of a CASE whose only condition is true, if it is 0 or NULL otherwise; None for anything else."""
    if argument.operator is not Operator.CASE or len(argument.arguments) != _ONE_BRANCH:
        return None
    _, then, otherwise = argument.arguments
    is_nothing = otherwise.operator is Operator.CONSTANT and (otherwise.constant is None or otherwise.constant == 0)
    return then if is_nothing else None


def _forest(found: Sequence[_Node]) -> list[_Node]:
    """Return trees of which no row moves two, and in each of which those inside a node exclude each other."""
    # in an order of their own: however a question is spelled, the same steps are measured
    known = sorted(found, key=lambda node: repr((node.base, sorted(map(repr, node.conditions)))))[
        :MAX_VECTOR_CANDIDATES
    ]
    outer = {id(node): [other for other in known if other is not node and node.is_inside(other)] for node in known}
    known.sort(key=lambda node: len(outer[id(node)]))  # stable: a node comes after what contains it
    placed: list[_Node] = []
    roots: list[_Node] = []
    for node in known:
        around = [other for other in placed if other in outer[id(node)] and node not in outer[id(other)]]
        parent = max(around, key=lambda other: len(outer[id(other)]), default=None)
        beside = [] if parent is None else parent.children
        if all(exclude_each_other(node.conditions, other.conditions) for other in beside):
            (roots if parent is None else parent.children).append(node)
            placed.append(node)
    return _apart(sorted(roots, key=lambda root: -len(root.nodes())))


def _apart(roots: Sequence[_Node]) -> list[_Node]:
    """Return the first trees, of which no row moves two; larger ones come first."""
    found: list[_Node] = []
    for root in roots:
        if all(exclude_each_other(root.conditions, other.conditions) for other in found):
            found.append(root)
    return found


def _place(node: _Node, above: Fraction, steps: dict[str, Measurement], sums: list[SumOfSteps]) -> None:
    """Add the step of a node, and those inside: its error is that of everything that contains it."""
    one, worth = node.one, above + node.one.importance
    if node.children:
        outside = [_not_true(child.conditions) for child in node.children]
        rest: Quantity = replace(one.quantity, where=_all((*conjuncts(one.quantity.where), *outside)))
        steps[one.name] = replace(one, name=f"{one.name} rest", quantity=rest, importance=worth)
    else:
        steps[one.name] = replace(one, importance=worth)
    for child in node.children:
        _place(child, worth, steps, sums)
    if node.children:
        sums.append(SumOfSteps(one.name, tuple(steps[inner.one.name].name for inner in node.nodes()), one.quantity))


def _not_true(conditions: Sequence[Scalar]) -> Scalar:
    """Return whether conditions are not all true: also where one of them is NULL."""
    false, true = (constant(value, Type.BOOLEAN) for value in (False, True))
    return case_scalar(((_all(conditions), false),), true, Type.BOOLEAN)


def _all(conditions: Sequence[Scalar]) -> Scalar:
    return all_true(conditions) if len(conditions) > 1 else conditions[0]


def prefers_steps(steps: Plan, apart: Plan, cap: PrivacyLoss) -> bool:
    """Whether steps err less for what a budget of `cap` is charged, and no margin is clearly longer.

    A function of the two plans; which one is taken is a question of usefulness alone.
    """
    found: list[tuple[int, int]] = []
    for group, other in zip(steps.groups, apart.groups, strict=True):
        for measured in other.measured:
            margin, before = step_margin(group, measured.name), measured.mechanism.margin(CONFIDENCE)
            if margin is None or margin > before * _MAX_MARGIN_RATIO:
                return False
            found.append((margin, max(before, 1)))
    error = sum((Fraction(margin, before) ** 2 for margin, before in found), Fraction(0)) / max(len(found), 1)
    used, before_used = (fraction_of_fresh_budget((plan.groups, plan.loss), cap) for plan in (steps, apart))
    return error * used < before_used


def step_margin(group: GroupPlan, name: str) -> int | None:
    """Return the margin of a measurement, or of a sum of steps; None where it is neither."""
    laws = [measurement.mechanism for measurement in group.measured if measurement.name in group.steps_of(name)]
    if len(laws) == 1:
        return laws[0].margin(CONFIDENCE)
    smooth = [law for law in laws if isinstance(law, Gaussian)]
    if smooth:
        variance = sum((law.sigma_squared for law in smooth), Fraction(0))
        return replace(smooth[0], sigma_squared=variance).margin(CONFIDENCE) if len(smooth) == len(laws) else None
    scales = [scale for law in laws if isinstance(law, Laplace | MaxNormPart) for scale in _laplace_scales(law)]
    if len(scales) == 2 and scales[0] != scales[1]:
        return margin_of_two(scales[0], scales[1], CONFIDENCE)
    nearly_equal = bool(scales) and max(scales) <= min(scales) * _MAX_SCALE_RATIO
    return margin_of_sum(max(scales), len(scales), CONFIDENCE) if nearly_equal else None


def _laplace_scales(law: Laplace | MaxNormPart) -> tuple[Fraction, ...]:
    """Return the scales of independent Laplace noises whose sum has nearly this law; none where there are no such.

    Each of two numbers that share their noise has that of two: proofs/max_norm.md.
    """
    if isinstance(law, Laplace):
        return (law.scale,)
    deviation = law.joint.law.moments(law.place)[0] ** 0.5
    return (Fraction(deviation / 2),) * 2 if len(law.joint.sides) == 2 else ()
