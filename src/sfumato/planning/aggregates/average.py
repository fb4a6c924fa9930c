"""AVG: a count, and a sum around the middle of the range."""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.analysis.private_query import Group, RequestedAggregate
from sfumato.planning.aggregates.centred_sums import Centred, around, bounded, centred, count_of, sum_of_values
from sfumato.planning.aggregates.others import Others
from sfumato.planning.aggregates.recipe import Recipe

COUNT_IMPORTANCE = Fraction(1, 4)
"""Importance of the count that a mean is divided by; its sum has importance 1 (proofs/planning.md, §5)."""


@dataclass(frozen=True, slots=True)
class AverageColumn:
    """With N = `count` and T = `total`, the sum of x - offset: offset + T/N steps. It lies in the range of x."""

    name: str
    count: str
    total: str
    grid: Centred

    @property
    def measured(self) -> tuple[str, ...]:
        """The measurements that it is computed from."""
        return (self.count, self.total)

    @property
    def plain(self) -> None:
        """No measurement is it."""
        return None

    @property
    def step(self) -> Fraction:
        """The value of one step of the argument."""
        return self.grid.step


def averaged(asked: RequestedAggregate, group: Group, others: Others) -> Recipe[AverageColumn]:
    """A count and a sum."""
    argument = bounded(asked, group)
    grid = centred(asked, group, others)
    total = sum_of_values(asked, around(argument, grid), group)

    def make(count: str, total: str) -> AverageColumn:
        return AverageColumn(asked.name, count, total, grid)

    return Recipe(((count_of(asked), COUNT_IMPORTANCE), (total, Fraction(1))), make)
