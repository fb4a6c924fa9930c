"""Calibration: enough noise, and not a billionth more."""

import random
from fractions import Fraction

import pytest
from tests.accounting import oracle
from tests.accounting.oracle import mp, real

from sfumato.accounting import pld
from sfumato.accounting.calibrate import (
    better_noise,
    gaussian_error,
    gaussian_sigma_squared,
    gaussian_sigma_squared_for,
    integer_gaussian_sigma_squared,
    laplace_error,
    laplace_scale,
    laplace_scale_for,
    most_queries,
)
from sfumato.accounting.event import (
    Approximate,
    Composed,
    Event,
    GaussianNoise,
    LaplaceNoise,
    Neighbours,
    Pure,
    Repeated,
)
from sfumato.accounting.filter import Filter
from sfumato.errors import BadParameter, BudgetExhausted

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
BUDGET = Filter(Fraction(3), Fraction(1, 10**6))

SIGMAS = [
    ("0.1", "1e-6", 36.30469043),
    ("1", "1e-5", 3.730631635),
    ("1", "1e-6", 4.224678889),
    ("5", "1e-6", 0.9800490003),
    ("10", "1e-10", 0.6830439672),
]


@pytest.mark.parametrize(("epsilon", "delta", "sigma"), SIGMAS)
def test_known_deviations_are_reproduced(epsilon: str, delta: str, sigma: float) -> None:
    assert float(gaussian_sigma_squared(epsilon, delta, 1)) ** 0.5 == pytest.approx(sigma, rel=1e-9)


def test_the_variance_suffices_and_a_billionth_less_does_not() -> None:
    source = random.Random(13)
    with mp.workdps(500):
        for _ in range(10):
            epsilon = Fraction(source.randint(1, 10**4), 10 ** source.randint(2, 9))
            delta = Fraction(source.randint(1, 99), 10 ** source.randint(3, 40))
            moved = Fraction(source.randint(1, 10**6), source.randint(1, 10**3))
            variance = gaussian_sigma_squared(epsilon, delta, moved)
            mu = mp.sqrt(real(moved / variance))
            assert oracle.gaussian_delta(real(epsilon), mu) <= real(delta)
            less = mu / mp.sqrt(1 - mp.mpf(10) ** -9)
            assert oracle.gaussian_delta(real(epsilon), less) > real(delta)


@pytest.mark.parametrize(("epsilon", "delta"), [("1e-9", "1e-12"), ("700", "1e-300"), ("1e5", "0.5")])
def test_extreme_targets_are_met(epsilon: str, delta: str) -> None:
    variance = gaussian_sigma_squared(epsilon, delta, 1)
    with mp.workdps(2000):
        assert oracle.gaussian_delta(real(epsilon), 1 / mp.sqrt(real(variance))) <= real(delta)


def test_laplace_scales_are_exact() -> None:
    assert laplace_scale(0.1, 3) == 30
    assert laplace_scale("2/3", Fraction(1, 7)) == Fraction(3, 14)


@pytest.mark.parametrize(("epsilon", "delta", "moved"), [(1, 1e-6, 1), (5, 1e-6, 1), (1, 1e-6, 5), ("0.1", 1e-9, 2)])
def test_integer_noise_is_certified_by_its_own_law(epsilon: object, delta: object, moved: int) -> None:
    variance = integer_gaussian_sigma_squared(epsilon, delta, moved)
    event = GaussianNoise(moved, variance, ADD)
    assert Fraction(pld.delta_bounds(event, Fraction(str(epsilon)))[1]) <= Fraction(str(delta))
    assert 1 <= variance / gaussian_sigma_squared(epsilon, delta, moved) < Fraction(5, 4)


@pytest.mark.parametrize("queries", [1, 2, 30, 31, 39, 500])
def test_noise_for_so_many_queries_fits_exactly_so_many(queries: int) -> None:
    scale = laplace_scale_for(BUDGET, queries, 2)
    assert most_queries(BUDGET, LaplaceNoise(2, scale, ADD)) == queries
    assert most_queries(BUDGET, LaplaceNoise(2, scale * (1 - Fraction(1, 10**8)), ADD)) < queries
    variance = gaussian_sigma_squared_for(BUDGET, queries, 3)
    assert most_queries(BUDGET, GaussianNoise(3, variance, ADD)) == queries
    assert most_queries(BUDGET, GaussianNoise(3, variance * (1 - Fraction(1, 10**15)), ADD)) < queries


