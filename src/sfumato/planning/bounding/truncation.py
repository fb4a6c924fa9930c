"""What caps and bounds cut off, measured once per snapshot: which statistics, with which noise, and what follows.

Theorem: everything published is together `budget.truncation`-DP, and the truncation losses stay below `bounds_at` with
the stated probability, if the tails are regular.  Proof: proofs/truncation.md
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, log
from typing import Protocol

from sfumato.accounting.event import Composed, Neighbours, Pure
from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.private_query import Contribution, Group, PrivateQuery
from sfumato.language.facts import Facts, Kind
from sfumato.language.lower_logic import all_true, case_scalar, compare_scalars
from sfumato.language.numbers import add_scalars, constant
from sfumato.language.rel_nodes import InputNode, ProjectNode, ScanNode
from sfumato.language.scalar import Operator, Scalar, column
from sfumato.mechanisms.laplace import Laplace
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.plan import GroupPlan, Plan, PlannedMeasurement
from sfumato.policy.policy import Column, ColumnType, Policy, RowUnit, Table, UnitColumn, fold_name
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation
from sfumato.query.types import Type
from sfumato.sensitivity.norms import Sensitivity

CUT = ".cut"
"""The ending of the table that says what each person lost. No question can name it: it is in no catalog."""
REMOVED_FROM, CLIPPED_ROWS = "removed", "beyond"
"""Its columns: the rows that were left out, and the kept ones in which some value lies beyond its bounds."""
ROWS, MOVED = "", " beyond"
"""The statistics of these two; those of numbers are called as the numbers are, whose names begin with no blank."""
ABOVE, BELOW = "above ", "below "
"""And for each bounded number, before its name: what its sum lost on either side."""
CUT_PEOPLE = "people"
"""Beside the bound of rows that were removed, or lie beyond bounds: of how many people they are. And the coordinate
that counts the people who lost few rows."""
_PEOPLE_UNIT = 4
"""The noise of that coordinate is this many times that of a count alone. Sums get what is left."""
MAX_LOSS_STEPS = 1 << 62
"""Larger losses count as this much."""
BUCKET_COUNT, BUCKET_GROWTH = 9, 4
"""Number of buckets in which people who lost much are counted, and how many times as wide each is as the one before."""
PILOT_EPSILON_SHARE = Fraction(1, 8)
"""The share of a table's epsilon that looks where much was lost, before the rest is spent there."""
MAX_TAIL_MULTIPLE = 9
"""The person with most may have had this many times what a regular tail allows that begins where people are counted."""
_FOR_SUMS = Fraction(1, 8)
"""The share of a tail that is for what those lost who lost little; the rest is for the number of the others."""
BUCKET_FAILURE = Fraction(1, 100)
"""So seldom noise alone makes the first buckets look fuller than a regular tail allows, later ones more seldom; then
the bound is wider, and holds."""
ONLY_ROWS, NUMBERS, BOTH = "rows", "numbers", "both"
"""What a look counts."""
_HARMONIC_TERMS = 100
"""Number of terms of a harmonic sum that are added up before a logarithm bounds the others."""
_ROUNDING_FACTOR = 1 + 1e-12
"""Sums of floats that are to be upper bounds are made larger by more than their rounding."""
_SUMMABLE_TYPES = (ColumnType.INTEGER, ColumnType.DECIMAL)


def is_clipped(declared: Column) -> bool:
    """Whether values of a column are moved to its bounds."""
    return declared.bounds is not None and declared.values is None


def sums_can_be_clipped(declared: Column) -> bool:
    """Whether sums of a column lose what its bounds cut off."""
    return is_clipped(declared) and declared.type in _SUMMABLE_TYPES


