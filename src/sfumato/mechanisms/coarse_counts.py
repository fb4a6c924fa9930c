"""Measure noisy counts of sixteen parts of a range before quantiles are chosen.

A choice among many buckets is unreliable where few units are: nearly all candidates have similar scores. With many
levels each has few units around it. So a bucket gets more weight, the nearer its estimated rank is to the level's.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import exp

import numpy as np

from sfumato.mechanisms.held_values import HeldValues
from sfumato.mechanisms.laplace import Laplace
from sfumato.randomness.selection import Integers
from sfumato.randomness.source import Source

_BUCKET_COUNT = 16
_MAX_BUCKET_WEIGHT = 1 << 20
"""Largest weight of a bucket; the smallest is 1, so that every bucket stays possible."""
_WEIGHT_DECAY_STEPS = 2
"""Factor of the exponential decay of weights, per noise scale between a part's ranks and the level's."""
_MAX_FAST_COUNT = 1 << 40


@dataclass(frozen=True, slots=True)
class CoarseCounts:
    """Noisy counts of 16 buckets that guide the search for a quantile.

    `edges` are the starts of the buckets and the end of the last one, `before` is about how much lies before each.
    """

    edges: Integers
    before: list[float]
    noise: float
    """The scale of the noise of one count."""

    def weights(self, level: Fraction) -> list[int]:
        """Return the weight of the buckets of each part in the choice of a level."""
        wanted_rank = float(level) * self.before[-1]
        misses = [
            max(0.0, low - wanted_rank, wanted_rank - high)
            for low, high in zip(self.before[:-1], self.before[1:], strict=True)
        ]
        return [max(1, round(_MAX_BUCKET_WEIGHT * exp(-_WEIGHT_DECAY_STEPS * miss / self.noise))) for miss in misses]

    def weigh_stretches(
        self, starts: Integers, ends: Integers, scores: Integers, level: Fraction, scale: int
    ) -> tuple[Integers, Integers, Integers, Integers]:
        """Cut stretches where parts begin; return them with their scores and total weights."""
        edges = self.edges * scale
        cuts = edges[(starts[0] < edges) & (edges < ends[-1])]
        cut_starts = np.union1d(starts, cuts)
        cut_ends = np.append(cut_starts[1:], ends[-1])
        weights = self.weights(level)
        large = int(ends[-1]) >= _MAX_FAST_COUNT
        part_weights = np.array(weights, dtype=object if large else np.int64)
        steps = (cut_ends - cut_starts).astype(part_weights.dtype)
        part_index = np.searchsorted(edges, cut_starts, side="right") - 1
        return (
            cut_starts,
            cut_ends,
            scores[np.searchsorted(starts, cut_starts, side="right") - 1],
            steps * part_weights[part_index],
        )


def coarse_counts(cell: HeldValues, mechanism: Laplace, source: Source) -> CoarseCounts:
    """Measure the counts of one cell; a unit adds at most its weight to all of them."""
    parts = min(_BUCKET_COUNT, cell.buckets)
    edges = np.arange(parts + 1) * cell.buckets // parts
    noisy = mechanism.release(np.diff(cell.below(edges)), source)
    before = np.maximum.accumulate(np.maximum(np.cumsum(noisy.astype(np.float64)), 0.0))
    return CoarseCounts(edges, [0.0, *before.tolist()], float(mechanism.scale))
