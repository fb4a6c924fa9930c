"""What is chosen in every cell, and how: each family of choices releases itself, and says how much chance it took."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from typing import Protocol

import numpy as np

from sfumato.engines.aggregates import BucketWeights, Held, KeyFrequencies, PairsByCell, no_pairs
from sfumato.mechanisms.answers import Answers
from sfumato.mechanisms.bounded_flow import BoundedFlow
from sfumato.mechanisms.matched_count import MatchedCount
from sfumato.mechanisms.meetings import Meetings
from sfumato.mechanisms.permute_and_flip import PermuteAndFlip
from sfumato.mechanisms.quantiles import Quantiles
from sfumato.planning.plan import PlannedSelection
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.entropy import entropy_bits
from sfumato.randomness.source import Source
from sfumato.release.noisy import NoisyValues

_NOTHING = np.zeros(0, dtype=np.int64)


class CellChoice(Protocol):
    """Choices in the cells of a group, one row of integers for each."""

    def release(self, held: Held | None, places: Sequence[int], source: Source) -> NoisyValues:
        """Return what was chosen in these cells by what they hold; None is nothing at all."""

    def entropy(self, numbers: Sequence[int], cells: int) -> float:
        """Return no less than the entropy, in bits, of choices that were released as these numbers."""


def cell_choice(one: PlannedSelection) -> CellChoice:
    """Return how something is chosen."""
    match one.mechanism:
        case Quantiles() as mechanism:
            return _Ranks(mechanism, one.quantity.arguments[0].facts.span)
        case PermuteAndFlip() as mechanism:
            return _Modes(mechanism, one.quantity.arguments[0].facts.span)
        case MatchedCount() as mechanism:
            return _Limits(mechanism)
        case Meetings() as mechanism:
            return _Crowds(mechanism)
        case BoundedFlow() as mechanism:
            return _Flows(mechanism)


@dataclass(frozen=True, slots=True)
class _Ranks:
    """Of each level the lower end, the answer and the upper end, as buckets."""

    mechanism: Quantiles
    span: int

    def release(self, held: Held | None, places: Sequence[int], source: Source) -> NoisyValues:
        if not isinstance(held, BucketWeights) or not len(places):
            cells = (self.mechanism.release(*_buckets(held, index), source) for index in places)
            return tuple(tuple(int(bucket) for bucket in chosen.ravel()) for chosen in cells)
        asked = np.array(places, dtype=np.int64)
        starts, ends = (np.searchsorted(held.cells, edge) for edge in (asked, asked + 1))
        at = np.repeat(starts - np.concatenate(([0], np.cumsum(ends - starts)[:-1])), ends - starts)
        at += np.arange(len(at))
        numbers = np.repeat(np.arange(len(places)), ends - starts)
        chosen = self.mechanism.release_cells(numbers, held.buckets[at], held.weights[at], len(places), source)
        return tuple(map(tuple, chosen.reshape(len(places), -1).tolist()))

    def entropy(self, numbers: Sequence[int], cells: int) -> float:
        return 3 * len(self.mechanism.levels) * log2(self.span) * cells


@dataclass(frozen=True, slots=True)
class _Modes:
    """The bucket that holds most."""

    mechanism: PermuteAndFlip
    span: int

    def release(self, held: Held | None, places: Sequence[int], source: Source) -> NoisyValues:
        return tuple((self.mechanism.release(self._scores(*_buckets(held, index)), source),) for index in places)

    def _scores(self, buckets: Answers, weights: Answers) -> Answers:
        scores = np.zeros(self.span, dtype=np.int64)
        scores[buckets] = weights
        return scores

    def entropy(self, numbers: Sequence[int], cells: int) -> float:
        return log2(self.span) * cells


@dataclass(frozen=True, slots=True)
class _Limits:
    """The place of a limit, and the noisy number of values within it."""

    mechanism: MatchedCount

    def release(self, held: Held | None, places: Sequence[int], source: Source) -> NoisyValues:
        sizes = (_buckets(held, index)[1] for index in places)
        none = np.zeros_like(self.mechanism.limits)
        return tuple(self.mechanism.release(size if len(size) else none, source) for size in sizes)

    def entropy(self, numbers: Sequence[int], cells: int) -> float:
        limits = self.mechanism.limits
        last = entropy_bits(DiscreteLaplace(self.mechanism.noise(len(limits) - 1).scale))
        return (log2(len(limits)) + last) * cells


@dataclass(frozen=True, slots=True)
class _Crowds:
    """The limit of the crowd, one for all cells, and the noisy number of meetings."""

    mechanism: Meetings

    def release(self, held: Held | None, places: Sequence[int], source: Source) -> NoisyValues:
        if isinstance(held, BucketWeights | PairsByCell):
            raise AssertionError("people meet by keys")
        return self.mechanism.release([() if held is None else held.for_cell(index) for index in places], source)

    def entropy(self, numbers: Sequence[int], cells: int) -> float:
        """Return what the noise has that they found for themselves."""
        scales = [self.mechanism.noise(crowd).scale for crowd in numbers[::2]]
        return sum(entropy_bits(DiscreteLaplace(scale)) for scale in scales)


@dataclass(frozen=True, slots=True)
class _Flows:
    """The bound on one person's share, and twice the noisy total within it."""

    mechanism: BoundedFlow

    def release(self, held: Held | None, places: Sequence[int], source: Source) -> NoisyValues:
        if held is not None and not isinstance(held, PairsByCell):
            raise AssertionError("flows are of pairs")
        if len(places) > self.mechanism.cells:
            raise AssertionError("each cell that is measured was priced")
        cells = (no_pairs() if held is None else held.for_cell(index) for index in places)
        released = (self.mechanism.release(pairs, source) for pairs in cells)
        return tuple((one.bound, one.doubled_total) for one in released)

    def entropy(self, numbers: Sequence[int], cells: int) -> float:
        """Return what the noise has that they found for themselves, and the choice of the bound."""
        noise = sum(entropy_bits(DiscreteLaplace(self.mechanism.noise(bound).scale)) for bound in numbers[::2])
        return noise + log2(len(self.mechanism.bounds)) * cells


def _buckets(held: Held | None, place: int) -> tuple[Answers, Answers]:
    """Return the buckets of one cell that hold something, and what they hold."""
    if isinstance(held, KeyFrequencies | PairsByCell):
        raise AssertionError("what is chosen among buckets holds buckets")
    return (_NOTHING, _NOTHING) if held is None else held.for_cell(place)
