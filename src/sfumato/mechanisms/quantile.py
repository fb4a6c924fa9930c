"""Quantiles of bounded integers, chosen on a public grid by the exponential mechanism."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import BoundedRange, Neighbours, Repeated
from sfumato.errors import BadParameter
from sfumato.exact import decimal_rational, integer, probability
from sfumato.mechanisms.choice import exponential_margin, rate_of
from sfumato.mechanisms.parameters import read_parameters
from sfumato.randomness.selection import (
    SELECTION_WORD_BITS,
    Integers,
    exponential_weighted,
    integer_array,
    uniform_below,
)
from sfumato.randomness.source import Source

_MAX_ABSOLUTE_BOUND = (1 << 62) - 1


@dataclass(frozen=True, slots=True)
class Quantile:
    """Choose a grid point for each level, by how many ranks it misses the level's rank.

    The grid is every integer from `low` to `high`; values outside are clipped to it. For the level p/q the score of a
    point v is -max(0, q * #{x < v} - p * n, p * n - q * #{x <= v}): zero if v is a p/q-quantile, and else -q times the
    number of ranks by which it misses.
    Theorem: if one privacy unit owns at most `rows_per_unit` values, its score moves by at most rows_per_unit *
    max(p, q - p) under add-remove and rows_per_unit * q under replace, so that each level is epsilon-DP with bounded
    range epsilon. `epsilon` is the price of one level. Proof: proofs/quantile.md
    """

    levels: tuple[Fraction, ...]
    low: int
    high: int
    rows_per_unit: int
    epsilon: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_parameters(self)
        object.__setattr__(self, "levels", _read_levels(self.levels))
        object.__setattr__(self, "low", integer(self.low, "low", -_MAX_ABSOLUTE_BOUND))
        object.__setattr__(self, "high", integer(self.high, "high", self.low))
        if self.high > _MAX_ABSOLUTE_BOUND:
            raise BadParameter(
                f"high = {self.high} is beyond 2^62.", "The grid is held in 64 bits.", "Use a coarser grid."
            )

    @property
    def event(self) -> BoundedRange | Repeated:
        choice = BoundedRange(self.epsilon, self.neighbours)
        return choice if len(self.levels) == 1 else Repeated(choice, len(self.levels))

    def sensitivity(self, level: Fraction) -> int:
        """Return the sensitivity of the score of any point, for this level."""
        below, above = level.numerator, level.denominator - level.numerator
        return self.rows_per_unit * (
            max(below, above) if self.neighbours is Neighbours.ADD_REMOVE else level.denominator
        )

    def release(self, values: object, source: Source) -> npt.NDArray[np.int64]:
        """Return one noisy quantile for each level, in the order of the levels; empty data is not refused."""
        points, counts = np.unique(self._clip_values(integer_array(values, "values")), return_counts=True)
        starts, widths, before, not_above = self._stretches(points, counts)
        chosen = np.empty(len(self.levels), dtype=np.int64)
        for index, level in enumerate(self.levels):
            scores = _rank_scores(before, not_above, level)
            stretch = exponential_weighted(scores, widths, self._rate(level), source)
            # the same bits whichever stretch it is: a grid has fewer than 2^63 points, so more are drawn once in 2^65
            chosen[index] = int(starts[stretch]) + uniform_below(int(widths[stretch]), 2 * SELECTION_WORD_BITS, source)
        return chosen

    def margin(self, confidence: Fraction) -> Fraction:
        """Return t such that, all at once with that confidence, each answer misses its rank by at most t ranks."""
        level_confidence = 1 - (1 - probability(confidence, "confidence")) / len(self.levels)
        return max(
            Fraction(exponential_margin(self._rate(level), self.candidates, level_confidence), level.denominator)
            for level in self.levels
        )

    @property
    def candidates(self) -> int:
        return self.high - self.low + 1

    def _rate(self, level: Fraction) -> Fraction:
        return rate_of(self.epsilon, self.sensitivity(level), monotone=False)

    def _clip_values(self, values: Integers) -> npt.NDArray[np.int64]:
        if values.dtype == object:
            return np.array([min(max(value, self.low), self.high) for value in values], dtype=np.int64)
        if values.dtype == np.uint64:  # brought below 2^62 before it is read as signed
            values = np.minimum(values, np.uint64(_MAX_ABSOLUTE_BOUND)).astype(np.int64)
        return np.clip(values, self.low, self.high)

    def _stretches(
        self, points: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
    ) -> tuple[Integers, Integers, Integers, Integers]:
        """Cut the grid at each value and behind it: start, width, #{x < v} and #{x <= v} of each stretch."""
        total = np.concatenate(([0], np.cumsum(counts)))
        starts = np.concatenate(([self.low], np.column_stack((points, points + 1)).ravel()))
        widths = np.diff(np.append(starts, self.high + 1))
        before = np.concatenate(([0], np.column_stack((total[:-1], total[1:])).ravel()))
        not_above = np.concatenate(([0], np.repeat(total[1:], 2)))
        nonempty = widths > 0
        return starts[nonempty], widths[nonempty], before[nonempty], not_above[nonempty]


def _rank_scores(before: Integers, not_above: Integers, level: Fraction) -> Integers:
    p, q, size = level.numerator, level.denominator, int(not_above[-1])
    if q * (size + 1) >= 1 << 62:  # no values at all must not make a long q meet 64 bits
        before, not_above = before.astype(object), not_above.astype(object)
    scores: Integers = -np.maximum(0, np.maximum(q * before - p * size, p * size - q * not_above))
    return scores


def _read_levels(levels: object) -> tuple[Fraction, ...]:
    if not isinstance(levels, tuple | list) or not levels:
        raise BadParameter(
            f"levels = {levels!r} is not a tuple of levels.",
            "Each level is released separately.",
            "Write for example (Fraction(1, 2),) for the median.",
        )
    read_levels = tuple(decimal_rational(level, "level") for level in levels)
    for level in read_levels:
        if not 0 < level < 1:
            raise BadParameter(
                f"level = {level} is not between 0 and 1.",
                "It is the share of values below the quantile; for 0 and 1 any point outside the data would do.",
                "Write for example 1/2 for the median, 99/100 for a value near the largest.",
            )
    return read_levels
