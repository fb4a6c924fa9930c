"""What caps and bounds cut off, measured once per snapshot: which statistics, with which noise, and what follows.

Theorem: the plan's groups together are `budget.truncation`-DP, and what was cut off stays below `bounds_at` with the
stated probability, if the tails are regular.  Proof: proofs/truncation.md
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, log

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
BUCKETS, WIDER = 9, 4
"""People who lost much are counted in so many buckets, each so many times as wide as the one before."""
_ODD = Fraction(1, 100)
"""So seldom noise alone makes the first buckets look fuller than a regular tail allows, later ones more seldom; then
the bound is wider, and holds."""
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
    most: int
    """What a person can have at most under the policy: rows, or steps of a sum."""
    tail: bool = True
    """Whether a person can lose more than that."""

    @property
    def base(self) -> int:
        """Below it losses are summed, from it on people are counted; without a tail nobody loses more."""
        return -(-self.most // WIDER) if self.tail else self.most

    @property
    def ends(self) -> tuple[int, ...]:
        """Where buckets begin, as what somebody had in all: more than the policy admits by a quarter, and so on."""
        return tuple((self.most + self.base) * WIDER**place for place in range(BUCKETS))

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
    if not one.tail:
        measured = [_summed("s0", parts[0], one.base, one.base, epsilon, policy.neighbours)]
    else:
        twice = 2 if policy.neighbours is Neighbours.REPLACE else 1  # from one coordinate to another
        reach, law = twice * one.base, (epsilon, policy.neighbours)
        nothing, whole = constant(0, Type.INTEGER), constant(1, Type.INTEGER)
        below = [compared(Operator.LESS, total, constant(end - one.most, Type.INTEGER)) for end in one.ends]
        small = [chosen(((below[0], part),), nothing, Type.INTEGER) for part in parts]
        last = chosen(((below[-1], nothing),), whole, Type.INTEGER)
        counts = [chosen(((low, nothing), (high, whole)), nothing, Type.INTEGER) for low, high in pairwise(below)]
        measured = [_summed(f"s{place}", value, one.base - 1, reach, *law) for place, value in enumerate(small)]
        measured += [_summed(f"h{place}", value, 1, twice, *law) for place, value in enumerate([*counts, last])]
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
        each = tail / 4 / len(one.parts) if one.tail else tail
        beyond = _tail(one, noisy, laws, 3 * tail / 4) if one.tail else 0
        if beyond is None:
            return None
        return {
            part: max(noisy[f"s{at}"] + laws[f"s{at}"].margin(1 - 2 * each), 0) + beyond
            for at, part in enumerate(one.parts)
        }


def _tail(one: Statistic, noisy: Mapping[str, int], laws: Mapping[str, Laplace], tail: Fraction) -> int | None:
    """Return what those who lost much lost together, at most; None where people are found in the last bucket.

    Up to the bucket from which on the tail is taken to be regular, people are counted; from there on n⁺ people, of whom
    no more than n⁺·Y/y had y in all.  Proof: proofs/truncation.md, claim 3
    """
    first = _regular_from(noisy, laws)
    if first == BUCKETS - 1:
        return None
    lost = 0
    for place in range(first + 1):
        people = max(noisy[f"h{place}"] + laws[f"h{place}"].margin(1 - 2 * tail / 2 ** (place + 1)), 0)
        if place < first:
            lost += people * (one.ends[place + 1] - one.most)
        elif people:
            people = -(-people * WIDER // (WIDER - 1))
            lost += people * (one.ends[place] - one.most) + ceil(people * one.ends[place] * log(people))
    return lost


def _regular_from(noisy: Mapping[str, int], laws: Mapping[str, Laplace]) -> int:
    """Return the first bucket after which none is fuller than a regular tail allows, as far as noise can tell."""
    first = 0
    for place in range(BUCKETS):
        allowed = max(noisy[f"h{first}"], 0) / WIDER ** (place - first - 1) / (WIDER - 1) if place > first else None
        noise = laws[f"h{place}"].margin(1 - 2 * _ODD / WIDER**place)  # the farther out, the wider it makes the bound
        if allowed is not None and noisy[f"h{place}"] - noise > allowed:
            first = place
    return first


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
