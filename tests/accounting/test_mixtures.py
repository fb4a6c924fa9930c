"""Mixtures, cut samples, trees, the best of several runs, order 1 and delta 0: against the laws themselves."""

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import comb, erfc, exp, inf, log, sqrt
from random import Random
from typing import cast

import numpy as np
import pytest

from sfumato.accounting import pld, pure, rdp, zcdp
from sfumato.accounting.best_of import log_mean
from sfumato.accounting.event import (
    Approximate,
    BestOfNegativeBinomial,
    BestOfPoisson,
    BoundedRange,
    Composed,
    Concentrated,
    Event,
    GaussianMixture,
    GaussianNoise,
    LaplaceBounded,
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
    TreeAggregation,
    TruncatedPoissonSampled,
)
from sfumato.accounting.filter import Filter
from sfumato.accounting.group import group_event
from sfumato.accounting.truncated_sampling import truncation
from sfumato.errors import BadParameter, UnsupportedEvent

F = Fraction
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
GAUSS = RealGaussianNoise(F(1), F(1), ADD)
X = np.linspace(-40, 40, 400_001)
STEP = X[1] - X[0]
Density = np.ndarray


def normal(mean: float, sigma: float = 1.0) -> Density:
    return np.exp(-((X - mean) ** 2) / (2 * sigma * sigma)) / (sigma * sqrt(2 * np.pi))


def hockey_stick(p: Density, q: Density, epsilon: float) -> float:
    """Return the larger of both directions, by an integral on a fine grid: right to about 1e-8."""
    return max(float(np.maximum(a - exp(epsilon) * b, 0).sum() * STEP) for a, b in ((p, q), (q, p)))


def renyi(p: Density, q: Density, order: float) -> float:
    seen = (p > 1e-250) & (q > 1e-250)  # what is left out is far below the digits compared
    sums = [
        float(np.exp(order * np.log(a[seen]) + (1 - order) * np.log(b[seen])).sum() * STEP) for a, b in ((p, q), (q, p))
    ]
    return log(max(sums)) / (order - 1)


MIXTURES = [
    GaussianMixture(F(1), (F(0), F(1), F(2)), (F(1, 5), F(3, 5), F(1, 5)), ADD),
    GaussianMixture(F(4), (F(0), F(2), F(3)), (F(33, 100), F(34, 100), F(33, 100)), ADD),
    GaussianMixture(F(1), (F(1, 2), F(3)), (F(999, 1000), F(1, 1000)), ADD),
    GaussianMixture(F(1), (F(1),), (F(1),), ADD),
    GaussianMixture(F(1, 4), (F(0), F(1)), (F(99, 100), F(1, 100)), ADD),
]


def densities(event: GaussianMixture) -> tuple[Density, Density]:
    sigma = sqrt(event.sigma_squared)
    parts = zip(event.sensitivities, event.probabilities, strict=True)
    return sum((float(share) * normal(float(length), sigma) for length, share in parts), 0 * X), normal(0, sigma)


@pytest.mark.parametrize("event", MIXTURES, ids=range(len(MIXTURES)))
def test_a_mixture_of_gaussians_costs_what_its_integral_says(event: GaussianMixture) -> None:
    p, q = densities(event)
    for epsilon in (0.0, 0.1, 0.7, 2.0, 5.0):
        low, high = pld.delta_bounds(event, epsilon)
        truth = hockey_stick(p, q, epsilon)
        assert low - 2e-8 <= truth <= high + 2e-8
        assert high - low <= 1e-8 * high + 1e-15
    for order in (1.5, 2, 7):
        assert renyi(p, q, order) <= rdp.loss(event, order) * (1 + 1e-9)
        assert rdp.loss(event, order) <= zcdp.rho(event) * order * (1 + 1e-12)


