"""Skewness and kurtosis share what they measure with averages and variances, and are refused where they do not fit."""

from dataclasses import replace

import pytest
from tests.planning.clinic_groups import AGE, WEIGHT, asked, group_of

from sfumato.accounting.event import Neighbours
from sfumato.errors import QueryTooLarge, UnboundedSum
from sfumato.language.scalar import column
from sfumato.planning.aggregates.moments import MomentColumn
from sfumato.planning.measurements import needs_of

ADD = Neighbours.ADD_REMOVE


def test_one_measurement_for_each_power_around_the_middle() -> None:
    """A person has 20 rows, and an age lies within 60 of the middle."""
    several = [asked(name, AGE) for name in ("kurtosis", "skewness", "var_samp", "avg", "stddev_pop")]
    needs = needs_of(group_of(*several), ADD)
    assert [one.sensitivity.l1 for one in needs.measurements] == [20 * 60**power for power in range(5)]
    kurtosis, skewness, *_ = needs.derived
    assert isinstance(kurtosis, MomentColumn)
    assert isinstance(skewness, MomentColumn)
    assert (kurtosis.order, skewness.order) == (4, 3)
    assert kurtosis.measured[:-1] == skewness.measured


@pytest.mark.parametrize(("function", "power"), [("var_pop", 2), ("skewness", 3), ("kurtosis", 4)])
def test_powers_that_leave_64_bits_are_refused(function: str, power: int) -> None:
    """20 rows of values within h of the middle: 20·h^power stays below 2^62, or is refused by name."""
    reach = next(h for h in range(1 << 31, 0, -1 << 8) if 20 * h**power < 1 << 62)
    fits, not_fits = (
        column("visits", "x", replace(AGE.facts, low=-far, high=far)) for far in (reach, reach + (1 << 9))
    )
    assert needs_of(group_of(asked(function, fits)), ADD).measurements
    with pytest.raises(QueryTooLarge, match="ROUND"):
        needs_of(group_of(asked(function, not_fits)), ADD)


@pytest.mark.parametrize("function", ["skewness", "kurtosis"])
def test_without_bounds_they_are_refused_with_the_declaration(function: str) -> None:
    with pytest.raises(UnboundedSum, match=r"weight = \{ bounds"):
        needs_of(group_of(asked(function, WEIGHT)), ADD)
