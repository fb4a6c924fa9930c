"""Totals of rows with two owners: the noisy number, and how far the noise of its bound reaches."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from sfumato.mechanisms.bounded_flow import BoundedFlow
from sfumato.planning.aggregates.bounded_flow import BoundedFlowColumn
from sfumato.planning.plan import GroupPlan
from sfumato.release.intervals.forms import NEVER, EnclosedNumbers, Ends, Events
from sfumato.release.intervals.noise_law import Integers


def flow_point(made: BoundedFlowColumn, measured: Mapping[str, Integers]) -> Integers:
    """Return the noisy total of each cell, in whole steps."""
    return np.asarray((_released(made, measured)[:, 1] + 1) // 2)


def flow_form(group: GroupPlan, made: BoundedFlowColumn, measured: Mapping[str, Integers]) -> EnclosedNumbers:
    """Return the box of the totals within the selected bounds. It excludes amounts beyond a bound.

    Proof: proofs/two_owners.md, (12)
    """
    found, mechanism = _released(made, measured), flow_mechanism_of(group, made)
    rows, never = len(found), np.zeros(len(found), dtype=bool)
    values = found[:, 1].astype(np.float64) / 2

    def ends(tail: Fraction) -> Ends:
        if tail == NEVER:
            return np.zeros(rows), np.full(rows, np.inf)
        margins = {bound: mechanism.noise(bound).margin(1 - tail) / 2 for bound in {int(one) for one in found[:, 0]}}
        reach = np.array([margins[int(bound)] for bound in found[:, 0]])
        # a total of shares may end in a half, and is shown in whole steps
        low = np.maximum(np.floor(values - reach), 0)
        return low, np.maximum(np.ceil(values + reach), low)

    once: Events = {(group.group.label, made.name): np.ones(rows, dtype=np.int64)}
    return EnclosedNumbers(once, {}, ends, lambda _tail: (never, never))


def selected_bounds(made: BoundedFlowColumn, measured: Mapping[str, Integers]) -> list[int]:
    """Return the bound on one person's share that was selected in each cell, in steps."""
    return [int(bound) for bound in _released(made, measured)[:, 0]]


def has_flow(group: GroupPlan) -> bool:
    """Whether a group totals rows with two owners."""
    return any(isinstance(selection.mechanism, BoundedFlow) for selection in group.chosen)


def flow_mechanism_of(group: GroupPlan, made: BoundedFlowColumn) -> BoundedFlow:
    """Return the mechanism that a column was made by."""
    found = next(selection.mechanism for selection in group.chosen if selection.name == made.chosen)
    if not isinstance(found, BoundedFlow):
        raise AssertionError("a total of rows with two owners has a bound that was selected")
    return found


def _released(made: BoundedFlowColumn, measured: Mapping[str, Integers]) -> Integers:
    """Return the bound and twice the noisy total, a row per cell."""
    return measured[made.chosen].reshape(-1, 2)
