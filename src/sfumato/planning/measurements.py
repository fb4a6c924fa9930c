"""What must be measured so that everything that was asked follows: each distinct quantity once.

COUNT, SUM and AVG of one argument are two measurements; a variance adds one.
"""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.event import Neighbours
from sfumato.analysis.private_query import Group
from sfumato.planning.aggregates.families import FAMILIES, Derived
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.sensitivities import of_people, of_quantity
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


@dataclass(frozen=True, slots=True)
class Needs:
    """What one group needs: `keys` is how far one person moves them where they must be selected, else None."""

    group: Group
    keys: Sensitivity | None
    measurements: tuple[Measurement, ...]
    derived: tuple[Derived, ...]


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
