"""Rényi losses: never below the definition, and no more than the last digit above it."""

import random
from fractions import Fraction
from math import inf, isfinite

import pytest
from mpmath import mpf
from tests.accounting import oracle
from tests.accounting.oracle import holds_above, mp, real

from sfumato.accounting import rdp
from sfumato.accounting.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    Event,
    GaussianNoise,
    LaplaceNoise,
    Neighbours,
    Parallel,
    PoissonSampled,
    Pure,
    RandomizedResponse,
    RealGaussianNoise,
    RealLaplaceNoise,
    Repeated,
)
from sfumato.accounting.filter import RENYI_UNITS, rounded_loss
from sfumato.errors import BadParameter, UnsupportedEvent

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
ORDERS = [Fraction(11, 10), Fraction(3, 2), Fraction(2), Fraction(5, 2), Fraction(9), Fraction(64)]
LAST_DIGIT = 1e-15

KNOWN: list[tuple[Event, Fraction, float]] = [
    (RealLaplaceNoise(Fraction(1), Fraction(1), ADD), Fraction(2), 0.619123629999),
    (RealLaplaceNoise(Fraction(1, 10), Fraction(1), ADD), Fraction(9), 0.0393106834119),
    (LaplaceNoise(3, Fraction(10), ADD), Fraction(8), 0.21314469977612),
    (Pure(Fraction(1, 10), ADD), Fraction(9), 0.0404236711641),
    (Pure(Fraction(1), ADD), Fraction(8), 0.955248374055),
    (RandomizedResponse(Fraction(1), 4, REPLACE), Fraction(8), 0.893857517908),
    (PoissonSampled(Fraction(1, 100), GaussianNoise(1, Fraction(1), ADD)), Fraction(2), 1.71813422075e-4),
    (PoissonSampled(Fraction(1, 100), RealGaussianNoise(Fraction(1), Fraction(1), ADD)), Fraction(8), 8.93643907606e-4),
    (
        PoissonSampled(Fraction(1, 100), RealGaussianNoise(Fraction(1), Fraction(1), ADD)),
        Fraction(5, 2),
        2.17575332282e-4,
    ),
    (Repeated(LaplaceNoise(1, Fraction(20), ADD), 20), Fraction(9), 0.218513551),
    (LaplaceNoise(20, Fraction(20), ADD), Fraction(9), 0.920912364),
]


@pytest.mark.parametrize(("event", "order", "value"), KNOWN, ids=str)
def test_known_losses_are_reproduced(event: Event, order: Fraction, value: float) -> None:
    assert rdp.loss(event, order) == pytest.approx(value, rel=3e-9)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize(("shift", "scale"), [(1, "1/3"), (1, "2"), (3, "1.7"), (7, "4"), (2, "1/20")])
def test_integer_laplace_noise_costs_the_sum_over_its_outcomes(shift: int, scale: str, order: Fraction) -> None:
    pair = oracle.integer_laplace(shift, Fraction(scale), 400)
    truth = oracle.divergence(*pair, order)
    # the sum leaves out outcomes of mass below 1e-40: a relative 1e-30 of the loss
    assert holds_above(
        rdp.loss(LaplaceNoise(shift, Fraction(scale), ADD), order), truth * (1 - mp.mpf(10) ** -25), 1e-14
    )


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize(("epsilon", "categories"), [("1/10", 2), ("1", 4), ("7/2", 50), ("1e-9", 3), ("40", 2)])
def test_randomized_response_and_pure_cost_the_sum_over_their_outcomes(
    epsilon: str, categories: int, order: Fraction
) -> None:
    exact = Fraction(epsilon)
    with mp.workdps(120):
        truth = oracle.divergence(*oracle.response(exact, categories), order)
        assert holds_above(rdp.loss(RandomizedResponse(exact, categories, REPLACE), order), truth, LAST_DIGIT)
        binary = oracle.divergence(*oracle.response(exact, 2), order)
        assert holds_above(rdp.loss(Pure(exact, ADD), order), binary, LAST_DIGIT)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("bound", ["1/10", "1", "5"])
def test_real_laplace_noise_costs_the_integral_over_its_density(bound: str, order: Fraction) -> None:
    truth = oracle.real_laplace_loss(Fraction(bound), order)
    found = rdp.loss(RealLaplaceNoise(Fraction(bound) * 3, Fraction(3), ADD), order)
    assert holds_above(found, truth * (1 - mp.mpf(10) ** -20), 1e-14)


