"""Several quantiles of one column at once, each with ends that hold it: the exponential mechanism, split by split.

The middle level is chosen first, on all values; the levels below it on the values below the choice, those above it on
the values above: nobody's values are in two parts, so that a round of choices costs as much as one [KSS22]. A value
that many share is split between the parts at a fraction that is chosen with it. Afterwards each answer gets ends, at a
distance that is chosen among a few. A single level on a short range is chosen by permute-and-flip, which errs less.
"""

import itertools
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import BoundedRange, Composed, Event, Neighbours, Pure, Repeated
from sfumato.errors import BadParameter
from sfumato.exact import integer
from sfumato.mechanisms.choice import exponential_margin, rate_of
from sfumato.mechanisms.parameters import read_parameters
from sfumato.randomness.selection import (
    WORD,
    Integers,
    exponential_weighted,
    integer_array,
    permute_and_flip,
    uniform_below,
)
from sfumato.randomness.source import Source

ENDS_HOLD = Fraction(99, 100)
"""The confidence at which one answer lies between its ends, whatever the data."""

_FOR_FEW_ENDS, _FOR_MANY_ENDS = Fraction(1, 4), Fraction(2, 5)
_FEW = 4
"""Up to so many levels, rounds of choices save little, and the ends get a smaller share."""
_EXTREME = Fraction(3, 4)
"""How surely an extreme lies among the values: so many units are passed over that a choice beyond them is rarer."""
_FRACTIONS = 1 << 10
_FEWEST_PIECES, _PIECES_IN_ALL = 1 << 4, 1 << 16
_MOST = 1 << 40
_SHORT = 1 << 11
"""On a range of at most so many buckets permute-and-flip is worth its time."""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Choose a bucket for each level, and, if `ends` are asked for, two more that lie around it.

    Buckets are numbered from 0. A level p in (0, 1) asks for a bucket v with #{x < v} <= p * n <= #{x <= v}, where n
    and # are weights; level 0 for one with `passed_over` units below it, level 1 for one with so many above it.
    Theorem: if one unit adds weights of at most `weight` in all, over all cells, then `release` on any number of cells
    is epsilon-DP, as the composition of choices that `event` names. For all data each answer's ends hold a quantile of
    its level with probability at least 99/100; without `ends` they are those of the range.  [KSS22, MS20, CR21]
    Proof: proofs/quantiles.md
    """

    levels: tuple[Fraction, ...]
    buckets: int
    weight: int
    epsilon: Fraction
    neighbours: Neighbours
    ends: bool = True

    def __post_init__(self) -> None:
        read_parameters(self)
        object.__setattr__(self, "buckets", integer(self.buckets, "buckets", 1))
        object.__setattr__(self, "weight", integer(self.weight, "weight", 1))
        if self.buckets > _MOST:
            raise BadParameter(f"buckets = {self.buckets} is beyond 2^40.", "They are numbered.", "Use wider buckets.")
        levels = tuple(self.levels)
        rising = all(one < other for one, other in itertools.pairwise(levels))
        if not levels or not all(isinstance(one, Fraction) and 0 <= one <= 1 for one in levels) or not rising:
            raise BadParameter(
                "levels are not rising fractions from 0 to 1.",
                "Each is the share of values below its quantile; 0 and 1 stand for the extremes.",
                "Write for example (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)).",
            )
        object.__setattr__(self, "levels", levels)

    @property
    def event(self) -> Composed:
        """What a release costs: one choice per round on a unit's weight, and one per answer for its ends."""
        one = (Pure if self._by_flips else BoundedRange)(self._round_epsilon, self.neighbours)
        events: tuple[Event, ...] = (Repeated(one, self._rounds),)
        if self.ends:
            events += (Repeated(BoundedRange(self._ends_epsilon, self.neighbours), len(self.levels)),)
        return Composed(events)

    @property
    def passed_over(self) -> int:
        """How many units lie beyond the bucket that is looked for at levels 0 and 1."""
        steps = _margin(self._rate(self._round_epsilon, Fraction(1)), self.buckets, _EXTREME)
        return -(-steps // (self._scale * self.weight))

    def wanted(self, level: Fraction) -> int:
        """How many ranks, in steps of 1/q of a weight, the ends of an answer aim beyond its level's rank p/q."""
        return _margin(self._rate(self._ends_epsilon, level, 1), len(_distances(self.buckets - 1)), ENDS_HOLD)

    def release(self, places: object, weights: object, source: Source) -> npt.NDArray[np.int64]:
        """Return for each level the lower end, the answer and the upper end, for the values of one cell.

        `places` are buckets that hold something, rising; `weights` what they hold. No values at all are no refusal.
        """
        held = integer_array(places, "places").astype(np.int64)
        amounts = integer_array(weights, "weights").astype(np.int64)
        cell = _Cell(held, amounts, np.concatenate(([0], np.cumsum(amounts))), self.buckets)
        chosen = self._choose(cell, source)
        found = [
            self._with_ends(cell, level, chosen[level], source) if self.ends else (0, chosen[level], self.buckets - 1)
            for level in self.levels
        ]
        return np.array(found, dtype=np.int64)

    def release_cells(
        self, cells: Integers, places: Integers, weights: Integers, count: int, source: Source
    ) -> Integers:
        """Release `count` cells: `cells` says which of them each bucket belongs to, rising."""
        edges = np.searchsorted(cells, np.arange(count + 1))
        return np.array(
            [
                self.release(places[start:end], weights[start:end], source)
                for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
            ],
            dtype=np.int64,
        ).reshape(count, len(self.levels), 3)

    @property
    def _inner(self) -> tuple[Fraction, ...]:
        return tuple(level for level in self.levels if 0 < level < 1)

    @property
    def _rounds(self) -> int:
        extremes = len(self.levels) - len(self._inner)
        # levels between them part the extremes; without one both are chosen on all values
        return len(self._inner).bit_length() + (min(extremes, 1) if self._inner else extremes)

    @property
    def _for_ends(self) -> Fraction:
        if not self.ends:
            return Fraction(0)
        return _FOR_FEW_ENDS if len(self.levels) <= _FEW else _FOR_MANY_ENDS

    @property
    def _round_epsilon(self) -> Fraction:
        return self.epsilon * (1 - self._for_ends) / self._rounds

    @property
    def _ends_epsilon(self) -> Fraction:
        return self.epsilon * self._for_ends / len(self.levels)

    @property
    def _by_flips(self) -> bool:
        return len(self.levels) == 1 and self.buckets <= _SHORT

    @property
    def _pieces(self) -> int:
        """Into how many pieces a bucket is cut that may be split between two parts: more, where there are few."""
        fitting = 1 << (max(1, _PIECES_IN_ALL // self.buckets).bit_length() - 1)
        return 1 if self._scale == 1 else min(max(fitting, _FEWEST_PIECES), _FRACTIONS)

    @property
    def _scale(self) -> int:
        """A weight is so many steps of the ranks that rounds compare: parts need fractions of a weight."""
        return 1 if len(self.levels) == 1 else _FRACTIONS

    def _rate(self, epsilon: Fraction, level: Fraction, scale: int | None = None) -> Fraction:
        p, q = level.numerator, level.denominator
        moved = max(p, q - p) * self.weight * (self._scale if scale is None else scale)
        return rate_of(epsilon, moved * (1 if self.neighbours is Neighbours.ADD_REMOVE else 2), monotone=False)

    def _choose(self, cell: "_Cell", source: Source) -> dict[Fraction, int]:
        """Choose a bucket for each level, from the middle outwards, the extremes last."""
        scale, inner, last = self._scale, self._inner, self.buckets * self._scale
        found: dict[Fraction, int] = {}
        parts = [(0, len(inner), 0, last)]
        while parts:
            start, end, low, high = parts.pop()
            if start == end:
                continue
            middle = (start + end) // 2
            before = inner[start - 1] if start else Fraction(0)
            behind = inner[end] if end < len(inner) else Fraction(1)
            level = (inner[middle] - before) / (behind - before)
            found[inner[middle]] = place = self._one(cell, (low, high), level, 0, self._pieces, source)
            parts += [(start, middle, low, place), (middle + 1, end, place, high)]
        lowest, highest = (found[inner[0]], found[inner[-1]]) if inner else (last, 0)
        over = self.passed_over * self.weight * scale if len(inner) < len(self.levels) else 0
        if self.levels[0] == 0:
            found[Fraction(0)] = self._one(cell, (0, lowest), Fraction(0), over, 1, source)
        if self.levels[-1] == 1:
            found[Fraction(1)] = self._one(cell, (highest, last), Fraction(1), -over, 1, source)
        return {level: place // scale for level, place in found.items()}

    def _one(
        self, cell: "_Cell", within: tuple[int, int], level: Fraction, offset: int, pieces: int, source: Source
    ) -> int:
        """Choose a place in steps of 1/scale of a bucket, by how far its ranks within the part miss the level's."""
        starts, ends, before, upto = cell.stretches(within, self._scale, pieces)
        p, q, size = level.numerator, level.denominator, int(upto[-1])
        if q * (size + abs(offset) + 1) >= 1 << 61:
            before, upto = before.astype(object), upto.astype(object)
        wanted = p * size + q * offset
        scores = -np.maximum(0, np.maximum(q * before - wanted, wanted - q * upto))
        rate = self._rate(self._round_epsilon, level)
        if self._by_flips:  # each bucket is a candidate of its own
            return permute_and_flip(np.repeat(scores, (ends - starts).astype(np.int64)), rate, source)
        stretch = exponential_weighted(scores, ends - starts, rate, source)
        return int(starts[stretch]) + uniform_below(int(ends[stretch] - starts[stretch]), 2 * WORD, source)

    def _with_ends(self, cell: "_Cell", level: Fraction, place: int, source: Source) -> tuple[int, int, int]:
        """Choose how far the ends lie from an answer: the first distance that surely holds the quantile scores best."""
        whole = max(place if level > 0 else 0, self.buckets - 1 - place if level < 1 else 0)
        distances = _distances(whole)
        p, q, total = level.numerator, level.denominator, cell.total
        rate = self._rate(self._ends_epsilon, level, 1)
        wanted = self.wanted(level)
        slack = 2 * q * self.weight  # interpolation looks one value further than a rank, on either side
        surplus = []
        for far in distances[
            :-1
        ]:  # an end at the end of the range holds everything on its side, and so does an extreme's
            sides = []
            if level > 0 and far < place:
                sides.append(p * total - q * cell.below(place - far) - slack)
            if level < 1 and place + far < self.buckets - 1:
                sides.append(q * cell.below(place + far + 1) - p * total - slack)
            surplus.append(min(sides))
        surplus.append(wanted)
        scores = [
            -max(0, wanted - here, before - wanted)
            for here, before in zip(surplus, [wanted, *surplus[:-1]], strict=True)
        ]
        far = distances[exponential_weighted(scores, [1] * len(distances), rate, source)]
        low = 0 if level == 0 else max(0, place - far)
        return low, place, self.buckets - 1 if level == 1 else min(self.buckets - 1, place + far)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Cell:
    """The values of one cell: which buckets hold something, what, and how much lies before each."""

    places: npt.NDArray[np.int64]
    weights: npt.NDArray[np.int64]
    before: npt.NDArray[np.int64]
    buckets: int

    @property
    def total(self) -> int:
        return int(self.before[-1])

    def below(self, place: int) -> int:
        return int(self.before[np.searchsorted(self.places, place)])

    def stretches(
        self, within: tuple[int, int], scale: int, pieces: int
    ) -> tuple[Integers, Integers, Integers, Integers]:
        """Cut a part of the range at each bucket that holds something, such a bucket again into pieces.

        A bucket has `scale` steps, over which its weight is spread evenly. Return of each stretch where it starts and
        ends, and how much of the part, in 1/scale of a weight, lies before its start and before its end.
        """
        low, high = within[0], max(within[1], within[0] + 1)  # a part is never without a step
        first, last = np.searchsorted(self.places, (low // scale, (high - 1) // scale + 1))
        places, weights = self.places[first:last], self.weights[first:last]
        cuts = np.arange(0, scale + 1, scale // pieces)
        edges = np.clip((places[:, None] * scale + cuts).ravel(), low, high)
        starts = np.concatenate(([low], edges))
        ends = np.append(edges, high)
        # between edges of one bucket its weight, between buckets nothing
        inside = np.column_stack((np.repeat(weights[:, None], pieces, axis=1), np.zeros(len(places), dtype=np.int64)))
        held = np.concatenate(([0], inside.ravel())) * (ends - starts)
        if within[1] <= within[0]:
            held = np.zeros_like(held)
        upto = np.cumsum(held)
        kept = ends > starts
        return starts[kept], ends[kept], (upto - held)[kept], upto[kept]


@lru_cache(maxsize=1024)
def _margin(rate: Fraction, candidates: int, confidence: Fraction) -> int:
    return exponential_margin(rate, candidates, confidence)


@lru_cache(maxsize=1024)
def _distances(farthest: int) -> tuple[int, ...]:
    """Return 0, 1, 2, 3, 4, 6, 8, 12, … up to the first that reaches the farthest place.

    >>> _distances(0), _distances(9)
    ((0,), (0, 1, 2, 3, 4, 6, 8, 12))
    """
    found, step = [0], 1
    while found[-1] < farthest:
        found.append(step)
        if step > 1 and found[-1] < farthest:
            found.append(step + step // 2)
        step *= 2
    return tuple(found)