@dataclass(frozen=True, slots=True)
class TruncationStatistic:
    """One vector of losses per person: of a table's rows, or of the sums of one of its numbers."""

    table: str
    column: str
    """Both folded; ROWS and MOVED for what is about rows."""
    parts: tuple[str, ...]
    """The columns of the table of losses that are its entries."""
    max_contribution: int
    """The most that a person can have under the policy: rows, or steps of a sum."""
    tail: bool = True
    """Whether a person can lose more than that."""

    @property
    def base(self) -> int:
        """A person who lost less lost little. Without a tail no person loses more."""
        return -(-self.max_contribution // BUCKET_GROWTH) if self.tail else self.max_contribution

    @property
    def bucket_edges(self) -> tuple[int, ...]:
        """Where buckets begin, as a person's total before losses: a quarter more than the policy admits, and so on."""
        return tuple((self.max_contribution + self.base) * BUCKET_GROWTH**index for index in range(BUCKET_COUNT))

    @property
    def weight(self) -> int:
        """Its share of the noise of those who lost little: without a tail, its sum is of larger numbers."""
        return 1 if self.tail else 2


@dataclass(frozen=True, slots=True)
class TruncationBlock:
    """Statistics of one table that are measured together.

    People who lost much of any of them are counted, by the statistic of which they lost most; what the others lost is
    summed up.
    """

    strategy: int | None
    """Which way to measure a table it belongs to; None for the look that chooses among them."""
    statistics: tuple[TruncationStatistic, ...]
    share: Fraction
    """Its share of the table's epsilon, if its way is taken."""

    @property
    def table(self) -> str:
        return self.statistics[0].table

    @property
    def tailed(self) -> tuple[TruncationStatistic, ...]:
        """The statistics of which a person can lose much."""
        return tuple(statistic for statistic in self.statistics if statistic.tail)


def statistics(policy: Policy) -> tuple[TruncationStatistic, ...]:
    """Return what can be cut off under a policy: of each table rows, and of each bounded number its sum."""
    cut = (table for table in policy.tables if not (table.public or table.has_two_owners))
    return tuple(statistic for table in cut for statistic in _statistics(table))


def _statistics(table: Table) -> Iterator[TruncationStatistic]:
    name, columns = fold_name(table.name), [one for one in table.columns if table.unit != UnitColumn(one.name)]
    rows = table.rows_per_unit or 1
    if not isinstance(table.unit, RowUnit):
        yield TruncationStatistic(name, ROWS, (REMOVED_FROM,), rows)
    if any(is_clipped(one) for one in columns):
        yield TruncationStatistic(name, MOVED, (CLIPPED_ROWS,), rows, tail=False)
    for one in columns:
        grid = one.grid
        if sums_can_be_clipped(one) and grid is not None:
            reach = max(abs(grid.least), abs(grid.greatest), 1)
            yield TruncationStatistic(
                name, fold_name(one.name), (ABOVE + one.name, BELOW + one.name), min(rows * reach, MAX_LOSS_STEPS)
            )


def blocks(policy: Policy) -> tuple[TruncationBlock, ...]:
    """Return what may be measured, table by table: a look, and the blocks of every way that it chooses among."""
    found = statistics(policy)
    tables = dict.fromkeys(one.table for one in found)
    return tuple(block for table in tables for block in _blocks(tuple(one for one in found if one.table == table)))


def _blocks(found: tuple[TruncationStatistic, ...]) -> Iterator[TruncationBlock]:
    tailed = tuple(one for one in found if one.tail)
    rows = tuple(one for one in tailed if one.column == ROWS)
    columns = tuple(one for one in tailed if one.column != ROWS)
    if len(tailed) < 2:
        yield TruncationBlock(0, found, Fraction(1))
        return
    moved = tuple(one for one in found if not one.tail)
    apart = [(moved, 1)] if moved else []
    ways: list[list[tuple[tuple[TruncationStatistic, ...], int]]] = [[(found, 1)]]  # blocks, and their weights
    ways += [[(tailed, 4), *apart]] if moved else []
    ways += [[(rows, 2), (columns, 2), *apart]] if rows else []
    if len(columns) > 1:
        ways.append([*([(rows, 2)] if rows else []), *(((one,), 2) for one in columns), *apart])
    yield TruncationBlock(None, tailed, PILOT_EPSILON_SHARE)
    for way, parts in enumerate(ways):
        whole = sum(weight for _, weight in parts)
        yield from (TruncationBlock(way, part, (1 - PILOT_EPSILON_SHARE) * weight / whole) for part, weight in parts)


def plan_truncation_release(policy: Policy, *, counts_people: bool = True) -> Plan | None:
    """Return what may be measured of what is cut off; None where nothing is spent on it, or nothing can be cut.

    Of each table one way is measured (`taken_way`), so that its event is that of the look and one way. Until version
    0.14 the people who lost few rows were not counted. Numbers published then are read with the plan that has no such
    coordinate.
    """
    found, spent = blocks(policy), policy.budget.truncation
    if spent is None or not found:
        return None
    tables = dict.fromkeys(one.table for one in found)
    each = spent / len(tables)
    groups = tuple(_group(one, at, each * one.share, policy, counts_people) for at, one in enumerate(found))
    outcome = ProjectNode(InputNode(groups[0].group.label, (), None), "outcome", ())
    private = PrivateQuery(tuple(group.group for group in groups), outcome, (), policy.neighbours)
    event = Composed(tuple(_event(each, [one for one in found if one.table == name], policy) for name in tables))
    return Plan(private, groups, PrivacyLoss(spent), event)


def _event(epsilon: Fraction, found: Sequence[TruncationBlock], policy: Policy) -> Composed:
    looks = [Pure(epsilon * one.share, policy.neighbours) for one in found if one.strategy is None]
    rest = epsilon - sum((look.epsilon for look in looks), Fraction(0))
    return Composed((*looks, Pure(rest, policy.neighbours)))


def _group(one: TruncationBlock, at: int, epsilon: Fraction, policy: Policy, counts_people: bool) -> GroupPlan:
    label, declared = f"losses{at}", policy.table(one.table)
    amount = Facts(Type.INTEGER, Kind.INTEGER, nullable=False, low=0, high=MAX_LOSS_STEPS)
    alone = declared is not None and isinstance(declared.unit, RowUnit)
    names = [name for statistic in one.statistics for name in statistic.parts]
    read = ScanNode(one.table + CUT, label, tuple((name, name, amount) for name in names), 1)
    entries = {name: column(label, name, amount) for name in names}
    measured = _looked(one, entries) if one.strategy is None else _measured(one, entries, counts_people)
    # from one coordinate to another
    twice = 2 if policy.neighbours is Neighbours.REPLACE and len(measured) > 1 else 1
    law = (epsilon / twice, policy.neighbours)
    unit = column(label, names[0], amount)
    group = Group(label, read, unit, not alone, (), (), Contribution(1, 1, bound_rows=False, bound_groups=False))
    return GroupPlan(group, None, tuple(_summed(*measurement, *law) for measurement in measured), ())


_Coordinate = tuple[str, Scalar, int, Fraction]
"""A name, a value of each person, the largest it can be, and what it is divided by to be a part of one person."""


def _looked(block: TruncationBlock, entries: Mapping[str, Scalar]) -> list[_Coordinate]:
    """Return how many people lost many rows alone, much of some number alone, and both."""
    nothing, whole = constant(0, Type.INTEGER), constant(1, Type.INTEGER)
    rows = [_lost_less(one, entries, one.base) for one in block.tailed if one.column == ROWS]
    little = all_true([_lost_less(one, entries, one.base) for one in block.tailed if one.column != ROWS])
    if not rows:
        values = {NUMBERS: case_scalar(((little, nothing),), whole, Type.INTEGER)}
    else:
        alone = {ONLY_ROWS: ((rows[0], nothing), (little, whole)), NUMBERS: ((little, nothing), (rows[0], whole))}
        values = {name: case_scalar(branches, nothing, Type.INTEGER) for name, branches in alone.items()}
        values[BOTH] = case_scalar(((little, nothing), (rows[0], nothing)), whole, Type.INTEGER)
    return [(name, value, 1, Fraction(1)) for name, value in values.items()]


def _measured(block: TruncationBlock, entries: Mapping[str, Scalar], counts_people: bool) -> list[_Coordinate]:
    """Return the sums of those who lost little of everything, their number, and the numbers of the others, by buckets.

    Those who lost little enter the sums and, if they lost rows, their number: together by 1, in their units.
    """
    nothing, whole = constant(0, Type.INTEGER), constant(1, Type.INTEGER)
    below = [
        all_true([_lost_less(one, entries, one.bucket_edges[index] - one.max_contribution) for one in block.tailed])
        for index in range(BUCKET_COUNT if block.tailed else 0)
    ]
    found: list[_Coordinate] = []
    rows = [one for one in block.tailed if one.column == ROWS] if counts_people else []
    shared = Fraction(_PEOPLE_UNIT, _PEOPLE_UNIT - len(rows))
    for index, (one, part) in enumerate(parts_of(block)):
        value = case_scalar(((below[0], entries[part]),), nothing, Type.INTEGER) if below else entries[part]
        found.append((f"s{index}", value, one.base - 1 if one.tail else one.base, shared * _moved(block, one)))
    for row in rows:
        kept = _lost_less(row, entries, 1)
        value = case_scalar(((kept, nothing), (below[0], whole)), nothing, Type.INTEGER)
        found.append((CUT_PEOPLE, value, 1, Fraction(_PEOPLE_UNIT)))
    for index, (low, high) in enumerate(pairwise(below)):
        value = case_scalar(((low, nothing), (high, whole)), nothing, Type.INTEGER)
        found.append((f"h{index}", value, 1, Fraction(1)))
    if below:
        last = case_scalar(((below[-1], nothing),), whole, Type.INTEGER)
        found.append((f"h{BUCKET_COUNT - 1}", last, 1, Fraction(1)))
    return found


def parts_of(block: TruncationBlock) -> list[tuple[TruncationStatistic, str]]:
    return [(statistic, part) for statistic in block.statistics for part in statistic.parts]


def _moved(block: TruncationBlock, one: TruncationStatistic) -> Fraction:
    """Return the unit of a sum. In these units, all statistics of a block together say at most 1 of one person."""
    return Fraction(one.base * sum(other.weight for other in block.statistics), one.weight)


def _lost_less(one: TruncationStatistic, entries: Mapping[str, Scalar], limit: int) -> Scalar:
    total = entries[one.parts[0]]
    for part in one.parts[1:]:
        total = add_scalars(total, entries[part], Type.INTEGER)
    return compare_scalars(Operator.LESS, total, constant(limit, Type.INTEGER))


def _summed(
    name: str, value: Scalar, high: int, moved: Fraction, epsilon: Fraction, neighbours: Neighbours
) -> PlannedMeasurement:
    """Return one coordinate; a person moves all of them together by 1 in units of `moved` (claim 2)."""
    facts = Facts(Type.INTEGER, Kind.INTEGER, nullable=False, low=0, high=max(high, 0))
    argument = Scalar(value.operator, value.arguments, facts, value.constant)
    quantity: Quantity = Aggregate(Aggregation.SUM, (argument,))
    alone = max(high, 1)
    sensitivity = Sensitivity(alone, alone**2, alone, neighbours)
    return PlannedMeasurement(name, quantity, sensitivity, Laplace(alone, moved / epsilon, neighbours))


def noise_laws(group: GroupPlan) -> dict[str, Laplace]:
    """Return the noise of each coordinate."""
    return {
        measurement.name: measurement.mechanism
        for measurement in group.measured
        if isinstance(measurement.mechanism, Laplace)
    }


@dataclass(frozen=True, slots=True)
class ReleasedTruncation:
    """What was published of a block: a noisy number for each of its coordinates, and the laws of their noise."""

    block: TruncationBlock
    noisy: Mapping[str, int]
    laws: Mapping[str, Laplace]

    def at_most(self, name: str, tail: Fraction) -> int:
        """Return what a coordinate is at most, but for this probability."""
        return max(self.noisy[name] + self.laws[name].margin(1 - 2 * tail), 0)


class TruncationLosses(Protocol):
    """What is known of losses: bounds of them, or estimates."""

    @property
    def released(self) -> Mapping[tuple[str, str], ReleasedTruncation]:
        """What was published, by table and column."""

    def bounds_at(self, table: str, names: Sequence[str], tail: Fraction) -> dict[str, Mapping[str, int] | None]:
        """Return each part of these statistics for all people together; None where nothing is known."""


@dataclass(frozen=True, slots=True)
class TruncationBounds:
    """What was published of the losses."""

    released: Mapping[tuple[str, str], ReleasedTruncation]
    """By table and column; ROWS and MOVED for what is about rows."""

    def bounds_at(self, table: str, names: Sequence[str], tail: Fraction) -> dict[str, Mapping[str, int] | None]:
        """Return for each part of these statistics what all people together lost at most; None if unbounded.

        All of it holds at once, but for this probability.
        """
        released = list({id(one): one for one in (self.released[table, name] for name in names)}.values())
        bounds: dict[str, Mapping[str, int] | None] = {}
        for one in released:
            bounds |= _bounds(one, names, tail / len(released))
        return bounds


def _bounds(one: ReleasedTruncation, names: Sequence[str], tail: Fraction) -> dict[str, Mapping[str, int] | None]:
    wanted = [(index, each, part) for index, (each, part) in enumerate(parts_of(one.block)) if each.column in names]
    above = _above(one, tail * (1 - _FOR_SUMS)) if one.block.tailed else _NO_TAIL
    if above is None:
        return {each.column: None for _, each, _ in wanted}
    counted = CUT_PEOPLE in one.noisy and ROWS in names
    each_sum = tail * (_FOR_SUMS if one.block.tailed else 1) / (len(wanted) + counted)
    found: dict[str, dict[str, int]] = {}
    for index, each, part in wanted:
        little = one.at_most(f"s{index}", each_sum)
        here = found.setdefault(each.column, {})
        here[part] = max(little + _lost_by(above, each), 1)  # 0 says that nothing can be lost, whatever noise does
        if each.column in (ROWS, MOVED):  # a person who lost something lost a row: proofs/truncation.md, 7
            fewer = one.at_most(CUT_PEOPLE, each_sum) if counted and each.column == ROWS else little
            here[CUT_PEOPLE] = max(min(little, fewer) + above.people, 1)
    return dict(found)


@dataclass(frozen=True, slots=True)
class _Above:
    """How many people lost much, at most: before the tail is regular by bucket, from there on from each bucket on."""

    irregular: tuple[int, ...]
    regular: int
    """In a regular tail each k-th person, except the first, had at most this many times its beginning over k."""
    farthest: int
    """The first had at most this many times its beginning."""
    reached: tuple[int, ...]
    """How many lie at or above the beginning of each bucket of the tail."""

    @property
    def people(self) -> int:
        """How many people lost much, at most."""
        return sum(self.irregular) + self.reached[0]


_NO_TAIL = _Above((), 0, 0, (0,))


def _above(one: ReleasedTruncation, tail: Fraction) -> _Above | None:
    """Return how many people lost much; None where the tail may be regular from the last bucket on alone.

    Proof: proofs/truncation.md, claim 3
    """
    first = _regular_from(one.noisy, one.laws)
    if first == BUCKET_COUNT - 1:
        return None
    # they add up to less than all
    shares = [tail * (BUCKET_GROWTH - 1) / BUCKET_GROWTH ** (index + 1) for index in range(BUCKET_COUNT)]
    people = [one.at_most(f"h{index}", share) for index, share in enumerate(shares)]
    regular = -(-people[first] * BUCKET_GROWTH // (BUCKET_GROWTH - 1))
    reached: list[int] = []
    for index in reversed(range(first, BUCKET_COUNT)):
        counted = people[index] + (reached[-1] if reached else 0)
        reached.append(min(max(regular // BUCKET_GROWTH ** (index - first), 1), counted))  # one may be farther out
    reached.reverse()
    # as far as people are counted, the first lies where a tail of that many leads, from whichever bucket on
    noisy = max(-(-one.noisy[f"h{first}"] * BUCKET_GROWTH // (BUCKET_GROWTH - 1)), 0)
    leads = min(noisy, *(some * BUCKET_GROWTH**index for index, some in enumerate(reached) if index))
    return _Above(tuple(people[:first]), regular, max(regular, MAX_TAIL_MULTIPLE * leads), tuple(reached))


def _lost_by(above: _Above, one: TruncationStatistic) -> int:
    """Return what the people who lost much lost of a statistic, at most.

    No person had more than the end of a bucket. In the tail, the k-th had no more than `regular` over k of its
    beginning, except the first, who had no more than `farthest` times it.
    """
    people = above.people
    if not one.tail:
        return one.max_contribution * people
    first = len(above.irregular)
    had = sum(some * one.bucket_edges[index + 1] for index, some in enumerate(above.irregular))
    product = above.regular * one.bucket_edges[first]
    for index, (here, beyond) in enumerate(pairwise((*above.reached, 0)), start=first):
        end = one.bucket_edges[index + 1] if index < BUCKET_COUNT - 1 else product + 1  # the last bucket has none
        flat = max(min(here, product // end), beyond)  # at most this many are at the end of the bucket
        had += (flat - beyond) * end + ceil(product * _harmonic(flat, here))
    farther = (above.farthest - above.regular) * one.bucket_edges[first] if above.reached[0] else 0
    return had + farther - people * one.max_contribution


def _harmonic(low: int, high: int) -> float:
    """Return at least the sum of 1/k for k above `low` up to `high`."""
    exact = min(max(low, _HARMONIC_TERMS), high)
    found = sum(1 / index for index in range(low + 1, exact + 1))
    # 1/k is less than ln(k + 1/2) - ln(k - 1/2), since 1/x is convex
    return (found + log((2 * high + 1) / (2 * exact + 1))) * _ROUNDING_FACTOR if high > low else 0.0


def _regular_from(noisy: Mapping[str, int], laws: Mapping[str, Laplace]) -> int:
    """Return the first bucket after which none is fuller than a regular tail allows, as far as noise can tell."""
    first = 0
    for index in range(BUCKET_COUNT):
        allowed = (
            max(noisy[f"h{first}"], 0) / BUCKET_GROWTH ** (index - first - 1) / (BUCKET_GROWTH - 1)
            if index > first
            else None
        )
        # the farther out, the wider it makes the bound
        noise = laws[f"h{index}"].margin(1 - 2 * BUCKET_FAILURE / BUCKET_GROWTH**index)
        if allowed is not None and noisy[f"h{index}"] - noise > allowed:
            first = index
    return first


def truncation_bounds(policy: Policy, plan: Plan, noisy: Mapping[str, Mapping[str, int]]) -> TruncationBounds:
    """Return what was published, from the noisy numbers of the groups of the plan that were measured."""
    found: dict[tuple[str, str], ReleasedTruncation] = {}
    for block, group in zip(blocks(policy), plan.groups, strict=True):
        label = group.group.label
        if block.strategy is not None and label in noisy:
            released = ReleasedTruncation(block, noisy[label], noise_laws(group))
            found |= {(statistic.table, statistic.column): released for statistic in block.statistics}
    return TruncationBounds(found)
