"""Count or sum rows that belong to two people, with a bound on each person's share that is selected privately."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from sfumato.accounting.event import Composed, Event, Neighbours, Pure, Repeated
from sfumato.errors import BadParameter, QueryTooLarge
from sfumato.exact import integer
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.parameters import read_parameters
from sfumato.mechanisms.sparse_vector import SparseVector
from sfumato.randomness.source import Source
from sfumato.sensitivity.bounded_flow import MAX_PAIRS, OwnerPairs, doubled_flow

BOUND_EPSILON_SHARE = Fraction(1, 2)
"""Share of epsilon for the selection of the bound; the rest is for the total."""
_THRESHOLD_SHARE = Fraction(2, 5)
"""Share of the selection for the noise of its threshold: near 1 : 2^(2/3), as Lyu, Su and Li advise."""
_SELECTION_CONFIDENCE = Fraction(60, 100)
"""How surely the smallest bounds are not kept by noise alone; more would lose more rows beyond the bound."""
_EVIDENCE_PER_DOUBLING = Fraction(7, 20)
"""By how many scales of the noise the evidence for a bound grows where it doubles: above ln(2) / 2, so that the
probability that noise alone keeps a bound falls faster than the root of the bound grows."""
MAX_BOUND = 1 << 30
"""The largest bound on one person's share."""


@dataclass(frozen=True, slots=True)
class FlowTotal:
    """What was released: a bound on each person's share, and the noisy total of shares within it."""

    bound: int
    doubled_total: int

    @property
    def total(self) -> Fraction:
        """The total; where both owners are of one kind, it may end in a half."""
        return Fraction(self.doubled_total, 2)


@dataclass(frozen=True, slots=True)
class BoundedFlow:
    """Release the total of rows with two owners, of which `most` is the largest share of one person that may count.

    Bounds are powers of two. From the largest one down, a bound is halved as long as that loses little; then the
    largest total within it gets noise. Each of `cells` cells has its own bound and an equal part of epsilon.
    Theorem: for all pairs, releasing the bound and the total of every cell is epsilon-DP if one person leaves with all
    rows that they own or share.  [DFYTM22]  Proof: proofs/two_owners.md

    >>> made = BoundedFlow(1000, Fraction(4, 5), Neighbours.ADD_REMOVE)
    >>> made.bounds[:2], made.bounds[-1], made.wanted(64), made.wanted(1024)
    ((1, 2), 1024, 42, 54)
    """

    most: int
    epsilon: Fraction
    neighbours: Neighbours
    cells: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "most", integer(self.most, "most", 1))
        object.__setattr__(self, "cells", integer(self.cells, "cells", 1))
        read_parameters(self)
        if self.most > MAX_BOUND:
            raise BadParameter(
                f"most = {self.most:,} is too large.",
                f"Shares of one person are bounded by {MAX_BOUND:,} at most.",
                "Give a smaller number, or measure in larger steps.",
            )

    @property
    def bounds(self) -> tuple[int, ...]:
        """The candidate bounds, rising: powers of two up to the first that is not below `most`."""
        return tuple(1 << power for power in range((self.most - 1).bit_length() + 1))

    @property
    def event(self) -> Event:
        """Event of releasing all cells: in each of them the selection, then noise of a fixed loss."""
        one = Composed((self._selection.event, Pure(self._part * (1 - BOUND_EPSILON_SHARE), self.neighbours)))
        return one if self.cells == 1 else Repeated(one, self.cells)

    @property
    def _part(self) -> Fraction:
        """What one cell costs."""
        return self.epsilon / self.cells

    def wanted(self, bound: int) -> int:
        """Return how many times this bound a halved bound has to lose, for this one to be kept."""
        doublings = bound.bit_length() - 1
        return self._selection.threshold + ceil(doublings * _EVIDENCE_PER_DOUBLING * self._selection.query_noise.scale)

    def noise(self, bound: int) -> Laplace:
        """Return the noise of the doubled total within this bound."""
        distance = 2 * bound
        return Laplace(distance, distance / (self._part * (1 - BOUND_EPSILON_SHARE)), self.neighbours)

    def release(self, pairs: OwnerPairs, source: Source) -> FlowTotal:
        """Return the selected bound and the noisy total of one cell."""
        if len(pairs.amounts) > MAX_PAIRS:
            raise QueryTooLarge(
                f"There are more than {MAX_PAIRS:,} pairs of owners.",
                "The largest flow through them would take too much memory.",
                "Choose fewer rows.",
            )
        bound, flow = self.select(lambda bound: doubled_flow(pairs, bound), source)
        (noisy,) = self.noise(bound).release(np.array([flow], dtype=np.int64), source)
        return FlowTotal(bound, int(noisy))

    def select(self, flow_at: Callable[[int], int], source: Source) -> tuple[int, int]:
        """Return the selected bound, and the flow within it, which is secret. Smaller bounds are not computed."""
        selection = self._selection
        watch = selection.start(source)
        bounds = self.bounds
        kept = flow_at(bounds[-1])
        for bound, smaller in zip(bounds[:0:-1], bounds[-2::-1], strict=True):
            halved = flow_at(smaller)
            evidence = self.lost(kept, halved, smaller) - self.wanted(bound) + selection.threshold
            (above,), watch = selection.answer(watch, [evidence], source)
            if above:
                return bound, kept
            kept = halved
        return bounds[0], kept

    def lost(self, flow: int, halved: int, smaller: int) -> int:
        """Return what a halved bound loses, in units that one person moves by 1 at most (5)."""
        return (flow - halved) // (2 * 2 * smaller)

    def missing(self, bound: int, confidence: Fraction) -> int:
        """Return an upper bound, at this confidence, of what larger bounds would add to the total.

        It is 0 where the last bound was selected, or nobody has more than `most`. Proof: proofs/two_owners.md, (7)
        """
        last = self.bounds[-1]
        if bound == last:
            return 0
        gain = (self.wanted(2 * bound) + self._selection.margin(confidence, len(self.bounds)) + 1) * 2 * bound
        return gain * (last - bound) // bound

    @property
    def _selection(self) -> SparseVector:
        share = self._part * BOUND_EPSILON_SHARE
        moved = 1 if self.neighbours is Neighbours.ADD_REMOVE else 2
        threshold, answers = share * _THRESHOLD_SHARE, share * (1 - _THRESHOLD_SHARE)
        silent = SparseVector(0, 1, moved, threshold, answers, self.neighbours)
        wanted = silent.margin(_SELECTION_CONFIDENCE, 1) + 1
        return SparseVector(wanted, 1, moved, threshold, answers, self.neighbours)
