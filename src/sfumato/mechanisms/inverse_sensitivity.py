"""Inverse sensitivity: answers that need fewer changed units to become true are more likely."""

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

    The distance of a point is the least number of units that must change for it to be the answer. The grid comes as
    stretches of equal distance: the first point of each, its width and its distance; together they are all points.
    Theorem: `release` is epsilon-DP with bounded range epsilon, for every function [AD20].
    Proof: proofs/inverse_sensitivity.md
    """

    epsilon: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_parameters(self)

    @property
    def event(self) -> BoundedRange:
        """Event of one release."""
        return BoundedRange(self.epsilon, self.neighbours)

    @property
    def rate(self) -> Fraction:
        """Factor of a distance, which moves by at most 1 between neighbours."""
        return rate_of(self.epsilon, 1, monotone=False)

    def release(self, starts: object, widths: object, distances: object, source: Source) -> int:
        """Return the chosen point."""
        first, width, distance = (
            integer_array(numbers, name)
            for numbers, name in ((starts, "starts"), (widths, "widths"), (distances, "distances"))
        )
        is_grid = (
            len(first) == len(width) == len(distance) and len(first) > 0 and (width > 0).all() and (distance >= 0).all()
        )
        if not is_grid or (first[:-1] + width[:-1] != first[1:]).any():
            raise BadParameter(
                "These stretches are not a grid.",
                "Each begins where the one before ends, has at least one point and a distance of at least 0.",
                "Cut the whole range at the values of the data.",
            )
        stretch = exponential_weighted(-distance, width, self.rate, source)
        return int(first[stretch]) + int(uniform_below(int(width[stretch]), 2 * SELECTION_WORD_BITS, source))

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
    not_above = np.concatenate(([0], np.repeat(total[1:], 2)))
    distances = np.maximum(0, np.maximum(below - (rank - 1), rank - not_above))
    nonempty = widths > 0
    return starts[nonempty].tolist(), widths[nonempty].tolist(), distances[nonempty].tolist()
