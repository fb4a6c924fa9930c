"""The grid engine against independent oracles: 50-digit integrals, exact enumeration, closed forms, Rényi bounds."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import special

from sfumato.accounting.distribution.curves import (
    SPECIAL_FUNCTION_ERROR,
    Mixed,
    PairCurve,
    bounded_range,
    gaussian,
    integer_laplace,
    pure,
    real_laplace,
    zcdp_curve,
)
from sfumato.accounting.distribution.discretise import Cut, law_above, law_below
from sfumato.accounting.distribution.grid import EventParts, grid_delta_bounds, prepared_grid
from sfumato.accounting.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    Event,
    GaussianNoise,
    LaplaceNoise,
    Neighbours,
    NonPrivate,
    Parallel,
    PoissonSampled,
    Pure,
    RandomizedResponse,
    RealGaussianNoise,
    RealLaplaceNoise,
    Repeated,
)

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
DIGITS = 30


def gauss(sigma: str) -> RealGaussianNoise:
    return RealGaussianNoise(Fraction(1), Fraction(sigma) ** 2, ADD)


def epsilon_bounds(parts: EventParts, delta: float) -> tuple[float, float]:
    """Bisect both sides of one prepared composition."""
    prepared = prepared_grid(parts, delta)

    def least(side: int) -> float:
        low, high = 0.0, 1e-6
        while prepared.delta_bounds(high)[side] > delta:
            high *= 2
        for _ in range(48):
            middle = (low + high) / 2
            low, high = (middle, high) if prepared.delta_bounds(middle)[side] > delta else (low, middle)
        return high

    return least(0), least(1)


def phi_tail(z: mpmath.mpf) -> mpmath.mpf:
    return mpmath.erfc(z / mpmath.sqrt(2)) / 2


def gaussian_curve(mu: mpmath.mpf, x: mpmath.mpf) -> mpmath.mpf:
    """g(x) of N(mu, 1) against N(0, 1), for any x > 0."""
    t = mpmath.log(x)
    return phi_tail(t / mu - mu / 2) - x * phi_tail(t / mu + mu / 2)


def sampled_gaussian_delta(rate: str, sigma: str, epsilon: str) -> mpmath.mpf:
    """The larger direction, by integrating the positive part of the difference of two densities."""
    q, s, x = mpmath.mpf(rate), mpmath.mpf(sigma), mpmath.exp(mpmath.mpf(epsilon))
    edge = 1 / (2 * s) + s * mpmath.log((x - 1) / q + 1)  # where (1-q) + q e^loss = x, in units of sigma
    removed = mpmath.quad(
        lambda z: (1 - q - x) * mpmath.npdf(z) + q * mpmath.npdf(z, 1 / s), [edge + k for k in (0, 2, 5, 10, 20, 40)]
    )
    added = mpmath.mpf(0)
    if x * (1 - q) < 1:
        other = 1 / (2 * s) + s * mpmath.log((1 / x - 1 + q) / q)
        points = [other - k for k in (40, 20, 10, 5, 2, 0)]
        added = mpmath.quad(lambda z: (1 - x * (1 - q)) * mpmath.npdf(z) - x * q * mpmath.npdf(z, 1 / s), points)
    return max(removed, added)


@pytest.mark.parametrize(
    ("rate", "sigma", "epsilon"),
    [
        ("1e-5", "0.3", "3"),
        ("0.01", "1", "0.5"),
        ("0.01", "50", "0.0002"),
        ("0.5", "0.3", "20"),
        ("0.9", "2", "1"),
        ("0.2", "5", "0.01"),
    ],
)
def test_one_sampled_gaussian_step_brackets_the_integral_of_its_densities(rate: str, sigma: str, epsilon: str) -> None:
    with mpmath.workdps(DIGITS):
        truth = sampled_gaussian_delta(rate, sigma, epsilon)
    event = PoissonSampled(Fraction(rate), gauss(sigma))
    low, high = grid_delta_bounds(((event, 1),), float(epsilon), float(truth))
    assert low <= truth <= high
    assert high <= low * (1 + 1e-4)


def test_the_known_training_run_is_bracketed_within_one_part_in_ten_thousand() -> None:
    parts = ((PoissonSampled(Fraction(256, 60000), gauss("1.1")), 14062),)
    low, high = epsilon_bounds(parts, 1e-5)
    assert low <= 2.38159692142 <= high <= low * (1 + 1e-4)
    low, high = grid_delta_bounds(parts, 2.0, 1e-4)
    assert low <= 1.19042632179e-4 <= high <= low * (1 + 1e-4)


KNOWN: list[tuple[EventParts, float, float]] = [
    (((RealLaplaceNoise(Fraction(1), Fraction(10), ADD), 100),), 1e-6, 4.69266741468),
    (((gauss("1"), 1),), 1e-6, 4.88655411746),
    (((RandomizedResponse(Fraction(1, 10), 2, REPLACE), 100),), 1e-6, 4.77456758811),
    (((RandomizedResponse(Fraction(1, 100), 2, REPLACE), 10000),), 1e-6, 4.88551560101),
    (((GaussianNoise(1, Fraction(1), ADD), 1),), 1e-6, 4.49959098219),
    (((GaussianNoise(1, Fraction(100), ADD), 100),), 1e-6, 4.88657074586),
    (
        (
            (RealLaplaceNoise(Fraction(1), Fraction(20), ADD), 50),
            (gauss("20"), 30),
            (LaplaceNoise(1, Fraction(10), ADD), 20),
        ),
        1e-6,
        2.83433819599,
    ),
]


@pytest.mark.parametrize(("parts", "delta", "truth"), KNOWN, ids=lambda value: str(value)[:60])
def test_unsampled_compositions_agree_with_the_known_values(parts: EventParts, delta: float, truth: float) -> None:
    low, high = epsilon_bounds(parts, delta)
    assert low <= truth * (1 + 1e-11)
    assert truth <= high * (1 + 1e-11)
    assert high <= low * (1 + 1e-4)


@pytest.mark.parametrize(("sigma", "times", "delta"), [("0.3", 1, 1e-12), ("50", 1, 1e-5), ("5", 1000, 1e-12)])
def test_sampling_everybody_is_no_sampling(sigma: str, times: int, delta: float) -> None:
    low, high = epsilon_bounds(((PoissonSampled(Fraction(1), gauss(sigma)), times),), delta)
    with mpmath.workdps(DIGITS):
        mu = mpmath.sqrt(times) / mpmath.mpf(sigma)
        assert gaussian_curve(mu, mpmath.exp(low)) >= delta * (1 - 1e-9)
        assert gaussian_curve(mu, mpmath.exp(high)) <= delta * (1 + 1e-9)
    assert high <= low * (1 + 1e-4)


def enumerated(pairs: list[tuple[list[mpmath.mpf], list[mpmath.mpf]]], epsilon: float) -> mpmath.mpf:
    """Σ max(P - e^epsilon Q, 0) over all outcomes of independent pairs of discrete laws."""
    total, x = mpmath.mpf(0), mpmath.exp(mpmath.mpf(epsilon))
    for outcome in itertools.product(*[list(zip(p, q, strict=True)) for p, q in pairs]):
        p, q = mpmath.fprod(one for one, _ in outcome), mpmath.fprod(other for _, other in outcome)
        total += max(p - x * q, mpmath.mpf(0))
    return total


def integer_laplace_pair(shift: int, scale: int) -> tuple[list[mpmath.mpf], list[mpmath.mpf]]:
    """Outcomes of integer Laplace noise moved by `shift`, cut into the cells where the ratio is constant."""
    x = mpmath.exp(-mpmath.mpf(1) / scale)
    tail = [x**k / (1 + x) for k in range(shift + 1)]  # P[Z >= k] for k >= 1; P[Z <= 0] = 1/(1 + x)
    middle = [(1 - x) / (1 + x) * x**j for j in range(1, shift)]
    p = [tail[0], *middle, tail[shift]]
    return p, p[::-1]


def mixed(
    pair: tuple[list[mpmath.mpf], list[mpmath.mpf]], rate: str, backward: bool
) -> tuple[list[mpmath.mpf], list[mpmath.mpf]]:
    q = mpmath.mpf(rate)
    mixture = [(1 - q) * without + q * present for present, without in zip(*pair, strict=True)]
    return (pair[1], mixture) if backward else (mixture, pair[1])


@pytest.mark.parametrize("epsilon", [0.0, 0.9])
@pytest.mark.parametrize("rate", ["0.1", "0.6"])
def test_sampled_integer_laplace_noise_brackets_exact_enumeration(rate: str, epsilon: float) -> None:
    sampled = PoissonSampled(Fraction(rate), LaplaceNoise(3, Fraction(2), ADD))
    parts: EventParts = ((sampled, 3), (LaplaceNoise(2, Fraction(5), ADD), 1), (Pure(Fraction(1, 5), ADD), 1))
    with mpmath.workdps(DIGITS):
        e = mpmath.exp(mpmath.mpf(1) / 5)
        rest = [integer_laplace_pair(2, 5), ([e / (1 + e), 1 / (1 + e)], [1 / (1 + e), e / (1 + e)])]
        directions = [[mixed(integer_laplace_pair(3, 2), rate, back)] * 3 for back in (False, True)]
        truth = max(enumerated([*one, *rest], epsilon) for one in directions)
    low, high = grid_delta_bounds(parts, epsilon, 1e-3)
    assert low <= truth <= high
    assert high - low <= 1e-3 * truth


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_what_one_sample_serves_several_times_is_composed_inside(epsilon: float) -> None:
    inner = Composed((Repeated(LaplaceNoise(1, Fraction(5), ADD), 3), LaplaceNoise(2, Fraction(4), ADD)))
    with mpmath.workdps(DIGITS):
        pairs = [*[integer_laplace_pair(1, 5)] * 3, integer_laplace_pair(2, 4)]
        outcomes = list(itertools.product(*[list(zip(p, q, strict=True)) for p, q in pairs]))
        p = [mpmath.fprod(one for one, _ in outcome) for outcome in outcomes]
        q = [mpmath.fprod(other for _, other in outcome) for outcome in outcomes]
        truth = max(enumerated([mixed((p, q), "0.2", back)], epsilon) for back in (False, True))
    low, high = grid_delta_bounds(((PoissonSampled(Fraction(1, 5), inner), 1),), epsilon, 1e-2)
    assert low <= truth <= high
    assert high - low <= 1e-3 * truth


def test_one_sample_for_four_gaussian_answers_is_one_sample_for_a_wider_one() -> None:
    four = PoissonSampled(Fraction(1, 10), Repeated(gauss("2"), 4))
    one = PoissonSampled(Fraction(1, 10), gauss("1"))
    assert grid_delta_bounds(((four, 10),), 2.0, 1e-4) == grid_delta_bounds(((one, 10),), 2.0, 1e-4)


def test_sampling_twice_is_sampling_by_the_product() -> None:
    twice = PoissonSampled(Fraction(1, 10), PoissonSampled(Fraction(1, 5), gauss("1")))
    low, high = grid_delta_bounds(((twice, 50),), 0.5, 1e-4)
    other_low, other_high = grid_delta_bounds(((PoissonSampled(Fraction(1, 50), gauss("1")), 50),), 0.5, 1e-4)
    assert low <= other_high
    assert other_low <= high
    assert high <= low * (1 + 1e-3)


def test_sampling_turns_a_failure_of_delta_into_one_of_rate_times_delta() -> None:
    event = PoissonSampled(Fraction(1, 100), Approximate(Pure(Fraction(1), ADD), Fraction(1, 1000)))
    low, high = grid_delta_bounds(((event, 1),), 1.0, 1e-5)  # beyond every finite loss
    assert low <= 1e-5 <= high
    assert high - low < 1e-13


def test_a_sampled_release_without_guarantee_fails_as_often_as_it_draws_somebody() -> None:
    low, high = grid_delta_bounds(((PoissonSampled(Fraction(1, 100), NonPrivate(ADD)), 3),), 1.0, 1e-2)
    assert low <= 1 - 0.99**3 <= high
    assert high - low < 1e-9
    assert grid_delta_bounds(((NonPrivate(ADD), 1),), 5.0, 1e-6)[1] == 1.0


def renyi_epsilon(rate: float, sigma: float, times: int, delta: float) -> float:
    """The sampled Gaussian's Rényi bound at integer orders [MTZ19], converted as in [CKS20]."""
    best = math.inf
    for order in range(2, 200):
        j = np.arange(order + 1)
        logs = (
            special.gammaln(order + 1) - special.gammaln(j + 1) - special.gammaln(order - j + 1)
            + (order - j) * math.log1p(-rate) + j * math.log(rate) + (j * j - j) / (2 * sigma**2)
        )  # fmt: skip
        loss = times * float(special.logsumexp(logs)) / (order - 1)
        best = min(best, loss + math.log1p(-1 / order) - math.log(order * delta) / (order - 1))
    return best


