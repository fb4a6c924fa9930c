"""The families of aggregates: which of them makes the column of which function."""

from collections.abc import Callable, Mapping

from sfumato.accounting.event import Neighbours
from sfumato.analysis.private_query import Group, RequestedAggregate
from sfumato.planning.aggregates.averaged import Averaged, averaged
from sfumato.planning.aggregates.counted import Counted, counted
from sfumato.planning.aggregates.matched import Matched, matched
from sfumato.planning.aggregates.met import Met, met
from sfumato.planning.aggregates.others import Others
from sfumato.planning.aggregates.paired import (
    Correlated,
    Covaried,
    Regressed,
    correlated,
    covaried,
    regressed,
    squares_of_x,
)
from sfumato.planning.aggregates.ranked import Commonest, Ranked, commonest, ranked
from sfumato.planning.aggregates.recipe import Recipe
from sfumato.planning.aggregates.spread import Spread, spread
from sfumato.planning.aggregates.summed import Summed, summed
from sfumato.query.functions import Aggregation

Derived = Counted | Matched | Summed | Averaged | Spread | Ranked | Commonest | Covaried | Regressed | Correlated | Met
"""What a column of a group is made of, by the names of measurements."""

Recipes = Callable[[RequestedAggregate, Group, Others], Recipe[Derived]]

FAMILIES: Mapping[Aggregation, Recipes] = {
    Aggregation.COUNT: counted,
    Aggregation.SUM: summed,
    Aggregation.AVG: averaged,
    Aggregation.VAR_SAMP: spread,
    Aggregation.VAR_POP: spread,
    Aggregation.STDDEV_SAMP: spread,
    Aggregation.STDDEV_POP: spread,
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
    Aggregation.CROSS_UNIT_COUNT: met,
}


def recipe_of(
    asked: RequestedAggregate, group: Group, others: Others, neighbours: Neighbours, *, fixed: bool
) -> Recipe[Derived]:
    """Return how one column is made, or refuse; `fixed` where its margin has to be known before the data is read."""
    by_matching = None if fixed else matched(asked, group, neighbours)
    return by_matching or FAMILIES[asked.aggregate.function](asked, group, others)
