"""What the true aggregates may have been: noisy measurements less noise drawn anew, as often as an error bar needs.

Let a draw of the true value of cell c be noisy(c) - z, with z from the noise's law. For a function that is linear in
the measurements, or a ratio with a denominator above 0, the middle 95 % of the draws cover the truth as often as they
should (proofs/intervals.md, 3). A draw that has no value lies beyond both ends. All cells share the same draws.
"""

from collections.abc import Mapping

import numpy as np

from sfumato.planning.plan import Derived, GroupPlan, Plan
from sfumato.query.functions import Aggregation
from sfumato.release.estimates import DEVIATIONS, as_floats, average, plain_name, rows_counted, squared_deviations
from sfumato.release.noise_law import Floats, Integers, draw_noise, even_shares

Noise = Mapping[str, Integers]
"""Each measurement of a group with its drawn noise: one row for all cells, or one per cell."""


def noise_of(plan: Plan, seed: str, draws: int) -> dict[str, Noise]:
    """Return draws of the noise of every group, by label, that all its cells share: one row per measurement."""
    shares = iter(even_shares(seed, draws, sum(len(group.measured) for group in plan.groups)))
    return {
        group.group.label: {
            measured.name: draw_noise(measured.mechanism, next(shares))[None, :] for measured in group.measured
        }
        for group in plan.groups
    }


def noise_of_cells(group: GroupPlan, cells: int, seed: str, draws: int) -> Noise:
    """Return draws of the noise of one group, independent for each of its cells."""
    return {
        measured.name: draw_noise(
            measured.mechanism, even_shares(f"{seed}/{group.group.label}/{measured.name}", draws, cells)
        )
        for measured in group.measured
    }


def drawn(derived: Derived, measured: Mapping[str, Integers], noise: Noise) -> Integers:
    """Return draws of one aggregate, a row per cell: integers for counts and sums, else floats with NaN for NULL."""
    if derived.aggregation in (Aggregation.COUNT, Aggregation.SUM):
        name = plain_name(derived)
        return np.asarray(measured[name][:, None] - noise[name])
    if derived.aggregation is Aggregation.AVG:
        names = [name for name in (derived.count, derived.total) if name is not None]
        return average(derived, {name: measured[name][:, None] - noise[name] for name in names})
    return _drawn_variance(derived, measured, noise)


def _drawn_variance(derived: Derived, measured: Mapping[str, Integers], noise: Noise) -> Floats:
    """Return draws of a variance or deviation.

    With m the true mean (from the offset), S = Q - T²/N is exactly s + A - u²/N, where s is the true sum of squared
    deviations, A = z_Q - 2 m z_T + m² z_N and u = z_T - m z_N. So s is drawn as S - A + u²/N, with the noisy mean, in
    its public range, for m: unlike a draw of Q, T and N alone this does not count the bias of T² twice.
    """
    cells = {name: values[:, None] for name, values in measured.items()}
    count, total = as_floats(cells, derived.count), as_floats(cells, derived.total)
    counted = np.where(count > 0, count, np.nan)
    middle = np.clip(total / counted, derived.low - float(derived.offset), derived.high - float(derived.offset))
    of_count, of_total = as_floats(noise, derived.count), as_floats(noise, derived.total)
    with np.errstate(over="ignore", invalid="ignore"):  # noise beyond every number: such draws lie beyond both ends
        shift = of_total - middle * of_count
        linear = as_floats(noise, derived.squares) - middle * (of_total + shift)
        deviations = squared_deviations(derived, cells) - linear + shift**2 / counted
        variance = deviations / rows_counted(derived, count - of_count) * float(derived.step) ** 2
    return np.sqrt(np.maximum(variance, 0)) if derived.aggregation in DEVIATIONS else variance


def middle_part(draws: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the ends of the middle of each row of draws, infinite where NaN, lying beyond both, reach so far in.

    >>> low, high = middle_part(np.arange(1.0, 100.0)[None, :], 0.9)
    >>> low.item(), high.item()
    (5.0, 95.0)
    """
    count = draws.shape[1]
    rank = int((1 - level) / 2 * (count + 1) * (1 + 1e-12))
    ordered = np.sort(draws, axis=1)  # NaN comes last
    missing = np.isnan(ordered).sum(axis=1)
    first = rank - 1 - missing
    last = count - missing - 1 - first
    rows = np.arange(len(draws))
    low = np.where(first < 0, -np.inf, ordered[rows, np.maximum(first, 0)])
    high = np.where(first < 0, np.inf, ordered[rows, np.minimum(last, count - 1)])
    return low, high
