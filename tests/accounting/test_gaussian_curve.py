"""What Gaussian noise on several integer vectors costs: certain against the exact law, and nearly the least."""

from fractions import Fraction

import pytest

from sfumato.accounting import pld, zcdp
from sfumato.accounting.event import Composed, GaussianNoise, Neighbours
from sfumato.accounting.gaussian_curve import NoisyVector, epsilon_of, least_common_factor

LISTS: list[list[NoisyVector]] = [
    [(1, Fraction(10000))],
    [(1, Fraction(30))],
    [(20, Fraction(800))],
    [(10**14, Fraction(10) ** 17), (20, Fraction(3000))],
]
DELTA = Fraction(1, 10**9)


def event(vectors: list[NoisyVector]) -> Composed:
    return Composed(tuple(GaussianNoise(moved, variance, Neighbours.ADD_REMOVE) for moved, variance in vectors))


@pytest.mark.parametrize("vectors", LISTS, ids=str)
def test_the_epsilon_is_above_the_exact_one_and_below_that_of_zcdp(vectors: list[NoisyVector]) -> None:
    found = epsilon_of(vectors, DELTA)
    low, high = pld.bounds(event(vectors), DELTA)
    assert low <= found <= min(high * 1.02, zcdp.epsilon(event(vectors), DELTA) * (1 + 1e-11))


@pytest.mark.parametrize("vectors", LISTS, ids=str)
def test_shrunk_variances_still_suffice_and_nearly_none_smaller_do(vectors: list[NoisyVector]) -> None:
    target = Fraction(zcdp.epsilon(event(vectors), DELTA))
    factor = least_common_factor(vectors, target, DELTA)
    assert Fraction(1, 2) < factor < 1
    assert pld.bounds(event([(moved, factor * variance) for moved, variance in vectors]), DELTA)[0] <= target
    smaller = factor * Fraction(96, 100)
    assert pld.bounds(event([(moved, smaller * variance) for moved, variance in vectors]), DELTA)[1] > target


def test_small_variances_are_left_to_zcdp() -> None:
    vectors = [(1, Fraction(1, 4))]
    assert least_common_factor(vectors, Fraction(16), Fraction(1, 10**6)) == 1
    found, known = epsilon_of(vectors, DELTA), zcdp.epsilon(event(vectors), DELTA)
    assert known <= found <= known * (1 + 1e-11)
