"""The families of aggregates: which of them makes the column of which function."""

from collections.abc import Callable, Mapping

from sfumato.accounting.event import Neighbours
from sfumato.analysis.private_query import Group, RequestedAggregate
from sfumato.planning.aggregates.average import AverageColumn, averaged
from sfumato.planning.aggregates.bounded_flow import BoundedFlowColumn, bounded_flow
from sfumato.planning.aggregates.count import CountColumn, counted
from sfumato.planning.aggregates.covariance import (
    CorrelationColumn,
    CovarianceColumn,
    RegressionColumn,
    correlated,
    covaried,
    regressed,
    squares_of_x,
)
from sfumato.planning.aggregates.cross_unit_count import CrossUnitCountColumn, cross_unit_recipe
from sfumato.planning.aggregates.distinct_count import DistinctCountColumn, matched
from sfumato.planning.aggregates.moments import MomentColumn, standardised_moment
from sfumato.planning.aggregates.others import Others
from sfumato.planning.aggregates.quantile import ModeColumn, QuantileColumn, commonest, ranked
from sfumato.planning.aggregates.recipe import Recipe
from sfumato.planning.aggregates.sum import SumColumn, summed
from sfumato.planning.aggregates.variance import VarianceColumn, spread
from sfumato.query.functions import Aggregation

OutputColumn = (
    CountColumn
    | DistinctCountColumn
    | SumColumn
    | AverageColumn
    | VarianceColumn
    | MomentColumn
    | QuantileColumn
    | ModeColumn
    | CovarianceColumn
    | RegressionColumn
    | CorrelationColumn
    | CrossUnitCountColumn
    | BoundedFlowColumn
)
"""What a column of a group is made of, by the names of measurements."""

Recipes = Callable[[RequestedAggregate, Group, Others], Recipe[OutputColumn]]

FAMILIES: Mapping[Aggregation, Recipes] = {
    Aggregation.COUNT: counted,
    Aggregation.SUM: summed,
    Aggregation.AVG: averaged,
    Aggregation.VAR_SAMP: spread,
    Aggregation.VAR_POP: spread,
    Aggregation.STDDEV_SAMP: spread,
    Aggregation.STDDEV_POP: spread,
    Aggregation.SKEWNESS: standardised_moment,
    Aggregation.KURTOSIS: standardised_moment,
    Aggregation.MIN: ranked,
    Aggregation.MAX: ranked,
    Aggregation.QUANTILE_CONT: ranked,
    Aggregation.QUANTILE_DISC: ranked,
    Aggregation.APPROX_QUANTILE: ranked,
    Aggregation.MODE: commonest,
    Aggregation.COVAR_POP: covaried,
    Aggregation.COVAR_SAMP: covaried,
    Aggregation.REGR_SXY: covaried,
    Aggregation.REGR_SXX: squares_of_x,
    Aggregation.REGR_SLOPE: regressed,
    Aggregation.REGR_INTERCEPT: regressed,
    Aggregation.CORR: correlated,
    Aggregation.REGR_R2: correlated,
    Aggregation.CROSS_UNIT_COUNT: cross_unit_recipe,
    Aggregation.BOUNDED_FLOW: bounded_flow,
}


def recipe_of(
    asked: RequestedAggregate, group: Group, others: Others, neighbours: Neighbours, *, fixed: bool
) -> Recipe[OutputColumn]:
    """Return how one column is made, or refuse; `fixed` where its margin has to be known before the data is read."""
    by_matching = None if fixed else matched(asked, group, neighbours)
    return by_matching or FAMILIES[asked.aggregate.function](asked, group, others)
