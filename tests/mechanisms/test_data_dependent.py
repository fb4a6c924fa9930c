"""Smooth noise and propose-test-release: what they answer, when they do not, and parameters that are refused."""

from fractions import Fraction

import pytest
from tests.sources import HashSource

from sfumato.accounting.event import Neighbours
from sfumato.errors import BadParameter
from sfumato.mechanisms.propose_test_release import ProposeTestRelease
from sfumato.mechanisms.smooth_noise import SmoothNoise
from sfumato.sensitivity.order_statistics import OrderStatistic
from sfumato.sensitivity.smooth import distance_beyond, smooth

MEDIAN = OrderStatistic(Fraction(1, 2), 0, 10**6, Neighbours.ADD_REMOVE)
CROWD = tuple(500_000 + place for place in range(-100, 101))


def test_a_crowded_median_gets_far_less_noise_than_its_range() -> None:
    noise = SmoothNoise(Fraction(1), Neighbours.ADD_REMOVE)
    bound = smooth(lambda k: MEDIAN.at_distance(CROWD, k), noise.decay, MEDIAN.reach)
    assert bound < 20
    assert noise.margin(bound, Fraction(95, 100)) < 200
    answers = [noise.release(MEDIAN.value(CROWD), bound, HashSource(("smooth", i))) for i in range(60)]
    # each misses the margin with probability 5 %: more than 15 of 60 have probability below 1e-7
    assert sum(abs(answer - 500_000) > noise.margin(bound, Fraction(95, 100)) for answer in answers) <= 15


@pytest.mark.parametrize("epsilon", ["1e-12", "1/1000", "1", "50"])
def test_a_decay_pays_for_half_of_epsilon(epsilon: str) -> None:
    noise = SmoothNoise(Fraction(epsilon), Neighbours.REPLACE)
    assert 0 < noise.decay < 1
    # ln(1/q) <= 1/q - 1, which for q near 1 is what has to stay below the half over 3.01
    if Fraction(epsilon) < 1:
        assert 1 / noise.decay - 1 <= Fraction(epsilon) / 2 / Fraction(301, 100) * Fraction(1001, 1000)


def test_a_proposal_passes_far_from_sensitive_data_and_not_beside_it() -> None:
    mechanism = ProposeTestRelease(50, Fraction(1), Fraction(1), Fraction(1, 10**6), Neighbours.ADD_REMOVE)

    def answers(values: tuple[int, ...]) -> list[int | None]:
        far = distance_beyond(lambda k: MEDIAN.at_distance(values, k), 50, MEDIAN.farthest(values))
        return [mechanism.release(MEDIAN.value(values), far, HashSource(("proposal", i))) for i in range(20)]

    near = [answer for answer in answers(CROWD) if answer is not None]
    assert len(near) == 20
    assert all(abs(answer - 500_000) < 50 * 30 for answer in near)  # e^-30 each
    assert answers((0, 0, 10**6, 10**6)) == [None] * 20  # 1e-6 each
    assert mechanism.threshold == 14
    assert mechanism.release(7, None, HashSource("never")) is not None


def test_no_power_without_a_proof() -> None:
    with pytest.raises(BadParameter):
        SmoothNoise(Fraction(1), Neighbours.REPLACE, power=3)
