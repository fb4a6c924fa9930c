"""Numbers that are a ratio of two weighted sums of noisy integers, if only some true number were known.

It is known to lie between two ends, so the number lies in the union of the ratios' intervals over what lies between
them. Of that a few points are tried. Proof: proofs/intervals.md, 5
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.release.intervals.forms import Ends
from sfumato.release.intervals.measured_cells import MeasuredCells
from sfumato.release.intervals.noise_law import Floats
from sfumato.release.intervals.ratio import of_few, ratio_interval

NumberWeights = Mapping[str, Floats | float]
"""What each measurement counts in a sum, by its name; the same for all rows, or one number per row."""


@dataclass(frozen=True, slots=True)
class GroupSums:
    """Some measurements of one group, a row per cell."""

    cells: MeasuredCells
    label: str
    rows: int

    def value(self, weights: NumberWeights) -> Floats:
        """Return a weighted sum as it was measured."""
        total = np.zeros(self.rows)
        for name, weight in weights.items():
            total = total + np.asarray(weight) * self.cells.values[self.cells.places(self.label, name, self.rows)]
        return total

    def ratios(
        self,
        points: Sequence[tuple[NumberWeights, NumberWeights]],
        less: float,
        tail: float,
        reach: tuple[float, float],
    ) -> Ends:
        """Return the ends of all ratios over / (under - less), each possible but for the tail, inside their reach.

        The divisor is never below 0.
        """
        names = list(dict.fromkeys(name for point in points for weights in point for name in weights))
        places = np.stack([self.cells.places(self.label, name, self.rows) for name in names], axis=1)
        entries = np.tile(places, (len(points), 1))
        over, under = (
            np.concatenate([self._columns(point[side], names) for point in points], axis=0) for side in (0, 1)
        )
        values = self.cells.values[entries]
        total, divisor = (values * over).sum(axis=1), np.maximum((values * under).sum(axis=1) - less, 0)
        cells = self.cells
        moments = cells.variances[entries], cells.fourths[entries], cells.shared[entries]
        possible = of_few(total, divisor, moments, cells.draws[entries], (over, under), tail)
        least, most = (np.full(len(total), end) for end in reach)
        low, high = ratio_interval(total, divisor, possible, (least, most))
        shape = (len(points), self.rows)
        return low.reshape(shape).min(axis=0), high.reshape(shape).max(axis=0)

    def _columns(self, weights: NumberWeights, names: Iterable[str]) -> Floats:
        return np.stack([np.broadcast_to(weights.get(name, 0.0), (self.rows,)) for name in names], axis=1)


def added(*parts: NumberWeights) -> NumberWeights:
    """Return the sum of weighted sums."""
    total: dict[str, Floats | float] = {}
    for part in parts:
        for name, weight in part.items():
            total[name] = total.get(name, 0.0) + weight
    return total


def times(weights: NumberWeights, factor: Floats | float) -> NumberWeights:
    """Return a multiple of a weighted sum."""
    return {name: weight * factor for name, weight in weights.items()}


def deviations(count: str, totals: tuple[str, str], products: str, means: tuple[Floats, Floats]) -> NumberWeights:
    """Return the sum of (x - m)(y - n) in terms of the sums of 1, x, y and xy: Σxy - nΣx - mΣy + mn·N."""
    first, second = means
    return added({products: 1.0}, {totals[0]: -second}, {totals[1]: -first}, {count: first * second})
