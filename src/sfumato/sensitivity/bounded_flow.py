"""Totals of rows with two owners, in which no person's share is more than a bound: a maximum flow.

Theorem: one person more or less, with all rows that they own or share, moves the total by at most the bound, for all
data of the others.  Proof: proofs/two_owners.md, whose numbering is used below.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

MAX_PAIRS = 20_000_000
"""Maximum number of pairs of owners; each takes about 100 bytes while a flow is computed."""
_MAX_CAPACITY_STEPS = (1 << 31) - 1
"""Capacities have 31 bits in scipy."""


@dataclass(frozen=True, slots=True)
class OwnerPairs:
    """What two people share: each pair of owners once, with the sum of its rows, an integer of at least 0.

    Owners of different kinds are numbered apart, each kind from 0 on. Owners of one kind are numbered together; the
    order of a pair means nothing there, and both may be the same person.
    """

    first: Numbers
    second: Numbers
    amounts: Numbers
    same_kind: bool

    def __post_init__(self) -> None:
        sizes = {len(self.first), len(self.second), len(self.amounts)}
        if len(sizes) > 1 or any(
            len(array) and int(array.min()) < 0 for array in (self.first, self.second, self.amounts)
        ):
            raise AssertionError("each pair has two owners and an amount, and none is negative")

    @property
    def total(self) -> int:
        """What all pairs share."""
        return sum(map(int, self.amounts.tolist())) if _is_long(self.amounts) else int(self.amounts.sum())


def doubled_flow(pairs: OwnerPairs, bound: int) -> int:
    """Return twice the largest total in which no person's share is more than the bound; it is an integer (2, 3).

    >>> star = OwnerPairs(np.array([0, 0, 0]), np.array([1, 2, 3]), np.array([5, 5, 5]), True)
    >>> [doubled_flow(star, bound) for bound in (1, 4, 9, 20)]
    [2, 8, 18, 30]
    >>> triangle = OwnerPairs(np.array([0, 1, 2]), np.array([1, 2, 0]), np.array([1, 1, 1]), True)
    >>> doubled_flow(triangle, 1)
    3
    """
    first, second = pairs.first, pairs.second
    # (1) an amount beyond the bound is no use; one owner of both sides has it alone, as if shared with no other person
    amounts = np.minimum(pairs.amounts, bound)
    ends = (first, second + (0 if pairs.same_kind else int(first.max(initial=-1)) + 1))
    alone = (first == second) if pairs.same_kind else np.zeros(len(first), dtype=bool)
    people = 1 + max((int(end.max(initial=-1)) for end in ends), default=-1)
    shares = np.zeros(people, dtype=np.int64)
    np.add.at(shares, ends[0], amounts)
    np.add.at(shares, ends[1][~alone], amounts[~alone])
    # (4) a person who stays within the bound limits nothing
    full = shares > bound
    both = full[ends[0]] & full[ends[1]] & ~alone
    neither = ~full[ends[0]] & ~full[ends[1]]
    own = np.zeros(people, dtype=np.int64)
    one_full = ~both & ~neither
    limiting = np.where(full[ends[0]], ends[0], ends[1])[one_full]
    np.add.at(own, limiting, amounts[one_full])
    own = np.minimum(own, bound)
    room = np.where(full, bound - own, 0)
    served = 2 * (_exact_sum(amounts[neither]) + _exact_sum(own))
    return served + _doubled_among(ends[0][both], ends[1][both], amounts[both], room, pairs.same_kind)


def bounded_flows(pairs: OwnerPairs, bounds: Sequence[int]) -> list[int]:
    """Return `doubled_flow` for each of the bounds."""
    return [doubled_flow(pairs, bound) for bound in bounds]


def _doubled_among(first: Numbers, second: Numbers, amounts: Numbers, room: Numbers, same_kind: bool) -> int:
    """Return twice the largest total of pairs between people who all have more than fits."""
    able = (room[first] > 0) & (room[second] > 0) & (amounts > 0)
    first, second, amounts = first[able], second[able], amounts[able]
    if not len(first):
        return 0
    if same_kind:  # (3) the double cover: everybody stands on both sides
        return _largest_flow(
            np.concatenate([first, second]), np.concatenate([second, first]), np.concatenate([amounts, amounts]), room
        )
    return 2 * _largest_flow(first, second, amounts, room)


def _largest_flow(left: Numbers, right: Numbers, amounts: Numbers, room: Numbers) -> int:
    """Return the largest flow from a source over owners on the left and on the right to a sink."""
    from scipy.sparse import csr_array  # a third of a second that most questions do not need
    from scipy.sparse.csgraph import maximum_flow

    givers, starts = np.unique(left, return_inverse=True)
    takers, ends = np.unique(right, return_inverse=True)
    source, sink = 0, 1 + len(givers) + len(takers)
    rows = np.concatenate([np.zeros(len(givers)), 1 + starts, 1 + len(givers) + np.arange(len(takers))])
    columns = np.concatenate([1 + np.arange(len(givers)), 1 + len(givers) + ends, np.full(len(takers), sink)])
    capacities = np.concatenate([room[givers], np.minimum(amounts, room[left]), room[takers]])
    if int(capacities.max()) > _MAX_CAPACITY_STEPS:
        raise AssertionError("bounds have 31 bits")
    shape = (sink + 1, sink + 1)
    graph = csr_array((capacities.astype(np.int32), (rows.astype(np.int32), columns.astype(np.int32))), shape=shape)
    flow = maximum_flow(graph, source, sink).flow
    # what leaves the source, added up in 64 bits: the total may have more than 31
    return int(flow[[source], :].sum(dtype=np.int64))


def _exact_sum(amounts: Numbers) -> int:
    return sum(map(int, amounts.tolist())) if _is_long(amounts) else int(amounts.sum())


def _is_long(amounts: Numbers) -> bool:
    return len(amounts) > 0 and int(amounts.max()) > (1 << 62) // len(amounts)