@pytest.mark.parametrize(
    ("rate", "sigma", "times", "delta"),
    [
        ("1e-5", "0.3", 1000, 1e-12),
        ("1e-3", "1", 10**6, 1e-6),
        ("1e-3", "50", 10**6, 1e-6),
        ("0.5", "2", 1000, 1e-10),
        ("0.1", "0.5", 10**4, 1e-6),
        ("0.02", "4", 1, 1e-12),
    ],
)
def test_far_apart_parameters_are_tight_and_below_the_renyi_bound(
    rate: str, sigma: str, times: int, delta: float
) -> None:
    low, high = epsilon_bounds(((PoissonSampled(Fraction(rate), gauss(sigma)), times),), delta)
    assert high <= low * (1 + 1e-4)
    assert low <= renyi_epsilon(float(rate), float(sigma), times, delta)


def test_parallel_parts_cost_the_worst_part() -> None:
    mild, harsh = gauss("2"), PoissonSampled(Fraction(1, 2), gauss("0.5"))
    low, high = grid_delta_bounds(((Parallel((mild, harsh)), 1),), 3.0, 1e-2)
    alone = [grid_delta_bounds(((event, 1),), 3.0, 1e-2) for event in (mild, harsh)]
    assert low <= max(other for _, other in alone)
    assert max(one for one, _ in alone) <= high
    assert high <= low * (1 + 1e-3)


