"""Variances and deviations: (Q - T²/N)/N, many ratios at once."""

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from sfumato.planning.aggregates.spread import Spread
from sfumato.release.aggregates.averaged import above_zero
from sfumato.release.form_algebra import sum_of
from sfumato.release.forms import NEVER, Affine, Boxed, Ends, Nulls, Ratio
from sfumato.release.measured_cells import MeasuredCells, Places
from sfumato.release.noise_law import Floats, Integers
from sfumato.release.ratio import of_few, ratio_interval

_OF_THE_MEAN = Fraction(1, 10)
"""This share of what may be missed is spent on where the mean lies, the rest on the variance at every such mean."""
_MEANS = (0.0, 0.5, 1.0)


def spread_point(made: Spread, measured: Mapping[str, Integers]) -> Floats:
    """Return a variance or deviation, clamped to what values of the public range can have; NaN where N is too small."""
    count, total, squares = (measured[name].astype(np.float64) for name in made.measured)
    divisor = above_zero(count - 1 if made.sample else count)
    variance = (squares - total * (total / above_zero(count))) / divisor
    most = (float((made.grid.high - made.grid.low) * made.grid.step) / 2) ** 2  # Popoviciu
    variance = np.clip(variance * float(made.grid.step) ** 2, 0, most * count / divisor)
    return np.asarray(np.sqrt(variance) if made.root else variance)


def spread_form(label: str, made: Spread, cells: MeasuredCells, rows: int) -> Boxed:
    """Return the box that `_ends` finds."""
    under = sum_of(cells, label, {made.count: 1.0}, rows)
    parts = [cells.places(label, name, rows) for name in (made.squares, made.total, made.count)]
    return Boxed(
        {(label, made.name): np.ones(rows, dtype=np.int64)},
        under.events,
        _ends(made, under, sum_of(cells, label, {made.total: 1.0}, rows), np.stack(parts, axis=1)),
        too_few(under, 2 if made.sample else 1),
    )


def too_few(under: Affine, fewest: int) -> Callable[[Fraction], Nulls]:
    """Return where a value may be NULL, because fewer than so many rows have one."""

    def nulls(tail: Fraction) -> Nulls:
        low, _ = under.ends(tail)
        return low <= fewest - 1, np.zeros(len(low), dtype=bool)

    return nulls


def _ends(made: Spread, under: Affine, over: Affine, places: Places) -> Callable[[Fraction], Ends]:
    """Return where variances or deviations lie.

    With m the true mean (from the offset) the sum of squared deviations is exactly Q* - 2mT* + m²N*, which is linear.
    So the variance is a ratio for each m, and m lies in the interval of an average: the ends are the farthest over
    that interval. Proof: proofs/intervals.md, 5
    """
    cells, rows = under.cells, len(under.constant)
    grid, offset, step = made.grid, float(made.grid.offset), float(made.grid.step)
    mean = Ratio(over, under, np.full(rows, grid.low - offset), np.full(rows, grid.high - offset), (under,))
    widest = (float(grid.high - grid.low) / 2) ** 2 * (2 if made.sample else 1)  # Popoviciu; a sample has two at least

    def ends(tail: Fraction) -> Ends:
        if tail == NEVER:
            return finished(np.zeros(rows), np.full(rows, widest))
        least, most = mean.ends(tail * _OF_THE_MEAN)
        with np.errstate(all="ignore"):
            centre = np.clip(np.where(under.centre > 0, over.centre / under.centre, 0), least, most)
        means = [least + share * (centre - least) for share in _MEANS] + [
            most + share * (centre - most) for share in _MEANS[:-1]
        ]
        low, high = ratios(np.concatenate(means), float(tail * (1 - _OF_THE_MEAN)), len(means))
        return finished(low.reshape(len(means), rows).min(axis=0), high.reshape(len(means), rows).max(axis=0))

    def finished(low: Floats, high: Floats) -> Ends:
        spread = (low * step**2, high * step**2)
        return (np.sqrt(spread[0]), np.sqrt(spread[1])) if made.root else spread

    def ratios(middle: Floats, tail: float, copies: int) -> Ends:
        entries = np.tile(places, (copies, 1))
        weights = np.stack([np.ones_like(middle), -2 * middle, middle**2], axis=1)
        divisor = np.tile(np.array([0.0, 0.0, 1.0]), (len(middle), 1))
        values = cells.values[entries]
        total, count = (values * weights).sum(axis=1), np.maximum(values[:, 2] - (1 if made.sample else 0), 0)
        moments = cells.variances[entries], cells.fourths[entries]
        nothing = np.zeros_like(middle)
        possible = of_few(total, count, moments, (weights, divisor), tail)
        return ratio_interval(total, count, possible, (nothing, nothing + widest))

    return ends
