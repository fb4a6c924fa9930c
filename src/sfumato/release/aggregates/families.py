"""The aggregates of a noisy group: their estimates, and what they are in terms of the noise.

A count is its measurement and a sum its steps: both may lie outside what is possible (a count below 0), because only
unclamped values are right on average. A count of different values is clamped to what is possible: such counts are not
added up. An average is NULL where the noisy count is not above 0 and is clamped to the
public range; a variance is NULL where the count (less one, for a sample) is not above 0, and is clamped to what values
of that range can have. A slope, an intercept and a correlation are NULL where the noisy squares are not above 0; a
correlation is clamped to [-1, 1]. A skewness or kurtosis is NULL where there are too few rows or no spread, and is
clamped to what that many values can have. Clamping is post-processing: it costs nothing.
"""

from collections.abc import Mapping

import numpy as np

from sfumato.planning.aggregates.average import AverageColumn
from sfumato.planning.aggregates.bounded_flow import BoundedFlowColumn
from sfumato.planning.aggregates.count import CountColumn
from sfumato.planning.aggregates.covariance import CorrelationColumn, CovarianceColumn, RegressionColumn
from sfumato.planning.aggregates.cross_unit_count import CrossUnitCountColumn
from sfumato.planning.aggregates.distinct_count import DistinctCountColumn
from sfumato.planning.aggregates.families import OutputColumn
from sfumato.planning.aggregates.moments import MomentColumn
from sfumato.planning.aggregates.quantile import ModeColumn, QuantileColumn
from sfumato.planning.aggregates.sum import SumColumn
from sfumato.planning.aggregates.variance import VarianceColumn
from sfumato.planning.plan import GroupPlan
from sfumato.release.aggregates.average import average_form, average_point
from sfumato.release.aggregates.bounded_flow import flow_form, flow_point
from sfumato.release.aggregates.covariance import paired_form, paired_point
from sfumato.release.aggregates.cross_unit_count import cross_unit_estimate, cross_unit_form
from sfumato.release.aggregates.distinct_count import matched_form, matched_point
from sfumato.release.aggregates.moments import moment_form, moment_point
from sfumato.release.aggregates.quantile import commonest_form, commonest_point, ranked_form, ranked_point
from sfumato.release.aggregates.variance import spread_form, spread_point
from sfumato.release.intervals.form_algebra import sum_of
from sfumato.release.intervals.forms import NoiseForm
from sfumato.release.intervals.measured_cells import MeasuredCells
from sfumato.release.intervals.noise_law import Integers
from sfumato.release.marginal_consistency import shown_cells
from sfumato.release.noisy import NoisyGroup


def point(made: OutputColumn, group: GroupPlan, measured: Mapping[str, Integers]) -> Integers:
    """Return one aggregate of every cell: integers for counts and sums, else floats with NaN for NULL.

    A measurement is an array with a number per cell; of a histogram, a row per cell.
    """
    match made:
        case CountColumn() if (most := group.most_distinct(made.count)) is not None:
            return np.array([min(max(0, int(number)), most) for number in measured[made.plain]], dtype=object)
        case CountColumn() | SumColumn():
            return measured[made.plain]
        case DistinctCountColumn():
            return matched_point(made, measured)
        case AverageColumn():
            return average_point(made, measured)
        case VarianceColumn():
            return spread_point(made, measured)
        case MomentColumn():
            return moment_point(made, measured)
        case QuantileColumn():
            return ranked_point(made, measured)
        case ModeColumn():
            return commonest_point(made, measured)
        case CovarianceColumn() | RegressionColumn() | CorrelationColumn():
            return paired_point(made, measured)
        case CrossUnitCountColumn():
            return cross_unit_estimate(made, measured)
        case BoundedFlowColumn():
            return flow_point(made, measured)


def leaf_forms(group: GroupPlan, cells: MeasuredCells, noisy: NoisyGroup) -> dict[str, NoiseForm]:
    """Return every aggregate of a group by its name, a row per cell."""
    shown = shown_cells(noisy)
    chosen = {selection.name: np.array(noisy.column(selection.name), dtype=object)[shown] for selection in group.chosen}
    return {made.name: _form(group, made, cells, chosen, len(shown)) for made in group.derived}


def _form(
    group: GroupPlan, made: OutputColumn, cells: MeasuredCells, chosen: Mapping[str, Integers], rows: int
) -> NoiseForm:
    label = group.group.label
    match made:
        case CountColumn() | SumColumn():
            return sum_of(cells, label, {made.plain: 1.0}, rows)
        case DistinctCountColumn():
            return matched_form(group, made, chosen)
        case AverageColumn():
            return average_form(label, made, cells, rows)
        case VarianceColumn():
            return spread_form(label, made, cells, rows)
        case MomentColumn():
            return moment_form(label, made, cells, rows)
        case QuantileColumn():
            return ranked_form(label, made, chosen)
        case ModeColumn():
            return commonest_form(label, made, chosen)
        case CovarianceColumn() | RegressionColumn() | CorrelationColumn():
            return paired_form(label, made, cells, rows)
        case CrossUnitCountColumn():
            return cross_unit_form(made, group, chosen)
        case BoundedFlowColumn():
            return flow_form(group, made, chosen)
