"""The values of one cell by bucket: cumulative weights, and stretches of one rank."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.randomness.selection import Integers


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HeldValues:
    """Nonempty buckets with their weights and cumulative weights."""

    places: npt.NDArray[np.int64]
    weights: npt.NDArray[np.int64]
    before: npt.NDArray[np.int64]
    buckets: int

    @property
    def total(self) -> int:
        return int(self.before[-1])

    def below(self, places: Integers) -> Integers:
        """Return the total weight before each of these buckets."""
        weights_before: Integers = self.before[np.searchsorted(self.places, places)]
        return weights_before

    def stretches(
        self, within: tuple[int, int], scale: int, pieces: int
    ) -> tuple[Integers, Integers, Integers, Integers]:
        """Cut a part of the range at each nonempty bucket, and each such bucket into pieces.

        A bucket has `scale` steps, over which its weight is spread evenly. Return start and end of each stretch, and
        the weight of the part, in 1/scale of a weight, before its start and before its end.
        """
        low, high = within[0], max(within[1], within[0] + 1)  # a part has at least one step
        first, last = np.searchsorted(self.places, (low // scale, (high - 1) // scale + 1))
        places, weights = self.places[first:last], self.weights[first:last]
        cuts = np.arange(0, scale + 1, scale // pieces)
        edges = np.clip((places[:, None] * scale + cuts).ravel(), low, high)
        starts = np.concatenate(([low], edges))
        ends = np.append(edges, high)
        # between edges of one bucket its weight, between buckets nothing
        inside = np.column_stack((np.repeat(weights[:, None], pieces, axis=1), np.zeros(len(places), dtype=np.int64)))
        weight_inside = np.concatenate(([0], inside.ravel())) * (ends - starts)
        if within[1] <= within[0]:
            weight_inside = np.zeros_like(weight_inside)
        weight_until = np.cumsum(weight_inside)
        nonempty = ends > starts
        return starts[nonempty], ends[nonempty], (weight_until - weight_inside)[nonempty], weight_until[nonempty]


def held_values(places: Integers, weights: Integers, buckets: int) -> HeldValues:
    """Return the values of a cell from increasing buckets and their weights."""
    held, amounts = places.astype(np.int64), weights.astype(np.int64)
    return HeldValues(held, amounts, np.concatenate(([0], np.cumsum(amounts))), buckets)
