"""COUNT: of rows, of values, of different values, of people."""

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from sfumato.analysis.private_query import Group, RequestedAggregate
from sfumato.planning.aggregates.centred_sums import count_of
from sfumato.planning.aggregates.others import Others
from sfumato.planning.aggregates.recipe import Recipe


@dataclass(frozen=True, slots=True)
class CountColumn:
    """A count is what was measured."""

    name: str
    count: str

    @property
    def measured(self) -> tuple[str, ...]:
        """The measurements that it is computed from."""
        return (self.count,)

    @property
    def plain(self) -> str:
        """The measurement that it is, in steps."""
        return self.count

    @property
    def step(self) -> Fraction:
        """The value of one unit of what is measured."""
        return Fraction(1)


def counted(asked: RequestedAggregate, _: Group, __: Others) -> Recipe[CountColumn]:
    """One count."""
    return Recipe(((count_of(asked), Fraction(1)),), partial(CountColumn, asked.name))
