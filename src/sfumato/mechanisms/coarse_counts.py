"""Where values lie, roughly: noisy counts of sixteen parts of a range, measured before quantiles are chosen.

A choice among many buckets goes astray where few people are: nearly everything that is possible scores nearly alike. Of
many levels each has few people around it. So a bucket is the likelier, the nearer its level's rank seems to be.
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
"""No bucket weighs less than 1 beside it, so that nothing becomes impossible."""
_WEIGHT_DECAY_STEPS = 2
"""How many standard steps of the noise, by exp(-that), a part's ranks lie from a level's."""
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
        """Return what the buckets of each part weigh in the choice of a level."""
        wanted = float(level) * self.before[-1]
        missed = [
            max(0.0, low - wanted, wanted - high) for low, high in zip(self.before[:-1], self.before[1:], strict=True)
        ]
        return [max(1, round(_MAX_BUCKET_WEIGHT * exp(-_WEIGHT_DECAY_STEPS * miss / self.noise))) for miss in missed]

    def weighed(
        self, starts: Integers, ends: Integers, scores: Integers, level: Fraction, scale: int
    ) -> tuple[Integers, Integers, Integers, Integers]:
        """Cut stretches where parts begin; return them with their scores and how much each weighs in all."""
        edges = self.edges * scale
        cuts = edges[(starts[0] < edges) & (edges < ends[-1])]
        begin = np.union1d(starts, cuts)
        end = np.append(begin[1:], ends[-1])
        weights = self.weights(level)
        large = int(ends[-1]) >= _MAX_FAST_COUNT
        of_parts = np.array(weights, dtype=object if large else np.int64)
        steps = (end - begin).astype(of_parts.dtype)
        inside = np.searchsorted(edges, begin, side="right") - 1
        return begin, end, scores[np.searchsorted(starts, begin, side="right") - 1], steps * of_parts[inside]


def coarse_counts(cell: HeldValues, mechanism: Laplace, source: Source) -> CoarseCounts:
    """Measure the counts of one cell; a unit adds its weight to them at most, as to the cell."""
    parts = min(_BUCKET_COUNT, cell.buckets)
    edges = np.arange(parts + 1) * cell.buckets // parts
    noisy = mechanism.release(np.diff(cell.below(edges)), source)
    before = np.maximum.accumulate(np.maximum(np.cumsum(noisy.astype(np.float64)), 0.0))
    return CoarseCounts(edges, [0.0, *before.tolist()], float(mechanism.scale))