def test_integer_gaussian_noise_of_larger_sensitivity_brackets_each_vector() -> None:
    variance, x = mpmath.mpf(4), mpmath.exp(mpmath.mpf("0.8"))
    low, high = grid_delta_bounds(((GaussianNoise(5, Fraction(4), ADD), 1),), 0.8, 1e-2)
    with mpmath.workdps(DIGITS):
        span = range(-60, 61)
        law = {z: mpmath.exp(-mpmath.mpf(z * z) / (2 * variance)) for z in span}
        total = mpmath.fsum(law.values())

        def delta(first: int, second: int) -> mpmath.mpf:
            near = range(-40, 41)
            return (
                mpmath.fsum(
                    max(law[a] * law[b] - x * law[a - first] * law[b - second], mpmath.mpf(0))
                    for a in near
                    for b in near
                )
                / total**2
            )

        vectors = [delta(2, 1), delta(2, 0), delta(1, 1)]
    assert low <= max(vectors) * (1 + mpmath.mpf("1e-20")) <= high
    assert low >= 0.8 * float(max(vectors))
    assert high <= 1.5 * float(max(vectors))


@pytest.mark.parametrize("event", [BoundedRange(Fraction(1, 2), ADD), Concentrated(Fraction(1, 8), ADD)], ids=repr)
def test_releases_known_by_a_bound_lie_above_a_release_that_attains_it(event: Event) -> None:
    member = Pure(Fraction(1, 4), ADD) if isinstance(event, BoundedRange) else gauss("2")
    low, high = grid_delta_bounds(((event, 20),), 0.5, 1e-3)
    other_low, other_high = grid_delta_bounds(((member, 20),), 0.5, 1e-3)
    assert low <= other_high
    assert other_low <= high


