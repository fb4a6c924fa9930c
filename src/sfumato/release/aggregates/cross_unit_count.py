"""Rows of different people that meet: their noisy number, and how far the noise that was found for it reaches."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from sfumato.mechanisms.meetings import LIMIT_FAILURE, Meetings
from sfumato.planning.aggregates.cross_unit_count import CrossUnitCountColumn
from sfumato.planning.plan import GroupPlan
from sfumato.release.intervals.forms import EnclosedNumbers, Ends, Events
from sfumato.release.intervals.noise_law import Integers


def cross_unit_estimate(made: CrossUnitCountColumn, measured: Mapping[str, Integers]) -> Integers:
    """Return the noisy number of each cell, in whole meetings."""
    return np.asarray((measured[made.chosen].reshape(-1, 2)[:, 1] + made.times // 2) // made.times)


def cross_unit_form(made: CrossUnitCountColumn, group: GroupPlan, measured: Mapping[str, Integers]) -> EnclosedNumbers:
    """Return the box of the noise; where less may be missed than the crowd was found with, all that is possible.

    Proof: proofs/elastic_joins.md, (5)
    """
    found = measured[made.chosen].reshape(-1, 2)
    values, rows = found[:, 1].astype(np.float64) / made.times, len(found)
    mechanism = next(selection.mechanism for selection in group.chosen if selection.name == made.chosen)
    never = np.zeros(rows, dtype=bool)

    def ends(tail: Fraction) -> Ends:
        if tail <= LIMIT_FAILURE or not isinstance(mechanism, Meetings) or not rows:
            return np.zeros(rows), np.full(rows, np.inf)
        reach = float(mechanism.noise(int(found[0, 0])).margin(1 - (tail - LIMIT_FAILURE))) / made.times  # one crowd
        low = np.maximum(values - reach, 0)
        return low, np.maximum(values + reach, low)

    once: Events = {(group.group.label, made.name): np.ones(rows, dtype=np.int64)}
    return EnclosedNumbers(once, {}, ends, lambda _: (never, never))
