"""Smaller Laplace noise given larger noise: joint laws enumerated, ratios over neighbours, and the drawn numbers."""

from fractions import Fraction
from math import exp, log

import numpy as np
import pytest
from tests.sources import HashSource

from sfumato.accounting import pure, rdp
from sfumato.accounting.event import LaplaceNoise, LaplaceRefinement, Neighbours
from sfumato.errors import BadParameter
from sfumato.randomness.refined_laplace import RefinedLaplace

PAIRS = [
    (Fraction(3), Fraction(5, 4)),
    (Fraction(2), Fraction(1)),
    (Fraction(1), Fraction(99, 100)),
    (Fraction(9), Fraction(1, 3)),
]
REACH = 40


def _laplace(scale: Fraction, value: int) -> float:
    q = exp(-1 / scale)
    return (1 - q) / (1 + q) * q ** abs(value)


def _extra(before: Fraction, scale: Fraction, value: int) -> float:
    """The law of what the larger noise has beyond the smaller."""
    q, p = exp(-1 / before), exp(-1 / scale)
    stays = ((1 - q) / (1 - p)) ** 2 * p / q
    return stays * (value == 0) + (1 - stays) * _laplace(before, value)


@pytest.mark.parametrize(("before", "scale"), PAIRS)
def test_the_joint_law_is_that_of_the_smaller_noise_and_independent_noise(before: Fraction, scale: Fraction) -> None:
    law = RefinedLaplace(before, scale)
    for larger in range(-6, 7):
        for value in range(-10, 11):
            given = law.pmf(value, larger, 40)
            joint = _laplace(scale, value) * _extra(before, scale, larger - value)
            assert float(given.low) * _laplace(before, larger) == pytest.approx(joint, rel=1e-9)
    for larger in (0, 3, -5):
        assert sum(float(law.pmf(value, larger, 40).low) for value in range(-REACH, REACH)) == pytest.approx(
            1, abs=1e-6
        )


@pytest.mark.parametrize(("before", "scale"), PAIRS)
def test_both_answers_together_lose_what_the_finer_one_does(before: Fraction, scale: Fraction) -> None:
    """Pointwise over all pairs of answers, on neighbours: so for every analyst who refines only sometimes."""
    law, bound = RefinedLaplace(before, scale), float(1 / scale) + 1e-9
    for first in range(-5, 6):
        for second in range(-8, 9):
            there = _laplace(before, first) * float(law.pmf(second, first, 60).low)
            away = _laplace(before, first - 1) * float(law.pmf(second - 1, first - 1, 60).low)
            assert abs(log(there / away)) <= bound
    both = LaplaceNoise(1, before, Neighbours.ADD_REMOVE), LaplaceRefinement(1, before, scale, Neighbours.ADD_REMOVE)
    assert sum(pure.epsilon(event) for event in both) == 1 / scale


@pytest.mark.parametrize("order", [2, 8])
def test_renyi_losses_count_the_refinement_given_the_past(order: int) -> None:
    """The largest exact conditional loss lies below what is counted, and above the difference of the two losses."""
    before, scale = Fraction(2), Fraction(1)
    law, event = RefinedLaplace(before, scale), LaplaceRefinement(1, before, scale, Neighbours.ADD_REMOVE)
    losses = []
    for first in range(-6, 7):
        pairs = [
            (float(law.pmf(at - 1, first - 1, 60).low), float(law.pmf(at, first, 60).low))
            for at in range(-REACH, REACH)
        ]
        losses.append(log(sum(p**order * q ** (1 - order) for p, q in pairs)) / (order - 1))
    counted = float(rdp.leaf_loss(event, Fraction(order)))
    fresh = [
        float(rdp.leaf_loss(LaplaceNoise(1, one, Neighbours.ADD_REMOVE), Fraction(order))) for one in (before, scale)
    ]
    assert fresh[1] - fresh[0] < max(losses) <= counted


def test_draws_have_their_law_whatever_the_larger_noise() -> None:
    """Each share of 20,000 draws lies within five deviations: wrong once in 10^5."""
    for at, larger in enumerate((0, 4, -3)):
        law, count = RefinedLaplace(Fraction(3), Fraction(5, 4)), 20_000
        drawn = law.draw(np.full(count, larger), HashSource(at))
        for value in range(-4, 5):
            share = float(law.pmf(value, larger, 40).low)
            assert abs(float((drawn == value).mean()) - share) <= 5 * (share / count) ** 0.5


def test_noise_is_refined_to_smaller_noise_only() -> None:
    with pytest.raises(BadParameter, match="not below"):
        RefinedLaplace(Fraction(1), Fraction(2))
    with pytest.raises(BadParameter, match="not below"):
        LaplaceRefinement(1, Fraction(1), Fraction(2), Neighbours.ADD_REMOVE)
