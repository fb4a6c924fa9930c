"""Functions of pairs share what they measure with each other, and with averages and variances of the same rows."""

from dataclasses import replace
from fractions import Fraction

import pytest
from tests.planning.clinic_groups import AGE, COST, URGENT, WEIGHT, asked, group_of

from sfumato.accounting.event import Neighbours
from sfumato.errors import QueryTooLarge, UnboundedSum
from sfumato.language.lower_logic import present
from sfumato.language.scalar import Scalar
from sfumato.planning.aggregates.covariance import CorrelationColumn, CovarianceColumn
from sfumato.planning.aggregates.variance import Divisor
from sfumato.planning.measurements import MeasurementSet, needs_of
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import PAIRS, Aggregation

FEE = replace(COST, facts=replace(COST.facts, nullable=False))


def pair(function: str, y: Scalar, x: Scalar, where: Scalar | None = None) -> Aggregate[Scalar]:
    return Aggregate(Aggregation(function), (y, x), where=where)


def _needs(*aggregates: Aggregate[Scalar]) -> MeasurementSet:
    return needs_of(group_of(*aggregates), Neighbours.ADD_REMOVE)


def test_all_functions_of_a_pair_and_of_its_columns_are_six_measurements() -> None:
    several = [pair(function, FEE, AGE) for function in PAIRS]
    alone = [asked(function, one) for function in ("avg", "var_samp", "stddev_pop") for one in (FEE, AGE)]
    assert len(_needs(*several, *alone, asked("count")).measurements) == 6


def test_of_columns_that_may_be_null_the_pairs_are_counted_once() -> None:
    income = replace(AGE, facts=replace(AGE.facts, nullable=True))
    beside = [asked("avg", COST, where=present(income)), asked("avg", income, where=present(COST))]
    needs = _needs(pair("corr", COST, income), pair("covar_pop", income, COST), *beside)
    counts = [one for one in needs.measurements if one.quantity.function is Aggregation.COUNT]
    assert len(counts) == 1
    assert len(needs.measurements) == 6
    assert len(_needs(pair("corr", COST, income), asked("avg", COST)).measurements) == 8  # of other rows


def test_a_filter_belongs_to_every_measurement_of_a_pair() -> None:
    needs = _needs(pair("corr", COST, AGE, URGENT))
    for one in needs.measurements:
        where = one.quantity.where
        assert where is not None
        assert where == URGENT or URGENT in where.arguments


def test_a_correlation_of_a_column_with_itself_needs_three_measurements() -> None:
    needs = _needs(pair("corr", COST, COST))
    assert len(needs.measurements) == 3
    (made,) = needs.derived
    assert isinstance(made, CorrelationColumn)
    assert made.pairs.products == made.x_squares == made.y_squares


def test_sums_are_taken_around_the_middles() -> None:
    needs = _needs(pair("covar_samp", FEE, AGE), asked("sum", AGE))
    (made, _) = needs.derived
    assert isinstance(made, CovarianceColumn)
    assert made.divisor is Divisor.OTHERS
    assert (made.pairs.x.offset, made.pairs.y.offset) == (60, 250_000)
    assert made.step == Fraction(1, 100)
    products = next(one for one in needs.measurements if one.name == made.pairs.products)
    assert products.sensitivity.l1 == 20 * 60 * 250_000


def test_both_columns_need_bounds_and_products_have_to_fit() -> None:
    with pytest.raises(UnboundedSum, match=r"LEAST\(GREATEST\(weight, LOW\), HIGH\)") as refused:
        _needs(pair("corr", AGE, WEIGHT))
    assert "CORR(LEAST" not in str(refused.value)
    wide = replace(COST, facts=replace(COST.facts, low=0, high=1 << 40))
    assert _needs(pair("covar_pop", wide, AGE)).measurements
    with pytest.raises(QueryTooLarge):
        _needs(pair("regr_slope", AGE, wide))