def test_integer_gaussian_noise_never_costs_more_than_charged() -> None:
    for shift, variance in ((1, "1/4"), (1, "1"), (2, "3/2"), (3, "20")):
        pair = oracle.integer_gaussian(shift, Fraction(variance), 120)
        for order in ORDERS[:5]:
            found = rdp.loss(GaussianNoise(shift * shift, Fraction(variance), ADD), order)
            truth = oracle.divergence(*pair, order)
            assert real(Fraction(found)) >= truth * (1 - mp.mpf(10) ** -25)
            if order.denominator == 1:
                assert holds_above(found, truth * (1 - mp.mpf(10) ** -25), 1e-14)


@pytest.mark.parametrize("order", ["1.1", "2.5", "7.9"])
@pytest.mark.parametrize(("rate", "variance"), [("0.01", "1"), ("0.3", "4"), ("0.9", "1/2"), ("256/60000", "1.21")])
def test_sampled_real_gaussian_noise_costs_the_integral_in_its_worse_direction(
    rate: str, variance: str, order: str
) -> None:
    event = PoissonSampled(Fraction(rate), RealGaussianNoise(Fraction(2), 2 * Fraction(variance), ADD))
    with mp.workdps(30):
        truth = oracle.sampled_real_gaussian_loss(Fraction(rate), Fraction(variance), Fraction(order))
        assert holds_above(rdp.loss(event, order), truth * (1 - mp.mpf(10) ** -13), 1e-12)


@pytest.mark.parametrize("order", ["1.5", "2", "2.5", "6", "8.75"])
@pytest.mark.parametrize(("shift", "variance"), [(1, "1"), (2, "3")])
def test_sampled_integer_gaussian_noise_is_exact_at_integer_orders_and_above_between(
    shift: int, variance: str, order: str
) -> None:
    rate, alpha = Fraction(1, 100), Fraction(order)
    truth = oracle.divergence(*oracle.sampled(rate, oracle.integer_gaussian(shift, Fraction(variance), 100)), alpha)
    found = rdp.loss(PoissonSampled(rate, GaussianNoise(shift * shift, Fraction(variance), ADD)), alpha)
    assert holds_above(found, truth * (1 - mp.mpf(10) ** -20), 1e-14 if alpha.denominator == 1 else 0.5)


def test_the_integer_law_is_above_the_real_one_at_order_two_and_a_half() -> None:
    found = rdp.loss(PoissonSampled(Fraction(1, 100), GaussianNoise(1, Fraction(1), ADD)), 2.5)
    assert found >= 2.17575332288e-4


def test_sampled_pure_events_cost_the_amplified_pure_loss() -> None:
    for rate, epsilon in (("0.1", "1"), ("0.001", "3"), ("0.5", "1e-6"), ("1", "2")):
        q, e = real(Fraction(rate)), real(Fraction(epsilon))
        amplified = mp.log(1 + q * mp.expm1(e))
        truth = mp.log(mp.cosh((9 - mp.mpf("0.5")) * amplified) / mp.cosh(amplified / 2)) / 8
        found = rdp.loss(PoissonSampled(Fraction(rate), Pure(Fraction(epsilon), ADD)), 9)
        assert holds_above(found, truth * (1 - mp.mpf(10) ** -40), LAST_DIGIT)


def test_a_sample_of_a_sample_is_a_sample() -> None:
    inner = GaussianNoise(1, Fraction(2), ADD)
    twice = PoissonSampled(Fraction(1, 2), PoissonSampled(Fraction(1, 5), inner))
    assert rdp.loss(twice, 4) == rdp.loss(PoissonSampled(Fraction(1, 10), inner), 4)
    assert rdp.loss(PoissonSampled(Fraction(1), inner), 4) == rdp.loss(inner, 4)


def test_gaussian_releases_on_one_sample_count_as_one_release() -> None:
    inner = Composed((GaussianNoise(1, Fraction(4), ADD), Repeated(GaussianNoise(2, Fraction(8), ADD), 3)))
    assert rdp.loss(PoissonSampled(Fraction(1, 9), inner), 5) == rdp.loss(
        PoissonSampled(Fraction(1, 9), GaussianNoise(1, Fraction(1), ADD)), 5
    )


