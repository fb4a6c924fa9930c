"""What must be measured so that everything that was asked follows: each distinct quantity once.

COUNT, SUM and AVG of one argument are two measurements; a variance adds one.
"""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.event import Neighbours
from sfumato.analysis.private_query import Group
from sfumato.language.facts import Kind
from sfumato.planning.aggregates.families import FAMILIES, Derived
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.sensitivities import of_people, of_quantity
from sfumato.planning.tiers import Levels
from sfumato.query.functions import Aggregation
from sfumato.sensitivity.norms import Sensitivity


@dataclass(frozen=True, slots=True)
class Measurement:
    """A quantity by its name, how far one person moves it, and how much the outputs depend on it.

    `importance` is what one squared unit of its error (a unit is what one person can do to one cell) adds to the
    expected squared errors of all outputs. Proof: proofs/planning.md, §5
    """

    name: str
    quantity: Quantity
    sensitivity: Sensitivity
    importance: Fraction
    levels: Levels | None = None
    """The levels at which it can be taken, where the answer chooses one; `sensitivity` is that at the last."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What one group needs: `keys` is how far one person moves them where they must be selected, else None."""

    group: Group
    keys: Sensitivity | None
    measurements: tuple[Measurement, ...]
    derived: tuple[Derived, ...]

    @property
    def selecting(self) -> Measurement | None:
        """The measurement by whose noisy values keys are selected: a number of people, of all of them in each cell."""
        if self.keys is None:
            return None
        counts = [one for one in self.measurements if one.sensitivity.linf == 1 and _counts_everybody(one.quantity)]
        return min(counts, key=lambda one: one.sensitivity.l1, default=None)

    @property
    def apart(self) -> Sensitivity | None:
        """How far one person moves the keys where they are selected by themselves, before anything is measured."""
        return None if self.selecting is not None else self.keys


def _counts_everybody(quantity: Quantity) -> bool:
    """Whether every person of a cell counts: all rows, where each person has one in a cell, or different people."""
    if quantity.function is not Aggregation.COUNT or quantity.where is not None:
        return False
    if not quantity.arguments:
        return True
    return quantity.distinct and quantity.arguments[0].facts.kind is Kind.UNIT


def needs_of(group: Group, neighbours: Neighbours) -> Needs:
    """Return the distinct measurements of a group and how each asked aggregate follows from them, or refuse."""
    recipes = [FAMILIES[asked.aggregate.function](asked, group) for asked in group.asked]
    importance: dict[Quantity, Fraction] = {}
    for recipe in recipes:
        for quantity, amount in recipe.quantities:
            importance[quantity] = importance.get(quantity, Fraction(0)) + amount
    names = {quantity: f"m{place}" for place, quantity in enumerate(importance, 1)}
    cells = max(1, group.cells) if group.public_keys else None
    return Needs(
        group,
        None if group.public_keys else of_people(group.contribution, cells, neighbours),
        tuple(
            Measurement(
                name, quantity, of_quantity(quantity, group.contribution, cells, neighbours), importance[quantity]
            )
            for quantity, name in names.items()
        ),
        tuple(recipe.make(*(names[quantity] for quantity, _ in recipe.quantities)) for recipe in recipes),
    )


def measurements(needs: tuple[Needs, ...]) -> tuple[Measurement, ...]:
    """Return the measurements of all groups, in order."""
    return tuple(one for need in needs for one in need.measurements)
