"""What caps and bounds cut off, measured once per snapshot: which statistics, with which noise, and what follows.

Theorem: the plan's groups together are `budget.truncation`-DP, and what was cut off stays below `bounds_at` with the
stated probability, if the tails are regular.  Proof: proofs/truncation.md
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, expm1

from sfumato.accounting.event import Composed, Neighbours, Pure
from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.private_query import Contribution, Group, PrivateQuery
from sfumato.language.facts import Facts, Kind
from sfumato.language.flow import Given, Read, Show
from sfumato.language.lower_logic import chosen, compared
from sfumato.language.numbers import added, constant
from sfumato.language.scalar import Operator, Scalar, column
from sfumato.mechanisms.laplace import Laplace
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.plan import GroupPlan, Measured, Plan
from sfumato.policy.policy import Column, ColumnType, EachRow, Policy, Table, UnitColumn, fold
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation
from sfumato.query.types import Type
from sfumato.sensitivity.norms import Sensitivity

CUT = ".cut"
"""The ending of the table that says what each person lost. No question can name it: it is in no catalog."""
REMOVED_FROM, BEYOND = "removed", "beyond"
"""Its columns: the rows that were left out, and the kept ones in which some value lies beyond its bounds."""
ROWS, MOVED = "", " beyond"
"""The statistics of these two; those of numbers are called as the numbers are, whose names begin with no blank."""
ABOVE, BELOW = "above ", "below "
"""And for each bounded number, before its name: what its sum lost on either side."""
MOST_LOST = 1 << 62
"""Larger losses count as this much."""
FAR = 32
"""People who lost so many times `base` are counted apart: a regular tail has few of them."""
_ALARM = Fraction(1, 10**5)
"""So seldom noise alone makes a regular tail look irregular."""
_SUMMED = (ColumnType.INTEGER, ColumnType.DECIMAL)


def is_clipped(declared: Column) -> bool:
    """Whether values of a column are moved to its bounds."""
    return declared.bounds is not None and declared.values is None


def is_lossy(declared: Column) -> bool:
    """Whether sums of a column lose what its bounds cut off."""
    return is_clipped(declared) and declared.type in _SUMMED


@dataclass(frozen=True, slots=True)
class Statistic:
    """One vector of losses per person: of a table's rows, or of the sums of one of its numbers."""

    table: str
    column: str
    """Both folded; ROWS and MOVED for what is about rows."""
    parts: tuple[str, ...]
    """The columns of the table of losses that are its entries."""
    base: int
    """Below it losses are summed, from it on people are counted; where there is no tail, nobody loses more."""
    tail: bool = True

    @property
    def weight(self) -> int:
        """Its share of the epsilon."""
        return 2 if self.tail else 1


def statistics(policy: Policy) -> tuple[Statistic, ...]:
    """Return what can be cut off under a policy: of each table rows, and of each bounded number its sum."""
    return tuple(one for table in policy.tables if not table.public for one in _statistics(table))


def _statistics(table: Table) -> Iterator[Statistic]:
    name, columns = fold(table.name), [one for one in table.columns if table.unit != UnitColumn(one.name)]
    rows = table.rows_per_unit or 1
    if not isinstance(table.unit, EachRow):
        yield Statistic(name, ROWS, (REMOVED_FROM,), rows)
    if any(is_clipped(one) for one in columns):
        yield Statistic(name, MOVED, (BEYOND,), rows, tail=False)
    for one in columns:
        grid = one.grid
        if is_lossy(one) and grid is not None:
            reach = max(abs(grid.least), abs(grid.greatest), 1)
            yield Statistic(name, fold(one.name), (ABOVE + one.name, BELOW + one.name), min(rows * reach, MOST_LOST))


def losses_plan(policy: Policy) -> Plan | None:
    """Return the one measurement of what is cut off; None where nothing is spent on it, or nothing can be cut."""
    found, spent = statistics(policy), policy.budget.truncation
    if spent is None or not found:
        return None
    each = [spent * one.weight / sum(other.weight for other in found) for one in found]
    pairs = enumerate(zip(found, each, strict=True))
    groups = tuple(_group(one, at, epsilon, policy) for at, (one, epsilon) in pairs)
    outcome = Show(Given(groups[0].group.label, (), None), "outcome", ())
    private = PrivateQuery(tuple(one.group for one in groups), outcome, (), policy.neighbours)
    event = Composed(tuple(Pure(epsilon, policy.neighbours) for epsilon in each))
    return Plan(private, groups, PrivacyLoss(spent), event)