def test_bounded_range_is_the_envelope_of_its_two_point_pairs() -> None:
    spread = 0.7
    t = np.linspace(-0.69, 0.69, 23)
    tops = np.linspace(0, spread, 20001)
    p = (math.exp(spread) - np.exp(tops)) / math.expm1(spread)
    pairs = p * np.maximum(-np.expm1(t[:, None] - tops), 0) + (1 - p) * np.maximum(
        -np.expm1(t[:, None] - tops + spread), 0
    )
    envelope = pairs.max(axis=1)
    above = bounded_range(spread).above(t)
    assert (above >= envelope).all()
    assert (above <= envelope + 1e-7).all()


CURVES: list[PairCurve] = [
    gaussian(0.02), gaussian(1.0), gaussian(7.0), real_laplace(0.1), real_laplace(3.0), integer_laplace(1, 10.0),
    integer_laplace(7, 2.0), pure(0.01), pure(2.0), Mixed(1e-5, gaussian(3.0), False), Mixed(0.01, gaussian(1.0), True),
    Mixed(0.3, real_laplace(1.0), False), Mixed(0.3, pure(1.0), True), Mixed(1e-3, integer_laplace(3, 1.0), False),
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(CURVES)))
@pytest.mark.parametrize("unit", [0.01, 0.4])
def test_the_law_below_never_rises_over_the_curve_and_the_law_above_never_falls_under_it(
    index: int, unit: float
) -> None:
    curve = CURVES[index]
    t = np.linspace(-4, 4, 321)
    for offset in (0.0, unit / 3):
        cut = Cut(unit, offset, math.floor(-5 / unit), math.ceil(30 / unit))
        over, under = law_above(curve, cut), law_below(curve, cut)
        for law, sign in ((over, 1), (under, -1)):
            losses = law.offset + (law.first + np.arange(len(law.masses))) * unit
            assert (law.masses >= 0).all()
            height = law.infinite + np.maximum(-np.expm1(t[:, None] - losses[None]), 0) @ law.masses
            truth = curve.above(t) if sign < 0 else curve.below(t)[0]
            assert (sign * (height - truth) >= -1e-13).all()


