"""Skewness and kurtosis: a central moment over a power of the variance, as samples have it.

Given the true mean and the true variance, a standardised moment is a ratio of weighted sums of the noisy integers.
Proof: proofs/intervals.md, 5
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb, inf

import numpy as np

from sfumato.planning.aggregates.moments import MomentColumn
from sfumato.release.aggregates.average import above_zero
from sfumato.release.aggregates.many_ratios import GroupSums, NumberWeights, added, times
from sfumato.release.intervals.form_algebra import sum_of
from sfumato.release.intervals.forms import NEVER, Affine, EnclosedNumbers, Ends, Nulls, Ratio
from sfumato.release.intervals.measured_cells import MeasuredCells
from sfumato.release.intervals.noise_law import Floats, Integers

_SKEWNESS_POWER = 3
_OF_EACH = Fraction(1, 20)
"""This share of what may be missed is spent on each of the count, the mean and the variance."""
_MEANS = (0.0, 0.5, 1.0)
_MIN_KURTOSIS = -6.0
"""Excess kurtosis of two pairs of equal values, the smallest possible."""


def moment_point(made: MomentColumn, measured: Mapping[str, Integers]) -> Floats:
    """Return the estimate, clamped to what that many values can have; NaN without enough rows or without spread."""
    count, *sums = (np.array([int(number) for number in measured[name]], dtype=object) for name in made.measured)
    rows = count.astype(np.float64)
    squares, highest = (_deviations(count, sums[:power]).astype(np.float64) for power in (2, made.order))
    with np.errstate(all="ignore"):
        standardised = highest / above_zero(squares) ** (made.order / 2)
        return np.where(
            rows >= made.order, np.clip(_of_sample(made, standardised, rows, rows), *_limits(made, rows, rows)), np.nan
        )


def _deviations(count: Integers, sums: Sequence[Integers]) -> Integers:
    """Return the sum of powers of deviations from the mean, times N to one power less: an exact integer."""
    power, total = len(sums), sums[0]
    parts = (comb(power, at) * each * (-total) ** (power - at) * count ** (at - 1) for at, each in enumerate(sums, 1))
    return np.asarray(sum(parts, (-total) ** power))


def _of_sample(made: MomentColumn, standardised: Floats, fewest: Floats, most: Floats, side: int = 0) -> Floats:
    """Return a moment of a sample from that of its rows; of numbers of rows in a range, the least (-1) or largest (1).

    All factors fall as the number of rows grows.
    """
    if made.order == _SKEWNESS_POWER:
        larger, smaller = (np.sqrt(rows * (rows - 1)) / (rows - 2) for rows in (fewest, most))
        return standardised * np.where(np.sign(standardised) == side, larger, smaller)
    first, second = (fewest, most) if side > 0 else (most, fewest)
    factor = (first**2 - 1) / ((first - 2) * (first - 3))
    return np.maximum(standardised, 1) * factor - 3 * (second - 1) ** 2 / ((second - 2) * (second - 3))


def _limits(made: MomentColumn, fewest: Floats, most: Floats) -> Ends:
    """Return what the moment of a sample can be, given between which numbers of rows it has [Wilkins 1944]."""
    if made.order == _SKEWNESS_POWER:
        return -np.sqrt(most), np.sqrt(most)
    return -2 * (fewest - 1) / (fewest - 3), most


def moment_form(label: str, made: MomentColumn, cells: MeasuredCells, rows: int) -> EnclosedNumbers:
    """Return the box of the ends that are farthest over all means and variances that are possible."""
    one = np.ones(rows, dtype=np.int64)
    known = _PowerSums(made, GroupSums(cells, label, rows), sum_of(cells, label, {made.count: 1.0}, rows))
    return EnclosedNumbers({(label, made.name): one}, {(label, made.name, "varies"): one}, known.ends, known.nulls)


@dataclass(frozen=True, slots=True)
class _PowerSums:
    """The sums of powers of one column, and what follows from them."""

    made: MomentColumn
    sums: GroupSums
    under: Affine

    def ends(self, tail: Fraction) -> Ends:
        """Return where the moments lie.

        With v the true variance and m the true mean, T - mN and S2 - vN are 0, S2 being the squared deviations. They
        are added with the factors at which another m or v does not matter to first order.
        """
        made, rows = self.made, self.sums.rows
        if tail == NEVER:
            return np.full(rows, -inf if made.order == _SKEWNESS_POWER else _MIN_KURTOSIS), np.full(rows, inf)
        each = tail * _OF_EACH
        fewest, most = (np.maximum(end, made.order) for end in self.under.ends(each))
        limits = _limits(made, fewest, most)
        means = self._means(each)
        variances = self._variances(means, float(each))
        known = (variances[0] > 0) & ~self.under.near(tail)
        points = [
            (self._standardised(mean, np.where(known, variance, 1.0), means[0]), {made.count: 1.0})
            for mean, variance in _around(means, variances)
        ]
        low, high = self.sums.ratios(points, 0.0, float(tail * (1 - 3 * _OF_EACH)), (-inf, inf))
        with np.errstate(invalid="ignore"):
            low, high = _of_sample(made, low, fewest, most, -1), _of_sample(made, high, fewest, most, 1)
        return (
            np.where(known, np.clip(low, *limits), limits[0]),
            np.where(known, np.clip(high, *limits), limits[1]),
        )

    def nulls(self, tail: Fraction) -> Nulls:
        """Return where a value may be NULL: of too few rows, or without spread."""
        rows = self.sums.rows
        maybe, never = np.ones(rows, dtype=bool), np.zeros(rows, dtype=bool)
        if tail == NEVER:
            return maybe, never
        each = tail * _OF_EACH
        fewest, _ = self.under.ends(each)
        lowest, _, _ = self._variances(self._means(each), float(tail * (1 - 2 * _OF_EACH)))
        return (fewest <= self.made.order - 1) | (lowest <= 0) | self.under.near(tail), never

    def _central(self, power: int, mean: Floats) -> NumberWeights:
        """Return the sum of a power of the deviations from a mean."""
        names = (self.made.count, *self.made.sums[:power])
        return {name: comb(power, at) * (-mean) ** (power - at) for at, name in enumerate(names)}

    def _standardised(self, mean: Floats, variance: Floats, centre: Floats) -> NumberWeights:
        made = self.made
        size = above_zero(self.under.centre)
        lower, own = (self.sums.value(self._central(power, centre)) / size for power in (made.order - 1, made.order))
        by_mean, by_variance = (np.nan_to_num(made.order * part) for part in (lower, own / variance / 2))
        nothing = (
            times(self._central(1, mean), -by_mean),
            times(added(self._central(2, mean), {made.count: -variance}), -by_variance),
        )
        return times(added(self._central(made.order, mean), *nothing), variance ** (-made.order / 2))

    def _means(self, tail: Fraction) -> list[Floats]:
        """Return the estimated mean from the offset, the ends of where the true one lies, and points halfway."""
        grid, rows = self.made.grid, self.sums.rows
        over = sum_of(self.sums.cells, self.sums.label, {self.made.sums[0]: 1.0}, rows)
        low, high = (np.full(rows, float(end - grid.offset)) for end in (grid.low, grid.high))
        least, most = Ratio(over, self.under, low, high, (self.under,)).ends(tail)
        with np.errstate(all="ignore"):
            centre = np.clip(np.where(self.under.centre > 0, over.centre / self.under.centre, 0), least, most)
        return [centre, *(end + share * (centre - end) for end in (least, most) for share in _MEANS[:-1])]

    def _variances(self, means: Sequence[Floats], tail: float) -> tuple[Floats, Floats, Floats]:
        """Return the least, the estimated and the largest variance, in squared steps."""
        count, grid = self.made.count, self.made.grid
        points = [(self._central(2, mean), {count: 1.0}) for mean in means]
        low, high = self.sums.ratios(points, 0.0, tail, (0.0, float(grid.high - grid.low) ** 2 / 4))
        with np.errstate(all="ignore"):
            middle = self.sums.value(points[0][0]) / above_zero(self.under.centre)
        return low, np.clip(np.nan_to_num(middle), low, high), high


def _around(means: Sequence[Floats], variances: tuple[Floats, Floats, Floats]) -> Iterator[tuple[Floats, Floats]]:
    """Give the points that are tried: one number moves at a time, because what two do together is smaller still."""
    low, middle, high = variances
    yield from ((mean, middle) for mean in means)
    yield from ((means[0], low), (means[0], high))
