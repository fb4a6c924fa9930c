"""Different values that were matched to people: the noisy number, and how far the noise of its limit reaches."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from sfumato.mechanisms.matched_count import MatchedCount
from sfumato.planning.aggregates.matched import Matched
from sfumato.planning.plan import GroupPlan
from sfumato.release.bars.forms import NEVER, Boxed, Ends, Events
from sfumato.release.bars.noise_law import Integers

_FAR = 10**300


def matched_point(made: Matched, measured: Mapping[str, Integers]) -> Integers:
    """Return the noisy number of each cell."""
    return _pairs(made, measured)[:, 1]


def chosen_limits(made: Matched, measured: Mapping[str, Integers]) -> list[int]:
    """Return the limit that was chosen in each cell."""
    return [made.limits[int(place)] for place in _pairs(made, measured)[:, 0]]


def matched_form(group: GroupPlan, made: Matched, measured: Mapping[str, Integers]) -> Boxed:
    """Return the box of what is served within the chosen limits. Proof: proofs/matching.md, 5"""
    pairs = _pairs(made, measured)
    places, numbers = pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.float64)
    mechanism = mechanism_of(group, made)
    rows, never = len(pairs), np.zeros(len(pairs), dtype=bool)

    def ends(tail: Fraction) -> Ends:
        if tail == NEVER:
            return np.zeros(rows), np.full(rows, np.inf)
        margins = np.array(
            [float(min(mechanism.noise(place).margin(1 - tail), _FAR)) for place in range(len(made.limits))]
        )
        low, high = numbers - margins[places], numbers + margins[places]
        return np.maximum(low, 0), np.maximum(high, 0)

    once: Events = {(group.group.label, made.name): np.ones(rows, dtype=np.int64)}
    return Boxed(once, {}, ends, lambda _tail: (never, never))


def mechanism_of(group: GroupPlan, made: Matched) -> MatchedCount:
    """Return the mechanism that a column was made by."""
    found = next(one.mechanism for one in group.chosen if one.name == made.chosen)
    if not isinstance(found, MatchedCount):
        raise AssertionError("what is matched has a limit that was chosen")
    return found


def _pairs(made: Matched, measured: Mapping[str, Integers]) -> Integers:
    """Return the place of the limit and the noisy number, a row per cell."""
    return measured[made.chosen].reshape(-1, 2)
