"""The interval of an average: which ratios the noise of total and count leaves possible."""

import numpy as np

from sfumato.release.noise_law import Floats, Law, tail_of_two

_HALVINGS = 64


def ratio_interval(
    total: Floats, count: Floats, laws: tuple[Law, Law], reach: tuple[float, float], level: float
) -> tuple[Floats, Floats]:
    """Return the ends of { r : |T - r·N| is within the level's quantile of |Z_T - r·Z_N| }, inside the public reach.

    Theorem: for Laplace noise the true ratio of each cell lies between them with probability at least `level`,
    whatever the true total and count > 0 are: a side on which the noise leaves everything possible is the public end.
    NaN where N is not above 0.  [Fieller 1954]  Proof: proofs/intervals.md
    """

    def possible(ratio: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        weight = np.abs(ratio)
        slack = laws[0].lattice + weight * laws[1].lattice  # integers lie this far from their real twins
        distance = np.maximum(np.abs(total - ratio * count) - slack, 0)
        return tail_of_two(distance, *laws, weight) >= 1 - level

    with np.errstate(divide="ignore", invalid="ignore"):
        centre = np.where(count > 0, total / count, np.nan)
    ends = []
    for end in reach:
        # the centre is always possible; if the public end is not, exactly one border lies between them
        inside, outside = centre, np.full_like(centre, end)
        whole = possible(outside)
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            kept = possible(middle)
            inside, outside = np.where(kept, middle, inside), np.where(kept, outside, middle)
        border = np.where(whole, end, outside)
        ends.append(np.where(np.isnan(centre), np.nan, np.clip(border, *reach)))
    # the centre may lie beyond the public reach; then one end is the same as that of the reach
    beyond = (centre < reach[0], centre > reach[1])
    low = np.where(beyond[0], reach[0], ends[0])
    high = np.where(beyond[1], reach[1], ends[1])
    return low, np.maximum(low, high)
