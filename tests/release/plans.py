"""Plans written by hand, and noisy tables of many cells: one release of many cells is many releases of one."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.private_query import Contribution, Group, Key, PrivateQuery, RequestedAggregate
from sfumato.engines.aggregates import Aggregates, GroupAggregates
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import InputNode, Item, ProjectNode, RelNode
from sfumato.language.scalar import Scalar, column
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.planning.aggregates.average import AverageColumn
from sfumato.planning.aggregates.centred_sums import Centred
from sfumato.planning.aggregates.count import CountColumn
from sfumato.planning.aggregates.families import OutputColumn
from sfumato.planning.aggregates.sum import SumColumn
from sfumato.planning.aggregates.variance import Divisor, VarianceColumn
from sfumato.planning.plan import GroupPlan, Plan, PlannedMeasurement
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import DEVIATIONS, SAMPLES, Aggregation
from sfumato.query.types import Type
from sfumato.release.receipt import Receipt
from sfumato.sensitivity.norms import count as count_sensitivity

ADD = Neighbours.ADD_REMOVE
LOSS = PrivacyLoss(Fraction(1))
RECEIPT = Receipt("r1", "policy", "1", LOSS, 1, "head", 0)
STEP = Fraction(1, 100)
LOW, HIGH, OFFSET = 0, 500_000, 250_000
"""cost = { bounds = [0, 5000], step = 0.01 }, centred."""

WIDE = 1 << 100
KEY = Facts(Type.INTEGER, Kind.INTEGER, nullable=False, high=1 << 40)
COUNTED = Facts(Type.INTEGER, Kind.INTEGER, False, Fraction(1), -WIDE, WIDE)
SUMMED = Facts(Type.DECIMAL, Kind.INTEGER, False, STEP, -WIDE, WIDE)
SPREAD = Facts(Type.DECIMAL, Kind.REAL)
FACTS: Mapping[Aggregation, Facts] = {Aggregation.COUNT: COUNTED, Aggregation.SUM: SUMMED}

Mechanism = Laplace | Gaussian


def laplace(scale: int | Fraction) -> Laplace:
    return Laplace(1, Fraction(scale), ADD)


def gaussian(sigma: int) -> Gaussian:
    return Gaussian(1, Fraction(sigma) ** 2, ADD)


def derived(aggregation: Aggregation) -> OutputColumn:
    """Return an aggregate named after itself, of measurements N, T and Q."""
    name, grid = str(aggregation), Centred(STEP, OFFSET, LOW, HIGH)
    match aggregation:
        case Aggregation.COUNT:
            return CountColumn(name, "N")
        case Aggregation.SUM:
            return SumColumn(name, "T", STEP, LOW, HIGH)
        case Aggregation.AVG:
            return AverageColumn(name, "N", "T", grid)
        case _:
            divisor = Divisor.OTHERS if aggregation in SAMPLES else Divisor.ROWS
            return VarianceColumn(name, "N", "T", "Q", grid, divisor, aggregation in DEVIATIONS)


def make_plan(
    aggregations: Sequence[Aggregation],
    mechanisms: Mapping[str, Mechanism],
    outcome: ProjectNode | None = None,
    selection: OptimalSelection | None = None,
) -> Plan:
    """Return a plan of one group with one integer key, whose outcome shows everything unless another is given."""
    asked = tuple(RequestedAggregate(derived(one).name, Aggregate(one)) for one in aggregations)
    key = Key("k", column("rows", "k", KEY), None)
    group = Group(
        "g",
        InputNode("rows", (("k", KEY),), ()),
        column("rows", "k", KEY),
        True,
        (key,),
        asked,
        Contribution(1, 1, False, False),
    )
    centred = any(isinstance(derived(one), AverageColumn | VarianceColumn) for one in aggregations)
    measured = tuple(_measured(name, mechanism, centred) for name, mechanism in mechanisms.items())
    plan = GroupPlan(group, selection, measured, tuple(derived(one) for one in aggregations))
    shown = outcome or show(noisy_table(aggregations), aggregations)
    names = tuple(item.name for item in shown.items)
    private = PrivateQuery((group,), shown, names, ADD)
    return Plan(private, (plan,), LOSS, next(iter(mechanisms.values())).event)


def _measured(name: str, mechanism: Mechanism, centred: bool) -> PlannedMeasurement:
    """Return N, a count of rows, or T or Q, sums over the same rows."""
    least, most = (LOW - OFFSET, HIGH - OFFSET) if centred else (LOW, HIGH)
    spans = {"T": (least, most), "Q": (0, max(abs(least), abs(most)) ** 2)}
    if name not in spans:
        return PlannedMeasurement(name, Aggregate(Aggregation.COUNT), count_sensitivity(1, ADD), mechanism)
    facts = Facts(Type.DECIMAL, Kind.INTEGER, False, STEP, *spans[name])
    total = Aggregate(Aggregation.SUM, (column("rows", name, facts),))
    return PlannedMeasurement(name, total, count_sensitivity(1, ADD), mechanism)


def noisy_table(aggregations: Sequence[Aggregation]) -> InputNode:
    return InputNode("g", (("k", KEY), *((derived(one).name, FACTS.get(one, SPREAD)) for one in aggregations)), None)


def reference(aggregation: Aggregation) -> Scalar:
    return column("g", derived(aggregation).name, FACTS.get(aggregation, SPREAD))


def show(source: RelNode, aggregations: Sequence[Aggregation], *more: Item) -> ProjectNode:
    plain = tuple(Item(derived(one).name, reference(one)) for one in aggregations)
    return ProjectNode(source, "answer", (Item("k", column("g", "k", KEY)), *plain, *more))


def aggregates(columns: Mapping[str, Sequence[int]], units: Sequence[int] | None = None) -> Aggregates:
    cells = len(next(iter(columns.values())))
    exact = {name: np.array(values) for name, values in columns.items()}
    keys = tuple((cell,) for cell in range(cells))
    return Aggregates((GroupAggregates(keys, exact, None if units is None else np.array(units)),))
