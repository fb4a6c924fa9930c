"""A measurement that is not measured, or not only: a weighted sum of cells of kept groups. Proof: proofs/views.md"""

from dataclasses import dataclass

from sfumato.planning.aggregates.recipe import Quantity


@dataclass(frozen=True, slots=True)
class WeightedCells:
    """Cells of one measurement with their weights: in the shown cell `rows[i]`, `cells[i]` has `weights[i]`."""

    label: str
    name: str
    rows: tuple[int, ...]
    cells: tuple[int, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class DerivedMeasurement:
    """The measurement of a group that is shown as the sum of `parts`."""

    label: str
    name: str
    parts: tuple[WeightedCells, ...]


@dataclass(frozen=True, slots=True)
class SumOfSteps:
    """A count or sum that is the sum of measured steps, its own first.

    Proof: proofs/disjoint_conditions.md, 4; proofs/null_counts.md
    """

    name: str
    steps: tuple[str, ...]
    quantity: Quantity
    """What it is, as it was asked for."""
    signs: tuple[int, ...] = ()
    """Whether each step is added (1) or taken away (-1); all are added where it is empty."""

    @property
    def terms(self) -> tuple[tuple[str, int], ...]:
        """The steps with their signs."""
        return tuple(zip(self.steps, self.signs or (1,) * len(self.steps), strict=True))
