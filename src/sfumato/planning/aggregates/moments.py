"""SKEWNESS and KURTOSIS: what a variance needs, and sums of third and fourth powers."""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.analysis.private_query import Group, RequestedAggregate
from sfumato.language.numbers import integer_power
from sfumato.planning.aggregates.average import COUNT_IMPORTANCE
from sfumato.planning.aggregates.centred_sums import Centred, around, bounded, centred, count_of, sum_of_values
from sfumato.planning.aggregates.others import Others
from sfumato.planning.aggregates.recipe import Recipe
from sfumato.query.functions import power_of


@dataclass(frozen=True, slots=True)
class MomentColumn:
    """The sample skewness (three `sums`) or excess kurtosis (four), as DuckDB defines them.

    With N = `count`, and `sums` those of the first and higher powers of x - offset.
    """

    name: str
    count: str
    sums: tuple[str, ...]
    grid: Centred

    @property
    def order(self) -> int:
        """The highest power. It takes at least this many rows."""
        return len(self.sums)

    @property
    def measured(self) -> tuple[str, ...]:
        """The measurements that it is computed from."""
        return (self.count, *self.sums)

    @property
    def plain(self) -> None:
        """No measurement is it."""
        return None

    @property
    def step(self) -> Fraction:
        """It has no unit."""
        return Fraction(1)


def standardised_moment(asked: RequestedAggregate, group: Group, others: Others) -> Recipe[MomentColumn]:
    """A count, and a sum of each power. Every sum counts as much as the highest (proofs/planning.md, §5)."""
    argument = bounded(asked, group)
    grid = centred(asked, group, others)
    value = around(argument, grid)
    powers = (
        integer_power(value, power, value.facts.type) for power in range(1, power_of(asked.aggregate.function) + 1)
    )
    sums = tuple((sum_of_values(asked, power, group), Fraction(1)) for power in powers)

    def make(count: str, *names: str) -> MomentColumn:
        return MomentColumn(asked.name, count, names, grid)

    return Recipe(((count_of(asked), COUNT_IMPORTANCE), *sums), make)
