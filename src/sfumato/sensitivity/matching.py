"""Compute exact maximum matchings of values and units, with a limited number of values per unit.

Theorem: one unit more or less moves the number by at most the limit, for all data of the others.
Proof: proofs/matching.md, whose numbering is used below.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


def matched_values(people: Numbers, values: Numbers, own: Numbers, limits: Sequence[int]) -> list[int]:
    """Return for each of the increasing limits how many values can be served if no unit serves more than that.

    The pair at each place says that this person has this value, each pair once; both are numbered from 0 on. `own` is
    the number of further values that only this unit has: they are served first, and not counted here (3).

    >>> pairs = np.array([0, 0, 0, 1]), np.array([0, 1, 2, 2])
    >>> matched_values(*pairs, np.array([0, 1]), [1, 2, 3])
    [1, 3, 3]
    """
    shared = int(np.count_nonzero(np.bincount(values)))
    few = _first_owners(people, values)
    served = _matched_by_greedy(people[few], values[few], np.maximum(limits[0] - own, 0))
    if served == shared:  # within every limit, no matter who else has them
        return [shared] * len(limits)
    found: list[int] = []
    for limit in limits:
        if served < shared:  # else a higher limit serves them all, too
            served = _matched_by_greedy(people, values, np.maximum(limit - own, 0))
        found.append(served)
    return found


def renumber(ids: Numbers) -> tuple[Numbers, int]:
    """Return numbers from 0 on in place of ids above 0, and how many there are.

    >>> renumber(np.array([7, 3, 7]))
    (array([1, 0, 1]), 2)
    """
    if not len(ids) or int(ids.max()) > _MAX_ID_RATIO * len(ids):
        found, places = np.unique(ids, return_inverse=True)
        return places.astype(np.int64), len(found)
    there = np.zeros(int(ids.max()) + 1, dtype=bool)  # no sorting, as long as most numbers occur
    there[ids] = True
    return (np.cumsum(there) - 1)[ids], int(np.count_nonzero(there))


_FIRST_OWNERS = 4
"""Number of units of each value that are tried first, those with few values before others; nearly always enough."""
_MAX_ID_RATIO = 4


def _first_owners(people: Numbers, values: Numbers) -> Numbers:
    """Return the places of some owners of each value."""
    if not len(people):
        return np.zeros(0, dtype=np.int64)
    theirs = np.bincount(people)[people]
    order = np.lexsort((theirs, values))
    ordered = values[order]
    begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    nth = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
    return order[nth < _FIRST_OWNERS]


def _matched_by_greedy(people: Numbers, values: Numbers, room: Numbers) -> int:
    """Return how many values are served greedily: a unit with enough capacity serves all its values."""
    served = 0
    while len(people):
        degrees = np.bincount(people, minlength=len(room))
        free = (degrees <= room)[people]
        if not free.any():
            return served + _largest_flow(people, values, room)
        done = np.zeros(int(values.max()) + 1, dtype=bool)
        done[values[free]] = True
        served += int(np.count_nonzero(done))
        left = ~done[values]
        people, values = people[left], values[left]
    return served


def _largest_flow(people: Numbers, values: Numbers, room: Numbers) -> int:
    """Return the largest flow from a source over people and values to a sink; a value takes 1."""
    from scipy.sparse import csr_array  # a third of a second that most questions do not need
    from scipy.sparse.csgraph import maximum_bipartite_matching, maximum_flow

    able = room[people] > 0
    people, values = people[able], values[able]
    owners, count = renumber(people)
    wanted, different = renumber(values)
    most = np.zeros(count, dtype=np.int64)
    most[owners] = np.minimum(room[people], different)
    if not len(most) or int(most.max()) == 1:  # a plain matching is found several times faster
        pairs = csr_array((np.ones(len(owners), dtype=np.int8), (wanted, owners)), shape=(different, count))
        return int(np.count_nonzero(maximum_bipartite_matching(pairs, perm_type="column") >= 0)) if len(most) else 0
    source, first, sink = 0, 1 + count, 1 + count + different
    starts = np.concatenate([np.zeros(count), 1 + owners, first + np.arange(different)]).astype(np.int32)
    ends = np.concatenate([1 + np.arange(count), first + wanted, np.full(different, sink)]).astype(np.int32)
    rooms = np.concatenate([most, np.ones(len(owners) + different)]).astype(np.int32)
    graph = csr_array((rooms, (starts, ends)), shape=(sink + 1, sink + 1))
    return int(maximum_flow(graph, source, sink).flow_value)