def test_of_parallel_gaussian_releases_on_one_sample_the_largest_counts() -> None:
    parts = Parallel((GaussianNoise(1, Fraction(4), ADD), GaussianNoise(1, Fraction(2), ADD)))
    assert rdp.loss(PoissonSampled(Fraction(1, 9), parts), 5) == rdp.loss(
        PoissonSampled(Fraction(1, 9), GaussianNoise(1, Fraction(2), ADD)), 5
    )


def test_concentrated_costs_its_formula() -> None:
    assert rdp.loss(Concentrated(Fraction(1, 8), ADD), 4) == 0.5


@pytest.mark.parametrize("epsilon", ["1e-9", "1/100", "1", "8", "30", "700"])
@pytest.mark.parametrize("order", ["1.000000001", "1.5", "2", "17", "4096"])
def test_a_bounded_range_costs_what_its_worst_pair_does(epsilon: str, order: str) -> None:
    """Pairs of two outcomes with losses t and t - epsilon, summed at 60 digits: none is above, one is near."""
    e, alpha = Fraction(epsilon), Fraction(order)
    found = rdp.loss(BoundedRange(e, ADD), alpha)
    assert found <= min(alpha * e * e / 8, e) * (1 + Fraction(1, 10**15))
    with mp.workdps(60):
        above, width = real(alpha) - 1, real(e)

        def loss(t: mpf) -> mpf:
            more = mp.expm1(width - t) / (mp.expm1(width) * mp.exp(-t))  # the mass of the loss t
            return mp.log(more * mp.exp(above * t) + (1 - more) * mp.exp(above * (t - width))) / above

        pairs = [loss(width * place / 2000) for place in range(2001)]
        assert all(found >= pair * (1 - mpf(10) ** -14) for pair in pairs)
        assert found <= max(pairs) * (1 + mpf(10) ** -2)
        if alpha < Fraction(1001, 1000):
            share = width / mp.expm1(width)
            assert found == pytest.approx(float(share - 1 - mp.log(share)), rel=1e-3)


def test_what_a_bounded_range_adds_to_a_ledger_never_changes() -> None:
    assert rounded_loss(BoundedRange(Fraction(1), ADD), 4) == RENYI_UNITS // 2
    assert rounded_loss(BoundedRange(Fraction(1), ADD), 100) == RENYI_UNITS


@pytest.mark.parametrize("epsilon", ["1e-30", "1e-9", "1e-3", "1", "700", "1e6"])
@pytest.mark.parametrize("order", ["1.000001", "2", "4096", "1e9"])
def test_extreme_pure_losses_are_sound_and_finite(epsilon: str, order: str) -> None:
    e, alpha = Fraction(epsilon), Fraction(order)
    with mp.workdps(250):
        truth = (mp.log1p(mp.exp(-(2 * real(alpha) - 1) * real(e))) - mp.log1p(mp.exp(-real(e)))) / (real(alpha) - 1)
        assert holds_above(rdp.loss(Pure(e, ADD), alpha), real(e) + truth, 1e-14)


@pytest.mark.parametrize("scale", ["1e-3", "1e12", "1e40"])
@pytest.mark.parametrize("shift", [1, 2, 10**6, 10**12])
@pytest.mark.parametrize("order", ["1.1", "2", "4096"])
def test_extreme_laplace_losses_are_sound_and_finite(scale: str, shift: int, order: str) -> None:
    s, alpha = Fraction(scale), Fraction(order)
    with mp.workdps(300):
        one, e = mp.exp(-1 / real(s)), real(shift / s)
        y, far = mp.exp(-(2 * real(alpha) - 1) / real(s)), mp.exp(-(2 * real(alpha) - 1) * e)
        middle = (1 - one) * (y - far) / (1 - y)
        truth = e + mp.log((1 + far + middle) / (1 + one)) / (real(alpha) - 1)
        assert holds_above(rdp.loss(LaplaceNoise(shift, s, ADD), alpha), truth, 1e-14)


@pytest.mark.parametrize("variance", ["1e-6", "1e-3", "1", "1e12", "1e24"])
@pytest.mark.parametrize("rate", ["1e-9", "0.5", "0.999999"])
def test_extreme_samples_are_finite_and_never_cost_more_than_no_sampling(variance: str, rate: str) -> None:
    for noise in (GaussianNoise(1, Fraction(variance), ADD), RealGaussianNoise(Fraction(1), Fraction(variance), ADD)):
        for order in ("1.25", "3", "17.5", "300", "5000"):
            found = rdp.loss(PoissonSampled(Fraction(rate), noise), order)
            assert 0 < found <= rdp.loss(noise, order)


