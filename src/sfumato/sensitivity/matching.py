"""How many values can be served if each person serves a few of those they have: a largest matching, exactly.

Theorem: one person more or less moves the number by at most the limit, whoever else has which values.
Proof: proofs/matching.md, whose numbering is used below.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


def matched_values(people: Numbers, values: Numbers, own: Numbers, limits: Sequence[int]) -> list[int]:
    """Return for each limit, which rise, how many of these values can be served, where nobody serves more than that.

    The pair at each place says that this person has this value, each pair once; both are numbered from 0 on. `own` is
    how many values each person has besides, which nobody else has: they come first, and are not counted here (3).

    >>> pairs = np.array([0, 0, 0, 1]), np.array([0, 1, 2, 2])
    >>> matched_values(*pairs, np.array([0, 1]), [1, 2, 3])
    [1, 3, 3]
    """
    found: list[int] = []
    shared, served = len(np.unique(values)), 0
    for limit in limits:
        if served < shared:  # else a higher limit serves them all, too
            served = _served(people, values, np.maximum(limit - own, 0))
        found.append(served)
    return found


def _served(people: Numbers, values: Numbers, room: Numbers) -> int:
    """Return how many values people serve within their room; whoever has room for all their values serves them all."""
    served = 0
    while len(people):
        degrees = np.bincount(people, minlength=len(room))
        free = (degrees <= room)[people]
        if not free.any():
            return served + _largest_flow(people, values, room)
        done = np.unique(values[free])
        served += len(done)
        left = ~np.isin(values, done)
        people, values = people[left], values[left]
    return served


def _largest_flow(people: Numbers, values: Numbers, room: Numbers) -> int:
    """Return the largest flow from a source over people and values to a sink; a value takes 1."""
    from scipy.sparse import csr_array  # a third of a second that most questions do not need
    from scipy.sparse.csgraph import maximum_flow

    owners, people = np.unique(people, return_inverse=True)
    wanted, values = np.unique(values, return_inverse=True)
    source, first, sink = 0, 1 + len(owners), 1 + len(owners) + len(wanted)
    starts = np.concatenate([np.zeros(len(owners)), 1 + people, first + np.arange(len(wanted))]).astype(np.int32)
    ends = np.concatenate([1 + np.arange(len(owners)), first + values, np.full(len(wanted), sink)]).astype(np.int32)
    most = np.concatenate([np.minimum(room[owners], len(wanted)), np.ones(len(people) + len(wanted))]).astype(np.int32)
    graph = csr_array((most, (starts, ends)), shape=(sink + 1, sink + 1))
    return int(maximum_flow(graph, source, sink).flow_value)
