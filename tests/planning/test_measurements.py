"""Distinct quantities are measured once, around the middle of their range, and unbounded ones are refused."""

from dataclasses import replace
from fractions import Fraction

import pytest
from tests.planning.clinic_groups import (
    AGE,
    COST,
    PUBLIC_DEPT,
    RATIO,
    SECRET_DEPT,
    UNIT,
    URGENT,
    WEIGHT,
    asked,
    group_of,
)

from sfumato.accounting.event import Neighbours
from sfumato.analysis.private_query import Group
from sfumato.errors import QueryTooLarge, UnboundedSum, UnsupportedSql
from sfumato.language.facts import Facts, Kind
from sfumato.language.scalar import column
from sfumato.planning.aggregates.average import AverageColumn
from sfumato.planning.aggregates.centred_sums import MAX_UNIT_SUM, Centred
from sfumato.planning.aggregates.quantile import QuantileColumn
from sfumato.planning.aggregates.variance import VarianceColumn
from sfumato.planning.measurements import MeasurementSet, needs_of
from sfumato.query.functions import Aggregation
from sfumato.query.types import Type


def _needs(group: Group) -> MeasurementSet:
    return needs_of(group, Neighbours.ADD_REMOVE)


def offsets(needs: MeasurementSet) -> list[int]:
    """Return the offsets of averages and variances, in order."""
    return [one.grid.offset for one in needs.derived if isinstance(one, AverageColumn | VarianceColumn)]


def test_count_sum_and_average_of_one_column_are_two_measurements() -> None:
    needs = _needs(group_of(asked("count", COST), asked("sum", COST), asked("avg", COST)))
    count, total = needs.measurements
    assert (count.quantity.function, count.quantity.argument) == (Aggregation.COUNT, COST)
    assert (total.quantity.function, total.quantity.argument) == (Aggregation.SUM, COST)
    assert [one.measured for one in needs.derived] == [("m1",), ("m2",), ("m1", "m2")]
    assert offsets(needs) == [0]


def test_a_count_of_what_is_never_null_is_the_count_of_rows() -> None:
    needs = _needs(group_of(asked("count"), asked("count", AGE), asked("avg", AGE)))
    assert needs.measurements[0].quantity.argument is None
    assert len(needs.measurements) == 2


def test_a_count_of_what_may_be_null_is_another_measurement() -> None:
    assert len(_needs(group_of(asked("count"), asked("count", COST))).measurements) == 2


def test_a_filter_makes_another_measurement() -> None:
    assert len(_needs(group_of(asked("count"), asked("count", where=URGENT))).measurements) == 2


def test_an_average_alone_is_taken_around_the_middle() -> None:
    needs = _needs(group_of(asked("avg", AGE)))
    total = needs.measurements[1]
    assert total.quantity.argument is not None
    assert (total.quantity.argument.facts.low, total.quantity.argument.facts.high) == (-60, 60)
    assert total.sensitivity.l1 == 20 * 60
    (average,) = needs.derived
    assert isinstance(average, AverageColumn)
    assert average.grid == Centred(Fraction(1), 60, 0, 120)


def test_the_average_costs_no_measurement_beside_a_variance() -> None:
    needs = _needs(group_of(asked("avg", COST), asked("var_samp", COST), asked("stddev_pop", COST)))
    count, total, squares = needs.measurements
    assert squares.quantity.argument is not None
    assert (squares.quantity.argument.facts.low, squares.quantity.argument.facts.high) == (0, 250_000**2)
    assert squares.sensitivity.l1 == 20 * 250_000**2
    assert [one.measured for one in needs.derived] == [("m1", "m2"), ("m1", "m2", "m3"), ("m1", "m2", "m3")]
    assert offsets(needs) == [250_000] * 3
    assert (count.name, total.name) == ("m1", "m2")


def test_a_sum_beside_a_variance_is_the_only_one_that_is_not_centred() -> None:
    needs = _needs(group_of(asked("sum", COST), asked("avg", COST), asked("var_pop", COST)))
    assert len(needs.measurements) == 4
    assert offsets(needs) == [250_000, 250_000]
    assert needs.derived[1].measured == needs.derived[2].measured[:2]
    assert needs.derived[0].plain not in needs.derived[1].measured


def test_squares_of_different_values_are_different() -> None:
    """The engine sums DISTINCT squares: were the values centred, those of -1 and 1 would count once."""
    needs = _needs(group_of(asked("var_pop", AGE, distinct=True)))
    assert offsets(needs) == [0]
    lifted = column("visits", "x", Facts(Type.INTEGER, Kind.INTEGER, low=-5, high=5))
    shifted = _needs(group_of(asked("var_pop", lifted, distinct=True), asked("avg", lifted, distinct=True)))
    assert offsets(shifted) == [-5, -5]
    values = [one.quantity.argument for one in shifted.measurements if one.quantity.function is Aggregation.SUM]
    assert all(value is not None and value.facts.low == 0 for value in values)
    assert all(one.quantity.distinct for one in shifted.measurements)


