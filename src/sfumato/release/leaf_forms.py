"""The aggregates of a noisy group as forms: counts and sums, averages as ratios, variances as many ratios."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from sfumato.planning.plan import Derived, GroupPlan
from sfumato.query.functions import Aggregation
from sfumato.release.estimates import DEVIATIONS, SAMPLES
from sfumato.release.form_algebra import sum_of
from sfumato.release.forms import NEVER, Affine, Boxed, Ends, Form, Nulls, Ratio
from sfumato.release.measured_cells import MeasuredCells
from sfumato.release.noise_law import Floats
from sfumato.release.ratio import of_few, ratio_interval

_OF_THE_MEAN = Fraction(1, 10)
"""This share of what may be missed is spent on where the mean lies, the rest on the variance at every such mean."""
_MEANS = (0.0, 0.5, 1.0)


def leaf_forms(group: GroupPlan, cells: MeasuredCells, rows: int) -> dict[str, Form]:
    """Return every aggregate of a group by its name, a row per cell."""
    return {derived.name: _leaf(group.group.label, derived, cells, rows) for derived in group.derived}


def _leaf(label: str, derived: Derived, cells: MeasuredCells, rows: int) -> Form:
    count, total, squares = derived.count or "", derived.total or "", derived.squares or ""
    match derived.aggregation:
        case Aggregation.COUNT:
            return sum_of(cells, label, {count: 1.0}, rows)
        case Aggregation.SUM:
            return sum_of(cells, label, {total: 1.0}, rows)
        case Aggregation.AVG:
            under, step = sum_of(cells, label, {count: 1.0}, rows), float(derived.step)
            over = sum_of(cells, label, {count: float(derived.offset) * step, total: step}, rows)
            least, most = (np.full(rows, float(end * derived.step)) for end in (derived.low, derived.high))
            return Ratio(over, under, least, most, (under,))
    under = sum_of(cells, label, {count: 1.0}, rows)
    named = (cells.starts[label, squares], cells.starts[label, total], cells.starts[label, count])
    return Boxed(
        {(label, derived.name): np.ones(rows, dtype=np.int64)},
        under.events,
        _spread_ends(derived, under, sum_of(cells, label, {total: 1.0}, rows), named),
        _too_few(under, derived.aggregation in SAMPLES),
    )


def _too_few(under: Affine, sample: bool) -> Callable[[Fraction], Nulls]:
    def nulls(tail: Fraction) -> Nulls:
        low, _ = under.ends(tail)
        return low <= (1 if sample else 0), np.zeros(len(low), dtype=bool)

    return nulls


def _spread_ends(
    derived: Derived, under: Affine, over: Affine, starts: tuple[int, int, int]
) -> Callable[[Fraction], Ends]:
    """Return where variances or deviations lie.

    With m the true mean (from the offset) the sum of squared deviations is exactly Q* - 2mT* + m²N*, which is linear.
    So the variance is a ratio for each m, and m lies in the interval of an average: the ends are the farthest over
    that interval. Proof: proofs/intervals.md, 5
    """
    cells, rows = under.cells, len(under.constant)
    offset, step = float(derived.offset), float(derived.step)
    mean = Ratio(over, under, np.full(rows, derived.low - offset), np.full(rows, derived.high - offset), (under,))
    sample = derived.aggregation in SAMPLES
    widest = (float(derived.high - derived.low) / 2) ** 2 * (2 if sample else 1)  # Popoviciu; a sample has two at least
    places = np.stack([start + np.arange(rows) for start in starts], axis=1)

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
        return (np.sqrt(spread[0]), np.sqrt(spread[1])) if derived.aggregation in DEVIATIONS else spread

    def ratios(middle: Floats, tail: float, copies: int) -> Ends:
        entries = np.tile(places, (copies, 1))
        weights = np.stack([np.ones_like(middle), -2 * middle, middle**2], axis=1)
        divisor = np.tile(np.array([0.0, 0.0, 1.0]), (len(middle), 1))
        values = cells.values[entries]
        total, count = (values * weights).sum(axis=1), np.maximum(values[:, 2] - (1 if sample else 0), 0)
        moments = cells.variances[entries], cells.fourths[entries]
        nothing = np.zeros_like(middle)
        possible = of_few(total, count, moments, (weights, divisor), tail)
        return ratio_interval(total, count, possible, (nothing, nothing + widest))

    return ends
