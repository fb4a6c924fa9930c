"""COUNT and SUM of rows with two owners: the largest total in which no person's share is above a selected bound."""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.event import Neighbours
from sfumato.analysis.private_query import Group, RequestedAggregate
from sfumato.language.scalar import Scalar
from sfumato.mechanisms.bounded_flow import BoundedFlow
from sfumato.planning.aggregates.others import Others
from sfumato.planning.aggregates.recipe import Quantity, Recipe
from sfumato.planning.aggregates.selected_limit import NumberWithSelectedLimit


@dataclass(frozen=True, slots=True)
class BoundedFlowColumn(NumberWithSelectedLimit):
    """The second of two released numbers, halved; the first is the bound on one person's share."""

    grid_step: Fraction
    """The value of one unit of the total."""
    most: int
    """The largest share of one person that counts, in steps."""
    counts_rows: bool

    @property
    def step(self) -> Fraction:
        """The value of one unit of what is measured."""
        return self.grid_step


def bounded_flow(asked: RequestedAggregate, _: Group, __: Others) -> Recipe[BoundedFlowColumn]:
    """One measurement."""
    value = value_of(asked.aggregate)
    step = Fraction(1) if value is None else value.facts.step
    most = int(asked.aggregate.parameters[1])

    def make(chosen: str) -> BoundedFlowColumn:
        return BoundedFlowColumn(asked.name, chosen, step, most, value is None)

    return Recipe(((asked.aggregate, Fraction(1)),), make)


def value_of(quantity: Quantity) -> Scalar | None:
    """Return what is added up; None where rows are counted."""
    return quantity.arguments[2] if len(quantity.arguments) > 2 else None


def flow_mechanism(quantity: Quantity, epsilon: Fraction, neighbours: Neighbours) -> BoundedFlow:
    """Return the mechanism of so much epsilon over all cells together."""
    _, most, cells = (int(number) for number in quantity.parameters)
    return BoundedFlow(most, epsilon, neighbours, cells)


def is_same_kind(quantity: Quantity) -> bool:
    """Whether both owners of a row are of the same kind."""
    return bool(quantity.parameters[0])
