"""Which values of an answer are marked: without bounds and clipping, the value may lie outside its interval.

A mark follows from policy, question and published numbers. Bounds and clipping move the interval of a value that is not
marked by a quarter of its half length at most, by what was published of them.  How: proofs/truncation.md, 8
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from sfumato.planning.aggregates.distinct_count import DistinctCountColumn
from sfumato.planning.aggregates.families import OutputColumn
from sfumato.planning.aggregates.quantile import QuantileColumn
from sfumato.planning.notes.truncation import clips_values, drops_rows
from sfumato.planning.plan import GroupPlan
from sfumato.release.aggregates.bounded_flow import has_flow
from sfumato.release.bounding.bias import MeasurementBias, bias_beyond
from sfumato.release.intervals.confidence import Bar, EvaluatedAnswer, confidence_intervals
from sfumato.release.intervals.unforeseen import or_open

MAX_UNMARKED_BIAS = 0.25
"""An interval is not marked where bounds and clipping move it by this part of its half length at most."""

Marks = Sequence[Sequence[bool] | None]
"""For each column whether each value is marked; None for a column without intervals."""


def marked_values(answered: EvaluatedAnswer, level: Fraction, cut: MeasurementBias) -> Marks:
    """Return which values are marked, given what may have been cut off of every measurement."""
    found: list[Sequence[bool] | None] = []
    for index, bars in enumerate(confidence_intervals(answered, level)):
        if bars is None:
            found.append(None)
            continue
        find = partial(_marked, answered, index, level, cut, bars)
        found.append(or_open(find, partial(_all_marked, bars)))
    return found


def _all_marked(bars: Sequence[Bar | None]) -> Sequence[bool]:
    return [bar is not None for bar in bars]


def _marked(
    answered: EvaluatedAnswer, place: int, level: Fraction, cut: MeasurementBias, bars: Sequence[Bar | None]
) -> Sequence[bool]:
    found = answered.aggregate(answered.traced.items[place])
    if any(map(has_flow, answered.plan.for_outcome().groups)):  # its total excludes amounts beyond a selected share
        return _all_marked(bars)
    beyond = None if found is not None and _counts_values(*found) else bias_beyond(answered, place, level, cut)
    if beyond is None:
        return _marked_otherwise(answered, place, bars)
    below, above = (ends.tolist() for ends in beyond)
    return [bar is not None and _is_moved(bar, *ends) for bar, *ends in zip(bars, below, above, strict=True)]


def _is_moved(bar: Bar, below: float, above: float) -> bool:
    low, high = bar
    closed = isinstance(low, int | float) and isinstance(high, int | float)
    allowed = MAX_UNMARKED_BIAS * (high - low) / 2 if closed else 0.0  # type: ignore[operator]
    return (low is not None and below > allowed) or (high is not None and above > allowed)


def _marked_otherwise(answered: EvaluatedAnswer, place: int, bars: Sequence[Bar | None]) -> Sequence[bool]:
    """Return the marks of a number that is no weighted sum and no quotient of two."""
    found = answered.aggregate(answered.traced.items[place])
    if found is not None and isinstance(found[1], QuantileColumn):
        return [bar is not None and _quantile_is_moved(found[0], found[1], bar) for bar in bars]
    if found is not None and _counts_values(*found):  # fewer rows hold fewer values
        group, column = found
        most = column.values if isinstance(column, DistinctCountColumn) else group.most_distinct(column.plain)
        dropped = drops_rows(group)
        return [dropped and bar is not None and (most is None or bar[1] != most) for bar in bars]
    groups = [group for group in answered.plan.for_outcome().groups if not group.is_bound_selection]
    cut = any(drops_rows(group) or clips_values(group) for group in groups)
    return [cut and bar is not None for bar in bars]


def _counts_values(group: GroupPlan, column: OutputColumn) -> bool:
    """Whether a column counts different values, of a public number of possible ones or by matching."""
    return isinstance(column, DistinctCountColumn) or group.most_distinct(column.plain) is not None


def _quantile_is_moved(group: GroupPlan, column: QuantileColumn, bar: Bar) -> bool:
    """Whether rows were left out, or the interval reaches a bound, where values beyond it were moved to."""
    if drops_rows(group) or group.group.contribution.rows > 1:
        return True
    low, high = column.spacing.low * column.step, column.spacing.high * column.step
    return clips_values(group) and any(not isinstance(end, int | float) or not low < end < high for end in bar)
