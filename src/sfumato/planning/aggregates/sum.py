"""SUM: of a bounded argument, or of its different values."""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.analysis.private_query import Group, RequestedAggregate
from sfumato.planning.aggregates.centred_sums import bounded, sum_of_values
from sfumato.planning.aggregates.others import Others
from sfumato.planning.aggregates.recipe import Recipe


@dataclass(frozen=True, slots=True)
class SumColumn:
    """A sum is what was measured, in steps; `low` and `high` are the public range of the argument, in steps."""

    name: str
    total: str
    step: Fraction
    low: int
    high: int

    @property
    def measured(self) -> tuple[str, ...]:
        """The measurements that it is computed from."""
        return (self.total,)

    @property
    def plain(self) -> str:
        """The measurement that it is, in steps."""
        return self.total


def summed(asked: RequestedAggregate, group: Group, _others: Others) -> Recipe[SumColumn]:
    """One sum."""
    argument = bounded(asked, group)
    facts = argument.facts

    def make(total: str) -> SumColumn:
        return SumColumn(asked.name, total, facts.step, facts.low, facts.high)

    return Recipe(((sum_of_values(asked, argument, group), Fraction(1)),), make)