def test_people_are_counted_with_one_per_cell() -> None:
    needs = _needs(group_of(asked("count", UNIT, distinct=True), keys=(PUBLIC_DEPT,)))
    assert (needs.measurements[0].sensitivity.l1, needs.measurements[0].sensitivity.linf) == (3, 1)


def test_few_different_values_move_a_distinct_count_little() -> None:
    needs = _needs(group_of(asked("count", URGENT, distinct=True), keys=(SECRET_DEPT,)))
    assert (needs.measurements[0].sensitivity.l1, needs.measurements[0].sensitivity.linf) == (6, 2)


def test_secret_keys_are_selected_and_public_ones_are_not() -> None:
    assert _needs(group_of(asked("count"), keys=(PUBLIC_DEPT,))).keys is None
    selected = _needs(group_of(asked("count"), keys=(SECRET_DEPT,))).keys
    assert selected is not None
    assert selected.l1 == 3


@pytest.mark.parametrize("aggregation", ["sum", "avg", "var_samp", "stddev_pop"])
def test_an_unbounded_column_is_refused_with_the_declaration_that_is_missing(aggregation: str) -> None:
    with pytest.raises(UnboundedSum) as refused:
        _needs(group_of(asked(aggregation, WEIGHT)))
    assert "[tables.visits.columns] weight = { bounds = [LOW, HIGH] }" in refused.value.remedy
    with pytest.raises(UnboundedSum) as refused:
        _needs(group_of(asked(aggregation, RATIO)))
    assert "ratio = { bounds = [LOW, HIGH], step = STEP }" in refused.value.remedy


def test_an_unbounded_expression_is_refused_with_the_words_that_narrow_it() -> None:
    computed = column("elsewhere", "x", WEIGHT.facts)
    with pytest.raises(UnboundedSum, match=r"LEAST\(GREATEST"):
        _needs(group_of(asked("sum", computed)))


@pytest.mark.parametrize("aggregation", ["min", "max", "mode"])
def test_extremes_of_texts_are_refused_with_advice(aggregation: str) -> None:
    with pytest.raises(UnsupportedSql, match="GROUP BY"):
        _needs(group_of(asked(aggregation, column("visits", "dept", Facts(Type.TEXT, Kind.TEXT)))))


def test_all_quantiles_of_one_column_are_one_measurement() -> None:
    levels = {"min": (), "max": (), "quantile_cont": (Fraction(1, 2),), "quantile_disc": (Fraction(9, 10),)}
    several = [replace(asked(name, AGE), parameters=parameters) for name, parameters in levels.items()]
    needs = _needs(group_of(*several))
    (quantity,) = [one.quantity for one in needs.measurements]
    assert quantity.parameters == (Fraction(0), Fraction(1, 2), Fraction(9, 10), Fraction(1))
    assert [one.place for one in needs.derived if isinstance(one, QuantileColumn)] == [0, 3, 1, 2]
    alone = replace(several[2], function=Aggregation.APPROX_QUANTILE)
    assert len(_needs(group_of(*several, alone)).measurements) == 2


def test_a_sum_stays_below_its_limit_or_is_refused() -> None:
    edge = MAX_UNIT_SUM // 20
    fits = column("visits", "x", Facts(Type.INTEGER, Kind.INTEGER, low=0, high=edge - 1))
    beyond = column("visits", "x", Facts(Type.INTEGER, Kind.INTEGER, low=0, high=edge + 1))
    assert _needs(group_of(asked("sum", fits))).measurements[0].sensitivity.l1 < MAX_UNIT_SUM
    with pytest.raises(QueryTooLarge):
        _needs(group_of(asked("sum", beyond)))
    huge = column("visits", "x", Facts(Type.INTEGER, Kind.INTEGER, low=-(1 << 125), high=1 << 125))
    with pytest.raises(QueryTooLarge):
        _needs(group_of(asked("var_pop", huge)))


def test_an_average_of_one_possible_value_is_measured_all_the_same() -> None:
    five = column("visits", "x", Facts(Type.INTEGER, Kind.INTEGER, low=5, high=5))
    needs = _needs(group_of(asked("avg", five), asked("var_pop", five)))
    assert [one.sensitivity.l1 for one in needs.measurements] == [20, 20, 20]
