"""Counts and sums that were raced for: the level that wins, and what the noise leaves possible without a choice."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from sfumato.planning.aggregates.raced import Raced, RacedMean
from sfumato.planning.plan import GroupPlan
from sfumato.release.form_algebra import quotient_ends, sum_of
from sfumato.release.forms import NEVER, Affine, Boxed, Ends, Nulls
from sfumato.release.measured_cells import MeasuredCells
from sfumato.release.noise_law import Floats, Integers, moments_of, quantile_of_sum

_MISSED = 0.002
"""The race goes to a level that only noise has lifted with about this probability."""


def winners(made: Raced, group: GroupPlan, measured: Mapping[str, Integers]) -> Integers:
    """Return which level wins in every cell: the largest lower end of its sum.  Proof: proofs/race.md, 3"""
    totals = np.cumsum(np.stack([measured[name].astype(np.float64) for name in made.parts]), axis=0)
    laws = [moments_of(one.mechanism)[:2] for name in made.parts for one in group.measured if one.name == name]
    variance, fourth = np.cumsum(np.array(laws), axis=0).T
    reach = quantile_of_sum(variance, fourth, np.ones_like(variance), 2 * _MISSED / len(made.parts))
    return np.asarray(np.argmax(totals - reach[:, None], axis=0))


def raced_point(made: Raced, group: GroupPlan, measured: Mapping[str, Integers]) -> Integers:
    """Return the sum of the parts up to the winning level."""
    won = winners(made, group, measured)
    totals = np.cumsum(np.stack([measured[name] for name in made.parts]), axis=0)
    return np.asarray(totals[won, np.arange(len(won))])


def raced_form(label: str, made: Raced, cells: MeasuredCells, rows: int) -> Boxed:
    """Return the box of claim 2: no lower than any level's lower end, no higher than the last level's upper end."""
    sums = [sum_of(cells, label, dict.fromkeys(made.parts[: place + 1], 1.0), rows) for place in range(len(made.parts))]
    never = np.zeros(rows, dtype=bool)
    return Boxed(
        {(label, made.name): np.full(rows, len(sums), dtype=np.int64)},
        {},
        lambda tail: _ends(sums, tail, rows),
        lambda _tail: (never, never),
        levels=tuple(sums),
    )


def raced_mean_point(made: RacedMean, group: GroupPlan, measured: Mapping[str, Integers]) -> Floats:
    """Return the sum at its winning level over the count there, clamped; NaN where the count is not above 0."""
    won = winners(made.total, group, measured)
    counts = np.cumsum(np.stack([measured[name].astype(np.float64) for name in made.counts]), axis=0)
    count = counts[np.minimum(won, len(counts) - 1), np.arange(len(won))]
    total = raced_point(made.total, group, measured).astype(np.float64)
    mean = total / np.where(count > 0, count, np.nan) * float(made.step)
    return np.clip(mean, float(made.low * made.step), float(made.high * made.step))


def raced_mean_form(label: str, made: RacedMean, cells: MeasuredCells, rows: int) -> Boxed:
    """Return the box of the quotient: the sum's over that of all rows."""
    total = raced_form(label, made.total, cells, rows)
    under = sum_of(cells, label, dict.fromkeys(made.counts, 1.0), rows)
    least, most = (np.full(rows, float(end * made.step)) for end in (made.low, made.high))

    def ends(tail: Fraction) -> Ends:
        if tail == NEVER:
            return least, most
        low, high = quotient_ends(total.ends(tail), under.ends(tail))
        step = float(made.step)
        return np.clip(low * step, least, most), np.clip(high * step, least, most)

    def nulls(tail: Fraction) -> Nulls:
        low, _ = under.ends(tail)
        return low <= 0, np.zeros(rows, dtype=bool)

    return Boxed({**total.events, **under.events}, under.events, ends, nulls)


def _ends(sums: list[Affine], tail: Fraction, rows: int) -> Ends:
    if tail == NEVER:
        return np.zeros(rows), np.full(rows, np.inf)
    low = np.max([one.centre - one.margin(tail) for one in sums], axis=0)
    high = sums[-1].centre + sums[-1].margin(tail)
    return np.maximum(low, 0), np.maximum(high, np.maximum(low, 0))