def test_a_billion_repetitions_are_finite() -> None:
    for event in (
        Pure(Fraction(700), ADD),
        GaussianNoise(1, Fraction(10**12), ADD),
        LaplaceNoise(1, Fraction(10**9), ADD),
    ):
        many = Repeated(event, 10**9)
        assert isfinite(rdp.loss(many, 4096))
        assert isfinite(rdp.epsilon(many, 1e-9))


def test_one_order_converts_as_known_and_above_60_digits() -> None:
    assert rdp.Rdp(Fraction(9), Fraction(3, 2)).epsilon(1e-6) == pytest.approx(2.83450271192, abs=1e-11)
    source = random.Random(5)
    for _ in range(100):
        order = 1 + Fraction(source.randint(1, 10**6), 10 ** source.randint(1, 6))
        loss = Fraction(source.randint(1, 10**6), 10 ** source.randint(1, 9))
        delta = Fraction(1, 10 ** source.randint(1, 30))
        truth = real(loss) + mp.log(1 - 1 / real(order)) - mp.log(real(order * delta)) / (real(order) - 1)
        assert holds_above(rdp.Rdp(order, loss).epsilon(delta), max(mp.mpf(0), truth), LAST_DIGIT)


@pytest.mark.parametrize(("sigma", "value"), [(4, 1.14292571), (10, 0.4299414688)])
def test_gaussian_noise_converts_as_known(sigma: int, value: float) -> None:
    event = RealGaussianNoise(Fraction(1), Fraction(sigma**2), ADD)
    assert rdp.epsilon(event, 1e-6) == pytest.approx(value, rel=1e-9)


def test_the_search_finds_what_a_grid_of_orders_finds() -> None:
    grid = [1 + Fraction(tenth, 10) for tenth in range(1, 10)] + [Fraction(order) for order in range(2, 65)]
    for event in (
        Repeated(Pure(Fraction(1, 10), ADD), 100),
        Repeated(PoissonSampled(Fraction(1, 50), GaussianNoise(1, Fraction(2), ADD)), 500),
        Composed((LaplaceNoise(3, Fraction(7), ADD), GaussianNoise(1, Fraction(30), ADD))),
    ):
        best = min(rdp.Rdp(order).compose(event).epsilon(1e-6) for order in grid)
        assert rdp.epsilon(event, 1e-6) <= best * (1 + 1e-9)


def test_the_delta_beside_is_taken_off_the_target() -> None:
    core = Repeated(Pure(Fraction(1, 10), ADD), 50)
    both = Repeated(Approximate(Pure(Fraction(1, 10), ADD), Fraction(1, 10**8)), 50)
    failures = Fraction(50, 10**8)
    left = (Fraction(1, 10**6) - failures) / (1 - failures)  # δ + (1 - δ)·δ_core is the target
    assert rdp.epsilon(both, Fraction(1, 10**6)) == pytest.approx(rdp.epsilon(core, left), rel=1e-12)
    assert rdp.epsilon(both, Fraction(1, 2 * 10**6)) == inf
    sampled = PoissonSampled(Fraction(1, 10), Approximate(Pure(Fraction(1), ADD), Fraction(1, 10**6)))
    plain = PoissonSampled(Fraction(1, 10), Pure(Fraction(1), ADD))
    left = Fraction(19, 10**7) / (1 - Fraction(1, 10**7))
    assert rdp.epsilon(sampled, Fraction(2, 10**6)) == pytest.approx(rdp.epsilon(plain, left), rel=1e-12)


@pytest.mark.parametrize("order", ["0.999", 0, -2, "0.5", "nan", inf, None, True])
def test_an_order_that_is_none_is_refused(order: object) -> None:
    with pytest.raises(BadParameter):
        rdp.loss(Pure(Fraction(1), ADD), order)


@pytest.mark.parametrize("delta", [0, 1, -1, 2, "x", float("nan"), None])
def test_a_delta_that_is_none_is_refused(delta: object) -> None:
    with pytest.raises(BadParameter):
        rdp.epsilon(Pure(Fraction(1), ADD), delta)


def test_a_sample_of_mixed_noise_is_refused_by_name() -> None:
    mixed = Composed((GaussianNoise(1, Fraction(1), ADD), Pure(Fraction(1), ADD)))
    with pytest.raises(UnsupportedEvent, match="Rényi"):
        rdp.loss(PoissonSampled(Fraction(1, 10), mixed), 2)