def test_a_sample_is_a_mixture_and_a_mixture_of_one_length_is_plain_noise() -> None:
    for rate in (F(1, 100), F(1, 2)):
        mixture = GaussianMixture(F(1), (F(0), F(1)), (1 - rate, rate), ADD)
        for times in (1, 30):
            ours, known = (pld.bounds(Repeated(one, times), 1e-6) for one in (mixture, PoissonSampled(rate, GAUSS)))
            assert ours == pytest.approx(known, rel=1e-4)
        assert rdp.loss(mixture, 3) == rdp.loss(PoissonSampled(rate, GAUSS), 3)
    inside = PoissonSampled(F(1, 3), MIXTURES[0])
    assert rdp.loss(inside, 2) < rdp.loss(MIXTURES[0], 2)
    assert pld.bounds(inside, 1e-6)[1] < pld.bounds(MIXTURES[0], 1e-6)[0]


def test_mixtures_compose_between_bounds_that_are_near() -> None:
    low, high = pld.bounds(Composed((Repeated(MIXTURES[0], 3), Repeated(MIXTURES[1], 2))), 1e-6)
    assert low < 17.193115 + 1e-7
    assert high < 17.193115 + 1e-7
    assert high - low < 1e-5


@pytest.mark.parametrize(
    ("units", "limit", "rate"),
    [(4, 2, F(1, 2)), (3, 2, F(1, 2)), (30, 5, F(1, 5)), (50, 30, F(1, 3)), (40, 3, F(4, 5))],
)
def test_how_often_a_sample_is_cut_is_enclosed(units: int, limit: int, rate: Fraction) -> None:
    def mass(n: int, k: int) -> Fraction:
        return comb(n, k) * rate**k * (1 - rate) ** (n - k)

    cut = truncation(TruncatedPoissonSampled(rate, units, limit, GAUSS))
    full = sum(mass(units - 1, k) for k in range(limit, units))
    kept = sum(mass(units - 1, k) * rate * F(limit, k + 1) for k in range(limit, units)) / full
    assert cut.least <= full <= cut.most
    assert cut.least_rate <= kept <= cut.most_rate
    assert cut.most - cut.least < F(1, 10**20)
    assert cut.most_rate - cut.least_rate < F(1, 10**20)


@pytest.mark.parametrize("others", [(0, 0, 0), (-1, -1, -1), (1, 0, -1), (-1, 1, 1)])
def test_no_database_loses_more_on_a_cut_sample_than_is_said(others: tuple[int, ...]) -> None:
    """All samples of three other units and one that is added, exactly, with real Gaussian noise on their sum."""
    rate, limit = 0.5, 2
    event = TruncatedPoissonSampled(F(1, 2), len(others) + 1, limit, GAUSS)

    def law(values: tuple[int, ...]) -> Density:
        total = 0 * X
        for drawn in product((0, 1), repeat=len(values)):
            chosen = [value for value, here in zip(values, drawn, strict=True) if here]
            kept = [chosen] if len(chosen) <= limit else [list(part) for part in combinations(chosen, limit)]
            share = rate ** sum(drawn) * (1 - rate) ** (len(values) - sum(drawn)) / len(kept)
            total = total + sum((share * normal(sum(part)) for part in kept), 0 * X)
        return total

    p, q = law((*others, 1)), law(others)
    for epsilon in (0.0, 0.5, 1.5, 3.0):
        low, high = pld.delta_bounds(event, epsilon)
        assert hockey_stick(p, q, epsilon) <= high + 2e-8
        if not any(others):  # the release that the lower bound speaks of
            assert low - 2e-8 <= hockey_stick(p, q, epsilon)
    for order in (1.5, 2, 5):
        assert renyi(p, q, order) <= rdp.loss(event, order) * (1 + 1e-9)


def test_a_sample_that_is_never_cut_is_a_plain_sample() -> None:
    never = TruncatedPoissonSampled(F(1, 10), 100, 100, GAUSS)
    plain = PoissonSampled(F(1, 10), GAUSS)
    assert pld.bounds(never, 1e-6) == pld.bounds(plain, 1e-6)
    assert rdp.loss(never, 4) == rdp.loss(plain, 4)
    always = TruncatedPoissonSampled(F(1), 10, 1, Pure(F(1), ADD))
    assert float(pure.epsilon(always)) == pytest.approx(log(1 + (exp(2) - 1) / 10))


