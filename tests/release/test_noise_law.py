"""Tails of weighted sums against quadrature and the exact integer laws; draws against the laws themselves."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.special import erfc
from tests.release.plans import gaussian, laplace

from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.release.noise_law import Floats, Law, draw_noise, even_shares, law_of, tail_of_two
from sfumato.release.ratio import ratio_interval

LAWS = (Law(True, 3.0), Law(True, 40.0), Law(False, 5.0), Law(False, 60.0))


def density(law: Law, values: Floats) -> Floats:
    if law.laplace:
        return np.asarray(np.exp(-np.abs(values) / law.scale) / (2 * law.scale))
    return np.asarray(np.exp(-((values / law.scale) ** 2) / 2) / (law.scale * (2 * np.pi) ** 0.5))


def integer_law(law: Law, reach: int) -> Floats:
    weights = density(law, np.arange(-reach, reach + 1).astype(np.float64))
    return np.asarray(weights / weights.sum())


def upper(law: Law, scale: float, values: Floats) -> Floats:
    """Return P[R > value] of one real law at this scale."""
    if law.laplace:
        half = np.exp(-np.abs(values) / scale) / 2
        return np.asarray(np.where(values >= 0, half, 1 - half))
    return np.asarray(erfc(values / (scale * 2**0.5)) / 2)


@pytest.mark.parametrize("one", LAWS, ids=repr)
@pytest.mark.parametrize("other", LAWS, ids=repr)
def test_the_tail_of_two_is_that_of_their_convolution(one: Law, other: Law) -> None:
    middle = np.linspace(-30 * one.scale, 30 * one.scale, 20_001)
    width = middle[1] - middle[0]
    for weight, reach in product((1e-6, 0.5, 1.0, 7.0), (0.0, 10.0, 150.0)):
        above = upper(other, weight * other.scale, reach - middle)
        expected = 2 * float((density(one, middle) * above).sum() * width)
        found = float(tail_of_two(np.array([reach]), one, other, np.array([weight]))[0])
        assert found == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("pair", [(laplace(8), laplace(2)), (laplace(60), laplace(4)), (gaussian(30), gaussian(3))])
@pytest.mark.parametrize("ratio", [0.0, 0.3, 2.0, 17.5])
def test_the_true_ratio_is_possible_with_the_level_under_the_exact_integer_laws(
    pair: tuple[Laplace | Gaussian, Laplace | Gaussian], ratio: float
) -> None:
    total, count = (law_of(mechanism) for mechanism in pair)
    first, second = integer_law(total, int(20 * total.scale)), integer_law(count, int(20 * count.scale))
    steps = (np.arange(len(side)) - len(side) // 2 for side in (first, second))
    noise = np.abs(np.subtract.outer(next(steps), ratio * next(steps)))
    distance = np.maximum(noise - total.lattice - ratio * count.lattice, 0)
    possible = tail_of_two(distance, total, count, np.full_like(distance, ratio)) >= 0.05
    assert float((np.outer(first, second) * possible).sum()) >= 0.95


@pytest.mark.parametrize("mechanism", [laplace(1), laplace(30), gaussian(12)], ids=repr)
def test_draws_have_the_law_of_the_noise(mechanism: Laplace | Gaussian) -> None:
    draws = draw_noise(mechanism, even_shares("seed", 200_000, 1)[0])
    law = integer_law(law_of(mechanism), 2000)
    found = np.bincount(draws + 2000, minlength=4001) / len(draws)
    # the shares are the middles of equal parts, so only rounding remains (and a normal law rounded to integers)
    assert np.abs(found.cumsum() - law.cumsum()).max() < 2e-3


def test_the_same_seed_gives_the_same_shares_and_each_column_holds_every_part_once() -> None:
    shares = even_shares("a", 100, 3)
    assert np.array_equal(np.sort(shares, axis=1), np.tile((np.arange(100) + 0.5) / 100, (3, 1)))
    assert not np.array_equal(shares[0], shares[1])
    assert not np.array_equal(shares, even_shares("b", 100, 3))


def test_the_quantile_of_two_laplaces_is_convex_in_the_ratio() -> None:
    """The border of the ratio interval is found by halving, which needs that there is one border on each side."""
    total, count = Law(True, 50.0), Law(True, 3.0)
    ratios, reach = np.linspace(0, 200, 400), np.linspace(0, 4000, 20_001)
    quantiles = np.array(
        [reach[np.argmax(tail_of_two(reach, total, count, np.full_like(reach, r)) < 0.05)] for r in ratios]
    )
    assert (np.diff(quantiles, 2) > -0.41).all()  # the grid of 0.2 rounds each quantile


def test_noise_that_leaves_everything_possible_gives_the_public_range() -> None:
    low, high = ratio_interval(
        np.array([3.0]), np.array([1.0]), (Law(True, 50.0), Law(True, 50.0)), (-10.0, 10.0), 0.95
    )
    assert (low[0], high[0]) == (-10.0, 10.0)


@pytest.mark.parametrize(("total", "end"), [(1e9, 10.0), (-1e9, -10.0)])
def test_an_average_beyond_its_range_ends_at_the_range(total: float, end: float) -> None:
    low, high = ratio_interval(
        np.array([total]), np.array([1e6]), (Law(True, 5.0), Law(True, 5.0)), (-10.0, 10.0), 0.95
    )
    assert (low[0], high[0]) == (end, end)


def test_counts_that_are_not_above_zero_have_no_average() -> None:
    ends = ratio_interval(
        np.array([3.0, 3.0]), np.array([0.0, -4.0]), (Law(True, 5.0), Law(True, 5.0)), (-1.0, 1.0), 0.9
    )
    assert np.isnan(ends).all()


def test_small_noise_is_nearly_a_lattice() -> None:
    assert law_of(laplace(Fraction(1, 10))).lattice > 0.9
    assert law_of(laplace(1000)).lattice == pytest.approx(0.5, abs=1e-3)
