"""Smooth sensitivity: local sensitivity at every distance from the data, discounted by the distance.

The local sensitivity of the data itself may reveal a unit. Its largest value at every distance,
discounted by the distance, changes by a bounded factor between neighbours. Proof: proofs/smooth_sensitivity.md
"""

from collections.abc import Callable
from fractions import Fraction

from sfumato.errors import BadParameter
from sfumato.exact import integer, rational

AtDistance = Callable[[int], int]
"""The largest local sensitivity within the given distance; it never decreases."""


def smooth(at_distance: AtDistance, decay: Fraction, most: int) -> Fraction:
    """Return the largest decay^k · at_distance(k), exactly; `most` is the global sensitivity, which ends the search.

    Theorem: neighbours' values differ by a factor of at most 1/decay, and none is below the local sensitivity.
    Proof: proofs/smooth_sensitivity.md, (1)

    >>> smooth(lambda distance: min(1 + 4 * distance, 100), Fraction(1, 2), 100)
    Fraction(5, 2)
    """
    ratio, limit = rational(decay, "decay"), integer(most, "most", 0)
    if not 0 < ratio < 1:
        raise BadParameter(
            f"decay = {ratio} is not between 0 and 1.",
            "It is what one change of one person weighs.",
            "Use the decay of the mechanism that adds the noise.",
        )
    best, weight, distance = Fraction(0), Fraction(1), 0
    while weight * limit > best:  # at_distance never exceeds `most`
        best = max(best, weight * at_distance(distance))
        weight *= ratio
        distance += 1
    return best


def distance_beyond(at_distance: AtDistance, bound: int, most: int) -> int | None:
    """Return how many changes lead to data whose local sensitivity is above `bound`; None if no data is such.

    `most` is a number of changes that leads to any data. The result moves by at most 1 between neighbours.
    """
    if at_distance(most) <= bound:
        return None
    below, above = -1, most
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if at_distance(middle) > bound else (middle, above)
    return above
