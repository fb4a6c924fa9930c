"""The values of one cell, by the buckets that hold them: what lies before a bucket, and stretches of one rank."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.randomness.selection import Integers


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HeldValues:
    """Which buckets hold something, what, and how much lies before each."""

    places: npt.NDArray[np.int64]
    weights: npt.NDArray[np.int64]
    before: npt.NDArray[np.int64]
    buckets: int

    @property
    def total(self) -> int:
        return int(self.before[-1])

    def below(self, places: Integers) -> Integers:
        """Return how much lies before each of these buckets."""
        found: Integers = self.before[np.searchsorted(self.places, places)]
        return found

    def stretches(
        self, within: tuple[int, int], scale: int, pieces: int
    ) -> tuple[Integers, Integers, Integers, Integers]:
        """Cut a part of the range at each bucket that holds something, such a bucket again into pieces.

        A bucket has `scale` steps, over which its weight is spread evenly. Return of each stretch where it starts and
        ends, and how much of the part, in 1/scale of a weight, lies before its start and before its end.
        """
        low, high = within[0], max(within[1], within[0] + 1)  # a part is never without a step
        first, last = np.searchsorted(self.places, (low // scale, (high - 1) // scale + 1))
        places, weights = self.places[first:last], self.weights[first:last]
        cuts = np.arange(0, scale + 1, scale // pieces)
        edges = np.clip((places[:, None] * scale + cuts).ravel(), low, high)
        starts = np.concatenate(([low], edges))
        ends = np.append(edges, high)
        # between edges of one bucket its weight, between buckets nothing
        inside = np.column_stack((np.repeat(weights[:, None], pieces, axis=1), np.zeros(len(places), dtype=np.int64)))
        held = np.concatenate(([0], inside.ravel())) * (ends - starts)
        if within[1] <= within[0]:
            held = np.zeros_like(held)
        upto = np.cumsum(held)
        kept = ends > starts
        return starts[kept], ends[kept], (upto - held)[kept], upto[kept]


def held_values(places: Integers, weights: Integers, buckets: int) -> HeldValues:
    """Return the values of a cell: rising buckets and what they hold."""
    held, amounts = places.astype(np.int64), weights.astype(np.int64)
    return HeldValues(held, amounts, np.concatenate(([0], np.cumsum(amounts))), buckets)