def nodes_above(step: int, steps: int) -> int:
    """Count the complete nodes of a binary tree over steps 0, 1, … that hold one of them."""
    return sum(
        1
        for level in range(steps.bit_length())
        if ((step >> level) + 1) << level <= steps  # the node ends before the tree does
    )


def test_a_unit_moves_as_many_nodes_of_a_tree_as_its_event_says() -> None:
    for steps in range(1, 200):
        event = TreeAggregation(GAUSS, (steps,))
        assert event.path.times == max(nodes_above(step, steps) for step in range(steps))
    several = TreeAggregation(LaplaceNoise(1, F(9), ADD), (10, 400, 390))
    assert pure.epsilon(several) == 1
    for cost in (
        lambda event: rdp.loss(event, 3),
        zcdp.rho,
        lambda event: pld.bounds(event, 1e-6),
        lambda event: Filter(F(100), F(1, 10**6)).charge(event).renyi,
    ):
        assert cost(TreeAggregation(GAUSS, (1000, 3))) == cost(Repeated(GAUSS, 10))


Generating = Callable[[float], float]


def poisson(mean: float) -> Generating:
    return lambda x: exp(mean * (x - 1))


def negative_binomial(stopping: float, shape: float) -> Generating:
    if shape == 0:
        return lambda x: log(1 - (1 - stopping) * x) / log(stopping)
    return lambda x: ((1 - (1 - stopping) * x) ** -shape - 1) / (stopping**-shape - 1)


def best(law: list[float], f: Generating) -> list[float]:
    """Return the law of the best of K runs; outcomes are in rising order, and `no run` comes first."""
    ends = [0.0]
    for share in law:
        ends.append(min(1.0, ends[-1] + share))
    return [f(0.0), *(f(b) - f(a) for a, b in pairwise(ends))]


def discrete_renyi(p: list[float], q: list[float], order: float) -> float:
    return log(sum(a**order * b ** (1 - order) for a, b in zip(p, q, strict=True) if a > 0)) / (order - 1)


CASES = [
    (BestOfPoisson(F(1), Pure(F(1), ADD)), poisson(1.0)),
    (BestOfPoisson(F(10), Pure(F(1), ADD)), poisson(10.0)),
    (BestOfPoisson(F(3), Pure(F(1, 5), ADD)), poisson(3.0)),
    *(
        (BestOfNegativeBinomial(F(stop), F(shape), Pure(F(1), ADD)), negative_binomial(float(F(stop)), float(F(shape))))
        for stop in ("1/10", "1/2", "99/100")
        for shape in ("0", "1/2", "1", "5")
    ),
]


@pytest.mark.parametrize(("event", "f"), CASES, ids=lambda one: one.kind if hasattr(one, "kind") else "")
def test_the_best_of_several_runs_loses_no_more_than_is_said(
    event: BestOfPoisson | BestOfNegativeBinomial, f: Generating
) -> None:
    dice, epsilon = Random("best of runs"), float(pure.epsilon(event.event))
    bound = float(pure.epsilon(event))
    bounds = {order: rdp.loss(event, order) for order in (1.1, 2, 8)}
    for _ in range(60):
        q = [dice.expovariate(1) for _ in range(dice.randint(2, 5))]
        p = [share * exp(dice.choice((-1, 1, dice.uniform(-1, 1))) * epsilon / 2) for share in q]
        p, q = [share / sum(p) for share in p], [share / sum(q) for share in q]
        first, second = best(p, f), best(q, f)
        for order, most in bounds.items():
            assert discrete_renyi(first, second, order) <= most + 1e-9
            assert discrete_renyi(second, first, order) <= most + 1e-9
        shown = [abs(log(a / b)) for a, b in zip(first, second, strict=True) if a > 1e-12 < b]
        assert max(shown) <= bound + 1e-9


