"""COUNT(*) of rows of different people that meet: how many there are follows from how many rows each key has."""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.analysis.private_query import Group, RequestedAggregate
from sfumato.language.scalar import Scalar
from sfumato.planning.aggregates.others import Others
from sfumato.planning.aggregates.recipe import Quantity, Recipe
from sfumato.planning.aggregates.selected_limit import NumberWithSelectedLimit
from sfumato.sensitivity.cross_unit_joins import CrossUnitSide


@dataclass(frozen=True, slots=True)
class CrossUnitCountColumn(NumberWithSelectedLimit):
    """A count of meetings is the second number that was released; the first is the crowd that its noise is made for."""

    times: int
    """In how many orders the same people meet, of which one counts."""


def cross_unit_recipe(asked: RequestedAggregate, _: Group, __: Others) -> Recipe[CrossUnitCountColumn]:
    """One measurement."""
    times = int(asked.aggregate.parameters[1])

    def make(chosen: str) -> CrossUnitCountColumn:
        return CrossUnitCountColumn(asked.name, chosen, times)

    return Recipe(((asked.aggregate, Fraction(1)),), make)


def sides_of(quantity: Quantity) -> tuple[tuple[CrossUnitSide, ...], bool]:
    """Return how many rows one person has on each side that meets, and whether there are several cells."""
    several, _, *numbers = (int(number) for number in quantity.parameters)
    return tuple(CrossUnitSide(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)), bool(several)


def owners_and_keys(quantity: Quantity) -> tuple[tuple[Scalar, tuple[Scalar, ...]], ...]:
    """Return the owner of each side, and what its rows meet the others by."""
    width = len(quantity.arguments) // len(sides_of(quantity)[0])
    starts = range(0, len(quantity.arguments), width)
    return tuple((quantity.arguments[at], quantity.arguments[at + 1 : at + width]) for at in starts)
