"""Averages: T/N around the offset, a ratio of two noisy numbers."""

from collections.abc import Mapping

import numpy as np

from sfumato.planning.aggregates.average import AverageColumn
from sfumato.release.bounding.selection import is_completed_apart
from sfumato.release.intervals.form_algebra import sum_of
from sfumato.release.intervals.forms import Ratio
from sfumato.release.intervals.measured_cells import MeasuredCells
from sfumato.release.intervals.noise_law import Floats, Integers


def average_point(made: AverageColumn, measured: Mapping[str, Integers]) -> Floats:
    """Return offset + T/N, clamped to the public range; NaN where N is not above 0."""
    count, total = measured[made.count].astype(np.float64), measured[made.total].astype(np.float64)
    grid, step = made.grid, float(made.grid.step)
    mean = (float(grid.offset) + total / above_zero(count)) * step
    return np.clip(mean, float(grid.low * grid.step), float(grid.high * grid.step))


def average_form(label: str, made: AverageColumn, cells: MeasuredCells, rows: int) -> Ratio:
    """Return the ratio of a sum around 0 and a count."""
    grid, step = made.grid, float(made.grid.step)
    under = sum_of(cells, label, {made.count: 1.0}, rows)
    over = sum_of(cells, label, {made.count: float(grid.offset) * step, made.total: step}, rows)
    least, most = (np.full(rows, float(end * grid.step)) for end in (grid.low, grid.high))
    return Ratio(over, under, least, most, (under,), completed=is_completed_apart(made, cells.measured_of(label)))


def above_zero(count: Floats) -> Floats:
    """Return a divisor, NaN where it is not above 0."""
    return np.where(count > 0, count, np.nan)
