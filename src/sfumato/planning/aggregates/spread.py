"""VARIANCE and STDDEV: what an average needs, and a sum of squares."""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.analysis.private_query import Asked, Group
from sfumato.language.numbers import squared
from sfumato.planning.aggregates.averaged import DIVISOR
from sfumato.planning.aggregates.recipe import Recipe
from sfumato.planning.aggregates.sums import Centred, around, bounded, centred, count_of, sum_of_values
from sfumato.query.functions import DEVIATIONS, SAMPLES


@dataclass(frozen=True, slots=True)
class Spread:
    """With N = `count`, and T and Q the sums of x - offset and (x - offset)²: Q/N - (T/N)² squared steps.

    A `sample` has N/(N - 1) times that, and a deviation is its `root`.
    """

    name: str
    count: str
    total: str
    squares: str
    grid: Centred
    sample: bool
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


def spread(asked: Asked, group: Group) -> Recipe[Spread]:
    """A count, a sum and a sum of squares."""
    argument = bounded(asked, group)
    grid = centred(asked, argument, group)
    value = around(argument, grid)
    total, squares = sum_of_values(asked, value, group), sum_of_values(asked, squared(value), group)
    function = asked.aggregate.function

    def make(count: str, total: str, squares: str) -> Spread:
        return Spread(asked.name, count, total, squares, grid, function in SAMPLES, function in DEVIATIONS)

    return Recipe(((count_of(asked), DIVISOR), (total, Fraction(1)), (squares, Fraction(1))), make)
