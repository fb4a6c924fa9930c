"""VARIANCE and STDDEV: what an average needs, and a sum of squares."""

from dataclasses import dataclass
from enum import Enum, auto
from fractions import Fraction

from sfumato.analysis.private_query import Group, RequestedAggregate
from sfumato.language.numbers import squared
from sfumato.planning.aggregates.average import COUNT_IMPORTANCE
from sfumato.planning.aggregates.centred_sums import Centred, around, bounded, centred, count_of, sum_of_values
from sfumato.planning.aggregates.others import Others
from sfumato.planning.aggregates.recipe import Recipe
from sfumato.query.functions import DEVIATIONS, SAMPLES


class Divisor(Enum):
    """The divisor of a sum of products of deviations."""

    ROWS = auto()
    OTHERS = auto()
    """The rows less one: they are a sample."""
    NOTHING = auto()

    @property
    def fewest(self) -> int:
        """Minimum number of rows for the result not to be NULL."""
        return 2 if self is Divisor.OTHERS else 1


@dataclass(frozen=True, slots=True)
class VarianceColumn:
    """With N = `count`, and T and Q the sums of x - offset and (x - offset)²: Q - T²/N squared steps, over its divisor.

    A deviation is its `root`.
    """

    name: str
    count: str
    total: str
    squares: str
    grid: Centred
    divisor: Divisor
    root: bool

    @property
    def measured(self) -> tuple[str, ...]:
        """The measurements that it is computed from."""
        return (self.count, self.total, self.squares)

    @property
    def plain(self) -> None:
        """No measurement is it."""
        return None

    @property
    def step(self) -> Fraction:
        """The value of one step of the argument."""
        return self.grid.step


def spread(asked: RequestedAggregate, group: Group, others: Others) -> Recipe[VarianceColumn]:
    """A count, a sum and a sum of squares."""
    argument = bounded(asked, group)
    grid = centred(asked, group, others)
    value = around(argument, grid)
    total, squares = sum_of_values(asked, value, group), sum_of_values(asked, squared(value), group)
    function = asked.aggregate.function

    def make(count: str, total: str, squares: str) -> VarianceColumn:
        divisor = Divisor.OTHERS if function in SAMPLES else Divisor.ROWS
        return VarianceColumn(asked.name, count, total, squares, grid, divisor, function in DEVIATIONS)

    return Recipe(((count_of(asked), COUNT_IMPORTANCE), (total, Fraction(1)), (squares, Fraction(1))), make)