def test_the_mean_number_of_runs_is_that_of_the_law() -> None:
    for stopping, shape in product((F(1, 100), F(1, 2), F(99, 100)), (F(0), F(1, 2), F(1), F(2))):
        f = negative_binomial(float(stopping), float(shape))
        mean = (f(1.0) - f(1 - 1e-6)) / 1e-6
        event = BestOfNegativeBinomial(stopping, shape, GAUSS)
        assert float(log_mean(event, 40).high) == pytest.approx(log(mean), abs=1e-3)


def test_the_closed_forms_of_repeated_selection() -> None:
    for shape in (F(0), F(1, 2), F(1), F(5)):  # [PS22, Cor. 3 and 4]
        assert pure.epsilon(BestOfNegativeBinomial(F(1, 1000), shape, Pure(F(1), ADD))) == 2 + shape
        stop, rho = F(1, 10), F(1, 10)
        event = BestOfNegativeBinomial(stop, shape, RealGaussianNoise(2 * rho, F(1), ADD))
        mean, size = float(log_mean(event, 40).high), float(rho)
        known = 2 * sqrt(size * mean) + 2 * float(1 + shape) * sqrt(-size * log(stop)) - float(shape) * size
        assert rdp.loss(event, F(11, 10)) == pytest.approx(known, abs=1e-7)
    assert rdp.loss(BestOfNegativeBinomial(F(1), F(2), GAUSS), 3) == rdp.loss(GAUSS, 3)


FIRST: list[Event] = [
    Pure(F(1), ADD),
    BoundedRange(F(1), ADD),
    BoundedRange(F(1, 50), ADD),
    LaplaceBounded(F(1), ADD),
    LaplaceNoise(1, F(2), ADD),
    LaplaceNoise(7, F(5), ADD),
    RealLaplaceNoise(F(1), F(3), ADD),
    RandomizedResponse(F(1), 5, REPLACE),
    Concentrated(F(1, 3), ADD),
    GaussianNoise(3, F(5), ADD),
    GAUSS,
    PoissonSampled(F(1, 10), Pure(F(1), ADD)),
    PoissonSampled(F(1, 10), GAUSS),
    PoissonSampled(F(1, 10), GaussianNoise(1, F(1), ADD)),
    MIXTURES[0],
    MIXTURES[3],
    TruncatedPoissonSampled(F(1, 2), 4, 2, GAUSS),
    TreeAggregation(GAUSS, (100,)),
    BestOfNegativeBinomial(F(1, 2), F(1), GAUSS),
]


@pytest.mark.parametrize("event", FIRST, ids=lambda event: event.kind)
def test_order_one_is_the_limit_of_the_orders_above(event: Event) -> None:
    first, near = rdp.loss(event, 1), rdp.loss(event, F(1_000_001, 1_000_000))
    assert first <= near * (1 + 1e-9)
    assert first == pytest.approx(near, rel=1e-4)
    assert rdp.loss(Repeated(event, 3), 1) == pytest.approx(3 * first)


def test_the_exponential_mechanism_at_order_one() -> None:
    assert rdp.loss(BoundedRange(F(1), ADD), 1) == pytest.approx(0.123301561482, abs=1e-12)  # not 0.125
    for order in (F(1), F(3, 2), F(2), F(9)):
        assert rdp.loss(BoundedRange(F(1), ADD), order) < order / 8


@pytest.mark.parametrize("event", [one for one in FIRST if pure.epsilon_or_infinity(one) < inf], ids=lambda e: e.kind)
def test_delta_zero_asks_for_the_pure_loss(event: Event) -> None:
    exact = pure.epsilon(event)
    low, high = pld.bounds(event, 0)
    assert low <= exact <= high
    assert high - low <= 1e-15 * high
    assert pld.bounds(Composed((event, event)), 0)[1] == pytest.approx(2 * float(exact))
    assert pld.bounds(event, F(1, 10**9))[0] <= high


