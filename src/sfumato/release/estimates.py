"""From noisy measurements to the columns that were asked for: counts, sums, averages, variances.

A count is its measurement and a sum its steps: both may lie outside what is possible (a count below 0), because only
unclamped values are right on average. An average is NULL where the noisy count is not above 0 and is clamped to the
public range; a variance is NULL where the count (less one, for a sample) is not above 0, and is clamped to what values
of that range can have. Clamping is post-processing: it costs nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.planning.plan import Derived, GroupPlan, Plan
from sfumato.query.functions import Aggregation
from sfumato.release.decode import EngineValue
from sfumato.release.noise_law import Floats, Integers
from sfumato.release.noisy import Noisy, NoisyGroup

DEVIATIONS = frozenset({Aggregation.STDDEV_SAMP, Aggregation.STDDEV_POP})
SAMPLES = frozenset({Aggregation.VAR_SAMP, Aggregation.STDDEV_SAMP})

Columns = Mapping[str, Sequence[EngineValue]]


@dataclass(frozen=True, slots=True)
class PossibleRange:
    """What an average or variance can be, in its own unit."""

    low: float
    high: float


def estimates(plan: Plan, noisy: Noisy) -> dict[str, Columns]:
    """Return the noisy tables by their groups' labels: every key, then every aggregate, as an engine keeps them."""
    return {group.group.label: estimated(group, table) for group, table in zip(plan.groups, noisy.groups, strict=True)}


def estimated(group: GroupPlan, noisy: NoisyGroup) -> dict[str, list[EngineValue]]:
    """Return the table of one group."""
    table: dict[str, list[EngineValue]] = {
        key.name: [cells[place] for cells in noisy.keys] for place, key in enumerate(group.group.keys)
    }
    measured = {name: integers(values) for name, values in noisy.columns}
    for derived in group.derived:
        column = point(derived, measured)
        table[derived.name] = nulled(column) if column.dtype == np.float64 else [int(value) for value in column]
    return table


def integers(values: Sequence[int]) -> Integers:
    """Return integers as an array: int64 if they and their noise surely fit, else Python integers."""
    largest = max(map(abs, values), default=0)
    return np.array(values, dtype=np.int64 if largest < 1 << 61 else object)


def nulled(column: Floats) -> list[EngineValue]:
    """Return floats with None where they are NaN."""
    return [None if np.isnan(value) else value for value in column.tolist()]


def point(derived: Derived, measured: Mapping[str, Integers]) -> Integers:
    """Return one aggregate of every cell: integers for counts and sums, else floats with NaN for NULL."""
    if derived.aggregation in (Aggregation.COUNT, Aggregation.SUM):
        return measured[plain_name(derived)]
    reach = public_range(derived)
    if derived.aggregation is Aggregation.AVG:
        return np.clip(average(derived, measured), reach.low, reach.high)
    count = as_floats(measured, derived.count)
    variance = squared_deviations(derived, measured) / rows_counted(derived, count)
    variance = np.clip(variance * float(derived.step) ** 2, 0, widest_variance(derived, count))
    return np.asarray(np.sqrt(variance) if derived.aggregation in DEVIATIONS else variance)


def plain_name(derived: Derived) -> str:
    """Return the measurement that a count or a sum is."""
    return (derived.count if derived.aggregation is Aggregation.COUNT else derived.total) or derived.name


def as_floats(measured: Mapping[str, Integers], name: str | None) -> Floats:
    """Return a measurement as floats."""
    return measured[name or ""].astype(np.float64)


def average(derived: Derived, measured: Mapping[str, Integers]) -> Floats:
    """Return offset + T/N in the average's own unit, unclamped; NaN where N is not above 0."""
    count, total = as_floats(measured, derived.count), as_floats(measured, derived.total)
    return (float(derived.offset) + total / _above_zero(count)) * float(derived.step)


def squared_deviations(derived: Derived, measured: Mapping[str, Integers]) -> Floats:
    """Return Q - T²/N in squared steps, unclamped; NaN where N is not above 0."""
    count, total = as_floats(measured, derived.count), as_floats(measured, derived.total)
    return as_floats(measured, derived.squares) - total * (total / _above_zero(count))


def rows_counted(derived: Derived, count: Floats) -> Floats:
    """Return what squared deviations are divided by: N, or N - 1 for a sample; NaN where it is not above 0."""
    return _above_zero(count - 1 if derived.aggregation in SAMPLES else count)


def public_range(derived: Derived) -> PossibleRange:
    """Return the range of the argument in its own unit."""
    return PossibleRange(float(derived.low * derived.step), float(derived.high * derived.step))


def widest_variance(derived: Derived, count: Floats) -> Floats:
    """Return the largest variance that so many values of the public range can have."""
    most = (float((derived.high - derived.low) * derived.step) / 2) ** 2  # Popoviciu
    return most * count / rows_counted(derived, count)


def _above_zero(count: Floats) -> Floats:
    return np.where(count > 0, count, np.nan)
