"""What must be measured so that everything that was asked follows: each distinct quantity once.

COUNT, SUM and AVG of one argument are two measurements; a variance adds one.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

from sfumato.accounting.event import Neighbours
from sfumato.analysis.private_query import Group
from sfumato.language.facts import Kind
from sfumato.planning.aggregates.families import OutputColumn, recipe_of
from sfumato.planning.aggregates.others import Others
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.bounding.candidates import ContributionBound, candidates_in
from sfumato.planning.derived_measurement import SumOfSteps
from sfumato.planning.sensitivities import moves_of, of_people, of_quantity, side_of
from sfumato.query.functions import Aggregation
from sfumato.sensitivity.norms import Sensitivity

_MAX_TEXT_LETTERS = 32
"""Maximum letters of a selected text; a longer one would need more people than tables have."""


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
    side: int | None = None
    """How far one row moves it; None where it is not moved row by row, and its noise is its own."""
    bound: ContributionBound | None = None
    """A further bound on each person's contribution; `sensitivity` is that at its last threshold."""

    @property
    def candidates(self) -> ContributionBound | None:
        """Its bound, where the answer selects the threshold."""
        return candidates_in(self.bound)


@dataclass(frozen=True, slots=True)
class TopK:
    """The cells of a group that a question shows: the `chosen` largest by the measurement that is called `by`."""

    chosen: int
    by: str


@dataclass(frozen=True, slots=True)
class MeasurementSet:
    """What one group needs: `keys` is how far one person moves them where they must be selected, else None.

    With `top` only the largest cells are chosen and measured, and the sensitivities are those of that many cells.
    """

    group: Group
    keys: Sensitivity | None
    measurements: tuple[Measurement, ...]
    derived: tuple[OutputColumn, ...]
    moved_rows: int = 1
    """How many times one person moves measurements by their sides."""
    top: TopK | None = None
    selecting_amount: str | None = None
    """The number of rows, or the sum, whose noisy values select the keys, though one person may add more than 1."""
    vector: tuple[str, ...] = ()
    """The names of measurements of which a row moves one at most: their conditions exclude each other."""
    sums: tuple[SumOfSteps, ...] = ()
    """What columns are made of that is no measurement."""
    together: tuple[str, ...] = ()
    """Those of `vector` that the same rows move: they share their noise."""

    @property
    def selecting(self) -> Measurement | None:
        """The measurement by whose noisy values keys are selected: a number of people, of all of them in each cell.

        Or else the `selecting_amount`.
        """
        if self.top is not None:
            return next(measurement for measurement in self.measurements if measurement.name == self.top.by)
        if self.keys is None:
            return None
        if self.selecting_amount is not None:
            return next(measurement for measurement in self.measurements if measurement.name == self.selecting_amount)
        counts = [
            measurement
            for measurement in self.measurements
            if measurement.sensitivity.linf == 1 and counts_everybody(measurement.quantity)
        ]
        return min(counts, key=lambda count: count.sensitivity.l1, default=None)

    @property
    def key_sensitivity(self) -> Sensitivity | None:
        """How far one person moves the keys where they are selected by themselves, before anything is measured.

        The choices of a top list are told in the same terms: as noise of which each choice errs as much.
        """
        if self.top is not None:
            return _of_choices(self.top.chosen, self.measurements[0].sensitivity.neighbours)
        return None if self.selecting is not None else self.keys


def _of_choices(chosen: int, neighbours: Neighbours) -> Sensitivity:
    """Return the vector whose noise, at the price of `chosen` choices, varies about as the Gumbel noise of each.

    At ε/chosen for each, π²/6 · (chosen · m/ε)² stands against 2 · l1²/ε²; at ρ/chosen = ε²/8 for each in zCDP,
    π²/6 · m² · chosen/8ρ stands against l2²/2ρ; m is 2 under replace.
    """
    twice = 2 if neighbours is Neighbours.REPLACE else 1
    return Sensitivity(twice * chosen, max(1, -(-2 * twice**2 * chosen // 5)), 1, neighbours)


def counts_everybody(quantity: Quantity) -> bool:
    """Whether every person of a cell counts: all rows, where each person has one in a cell, or different people."""
    if quantity.function is not Aggregation.COUNT or quantity.where is not None:
        return False
    if not quantity.arguments:
        return True
    return quantity.distinct and quantity.arguments[0].facts.kind is Kind.UNIT


def needs_of(group: Group, neighbours: Neighbours, *, fixed: bool = False) -> MeasurementSet:
    """Return the distinct measurements of a group and how each asked aggregate follows from them, or refuse.

    With `fixed` margins are known before the data is read, wherever that is possible.
    """
    others = Others(group.asked)
    recipes = [recipe_of(asked, group, others, neighbours, fixed=fixed) for asked in group.asked]
    importance: dict[Quantity, Fraction] = {}
    for recipe in recipes:
        for quantity, amount in recipe.quantities:
            importance[quantity] = importance.get(quantity, Fraction(0)) + amount
    names = {quantity: f"m{index}" for index, quantity in enumerate(importance, 1)}
    cells = max(1, group.cells) if group.public_keys else None
    return MeasurementSet(
        group,
        None if group.public_keys else of_people(group.contribution, cells, neighbours),
        tuple(
            Measurement(
                name,
                quantity,
                of_quantity(quantity, group.contribution, cells, neighbours),
                importance[quantity],
                side_of(quantity, cells, neighbours),
            )
            for quantity, name in names.items()
        ),
        tuple(recipe.make(*(names[quantity] for quantity, _ in recipe.quantities)) for recipe in recipes),
        moves_of(group.contribution, cells, neighbours),
    )


def longest_spelled(group: Group) -> int:
    """Return how many letters the texts have that can be spelled as keys of a group; 0 if its keys are no one text."""
    if len(group.keys) != 1 or group.keys[0].scalar.facts.kind is not Kind.TEXT:
        return 0
    return min(group.keys[0].scalar.facts.max_chars or _MAX_TEXT_LETTERS, _MAX_TEXT_LETTERS)


def limit_to_top_k(need: MeasurementSet, top: TopK, neighbours: Neighbours) -> MeasurementSet:
    """Return the needs of the largest cells alone: one person moves no more than `top.chosen` of them."""
    contribution = need.group.contribution
    fewer = replace(contribution, groups=min(contribution.groups, top.chosen))
    return replace(
        need,
        measurements=tuple(
            replace(
                measurement,
                sensitivity=of_quantity(measurement.quantity, fewer, top.chosen, neighbours),
                bound=measurement.candidates,
            )
            for measurement in need.measurements
        ),
        top=top,
    )


def measurements(needs: tuple[MeasurementSet, ...]) -> tuple[Measurement, ...]:
    """Return the measurements of all groups, in order."""
    return tuple(measurement for need in needs for measurement in need.measurements)
