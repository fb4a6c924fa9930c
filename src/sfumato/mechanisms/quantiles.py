"""Several quantiles of one column at once, each with ends that hold it: the exponential mechanism, split by split.

The middle level is chosen first, on all values; the levels below it on the values below the choice, those above it on
the values above. No person's values are in two parts, so a round of choices costs as much as one [KSS22]. A value
that many share is split between the parts at a fraction that is chosen with it. Of four levels and more, noisy counts
of a few parts of the range say first where to look. Afterwards the answers get ends, at
distances that are chosen together. A single level on a short range is chosen together with its ends, and on a shorter
one by permute-and-flip, which errs less.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import BoundedRange, Composed, Event, LaplaceBounded, Neighbours, Repeated
from sfumato.caches import remembered
from sfumato.errors import BadParameter
from sfumato.exact import integer
from sfumato.mechanisms.choice import exponential_margin, negligible_reach, rate_of
from sfumato.mechanisms.coarse_counts import CoarseCounts, coarse_counts
from sfumato.mechanisms.held_values import HeldValues, held_values
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.parameters import read_parameters
from sfumato.mechanisms.quantile_cells import CellValues, SingleLevel, release_single_level
from sfumato.mechanisms.quantile_ends import EndsOf, choose_distances, common_scales, distances_to, rank_sensitivity
from sfumato.randomness.selection import (
    SELECTION_WORD_BITS,
    Integers,
    exponential_weighted,
    integer_array,
    permute_and_flip,
    uniform_below,
)
from sfumato.randomness.source import Source

ENDS_FAILURE = Fraction(1, 20)
"""The ends of a level miss with at most this probability, whatever the data,"""
_FIRST_STAGE_SHARE = Fraction(3, 4)
"""this part of it by less than one distance more."""

_ENDS_SHARE_OF_ONE, _ENDS_SHARE_OF_SEVERAL = Fraction(1, 4), Fraction(1, 5)
"""Share of epsilon for ends that are selected after the answers."""
_COUNTS_SHARE, _MIN_SEVERAL_LEVELS = Fraction(2, 5), 4
"""Share of the answers' epsilon for coarse counts, and the number of inner levels from which they are measured."""
_EXTREME_CONFIDENCE = Fraction(19, 20)
"""Confidence that an extreme lies among the values; it determines how many units are passed over."""
_MAX_UNIT_PIECES = 1 << 10
_MIN_PIECES, _MAX_TOTAL_PIECES = 1 << 4, 1 << 16
_MAX_BUCKETS = 1 << 40
_MAX_FLIPPED_CANDIDATES = 1 << 12
"""Maximum number of candidates for which permute-and-flip is used."""
_MAX_PAIRS_PER_CELL = 1 << 16
"""Maximum number of (answer, distance) pairs per cell."""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Choose a bucket for each level, and, if `ends` are asked for, two more that lie around it.

    Buckets are numbered from 0. A level p in (0, 1) asks for a bucket v with #{x < v} <= p * n <= #{x <= v}, where n
    and # are weights; level 0 for one with `passed_over` units below it, level 1 for one with as many above it.
    Theorem: if one unit adds weights of at most `weight` in all, over all cells, then `release` on any number of cells
    is epsilon-DP, as the composition of choices that `event` names. For all data the ends of an answer hold the
    quantile of its level with probability at least 1 - 1/20, and the ends m distances further out with at least
    1 - 1/(80 * m); without `ends` they are those of the range.
    [KSS22, MS20, CR21]
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
        if self.buckets > _MAX_BUCKETS:
            raise BadParameter(f"buckets = {self.buckets} is beyond 2^40.", "They are numbered.", "Use wider buckets.")
        levels = tuple(self.levels) if isinstance(self.levels, Iterable) else ()
        rising = all(isinstance(level, Fraction) for level in levels) and all(
            one < other for one, other in itertools.pairwise(levels)
        )
        if not levels or not rising or not 0 <= levels[0] <= levels[-1] <= 1:
            raise BadParameter(
                "levels are not rising fractions from 0 to 1.",
                "Each is the share of values below its quantile; 0 and 1 stand for the extremes.",
                "Write for example (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)).",
            )
        object.__setattr__(self, "levels", levels)

    @property
    def event(self) -> Composed:
        """Event of a release: one choice per round on a unit's weight, and one for ends that are chosen separately."""
        choice = (LaplaceBounded if self._uses_permute_and_flip else BoundedRange)(self._round_epsilon, self.neighbours)
        events: tuple[Event, ...] = (Repeated(choice, self._rounds),)
        if self._counts is not None:
            events = (self._counts.event, *events)
        if self._has_separate_ends:
            events += (BoundedRange(self._ends_epsilon, self.neighbours),)
        return Composed(events)

    @property
    def passed_over(self) -> int:
        """Number of units beyond the target bucket of levels 0 and 1."""
        steps = _rank_margin(self._rate(self._round_epsilon, Fraction(1)), self.buckets, _EXTREME_CONFIDENCE)
        return -(-steps // (self._scale * self.weight))

    def wanted(self, level: Fraction) -> tuple[int, ...]:
        """Return the ranks, in steps of 1/q of a weight, that ends need beyond their level's rank p/q: see `EndsOf`.

        The total weight of all choices that miss is at most the sum of these limits, times the weight of the others.
        """
        distance_count = len(distances_to(self.buckets - 1))
        if self._joint_choice:
            rate, scale, limit = self._rate(self._round_epsilon, level), 1, ENDS_FAILURE / max(1, distance_count - 1)
        else:
            scale = dict(zip(self.levels, common_scales(self.levels), strict=True))[level]
            rate, limit = self._joint_rate, ENDS_FAILURE / distance_count ** (len(self.levels) - 1)
        parts = [_FIRST_STAGE_SHARE, *((1 - _FIRST_STAGE_SHARE) / (k * (k + 1)) for k in range(1, distance_count))]
        weightless = (_negligible_reach(rate, limit * part) for part in parts)
        return tuple(-(-(reach + 1) // scale) - 1 for reach in weightless)

    def release(self, places: object, weights: object, source: Source) -> npt.NDArray[np.int64]:
        """Return for each level the lower end, the answer and the upper end, for the values of one cell.

        `places` are the nonempty buckets, increasing, and `weights` their weights. Empty data is not refused.
        """
        cell = held_values(integer_array(places, "places"), integer_array(weights, "weights"), self.buckets)
        if self._joint_choice:
            return np.array([self._answer_with_ends(cell, source)], dtype=np.int64)
        chosen = self._choose(cell, source)
        answers = [chosen[level] for level in self.levels]
        if not self.ends:
            return np.array([(0, answer, self.buckets - 1) for answer in answers], dtype=np.int64)
        ends = _ends_by_level(self)
        distances = choose_distances(cell, ends, answers, self._joint_rate, source)
        results = [
            level_ends.at(answer, distance)
            for level_ends, answer, distance in zip(ends, answers, distances, strict=True)
        ]
        return np.array(results, dtype=np.int64)

    def release_cells(
        self, cells: Integers, places: Integers, weights: Integers, count: int, source: Source
    ) -> Integers:
        """Release `count` cells: `cells` says which of them each bucket belongs to, rising."""
        edges = np.searchsorted(cells, np.arange(count + 1))
        if self._has_separate_ends and len(self.levels) == len(self._inner) == 1 and not self._uses_permute_and_flip:
            (ends,) = _ends_by_level(self)
            single = SingleLevel(ends, self._rate(self._round_epsilon, self.levels[0]), self._joint_rate)
            return release_single_level(single, CellValues(places, weights, edges), self.release, source)[:, None, :]
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
    def _ends_share(self) -> Fraction:
        if not self._has_separate_ends:
            return Fraction(0)
        return _ENDS_SHARE_OF_ONE if len(self.levels) == 1 else _ENDS_SHARE_OF_SEVERAL

    @property
    def _round_epsilon(self) -> Fraction:
        spent = self._ends_share if self._counts is None else self._ends_share + (1 - self._ends_share) * _COUNTS_SHARE
        return self.epsilon * (1 - spent) / self._rounds

    @property
    def _counts(self) -> Laplace | None:
        """The noise of the coarse counts; None for a few levels."""
        if len(self._inner) < _MIN_SEVERAL_LEVELS:
            return None
        sensitivity = self.weight * self._unit_changes
        return Laplace(
            sensitivity, sensitivity / (self.epsilon * (1 - self._ends_share) * _COUNTS_SHARE), self.neighbours
        )

    @property
    def _ends_epsilon(self) -> Fraction:
        return self.epsilon * self._ends_share

    @property
    def _has_separate_ends(self) -> bool:
        return self.ends and not self._joint_choice

    @property
    def _joint_choice(self) -> bool:
        """Whether the answer and its ends are one choice; not for extremes, which may have no bucket of score 0."""
        alone = self.ends and len(self.levels) == 1 and bool(self._inner)
        return (
            alone
            and self.buckets <= _MAX_PAIRS_PER_CELL
            and _pairs_per_level(self.levels[0], self.buckets) <= _MAX_PAIRS_PER_CELL
        )

    @property
    def _candidates(self) -> int:
        """Number of candidates for a single level: with its ends, pairs of a bucket and a distance."""
        return _pairs_per_level(self.levels[0], self.buckets) if self._joint_choice else self.buckets

    @property
    def _uses_permute_and_flip(self) -> bool:
        return len(self.levels) == 1 and self._candidates <= _MAX_FLIPPED_CANDIDATES

    @property
    def _joint_rate(self) -> Fraction:
        """Factor of the worst miss of all levels, each scaled to the same sensitivity."""
        sensitivity = rank_sensitivity(self.levels[0]) * common_scales(self.levels)[0] * self.weight
        return rate_of(self._ends_epsilon, sensitivity * self._unit_changes, monotone=False)

    @property
    def _unit_changes(self) -> int:
        return 1 if self.neighbours is Neighbours.ADD_REMOVE else 2

    @property
    def _pieces(self) -> int:
        """Number of pieces of a bucket that may be split between two parts: more, if there are few buckets."""
        fitting = 1 << (max(1, _MAX_TOTAL_PIECES // self.buckets).bit_length() - 1)
        return 1 if self._scale == 1 else min(max(fitting, _MIN_PIECES), _MAX_UNIT_PIECES)

    @property
    def _scale(self) -> int:
        """Rank steps per weight: parts need fractions of a weight."""
        return 1 if len(self.levels) == 1 else _MAX_UNIT_PIECES

    def _rate(self, epsilon: Fraction, level: Fraction) -> Fraction:
        sensitivity = rank_sensitivity(level) * self.weight * self._scale
        return rate_of(epsilon, sensitivity * self._unit_changes, monotone=False)

    def _answer_with_ends(self, cell: HeldValues, source: Source) -> tuple[int, int, int]:
        """Choose a bucket and a distance by the worse of two misses: of the bucket's rank and of its ends."""
        (level,), (ends,) = self.levels, _ends_by_level(self)
        starts, until, scores = self._scores(cell, (0, self.buckets), _SearchTarget(level, 0, 1))
        places, numbers = ends.pairs()
        misses = ends.misses(cell, np.arange(self.buckets), int(numbers.max()) + 1)
        of_ranks = np.repeat(scores, (until - starts).astype(np.int64))
        worse = np.minimum(of_ranks[places], -misses[places, numbers])
        rate = self._rate(self._round_epsilon, level)
        if self._uses_permute_and_flip:
            chosen = permute_and_flip(worse, rate, source)
        else:
            chosen = exponential_weighted(worse, np.ones(len(worse), dtype=np.int64), rate, source)
        place = int(places[chosen])
        return ends.at(place, ends.distances(place)[int(numbers[chosen])])

    def _choose(self, cell: HeldValues, source: Source) -> dict[Fraction, int]:
        """Choose a bucket for each level, from the middle outwards, the extremes last."""
        scale, inner, last = self._scale, self._inner, self.buckets * self._scale
        counts = None if self._counts is None else coarse_counts(cell, self._counts, source)
        places: dict[Fraction, int] = {}
        parts = [(0, len(inner), 0, last)]
        while parts:
            start, end, low, high = parts.pop()
            if start == end:
                continue
            middle = (start + end) // 2
            previous_level = inner[start - 1] if start else Fraction(0)
            next_level = inner[end] if end < len(inner) else Fraction(1)
            level = (inner[middle] - previous_level) / (next_level - previous_level)
            places[inner[middle]] = place = self._choose_place(
                cell, (low, high), _SearchTarget(level, 0, self._pieces, counts, inner[middle]), source
            )
            parts += [(start, middle, low, place), (middle + 1, end, place, high)]
        lowest, highest = (places[inner[0]], places[inner[-1]]) if inner else (last, 0)
        over = self.passed_over * self.weight * scale if len(inner) < len(self.levels) else 0
        if self.levels[0] == 0:
            places[Fraction(0)] = self._choose_place(cell, (0, lowest), _SearchTarget(Fraction(0), over, 1), source)
        if self.levels[-1] == 1:
            places[Fraction(1)] = self._choose_place(
                cell, (highest, last), _SearchTarget(Fraction(1), -over, 1), source
            )
        return {level: place // scale for level, place in places.items()}

    def _choose_place(self, cell: HeldValues, within: tuple[int, int], sought: "_SearchTarget", source: Source) -> int:
        """Choose a place in steps of 1/scale of a bucket, by how far its ranks within the part miss the level's."""
        starts, ends, scores = self._scores(cell, within, sought)
        rate = self._rate(self._round_epsilon, sought.level)
        if self._uses_permute_and_flip:  # each bucket is a candidate of its own
            return permute_and_flip(np.repeat(scores, (ends - starts).astype(np.int64)), rate, source)
        weights = ends - starts
        if sought.counts is not None:
            starts, ends, scores, weights = sought.counts.weigh_stretches(starts, ends, scores, sought.own, self._scale)
        stretch = exponential_weighted(scores, weights, rate, source)
        return int(starts[stretch]) + uniform_below(
            int(ends[stretch] - starts[stretch]), 2 * SELECTION_WORD_BITS, source
        )

    def _scores(
        self, cell: HeldValues, within: tuple[int, int], sought: "_SearchTarget"
    ) -> tuple[Integers, Integers, Integers]:
        """Return the stretches of equal score in a part, and their scores: minus the distance from the level's rank."""
        starts, ends, before, not_above = cell.stretches(within, self._scale, sought.pieces)
        p, q, size, offset = sought.level.numerator, sought.level.denominator, int(not_above[-1]), sought.offset
        if q * (size + abs(offset) + 1) >= 1 << 61:
            before, not_above = before.astype(object), not_above.astype(object)
        wanted_rank = p * size + q * offset
        return starts, ends, -np.maximum(0, np.maximum(q * before - wanted_rank, wanted_rank - q * not_above))


@dataclass(frozen=True, slots=True)
class _SearchTarget:
    """The search target in a part of the values: a level of that part, shifted by `offset` ranks.

    `counts` estimate the position of the requested level `own`.
    """

    level: Fraction
    offset: int
    pieces: int
    counts: CoarseCounts | None = None
    own: Fraction = Fraction(0)


def distances_further(tail: Fraction) -> int:
    """Return how many distances further out the ends miss with at most this positive probability."""
    return 0 if tail >= ENDS_FAILURE else ceil((1 - _FIRST_STAGE_SHARE) * ENDS_FAILURE / tail)


@remembered(1024)
def _rank_margin(rate: Fraction, candidates: int, confidence: Fraction) -> int:
    return exponential_margin(rate, candidates, confidence)


@remembered(4096)
def _negligible_reach(rate: Fraction, limit: Fraction) -> int:
    return negligible_reach(rate, limit)


@remembered(1024)
def _ends_by_level(mechanism: Quantiles) -> tuple[EndsOf, ...]:
    return tuple(
        EndsOf(level, mechanism.buckets, mechanism.weight, mechanism.wanted(level)) for level in mechanism.levels
    )


@remembered(1024)
def _pairs_per_level(level: Fraction, buckets: int) -> int:
    return len(EndsOf(level, buckets, 1, ()).pairs()[0])