def _group(one: Statistic, at: int, epsilon: Fraction, policy: Policy) -> GroupPlan:
    label, declared = f"losses{at}", policy.table(one.table)
    amount = Facts(Type.INTEGER, Kind.INTEGER, nullable=False, low=0, high=MOST_LOST)
    alone = declared is not None and isinstance(declared.unit, EachRow)
    read = Read(one.table + CUT, label, tuple((name, name, amount) for name in one.parts), 1)
    parts = [column(label, name, amount) for name in one.parts]
    total = parts[0]
    for part in parts[1:]:
        total = added(total, part, Type.INTEGER)
    nothing = constant(0, Type.INTEGER)
    below = compared(Operator.LESS, total, constant(one.base, Type.INTEGER))
    near = compared(Operator.LESS, total, constant(FAR * one.base, Type.INTEGER))
    if not one.tail:
        measured = [_summed("s0", parts[0], one.base, one.base, epsilon, policy.neighbours)]
    else:
        columns = {f"s{place}": chosen(((below, part),), nothing, Type.INTEGER) for place, part in enumerate(parts)}
        twice = 2 if policy.neighbours is Neighbours.REPLACE else 1  # from one coordinate to another
        reach, law = twice * one.base, (epsilon, policy.neighbours)
        measured = [_summed(name, value, one.base - 1, reach, *law) for name, value in columns.items()]
        whole = constant(1, Type.INTEGER)
        mid = chosen(((below, nothing), (near, whole)), nothing, Type.INTEGER)
        far = chosen(((near, nothing),), whole, Type.INTEGER)
        measured += [_summed("mid", mid, 1, twice, *law), _summed("far", far, 1, twice, *law)]
    group = Group(label, read, parts[0], not alone, (), (), Contribution(1, 1, bound_rows=False, bound_groups=False))
    return GroupPlan(group, None, tuple(measured), ())


def _summed(name: str, value: Scalar, high: int, moved: int, epsilon: Fraction, neighbours: Neighbours) -> Measured:
    """Return one coordinate; a person moves all of them together by 1 in units of `moved` (claim 2)."""
    facts = Facts(Type.INTEGER, Kind.INTEGER, nullable=False, low=0, high=max(high, 0))
    argument = Scalar(value.operator, value.arguments, facts, value.constant)
    quantity: Quantity = Aggregate(Aggregation.SUM, (argument,))
    sensitivity = Sensitivity(moved, moved**2, moved, neighbours)
    return Measured(name, quantity, sensitivity, Laplace(moved, moved / epsilon, neighbours))


@dataclass(frozen=True, slots=True)
class CutOff:
    """What was published of the losses: noisy numbers, by statistic."""

    plan: Plan
    found: Mapping[tuple[str, str], tuple[Statistic, Mapping[str, int]]]
    """By table and column, the empty one for its rows."""

    def bounds_at(self, table: str, name: str, tail: Fraction) -> Mapping[str, int] | None:
        """Return for each part what all people together lost at most, but for this probability; None if unbounded."""
        one, noisy = self.found[table, name]
        laws = _laws(self.plan, one)
        each = tail / (len(one.parts) + one.tail)
        beyond = 0
        if one.tail:
            people = max(noisy["mid"] + noisy["far"] + _sum_of_two(laws["mid"].scale, each), 0)
            if noisy["far"] - laws["far"].margin(1 - _ALARM) > 2 * people / FAR:
                return None  # people are found where a regular tail has none
            beyond = people * one.base * (1 + 2 * people.bit_length())  # claim 3
        return {
            part: max(noisy[f"s{at}"] + laws[f"s{at}"].margin(1 - 2 * each), 0) + beyond
            for at, part in enumerate(one.parts)
        }


def cut_off(policy: Policy, plan: Plan, noisy: Mapping[str, Mapping[str, int]]) -> CutOff:
    """Return what was published, from the noisy numbers of each group of the plan."""
    pairs = zip(statistics(policy), plan.groups, strict=True)
    return CutOff(plan, {(one.table, one.column): (one, noisy[group.group.label]) for one, group in pairs})


def _laws(plan: Plan, one: Statistic) -> dict[str, Laplace]:
    found: dict[str, Laplace] = {}
    for group in plan.groups:
        read = group.group.rows
        if isinstance(read, Read) and read.table == one.table + CUT and read.columns[0][0] == one.parts[0]:
            found |= {each.name: each.mechanism for each in group.measured if isinstance(each.mechanism, Laplace)}
    return found


def _sum_of_two(scale: Fraction, tail: Fraction) -> int:
    """Return t such that the sum of two such noises is below -t with at most this probability.

    P[Z₁ + Z₂ ≥ k] = c·x^k·((k + b)/(1 - x) + x/(1 - x)²) with x = e^(-1/scale), c = ((1 - x)/(1 + x))² and
    b = (1 + x²)/(1 - x²): it falls in k, so halving finds it; one more covers what floats lose.
    """
    x, left = exp(-1 / float(scale)), -expm1(-1 / float(scale))
    c, b = (left / (1 + x)) ** 2, (1 + x * x) / -expm1(-2 / float(scale))

    def above(k: int) -> float:
        return c * exp(-k / float(scale)) * ((k + b) / left + x / left**2)

    low, high = 0, ceil(float(scale)) + 1
    while above(high + 1) > tail:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if above(middle + 1) <= tail else (middle, high)
    return high + 1