def test_delta_zero_is_infinite_where_no_epsilon_suffices() -> None:
    for event in (
        GAUSS,
        Approximate(Pure(F(1), ADD), F(1, 10**9)),
        NonPrivate(ADD),
        MIXTURES[0],
        Concentrated(F(1), ADD),
    ):
        assert pld.bounds(event, 0) == (inf, inf)
    assert pld.bounds(Composed(()), 0) == (0.0, 0.0)
    assert pld.bounds(Parallel((Pure(F(1), ADD), Pure(F(2), ADD))), 0) == (2.0, 2.0)
    low, high = pld.bounds(TruncatedPoissonSampled(F(1, 2), 4, 2, Pure(F(1), ADD)), "0")
    assert 0 < low < high < inf


def test_laplace_bounded_costs_what_real_laplace_noise_costs() -> None:
    ours, noise = LaplaceBounded(F(1, 10), ADD), RealLaplaceNoise(F(1), F(10), ADD)
    assert pld.bounds(Repeated(ours, 100), 1e-6) == pld.bounds(Repeated(noise, 100), 1e-6)
    assert rdp.loss(ours, 9) == rdp.loss(noise, 9) < rdp.loss(Pure(F(1, 10), ADD), 9)
    assert rdp.epsilon(Repeated(ours, 100), 1e-6) == pytest.approx(rdp.epsilon(Repeated(noise, 100), 1e-6))
    assert group_event(ours, 3) == LaplaceBounded(F(3, 10), ADD)
    assert pld.bounds(PoissonSampled(F(1, 2), ours), 1e-6) == pld.bounds(PoissonSampled(F(1, 2), noise), 1e-6)


def test_what_has_no_theorem_is_refused() -> None:
    failing = Approximate(Pure(F(1), ADD), F(1, 100))
    for event in (BestOfPoisson(F(2), failing), TruncatedPoissonSampled(F(1, 2), 4, 2, failing)):
        for cost in (lambda one: rdp.loss(one, 2), zcdp.rho, lambda one: pld.bounds(one, 1e-6)):
            with pytest.raises(UnsupportedEvent):
                cost(event)
    with pytest.raises(UnsupportedEvent):
        pld.bounds(BestOfPoisson(F(2), Pure(F(1), ADD)), 1e-6)
    assert rdp.loss(BestOfPoisson(F(2), NonPrivate(ADD)), 2) == inf


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianMixture(F(1), (F(1),), (F(1, 2),), ADD),
        lambda: GaussianMixture(F(1), (F(1), F(2)), (F(1),), ADD),
        lambda: GaussianMixture(F(1), (F(-1),), (F(1),), ADD),
        lambda: GaussianMixture(F(1), (), (), ADD),
        lambda: GaussianMixture(F(1), (F(1),), (F(1),), REPLACE),
        lambda: GaussianMixture(F(1), cast("tuple[Fraction, ...]", F(1)), (F(1),), ADD),
        lambda: TruncatedPoissonSampled(F(2), 4, 2, GAUSS),
        lambda: TruncatedPoissonSampled(F(1, 2), 4, 2, Pure(F(1), REPLACE)),
        lambda: TruncatedPoissonSampled(F(1, 2), 4, 0, GAUSS),
        lambda: TreeAggregation(GAUSS, ()),
        lambda: TreeAggregation(GAUSS, (0,)),
        lambda: BestOfPoisson(F(1, 2), GAUSS),
        lambda: BestOfNegativeBinomial(F(2), F(1), GAUSS),
        lambda: BestOfNegativeBinomial(F(1, 2), F(-1), GAUSS),
    ],
)
def test_impossible_parameters_are_refused(make: Callable[[], Event]) -> None:
    with pytest.raises(BadParameter):
        make()


def test_the_normal_tail_that_this_file_relies_on() -> None:
    assert hockey_stick(normal(1), normal(0), 1.0) == pytest.approx(
        erfc(0.5 / sqrt(2)) / 2 - exp(1) * erfc(1.5 / sqrt(2)) / 2, abs=1e-8
    )
