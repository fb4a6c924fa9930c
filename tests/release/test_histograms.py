"""Histograms per cell after the noise: they are released, stored and numbered like every other measurement."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.release.plans import ADD, COUNTED, aggregates, laplace, make_plan

from sfumato.analysis.private_query import Contribution
from sfumato.engines.aggregates import Aggregates
from sfumato.errors import MalformedEvent
from sfumato.language.scalar import column
from sfumato.planning.plan import Plan, PlannedMeasurement
from sfumato.planning.sensitivities import of_quantity
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation
from sfumato.randomness.source import system_source
from sfumato.release.intervals.measured_cells import measured_cells
from sfumato.release.noisy import NoisyGroup, NoisyResult, noisy_from_json, noisy_to_json
from sfumato.release.publish import needed_bits, publish

BUCKETS = 4
BY = column("rows", "b", replace(COUNTED, low=0, high=BUCKETS - 1))
QUANTITY = Aggregate(Aggregation.HISTOGRAM, (BY,))
EXACT = np.arange(12).reshape(3, BUCKETS) * 1000


def _plan() -> tuple[Plan, Aggregates]:
    plan = make_plan([Aggregation.COUNT], {"N": laplace(2)})
    (group,) = plan.groups
    sensitivity = of_quantity(QUANTITY, Contribution(1, 1, False, False), 3, ADD)
    histogram = PlannedMeasurement("H", QUANTITY, sensitivity, laplace(2))
    (exact,) = aggregates({"N": [10, 20, 30]}).groups
    with_histogram = replace(exact, columns={**exact.columns, "H": EXACT})
    plan = replace(plan, groups=(replace(group, measured=(*group.measured, histogram)),))
    return plan, Aggregates((with_histogram,))


def test_a_histogram_is_released_as_one_vector_over_all_cells_and_buckets() -> None:
    plan, exact = _plan()
    noisy = publish(plan, exact, system_source())
    released = noisy.groups[0].column("H")
    assert np.array(released).shape == EXACT.shape
    errors = np.array(released) - EXACT
    assert np.abs(errors).max() < 200  # a scale of 2: less likely than 10^-40
    assert np.unique(errors).size > 1  # fails if all 12 draws agree: below 10^-7
    assert noisy_from_json(noisy_to_json(noisy)) == noisy
    plain = make_plan([Aggregation.COUNT], {"N": laplace(2)})
    assert needed_bits(plan, noisy) == pytest.approx(5 * needed_bits(plain, noisy), rel=0.1)


def test_the_noisy_integers_of_a_histogram_are_numbered_cell_after_cell() -> None:
    plan, exact = _plan()
    noisy = publish(plan, exact, system_source())
    cells = measured_cells(plan, noisy)
    start = cells.starts["g", "H"]
    assert cells.values[start:].tolist() == list(map(float, noisy.groups[0].numbers("H")))
    assert (cells.kinds[start:] == 1).all()
    assert cells.reach(1) == (0.0, float("inf"))


def test_a_person_moves_a_histogram_by_their_rows() -> None:
    one = of_quantity(QUANTITY, Contribution(5, 2, False, True), 3, ADD)
    assert (one.l1, one.l2_squared, one.linf) == (5, 25, 5)
    weight = column("rows", "w", replace(COUNTED, low=0, high=Fraction(10).numerator))
    weighted = Aggregate(Aggregation.HISTOGRAM, (BY, weight))
    assert of_quantity(weighted, Contribution(5, 2, False, True), 3, ADD).l1 == 50


def test_histograms_of_different_lengths_are_no_answer() -> None:
    text = noisy_to_json(NoisyResult((NoisyGroup(((1,), (2,)), (("H", ((1, 2), (3, 4))),)),), 8))
    assert noisy_from_json(text).groups[0].column("H") == ((1, 2), (3, 4))
    for damaged in (text.replace('["3","4"]', '["3"]'), text.replace('["3","4"]', '"3"')):
        with pytest.raises(MalformedEvent):
            noisy_from_json(damaged)
