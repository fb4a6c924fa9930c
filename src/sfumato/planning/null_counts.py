"""COUNT(*) beside an average of a column that may be NULL: rows without a value are counted by themselves.

Theorem: no row moves both the number of rows where x is NULL and a sum of x, and COUNT(*) is that number and COUNT(x).
Proof: proofs/null_counts.md
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import PrivacyLoss
from sfumato.language.lower_logic import present
from sfumato.language.scalar import Operator, Scalar
from sfumato.planning.aggregates.average import COUNT_IMPORTANCE, AverageColumn
from sfumato.planning.aggregates.others import all_of
from sfumato.planning.derived_measurement import SumOfSteps
from sfumato.planning.disjoint_conditions import conjuncts
from sfumato.planning.measurements import Measurement, MeasurementSet
from sfumato.planning.nested_conditions import simple_names
from sfumato.planning.noise import fraction_of_fresh_budget, variance_of
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.query.functions import Aggregation

_AVERAGE_WEIGHT = Fraction(4, 9)
"""An average alone divides its price between a sum and a count, and errs by 9/4 of what the sum would alone."""
_MAX_VARIANCE_RATIO = Fraction(106, 100)
"""No column may have more than this many times the variance that it has without null counts."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """All rows, those with a value, the sum of the values, and the value."""

    rows: Measurement
    present: Measurement
    total: Measurement
    value: Scalar

    @property
    def nulls(self) -> Measurement:
        """The number of rows without a value: one row moves it as far as the number of all rows."""
        absent = present(self.value).arguments[0]
        where = all_of((*conjuncts(self.rows.quantity.where), absent))
        return replace(self.rows, name=f"{self.rows.name} null", quantity=replace(self.rows.quantity, where=where))


def with_null_count(need: MeasurementSet, neighbours: Neighbours) -> MeasurementSet:
    """Return the needs with rows without a value counted in the place of those with one.

    The null count and the sum are one vector; those with a value are all rows less the null count.
    """
    found = _counted(need, neighbours)
    if found is None:
        return need
    part = _AVERAGE_WEIGHT if found.present.importance == COUNT_IMPORTANCE else Fraction(1)
    divisor = part * found.present.importance
    nulls = replace(found.nulls, importance=divisor)
    measured = {
        found.rows.name: replace(found.rows, importance=found.rows.importance + divisor),
        found.present.name: nulls,
        found.total.name: replace(found.total, importance=part * found.total.importance),
    }
    sums = SumOfSteps(found.present.name, (nulls.name, found.rows.name), found.present.quantity, (-1, 1))
    return replace(
        need,
        measurements=tuple(measured.get(measurement.name, measurement) for measurement in need.measurements),
        vector=(nulls.name, found.total.name),
        sums=(sums,),
    )


def with_null_step(need: MeasurementSet, neighbours: Neighbours) -> MeasurementSet:
    """Return the needs with rows without a value counted in the place of all rows: all rows are the sum of both counts.

    The null count stands beside the other count and the sum, which share their noise.
    """
    found = _counted(need, neighbours)
    if found is None or found.rows is need.selecting:
        return need
    nulls, every = found.nulls, found.present.importance + found.rows.importance
    measured = {found.rows.name: nulls, found.present.name: replace(found.present, importance=every)}
    together = (found.present.name, found.total.name)
    return replace(
        need,
        measurements=tuple(measured.get(measurement.name, measurement) for measurement in need.measurements),
        vector=(nulls.name, *together),
        sums=(SumOfSteps(found.rows.name, (nulls.name, found.present.name), found.rows.quantity),),
        together=together,
    )


WITH_NULL_COUNTS = (with_null_count, with_null_step)
"""The ways to measure with a null count: the first suits Gaussian noise, the second pure losses."""


def _counted(need: MeasurementSet, neighbours: Neighbours) -> _Counted | None:
    """Return the rows and values of which both are counted, the first in an order of their own; None where none are."""
    if neighbours is not Neighbours.ADD_REMOVE or need.top is not None or need.vector or need.sums:
        return None
    simple = simple_names(need)
    plain = [
        measurement
        for measurement in need.measurements
        if measurement.name in simple and measurement.side is not None and measurement.bound is None
    ]
    counts = [one for one in plain if one.quantity.function is Aggregation.COUNT]
    found = [
        _Counted(rows, known, total, value)
        for rows in counts
        if rows.quantity.argument is None
        for known in counts
        if (value := known.quantity.argument) is not None and value.facts.nullable and known is not need.selecting
        for total in plain
        if total.quantity.function is Aggregation.SUM and total is not need.selecting
        if _added(total.quantity.arguments[0]) == value
        if _condition(rows) == _condition(known) == _condition(total)
    ]
    return min(found, key=lambda one: repr((one.rows.quantity, one.value)), default=None)


def _condition(one: Measurement) -> list[str]:
    """Return what has to hold of the rows of a measurement, however it is spelled."""
    return sorted(map(repr, conjuncts(one.quantity.where)))


def _added(argument: Scalar) -> Scalar:
    """Return the value that a sum adds up, without the constant that centres it: both are NULL in the same rows."""
    match argument:
        case Scalar(Operator.SUBTRACT, (value, Scalar(Operator.CONSTANT, _, _, int()))):
            return value
    return argument


def best_null_counts(ways: Sequence[Plan], apart: Plan, cap: PrivacyLoss) -> int | None:
    """Return the place of the best way to measure with null counts; None where none is better than measuring apart.

    A function of plans: which one is taken is a question of usefulness alone.
    """
    before = fraction_of_fresh_budget((apart.groups, apart.loss), cap)
    means = [_mean_ratio(plan, apart, before, cap) for plan in ways]
    return min((at for at, mean in enumerate(means) if mean), key=lambda at: means[at] or 0, default=None)


def _mean_ratio(plan: Plan, apart: Plan, before: Fraction, cap: PrivacyLoss) -> Fraction | None:
    """Return the mean ratio of the columns' variances to those apart; None where it is no less."""
    found = _ratios(plan, apart)
    if max(found) > _MAX_VARIANCE_RATIO:
        return None
    mean = sum(found, Fraction(0)) / len(found)
    return mean if mean * fraction_of_fresh_budget((plan.groups, plan.loss), cap) < before else None


def _ratios(plan: Plan, apart: Plan) -> list[Fraction]:
    """Return how many times the variance of each column is what it is apart, in the order of the columns."""
    pairs = zip(plan.groups, apart.groups, strict=True)
    return [
        variance(own) / variance(other)
        for own, other in pairs
        for measured in ({measurement.name for measurement in other.measured},)
        for made in other.derived
        if measured.issuperset(made.measured)  # what is chosen costs the same in both
        for variance in (_variance_of(other, made.measured),)
    ]


def _variance_of(apart: GroupPlan, names: Sequence[str]) -> Callable[[GroupPlan], Fraction]:
    """Return what tells the expected squared error of a column: of an average also that of its count."""
    units = {measurement.name: measurement.sensitivity.linf for measurement in apart.measured}
    columns = {made.measured: made for made in apart.derived}
    is_average = isinstance(columns[tuple(names)], AverageColumn)

    def found(group: GroupPlan) -> Fraction:
        laws = {measurement.name: measurement.mechanism for measurement in group.measured}
        errors = [
            sum((variance_of(laws[step]) for step in group.steps_of(name)), Fraction(0)) / units[name] ** 2
            for name in names
        ]
        return errors[0] * COUNT_IMPORTANCE + errors[1] if is_average else sum(errors, Fraction(0))

    return found
