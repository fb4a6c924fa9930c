"""Count or sum rows that belong to two people, with a bound on each person's share that is selected privately."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

import numpy as np

from sfumato.accounting.event import Composed, Event, Neighbours, Pure, Repeated
from sfumato.errors import BadParameter, QueryTooLarge
from sfumato.exact import integer
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.parameters import read_parameters
from sfumato.mechanisms.permute_and_flip import PermuteAndFlip
from sfumato.randomness.source import Source
from sfumato.sensitivity.bounded_flow import MAX_PAIRS, OwnerPairs, doubled_flow

BOUND_EPSILON_SHARE = Fraction(1, 2)
"""Share of epsilon for the selection of the bound; the rest is for the total."""
_SCORE_STEPS = 64
"""Steps of a score for each unit that one person can move it by: scores are integers."""
_EVIDENCE_SCALES = Fraction(1)
"""How many scales of the selection's noise a bound has to gain, in units of the bound, to be worth its noise."""
_EVIDENCE_PER_DOUBLING = Fraction(7, 4)
"""By how many scales of the noise a score falls where the bound doubles: above ln(2), so that the probability that
noise alone takes a bound falls faster than the noise of the total grows."""
_MAX_SCORE_LOSS_SCALES = 16
"""By how many scales of the noise the least score is below that of any bound that may be right."""
MAX_BOUND = 1 << 30
"""The largest bound on one person's share."""


@dataclass(frozen=True, slots=True)
class FlowTotal:
    """A release: a bound on each person's share, and the noisy total of shares within it."""

    bound: int
    doubled_total: int

    @property
    def total(self) -> Fraction:
        """The total; where both owners are of one kind, it may end in a half."""
        return Fraction(self.doubled_total, 2)


@dataclass(frozen=True, slots=True)
class BoundedFlow:
    """Release the total of rows with two owners, of which `most` is the largest share of one person that may count.

    Bounds are powers of two. Each is compared with every other: by what it gains and by its noise, in units of the
    larger of both. One is selected by permute-and-flip; then the largest total within it gets noise. Each of `cells`
    cells has its own bound and an equal part of epsilon.
    Theorem: for all pairs, releasing the bound and the total of every cell is epsilon-DP if one person leaves with all
    rows that they own or share.  [DFYTM22]  Proof: proofs/two_owners.md

    >>> made = BoundedFlow(4, Fraction(4), Neighbours.ADD_REMOVE)
    >>> made.bounds, made.scores([200, 390, 400])
    ((1, 2, 4), [-1248, -160, -224])
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
        shares = (BOUND_EPSILON_SHARE, 1 - BOUND_EPSILON_SHARE)
        one = Composed(tuple(Pure(self._part * share, self.neighbours) for share in shares))
        return one if self.cells == 1 else Repeated(one, self.cells)

    @property
    def _part(self) -> Fraction:
        """The epsilon of one cell."""
        return self.epsilon / self.cells

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
        """Return the selected bound, and the flow within it, which is secret. Smaller flows may not be computed."""
        flows = dict[int, int]()
        for bound in reversed(self.bounds):
            flows[bound] = flow_at(bound)
            if self._decides(flows, bound):
                break
        place = self._selection.release(self.scores([flows[bound] for bound in sorted(flows)]), source)
        bound = self.bounds[place]
        return bound, flows[bound] if bound in flows else flow_at(bound)

    def scores(self, flows: Sequence[int]) -> list[int]:
        """Return the score of every bound by the doubled flows within them, in steps.

        One person moves each by `_SCORE_STEPS` at most, a replacement by twice that (5). `flows` may leave out the
        smallest bounds once the others decide (6): these score least.
        """
        cost, least, known = 2 * self._cost_per_bound, -self._reach, self.bounds[len(self.bounds) - len(flows) :]
        worth = [flow - cost * bound for flow, bound in zip(flows, known, strict=True)]
        found = [least] * (len(self.bounds) - len(flows))
        for bound, mine in zip(known, worth, strict=True):
            compared = [(mine - theirs) / (2 * max(bound, other)) for other, theirs in zip(known, worth, strict=True)]
            found.append(max(least, floor(_SCORE_STEPS * min(compared))))
        return [score - self._handicap(bound) for score, bound in zip(found, self.bounds, strict=True)]

    def _decides(self, flows: Mapping[int, int], lowest: int) -> bool:
        """Whether every bound below the lowest has the least score there is, whatever its flow (6)."""
        far = 2 * (Fraction(self._reach, _SCORE_STEPS) + self._cost_per_bound)
        return any(flow - flows[lowest] >= far * bound for bound, flow in flows.items())

    def missing(self, bound: int, confidence: Fraction) -> int:
        """Return an upper bound, at this confidence, of what larger bounds would add to the total.

        It is 0 where the last bound was selected, or no person has more than `most`. Proof: proofs/two_owners.md, (7)
        """
        last = self.bounds[-1]
        if bound == last:
            return 0
        margin = self._selection.margin(confidence, len(self.bounds))
        if margin * self._selection.rate >= _MAX_SCORE_LOSS_SCALES:
            raise BadParameter(
                "This confidence is too close to 1.",
                "A bound may be selected with a smaller probability whatever larger bounds would add.",
                "Give at most 0.99999.",
            )
        behind = margin + self._handicap(last) - self._handicap(bound)
        return ceil(self._cost_per_bound * (last - bound) + Fraction(behind * last, _SCORE_STEPS))

    @property
    def _selection(self) -> PermuteAndFlip:
        moved = 1 if self.neighbours is Neighbours.ADD_REMOVE else 2
        return PermuteAndFlip(moved * _SCORE_STEPS, self._part * BOUND_EPSILON_SHARE, self.neighbours)

    @property
    def _cost_per_bound(self) -> Fraction:
        """The cost of a bound by its noise, for each unit of it."""
        return _EVIDENCE_SCALES / (self._selection.rate * _SCORE_STEPS)

    @property
    def _reach(self) -> int:
        """How many steps below the best a score falls at most: such a bound is taken once in ten million times."""
        return self._handicap(self.bounds[-1]) + ceil(_MAX_SCORE_LOSS_SCALES / self._selection.rate)

    def _handicap(self, bound: int) -> int:
        """Return by how many steps the score of a bound is lowered, whatever the data are."""
        return ceil((bound.bit_length() - 1) * _EVIDENCE_PER_DOUBLING / self._selection.rate)
