"""Inverse sensitivity: an answer is the likelier, the fewer people would have to change to make it the true one."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.accounting.event import BoundedRange, Neighbours
from sfumato.errors import BadParameter
from sfumato.mechanisms.choice import exponential_margin, rate_of
from sfumato.mechanisms.parameters import read_parameters
from sfumato.randomness.selection import SELECTION_WORD_BITS, exponential_weighted, integer_array, uniform_below
from sfumato.randomness.source import Source


@dataclass(frozen=True, slots=True)
class InverseSensitivity:
    """Choose a point of a public grid with probability proportional to exp(-epsilon/2 · its distance).

    The distance of a point is the least number of people who have to change for it to be the answer. The grid comes as
    stretches of equal distance: the first point of each, its width and its distance; together they are all points.
    Theorem: `release` is epsilon-DP with bounded range epsilon, whatever the function is [AD20].
    Proof: proofs/inverse_sensitivity.md
    """

    epsilon: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_parameters(self)

    @property
    def event(self) -> BoundedRange:
        """What one release costs."""
        return BoundedRange(self.epsilon, self.neighbours)

    @property
    def rate(self) -> Fraction:
        """What a distance is multiplied by: it moves by at most 1 between neighbours."""
        return rate_of(self.epsilon, 1, monotone=False)

    def release(self, starts: object, widths: object, distances: object, source: Source) -> int:
        """Return the chosen point."""
        first, wide, far = (
            integer_array(numbers, name)
            for numbers, name in ((starts, "starts"), (widths, "widths"), (distances, "distances"))
        )
        whole = len(first) == len(wide) == len(far) and len(first) > 0 and (wide > 0).all() and (far >= 0).all()
        if not whole or (first[:-1] + wide[:-1] != first[1:]).any():
            raise BadParameter(
                "These stretches are not a grid.",
                "Each begins where the one before ends, has at least one point and a distance of at least 0.",
                "Cut the whole range at the values of the data.",
            )
        stretch = exponential_weighted(-far, wide, self.rate, source)
        return int(first[stretch]) + int(uniform_below(int(wide[stretch]), 2 * SELECTION_WORD_BITS, source))

    def margin(self, confidence: Fraction, points: int) -> int:
        """Return the smallest t such that the chosen point is at most t changes away from an answer of the least."""
        return exponential_margin(self.rate, points, confidence)


def rank_distances(values: object, rank: int, low: int, high: int) -> tuple[list[int], list[int], list[int]]:
    """Return the stretches of [low, high] for the value of a rank, where one person is replaced.

    A point is the value of that rank when fewer than `rank` values are below it and at least `rank` are not above it.

    >>> rank_distances([1, 4], 1, 0, 5)
    ([0, 1, 2, 4, 5], [1, 1, 2, 1, 1], [1, 0, 1, 1, 2])
    """
    points, counts = np.unique(np.clip(integer_array(values, "values"), low, high), return_counts=True)
    total = np.concatenate(([0], np.cumsum(counts)))
    starts = np.concatenate(([low], np.column_stack((points, points + 1)).ravel()))
    widths = np.diff(np.append(starts, high + 1))
    below = np.concatenate(([0], np.column_stack((total[:-1], total[1:])).ravel()))
    upto = np.concatenate(([0], np.repeat(total[1:], 2)))
    far = np.maximum(0, np.maximum(below - (rank - 1), rank - upto))
    kept = widths > 0
    return starts[kept].tolist(), widths[kept].tolist(), far[kept].tolist()