@pytest.mark.parametrize("index", range(len(CURVES)))
def test_no_line_that_a_curve_names_rises_over_the_curve(index: int) -> None:
    curve = CURVES[index]
    t = np.linspace(-3, 3, 301)
    value, least, most = curve.below(t)
    over = curve.above(t)
    assert (value <= over).all()
    assert (least <= most).all()
    x = np.exp(t)
    for mass in (least, most):
        lines = value[:, None] + (x[:, None] - x[None]) * mass[:, None]
        assert (lines <= over[None] + 1e-12).all()


@pytest.mark.parametrize("mu", ["0.02", "1", "7"])
def test_the_gaussian_curve_lies_between_its_sides_far_into_the_tail(mu: str) -> None:
    with mpmath.workdps(60):
        for t in ("-5", "-0.01", "0", "0.001", "0.5", "3", "12"):
            truth = gaussian_curve(mpmath.mpf(mu), mpmath.exp(mpmath.mpf(float(t))))
            curve = gaussian(float(mu))
            low, high = curve.below(np.array([float(t)]))[0][0], curve.above(np.array([float(t)]))[0]
            assert low <= truth <= high


def test_the_special_functions_are_as_accurate_as_the_error_terms_assume() -> None:
    points = np.concatenate([np.linspace(-38, 8, 200), [0.0, -1e-9, 1e-9, -1.0, 5.0]])
    values = special.log_ndtr(points)
    with mpmath.workdps(60):
        for point, value in zip(points, values, strict=True):
            truth = mpmath.log(phi_tail(-mpmath.mpf(point)))
            assert abs(value - truth) <= SPECIAL_FUNCTION_ERROR / 4 * (1 + abs(truth))
        for point in np.concatenate([np.geomspace(1e-12, 30, 60), -np.geomspace(1e-12, 30, 60)]):
            exact = mpmath.mpf(float(point))
            assert abs(float(np.expm1(point)) / mpmath.expm1(exact) - 1) <= SPECIAL_FUNCTION_ERROR / 16
            assert abs(float(np.exp(point)) / mpmath.exp(exact) - 1) <= SPECIAL_FUNCTION_ERROR / 16
            if point > -0.9:
                assert abs(float(np.log1p(point)) / mpmath.log1p(exact) - 1) <= SPECIAL_FUNCTION_ERROR / 16


def test_the_zcdp_curve_lies_above_the_gaussian_of_the_same_rho() -> None:
    t = np.linspace(-6, 6, 241)
    assert (zcdp_curve(0.5).above(t) >= gaussian(1.0).below(t)[0]).all()


def test_both_sides_are_monotone_far_away_from_the_epsilon_they_were_prepared_for() -> None:
    prepared = prepared_grid(((PoissonSampled(Fraction(1, 100), gauss("1")), 500),), 1e-6)
    reference = prepared_grid(((PoissonSampled(Fraction(1, 100), gauss("1")), 500),), 1e-2)
    for epsilon in (0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0):
        low, high = prepared.delta_bounds(epsilon)
        other_low, other_high = reference.delta_bounds(epsilon)
        assert low <= other_high
        assert other_low <= high


def test_nothing_costs_nothing() -> None:
    assert grid_delta_bounds((), 0.0, 1e-6) == (0.0, 0.0)
    assert grid_delta_bounds(((Composed(()), 3),), 0.0, 1e-6) == (0.0, 0.0)
