"""Tails and quantiles of weighted sums against quadrature and the exact integer laws; Fieller's set."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.special import erfc, gammaincc
from tests.release.plans import gaussian, laplace

from sfumato.accounting.event import Neighbours
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.max_norm import MaxNorm
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.plan import PlannedMeasurement
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation
from sfumato.release.intervals.forms import Affine, Ratio
from sfumato.release.intervals.measured_cells import MeasuredCells
from sfumato.release.intervals.noise_law import Floats, Law, law_of, moments_of, quantile_of_sum, tail_of_two
from sfumato.release.intervals.ratio import of_few, of_two, ratio_interval
from sfumato.sensitivity import norms

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
        found = float(tail_of_two(np.array([reach]), one, other, (np.ones(1), np.array([weight])))[0])
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
    possible = tail_of_two(distance, total, count, (np.ones_like(distance), np.full_like(distance, ratio))) >= 0.05
    assert float((np.outer(first, second) * possible).sum()) >= 0.95


def convolved(parts: list[tuple[Law, int]]) -> Floats:
    """Return the law of a sum of integer noises with whole weights, by multiplying transforms: its tails beyond 0."""
    reach = int(60 * sum(weight * law.scale for law, weight in parts)) + 60
    size = 1 << (2 * reach).bit_length()
    product_of = np.ones(size // 2 + 1, dtype=np.complex128)
    for law, weight in parts:
        one = np.zeros(size)
        far = int(45 * law.scale) + 45
        np.add.at(one, np.arange(-far, far + 1) * weight % size, integer_law(law, far))
        product_of *= np.fft.rfft(one)
    found = np.fft.irfft(product_of, size)
    sizes = found[: size // 2] + np.concatenate([[0.0], found[: size // 2 : -1]])
    return np.asarray(1 - np.cumsum(sizes))


@pytest.mark.parametrize("tail", [0.5, 0.1, 0.05, 0.01, 1e-3, 1e-5])
@pytest.mark.parametrize(
    "parts",
    [
        [(Law(True, 40.0), 1), (Law(True, 40.0), 1)],
        [(Law(True, 40.0), 1), (Law(True, 20.0), 1)],
        [(Law(True, 20.0), 3), (Law(True, 20.0), 1), (Law(True, 20.0), 1)],
        [(Law(True, 30.0), 1), (Law(False, 30.0), 1)],
        [(Law(True, 5.0), 7), (Law(False, 30.0), 2), (Law(True, 11.0), 1)],
        [(Law(True, 0.4), 1), (Law(True, 0.4), 1)],
        [(Law(False, 0.5), 1)] * 3,
        [(Law(True, 2.0), 1)] * 50,
        [(Law(False, 9.0), 1)] * 20,
    ],
    ids=repr,
)
def test_a_sum_of_noises_goes_beyond_its_quantile_as_seldom_as_it_should_and_not_much_more_seldom(
    parts: list[tuple[Law, int]], tail: float
) -> None:
    moments = np.array([law.moments for law, _ in parts])
    weights = np.array([float(weight) for _, weight in parts])
    variance, fourth = (weights**2 * moments[:, 0]).sum(), (weights**4 * moments[:, 1]).sum()
    reach = quantile_of_sum(np.array([variance]), np.array([fourth]), np.array([weights.max()]), tail)[0]
    exact = convolved(parts)
    assert exact[int(reach)] <= tail * 1.0001 + 1e-12
    if variance > 100 and tail >= 0.01:
        assert exact[int(reach * 0.95 - weights.max())] >= tail


@pytest.mark.parametrize("tail", [0.5, 0.2, 0.05, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8])
@pytest.mark.parametrize("laplace_too", [True, False])
def test_no_mixture_of_two_laws_goes_beyond_its_quantile_more_often(tail: float, laplace_too: bool) -> None:
    weights = np.geomspace(0.01, 100, 200)
    one, other = Law(True, 1e4), Law(laplace_too, 1e4)
    moments = [law.moments for law in (one, other)]
    variance = moments[0][0] + weights**2 * moments[1][0]
    fourth = moments[0][1] + weights**4 * moments[1][1]
    reach = quantile_of_sum(variance, fourth, np.maximum(1, weights), tail)
    assert (tail_of_two(reach, one, other, (np.ones_like(weights), weights)) <= tail).all()


def test_the_quantile_of_two_laplaces_is_convex_in_the_ratio() -> None:
    """The border of the ratio interval is found by halving, which needs that there is one border on each side."""
    total, count = Law(True, 50.0), Law(True, 3.0)
    ratios, reach = np.linspace(0, 200, 400), np.linspace(0, 4000, 20_001)
    quantiles = np.array(
        [
            reach[np.argmax(tail_of_two(reach, total, count, (np.ones_like(reach), np.full_like(reach, r))) < 0.05)]
            for r in ratios
        ]
    )
    assert (np.diff(quantiles, 2) > -0.41).all()  # the grid of 0.2 rounds each quantile


def average_ends(total: float, count: float, scale: float, level: float = 0.95) -> tuple[float, float]:
    """Return the interval of total / count in [-10, 10], both with Laplace noise of this scale."""
    over, under, laws = np.array([total]), np.array([count]), (Law(True, scale), Law(True, scale))
    weights = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    possible = of_two(over, under, laws, weights, 1 - level)
    low, high = ratio_interval(over, under, possible, (np.array([-10.0]), np.array([10.0])))
    return float(low[0]), float(high[0])


def test_noise_that_leaves_everything_possible_gives_the_public_range() -> None:
    assert average_ends(3.0, 1.0, 50.0) == (-10.0, 10.0)


@pytest.mark.parametrize(("total", "end"), [(1e9, 10.0), (-1e9, -10.0)])
def test_an_average_beyond_its_range_ends_at_the_range(total: float, end: float) -> None:
    assert average_ends(total, 1e6, 5.0) == (end, end)


def test_a_ratio_to_nothing_can_be_everything() -> None:
    assert average_ends(3.0, 0.0, 5.0) == (-10.0, 10.0)


def test_an_unbounded_range_is_left_only_where_the_denominator_is_far_from_zero() -> None:
    over, under = np.array([100.0, 100.0]), np.array([200.0, 20.0])
    moments, draws = (np.full((2, 3), 200.0), np.full((2, 3), 120_000.0), np.zeros((2, 3))), np.full((2, 3), -1)
    weights = np.tile([1.0, 1.0, 0.0], (2, 1)), np.tile([0.0, 0.0, 1.0], (2, 1))
    everything = np.full(2, -np.inf), np.full(2, np.inf)
    low, high = ratio_interval(over, under, of_few(over, under, moments, draws, weights, 0.05), everything)
    assert -np.inf < low[0] < 0.5 < high[0] < np.inf
    assert (low[1], high[1]) == (-np.inf, np.inf)


def test_small_noise_is_nearly_a_lattice() -> None:
    assert law_of(laplace(Fraction(1, 10))).lattice > 0.9
    assert law_of(laplace(1000)).lattice == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("parts", [3, 5, 8])
@pytest.mark.parametrize("others", [[], [1.0], [0.3], "all"], ids=str)
def test_sums_of_noise_that_is_shared_stay_within_their_quantile(parts: int, others: list[float] | str) -> None:
    """Against the real law: a radius with the gamma law times a sum of uniform numbers, by summing over a grid."""
    weights = np.array([1.0, *([1.0] * (parts - 1) if others == "all" else others)])
    joint = MaxNorm((1000,) * parts, 1, Fraction(1, 50), Neighbours.ADD_REMOVE)
    variance, fourth, shared = moments_of(joint.part(0))
    total = float((weights**2).sum())
    cumulant = fourth * float((weights**4).sum()) + (shared * total) ** 2
    step = weights.sum() / 4000
    density = np.ones(1)
    for weight in weights:
        density = np.convolve(density, np.ones(int(2 * weight / step) + 1))
    places = (np.arange(len(density)) - (len(density) - 1) / 2) * step
    unit = float(variance / ((parts + 1) * (parts + 2) / 3)) ** 0.5
    for tail in (0.2, 0.05, 0.01, 1e-3, 1e-5):
        reach = float(quantile_of_sum(np.array([variance * total]), np.array([cumulant]), np.ones(1), tail)[0]) / unit
        beyond = (density * gammaincc(parts + 1, reach / np.maximum(np.abs(places), 1e-9))).sum() / density.sum()
        assert beyond <= tail * 1.03
        assert tail < 0.05 or beyond >= tail * 0.75  # not much wider than it needs to be


@pytest.mark.parametrize("rate", [4, 6])
@pytest.mark.parametrize("mean", [0, 10])
def test_averages_hold_their_level_also_where_noise_that_is_shared_is_small(rate: int, mean: int) -> None:
    """Against the exact law of a sum of values up to 100 and a count: every pair of integers by its probability."""
    joint = MaxNorm((100, 1), 1, Fraction(rate), Neighbours.ADD_REMOVE)
    sums, counts = (one.ravel().astype(np.float64) for one in np.mgrid[-900:901, -9:10])
    steps = joint.law.steps
    chances = np.exp(-rate * np.ceil(steps * np.maximum(np.abs(sums) / 100, np.abs(counts))) / steps)
    count: Quantity = Aggregate(Aggregation.COUNT, ())
    measured = tuple(
        PlannedMeasurement(name, count, norms.count(1, Neighbours.ADD_REMOVE), joint.part(place))
        for place, name in enumerate("TN")
    )
    size, people = len(sums), 10**6
    variances, fourths, shared = (
        np.repeat(one, size) for one in zip(*(moments_of(one.mechanism) for one in measured), strict=True)
    )
    cells = MeasuredCells(
        measured=measured,
        labels=("g", "g"),
        starts={("g", "T"): 0, ("g", "N"): size},
        kinds=np.repeat([0, 1], size),
        values=np.concatenate([sums + mean * people, counts + people]),
        variances=variances,
        fourths=fourths,
        shared=shared,
        draws=np.tile(np.arange(size), 2),
        laws=(None, None),
        selections=(None, None),
    )
    rows = np.arange(size)
    over, under = (Affine(cells, np.zeros(size), rows, start + rows, np.ones(size)) for start in (0, size))
    ratio = Ratio(over, under, np.full(size, -np.inf), np.full(size, np.inf), ())
    for tail in (Fraction(1, 20), Fraction(1, 100)):
        low, high = ratio.ends(tail)
        missed = chances[(low > mean) | (high < mean)].sum() / chances.sum()
        assert missed <= 1.05 * tail
