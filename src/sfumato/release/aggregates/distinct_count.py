"""Different values that were matched to people: the noisy number, and how far the noise of its limit reaches."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from sfumato.mechanisms.matched_count import MatchedCount
from sfumato.planning.aggregates.distinct_count import DistinctCountColumn
from sfumato.planning.plan import GroupPlan
from sfumato.release.intervals.forms import NEVER, EnclosedNumbers, Ends, Events
from sfumato.release.intervals.noise_law import Integers

_MAX_FLOAT_VALUE = 10**300
_OF_THE_CHOICE = Fraction(1, 5)
"""This share of what may be missed is spent on what the choice of a limit says, the rest on the noise."""


def matched_point(made: DistinctCountColumn, measured: Mapping[str, Integers]) -> Integers:
    """Return the noisy number of each cell, brought to what is possible: from 0 to the number of public keys."""
    most = made.values
    numbers = (max(0, int(number)) for number in _pairs(made, measured)[:, 1])
    return np.array([number if most is None else min(number, most) for number in numbers], dtype=object)


def chosen_limits(made: DistinctCountColumn, measured: Mapping[str, Integers]) -> list[int]:
    """Return the limit that was chosen in each cell."""
    return [made.limits[int(place)] for place in _pairs(made, measured)[:, 0]]


def matched_form(group: GroupPlan, made: DistinctCountColumn, measured: Mapping[str, Integers]) -> EnclosedNumbers:
    """Return the box of the true numbers: what is served lies below them, and the choice of the limit says how far.

    Proof: proofs/matching.md, 6
    """
    pairs = _pairs(made, measured)
    places, numbers = pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.float64)
    mechanism = mechanism_of(group, made)
    rows, never = len(pairs), np.zeros(len(pairs), dtype=bool)
    most = np.inf if made.values is None else float(made.values)

    def ends(tail: Fraction) -> Ends:
        if tail == NEVER:
            return np.zeros(rows), np.full(rows, most)
        below, above = _reaches(mechanism, tail)
        low, high = numbers - below[places], numbers + above[places]
        return np.clip(low, 0, most), np.clip(high, 0, most)

    once: Events = {(group.group.label, made.name): np.ones(rows, dtype=np.int64)}
    return EnclosedNumbers(once, {}, ends, lambda _tail: (never, never))


def _reaches(mechanism: MatchedCount, tail: Fraction) -> Ends:
    """Return for each limit how far below and above a noisy number the true one lies, but for the tail."""
    several = range(len(mechanism.limits))
    chosen = tail * _OF_THE_CHOICE if len(several) > 1 else NEVER
    below = [mechanism.noise(place).margin(1 - tail + chosen) for place in several]
    above = [reach + mechanism.unserved(index, 1 - chosen) if chosen else reach for index, reach in enumerate(below)]
    one, other = (np.array([float(min(end, _MAX_FLOAT_VALUE)) for end in ends]) for ends in (below, above))
    return one, other


def mechanism_of(group: GroupPlan, made: DistinctCountColumn) -> MatchedCount:
    """Return the mechanism that a column was made by."""
    found = next(selection.mechanism for selection in group.chosen if selection.name == made.chosen)
    if not isinstance(found, MatchedCount):
        raise AssertionError("what is matched has a limit that was chosen")
    return found


def _pairs(made: DistinctCountColumn, measured: Mapping[str, Integers]) -> Integers:
    """Return the place of the limit and the noisy number, a row per cell."""
    return measured[made.chosen].reshape(-1, 2)
