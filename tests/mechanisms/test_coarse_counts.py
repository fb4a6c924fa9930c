"""Counts that say where to look: they weigh what is chosen among, and change nothing of what a choice may cost."""

from collections import Counter
from fractions import Fraction
from math import exp

import numpy as np
import pytest
from scipy.stats import chisquare
from tests.sources import HashSource, ScriptedSource

from sfumato.accounting.event import BoundedRange, Composed, LaplaceNoise, Neighbours, Repeated
from sfumato.accounting.pure import PureLoss
from sfumato.mechanisms.coarse_counts import CoarseCounts
from sfumato.mechanisms.held_values import HeldValues, held_values
from sfumato.mechanisms.quantiles import Quantiles, _SearchTarget

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
ONE, HALF = Fraction(1), Fraction(1, 2)
FIFTHS = tuple(Fraction(place, 5) for place in range(1, 5))
COUNTS = CoarseCounts(np.array([0, 2, 4, 6]), [0.0, 3.0, 3.0, 9.0], 8.0)
"""Known beforehand, of six buckets."""


def held(values: list[int], buckets: int = 6) -> HeldValues:
    places, weights = np.unique(np.array(values, dtype=np.int64), return_counts=True)
    return held_values(places, weights, buckets)


def law(mechanism: Quantiles, values: list[int]) -> dict[int, float]:
    """The law of the median's bucket with these counts, from the definition: step by step of every bucket."""
    counts, scale, pieces = Counter(values), mechanism._scale, mechanism._pieces
    rate = float(mechanism._rate(mechanism._round_epsilon, HALF))
    weights, found = COUNTS.weights(HALF), {}
    for bucket in range(6):
        before = scale * sum(value < bucket for value in values)
        found[bucket] = 0.0
        for piece in range(pieces):
            inside = counts[bucket] * scale // pieces
            low, high = before + piece * inside, before + (piece + 1) * inside
            miss = max(0, 2 * low - scale * len(values), scale * len(values) - 2 * high)
            found[bucket] += weights[bucket // 2] / pieces * exp(-rate * miss)
    return {bucket: weight / sum(found.values()) for bucket, weight in found.items()}


def test_a_choice_is_drawn_as_it_is_weighed_with_error_rate_one_in_a_million() -> None:
    mechanism, values, source, draws = Quantiles(FIFTHS, 6, 1, Fraction(4), ADD), [0, 1, 5, 5], HashSource(3), 300
    sought = _SearchTarget(HALF, 0, mechanism._pieces, COUNTS, HALF)
    whole = (0, 6 * mechanism._scale)
    found = Counter(
        mechanism._choose_place(held(values), whole, sought, source) // mechanism._scale for _ in range(draws)
    )
    expected = law(mechanism, values)
    assert min(expected.values()) * draws > 5
    assert (
        chisquare([found[place] for place in range(6)], [expected[place] * draws for place in range(6)]).pvalue > 1e-6
    )


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_weights_that_are_public_leave_the_loss_of_a_choice_as_it_is(neighbours: Neighbours) -> None:
    mechanism = Quantiles(FIFTHS, 6, 1, Fraction(4), neighbours)
    epsilon = float(mechanism._round_epsilon)
    for values in ([], [0, 1, 5, 5], [3, 3, 3]):
        for more in range(6):
            one = law(mechanism, values if neighbours is ADD else [*values, 2])
            two = law(mechanism, [*values, more])
            ratios = [one[place] / two[place] for place in range(6)]
            assert max(ratios) / min(ratios) <= exp(epsilon) * (1 + 1e-9)


def test_nothing_becomes_impossible_and_every_step_weighs_what_its_part_does() -> None:
    counts = CoarseCounts(np.array([0, 3, 7, 10]), [0.0, 1e9, 1e9, 1e9], 1.0)
    weights = counts.weights(ONE)
    assert weights[0] == 1 << 20
    assert min(counts.weights(HALF)) == 1
    starts, ends, scores = np.array([4, 20, 25]), np.array([20, 25, 40]), np.array([-1, 0, -2])
    found = counts.weigh_stretches(starts, ends, scores, HALF, 4)
    assert [part.tolist() for part in found[:3]] == [[4, 12, 20, 25, 28], [12, 20, 25, 28, 40], [-1, -1, 0, -2, -2]]
    steps = [8, 8, 5, 3, 12]
    parts = [0, 1, 1, 1, 2]
    assert found[3].tolist() == [step * counts.weights(HALF)[part] for step, part in zip(steps, parts, strict=True)]


def test_the_counts_are_a_part_of_the_price_from_four_levels_on() -> None:
    event = Quantiles(FIFTHS, 100, 7, ONE, REPLACE, ends=False).event
    assert event == Composed(
        (LaplaceNoise(14, Fraction(35), REPLACE), Repeated(BoundedRange(Fraction(1, 5), REPLACE), 3))
    )
    assert PureLoss().compose(event).epsilon == 1
    assert PureLoss().compose(Quantiles((*FIFTHS, ONE), 100, 1, ONE, ADD).event).epsilon == 1
    assert len(Quantiles(FIFTHS[:3], 100, 1, ONE, ADD, ends=False).event.events) == 1


def test_levels_of_few_people_are_looked_for_where_people_are() -> None:
    """Forty people near one end of a range: without counts the answers are spread over all of it, and err by 350."""
    levels, source = tuple(Fraction(place, 10) for place in range(1, 10)), HashSource("few")
    values = np.arange(40)
    mechanism = Quantiles(levels, 1000, 1, ONE, ADD, ends=False)
    errors = [
        np.abs(mechanism.release(values, np.ones(40, dtype=np.int64), source)[:, 1] - 4 * np.arange(1, 10)).mean()
        for _ in range(12)
    ]
    assert np.mean(errors) < 150


def test_counting_reads_as_many_bits_whatever_the_values_are() -> None:
    given = set()
    for values in ([], [1, 2, 3], [49] * 70):
        source = ScriptedSource(HashSource(7).read(20_000))
        places, weights = np.unique(np.array(values, dtype=np.int64), return_counts=True)
        Quantiles(FIFTHS, 500, 1, ONE, ADD).release(places, weights, source)
        given.add(source.given)
    assert len(given) == 1
