"""Counts, and sums of values that cannot be negative, under caps and bounds that the question itself chooses.

Theorem: what is measured at every level rises, and one person moves the difference of two levels by no more than
`of_quantity` says.  [DFYTM22]  Proof: proofs/race.md
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sfumato.analysis.private_query import Asked, Group
from sfumato.language.flow import RANK, Flow, Keep, Kept, Pair, Read, below
from sfumato.language.lower_logic import all_true, chosen, compared
from sfumato.language.numbers import clipped, constant, shifted
from sfumato.language.scalar import Operator, Scalar, address, column
from sfumato.planning.aggregates.recipe import Quantity, Recipe
from sfumato.planning.aggregates.sums import bounded, count_of, sum_of_values
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation
from sfumato.query.types import Type

FINER = 4
"""Each bound is so many times the one before."""
MOST_BOUNDS = 12


@dataclass(frozen=True, slots=True)
class Level:
    """How many rows of a person count, and up to which value in steps each of them; 1 for a count."""

    rows: int
    high: int


@dataclass(frozen=True, slots=True)
class Raced:
    """A count or sum that is the sum of the first of its parts: those up to the level that wins."""

    name: str
    parts: tuple[str, ...]
    levels: tuple[Level, ...]
    step: Fraction
    whole: Quantity
    """What it is without a choice."""
    rows_chosen: bool
    bounds_chosen: bool

    @property
    def measured(self) -> tuple[str, ...]:
        """The measurements that it is computed from."""
        return self.parts

    @property
    def plain(self) -> None:
        """No single measurement is it."""
        return None

    def words(self) -> str:
        """Say what is chosen, and among what."""
        rows = _listed([f"{level.rows:,}" for level in self.levels])
        bounds = _listed([f"{float(level.high * self.step):,.12g}" for level in self.levels])
        found = [f"how many rows of a person count among {rows}"] * self.rows_chosen
        return " and ".join(found + [f"up to which value among {bounds}"] * self.bounds_chosen)

    def won(self, places: Sequence[int]) -> str:
        """Say which levels won: one of them, or the least and the greatest over the cells."""
        least, most = self.levels[min(places)], self.levels[max(places)]
        rows = f"{_span(f'{least.rows:,}', f'{most.rows:,}')} rows of a person count"
        ends = (f"{float(level.high * self.step):,.12g}" for level in (least, most))
        found = [rows] * self.rows_chosen + [f"values count up to {_span(*ends)}"] * self.bounds_chosen
        return " and ".join(found)


def _listed(texts: Sequence[str]) -> str:
    different = list(dict.fromkeys(texts))
    return ", ".join([*different[:3], "…", different[-1]] if len(different) > 5 else different)


def _span(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


@dataclass(frozen=True, slots=True)
class RacedMean:
    """An average: the sum that was raced for, over the count of the rows at its winning level."""

    name: str
    total: Raced
    counts: tuple[str, ...]
    """One count for all levels, or the counts whose sums they are."""
    low: int
    high: int

    @property
    def measured(self) -> tuple[str, ...]:
        """The measurements that it is computed from."""
        return (*self.total.parts, *self.counts)

    @property
    def plain(self) -> None:
        """No single measurement is it."""
        return None

    @property
    def step(self) -> Fraction:
        """The value of one step of the argument."""
        return self.total.step


@dataclass(frozen=True, slots=True)
class _Race:
    rank: Scalar | None
    """The rank of a row within its person, where rows are chosen."""
    most: int
    bounds: frozenset[str]
    """The columns whose bounds are chosen."""
    label: str


def raced(asked: Asked, group: Group) -> Recipe[Raced] | None:
    """Return how a count or sum is raced for; None where nothing is to be chosen, or it can be negative."""
    race = _race(group)
    aggregate = asked.aggregate
    if race is None or aggregate.distinct:
        return None
    if aggregate.function is Aggregation.COUNT:
        if race.rank is None:
            return None
        whole, argument, step = count_of(asked), None, Fraction(1)
    else:
        argument = bounded(asked, group)
        if argument.facts.low < 0:
            return None
        whole, step = sum_of_values(asked, argument, group), argument.facts.step
    free = argument is not None and _is_chosen(argument, race)
    levels = _levels(race, 1 if argument is None else argument.facts.high, free)
    if len(levels) < 2:
        return None
    parts = _parts(whole, race, levels)

    def make(*names: str) -> Raced:
        return Raced(asked.name, names, levels, step, whole, race.rank is not None, free)

    return Recipe(tuple((part, Fraction(1)) for part in parts), make)


def raced_mean(asked: Asked, group: Group) -> Recipe[RacedMean] | None:
    """Return how an average is raced for, by its sum; None where nothing is to be chosen, or it can be negative."""
    total = raced(replace(asked, aggregate=replace(asked.aggregate, function=Aggregation.SUM)), group)
    race = _race(group)
    if total is None or race is None:
        return None
    sums = total.quantities
    argument = bounded(asked, group)
    levels = total.make(*([""] * len(sums))).levels
    count = count_of(asked)
    rows = tuple(dict.fromkeys(Level(level.rows, 1) for level in levels))
    counts = (count,) if len(rows) == 1 else _parts(count, race, tuple(Level(level.rows, 1) for level in levels))

    def make(*names: str) -> RacedMean:
        made = total.make(*names[: len(sums)])
        return RacedMean(asked.name, made, names[len(sums) :], argument.facts.low, argument.facts.high)

    return Recipe((*sums, *((one, Fraction(1, 4)) for one in counts)), make)


def _parts(whole: Quantity, race: _Race, levels: tuple[Level, ...]) -> tuple[Quantity, ...]:
    return tuple(_part(whole, race, before, level) for before, level in zip((None, *levels), levels, strict=False))


def rank_span(where: Scalar | None) -> tuple[int, int] | None:
    """Return how many ranks a condition leaves, and out of how many; None where it says nothing about ranks."""
    low, high, most = 0, None, 0
    for part in where.arguments if where is not None and where.operator is Operator.AND else ():
        one, other = part.arguments if len(part.arguments) == 2 else (part, part)
        if _is_rank(one) and part.operator is Operator.AT_MOST and isinstance(other.constant, int):
            high, most = other.constant, one.facts.high
        elif _is_rank(other) and part.operator is Operator.LESS and isinstance(one.constant, int):
            low = one.constant
    return None if high is None else (high - low, most)


def _is_rank(scalar: Scalar) -> bool:
    return (
        scalar.operator is Operator.COLUMN and address(scalar) is not None and (address(scalar) or ("", ""))[1] == RANK
    )


def _race(group: Group) -> _Race | None:
    """Return what there is to choose, where the rows are those of one table, perhaps joined with public ones.

    Ranks are chosen among where each row of a person counts as often as any other: not where a condition leaves fewer.
    """
    reads, times = [], 1
    for node in _nodes(group.rows):
        match node:
            case Read():
                reads.append(node)
            case Keep() | Kept():
                pass
            case Pair(_, _, Kept() as public):
                times *= public.most
            case _:
                return None
    if len(reads) != 1 or group.contribution.bound_rows:
        return None
    (read,) = reads
    whole = group.contribution.rows == (read.most or 1) * times
    ranks = [column(read.label, name, facts) for name, _, facts in read.columns if name == RANK and whole]
    if not ranks and not read.chosen:
        return None
    return _Race(ranks[0] if ranks else None, read.most or 1, frozenset(read.chosen), read.label)


def _nodes(flow: Flow) -> Iterator[Flow]:
    yield flow
    for source in below(flow):
        yield from _nodes(source)


def _is_chosen(argument: Scalar, race: _Race) -> bool:
    found = address(argument) if argument.operator is Operator.COLUMN else None
    return found is not None and found[0] == race.label and found[1] in race.bounds


def _levels(race: _Race, high: int, free: bool) -> tuple[Level, ...]:
    """Return the levels: powers of two for rows, of four for bounds, and both together where both are chosen."""
    rows = [race.most] if race.rank is None else _powers(race.most, 2, race.most.bit_length() + 1)
    highs = _powers(high, FINER, MOST_BOUNDS) if free else [high]
    size = max(len(rows), len(highs))
    rows, highs = _stretched(rows, size), _stretched(highs, size)
    return tuple(dict.fromkeys(Level(*pair) for pair in zip(rows, highs, strict=True)))


def _powers(most: int, factor: int, count: int) -> list[int]:
    """Return `most` and what is left of it after dividing again and again, from the least on.

    >>> _powers(500, 4, 12), _powers(10, 2, 5)
    ([1, 2, 8, 32, 125, 500], [1, 2, 3, 5, 10])
    """
    return sorted({max(-(-most // factor**power), 1) for power in range(count)})


def _stretched(values: list[int], size: int) -> list[int]:
    """Return so many values, each repeated where there are fewer, from the least to the greatest."""
    return [values[at * len(values) // size] for at in range(size - 1)] + [values[-1]]


def _part(whole: Quantity, race: _Race, before: Level | None, level: Level) -> Quantity:
    """Return the difference of two levels as one quantity."""
    conditions = [] if whole.where is None else [whole.where]
    rows_before, high_before = (0, 0) if before is None else (before.rows, before.high)
    higher = bool(whole.arguments) and whole.function is Aggregation.SUM and level.high > high_before
    more_rows = level.rows > rows_before
    arguments = whole.arguments
    if race.rank is not None:
        conditions.append(compared(Operator.AT_MOST, race.rank, constant(level.rows, Type.INTEGER)))
        if rows_before and not higher:  # the same values of further rows
            conditions.insert(-1, compared(Operator.LESS, constant(rows_before, Type.INTEGER), race.rank))
    if whole.function is Aggregation.SUM:
        arguments = (_added(whole.arguments[0], race, rows_before if more_rows else 0, high_before, level.high),)
    where = None if not conditions else conditions[0] if len(conditions) == 1 else all_true(conditions)
    if len(conditions) == 1 and race.rank is not None:
        where = all_true((conditions[0], conditions[0]))
    return Aggregate(whole.function, arguments, whole.distinct, where, whole.parameters)


def _added(value: Scalar, race: _Race, rows_before: int, high_before: int, high: int) -> Scalar:
    """Return what a row adds to the difference of two levels."""
    whole = clipped(value, 0, high)
    if high <= high_before or high_before == 0:
        return whole
    more = clipped(shifted(value, high_before), 0, high - high_before)
    if not rows_before or race.rank is None:
        return more
    inside = compared(Operator.AT_MOST, race.rank, constant(rows_before, Type.INTEGER))
    return chosen(((inside, more),), whole, value.facts.type)