@pytest.mark.parametrize(
    "event",
    [
        Pure(Fraction(1, 10), ADD),
        GaussianNoise(1, Fraction(100), ADD),
        Approximate(Pure(Fraction(1, 50), ADD), Fraction(1, 10**7)),
        Repeated(LaplaceNoise(1, Fraction(20), ADD), 3),
    ],
    ids=str,
)
@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10**6)])
def test_the_number_of_queries_is_the_number_that_the_filter_accepts(event: Event, delta: Fraction) -> None:
    for start in (Filter(Fraction(3), delta), Filter(Fraction(3), delta).charge(Pure(Fraction(1, 3), ADD))):
        budget, count = start, 0
        while budget.accepts(event):
            budget, count = budget.charge(event), count + 1
        assert most_queries(start, event) == count


CHOICES = [("0.1", 1, 9.983, 8.412), ("1", 1, 0.851, 1.696), ("1", 20, 19.99, 16.19)]


@pytest.mark.parametrize(("epsilon", "cells", "laplace", "gaussian"), CHOICES)
def test_the_better_noise_is_known(epsilon: str, cells: int, laplace: float, gaussian: float) -> None:
    first, second = better_noise(BUDGET, epsilon, cells, 1, ADD)
    assert isinstance(first.event, GaussianNoise) is (gaussian < laplace)
    assert first.expected_error == pytest.approx(min(laplace, gaussian), abs=6e-4 if cells == 1 else 6e-3)
    assert second.expected_error == pytest.approx(max(laplace, gaussian), abs=6e-4 if cells == 1 else 6e-3)


def test_both_noises_are_charged_alike() -> None:
    for relation in (ADD, REPLACE):
        first, second = better_noise(BUDGET, "0.3", 4, 5, relation)
        one, two = BUDGET.charge(first.event), BUDGET.charge(second.event)
        assert abs(one.renyi - two.renyi) <= 8
        assert min(one.pure or 0, two.pure or 0) == 0
        assert max(one.pure or 0, two.pure or 0) == Fraction(3, 10)


def test_for_one_count_the_two_cross_at_a_quarter() -> None:
    for epsilon, better in (("0.24", GaussianNoise), ("0.252", LaplaceNoise)):
        assert isinstance(better_noise(BUDGET, epsilon, 1, 1, ADD)[0].event, better)


def test_without_delta_there_is_only_laplace_noise() -> None:
    first, second = better_noise(Filter(Fraction(1), Fraction(0)), "0.1", 20, 1, ADD)
    assert first == second
    assert first.event == Repeated(LaplaceNoise(1, Fraction(200), ADD), 20)
    with pytest.raises(BudgetExhausted):
        gaussian_sigma_squared_for(Filter(Fraction(1), Fraction(0)), 1, 1)


def test_expected_errors_are_the_sums_over_the_integers() -> None:
    for variance in ("1e-9", "0.0005", "0.01", "0.5", "7", "99", "101", "400"):
        with mp.workdps(30):
            weights = [mp.exp(-mp.mpf(z * z) / (2 * real(variance))) for z in range(1, 900)]
            truth = 2 * mp.fsum(z * w for z, w in enumerate(weights, 1)) / (1 + 2 * mp.fsum(weights))
        assert gaussian_error(Fraction(variance)) == pytest.approx(float(truth), rel=1e-8)
    for scale in ("1e-4", "0.3", "1", "20"):
        x = mp.exp(-1 / real(scale))
        assert laplace_error(Fraction(scale)) == pytest.approx(float(2 * x / (1 - x * x)), rel=1e-12)
    assert laplace_error(Fraction(10**400)) > 1e300


def test_what_cannot_be_calibrated_is_refused() -> None:
    with pytest.raises(BadParameter):
        laplace_scale(0, 1)
    with pytest.raises(BadParameter):
        laplace_scale(1, 0.5)
    with pytest.raises(BadParameter):
        gaussian_sigma_squared(1, 0, 1)
    with pytest.raises(BadParameter):
        gaussian_sigma_squared(-1, 0.1, 1)
    with pytest.raises(BadParameter):
        integer_gaussian_sigma_squared(1, 1e-6, Fraction(1, 2))  # type: ignore[arg-type]
    with pytest.raises(BadParameter):
        most_queries(BUDGET, Composed(()))
    with pytest.raises(BadParameter):
        better_noise(BUDGET, 1, 0, 1, ADD)
    spent = Filter(Fraction(1), Fraction(0)).charge(Pure(Fraction(1), ADD))
    with pytest.raises(BudgetExhausted):
        laplace_scale_for(spent, 1, 1)
