"""Variances and deviations: (Q - T²/N)/N, many ratios at once."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import inf

import numpy as np

from sfumato.planning.aggregates.variance import Divisor, VarianceColumn
from sfumato.release.aggregates.average import above_zero
from sfumato.release.aggregates.many_ratios import GroupSums, deviations
from sfumato.release.intervals.form_algebra import sum_of
from sfumato.release.intervals.forms import NEVER, Affine, EnclosedNumbers, Ends, Nulls, Ratio
from sfumato.release.intervals.measured_cells import MeasuredCells
from sfumato.release.intervals.noise_law import Floats, Integers

_OF_THE_MEAN = Fraction(1, 10)
"""This share of what may be missed is spent on where the mean lies, the rest on the variance at every such mean."""
_MEANS = (0.0, 0.5, 1.0)


def spread_point(made: VarianceColumn, measured: Mapping[str, Integers]) -> Floats:
    """Return a variance or deviation, clamped to what values of the public range can have; NaN where N is too small."""
    count, total, squares = (measured[name].astype(np.float64) for name in made.measured)
    divisor = rows_divided_by(made.divisor, count)
    variance = (squares - total * (total / above_zero(count))) / divisor
    most = (float((made.grid.high - made.grid.low) * made.grid.step) / 2) ** 2  # Popoviciu
    variance = np.clip(variance * float(made.grid.step) ** 2, 0, most * count / divisor)
    return np.asarray(np.sqrt(variance) if made.root else variance)


def rows_divided_by(divisor: Divisor, count: Floats) -> Floats:
    """Return the divisor of a sum of deviations; NaN where there are too few rows."""
    if divisor is Divisor.NOTHING:
        return np.where(count > 0, 1.0, np.nan)
    return above_zero(count - 1 if divisor is Divisor.OTHERS else count)


def spread_form(label: str, made: VarianceColumn, cells: MeasuredCells, rows: int) -> EnclosedNumbers:
    """Return the box that `_ends` finds."""
    under = sum_of(cells, label, {made.count: 1.0}, rows)
    return EnclosedNumbers(
        {(label, made.name): np.ones(rows, dtype=np.int64)},
        under.events,
        _ends(made, GroupSums(cells, label, rows), under, sum_of(cells, label, {made.total: 1.0}, rows)),
        too_few(under, made.divisor.fewest),
    )


def too_few(under: Affine, fewest: int) -> Callable[[Fraction], Nulls]:
    """Return where a value may be NULL, because fewer than `fewest` rows have one."""

    def nulls(tail: Fraction) -> Nulls:
        low, _ = under.ends(tail)
        return low <= fewest - 1, np.zeros(len(low), dtype=bool)

    return nulls


def widest(first: float, second: float, divisor: Divisor) -> float:
    """Return the largest covariance of values in ranges of these widths; the variance if both are the same."""
    if divisor is Divisor.NOTHING:
        return inf
    return first * second / 4 * divisor.fewest  # Popoviciu; a sample has two rows at least


def divided_by(divisor: Divisor, count: str) -> tuple[Mapping[str, float], float]:
    """Return what a sum of deviations is divided by: weights, and a number to be subtracted."""
    match divisor:
        case Divisor.ROWS:
            return {count: 1.0}, 0.0
        case Divisor.OTHERS:
            return {count: 1.0}, 1.0
        case Divisor.NOTHING:
            return {}, -1.0


def _ends(made: VarianceColumn, sums: GroupSums, under: Affine, over: Affine) -> Callable[[Fraction], Ends]:
    """Return where variances or deviations lie.

    With m the true mean (from the offset) the sum of squared deviations is exactly Q* - 2mT* + m²N*, which is linear.
    So the variance is a ratio for each m, and m lies in the interval of an average: the ends are the farthest over
    that interval. Proof: proofs/intervals.md, 5
    """
    grid, offset, step = made.grid, float(made.grid.offset), float(made.grid.step)
    rows = sums.rows
    mean = Ratio(over, under, np.full(rows, grid.low - offset), np.full(rows, grid.high - offset), (under,))
    width = float(grid.high - grid.low)
    most = widest(width, width, made.divisor)
    divisor, less = divided_by(made.divisor, made.count)

    def ends(tail: Fraction) -> Ends:
        if tail == NEVER:
            return finished(np.zeros(rows), np.full(rows, most))
        least, greatest = mean.ends(tail * _OF_THE_MEAN)
        with np.errstate(all="ignore"):
            centre = np.clip(np.where(under.centre > 0, over.centre / under.centre, 0), least, greatest)
        means = [least + share * (centre - least) for share in _MEANS] + [
            greatest + share * (centre - greatest) for share in _MEANS[:-1]
        ]
        points = [
            (deviations(made.count, (made.total, made.total), made.squares, (one, one)), divisor) for one in means
        ]
        low, high = sums.ratios(points, less, float(tail * (1 - _OF_THE_MEAN)), (0.0, most))
        near = under.near(tail)  # a count that is so near the threshold says too little about a spread
        return finished(np.where(near, 0.0, low), np.where(near, most, high))

    def finished(low: Floats, high: Floats) -> Ends:
        spread = (low * step**2, high * step**2)
        return (np.sqrt(spread[0]), np.sqrt(spread[1])) if made.root else spread

    return ends
