"""zCDP: every rho holds at every order, and converts to an epsilon that is never too small."""

import random
from fractions import Fraction
from math import inf

import pytest
from tests.accounting import oracle
from tests.accounting.oracle import holds_above, mp, real

from sfumato.accounting import zcdp
from sfumato.accounting.event import (
    Approximate,
    BoundedRange,
    Concentrated,
    Event,
    GaussianNoise,
    LaplaceNoise,
    Neighbours,
    PoissonSampled,
    Pure,
    RandomizedResponse,
    Repeated,
)
from sfumato.errors import BadParameter, UnsupportedEvent

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE

CONVERSIONS = [
    ("0.01", "1e-6", 0.7533844378, 0.6216926546),
    ("0.1", "1e-6", 2.450788000, 2.141938928),
    ("0.5", "1e-6", 5.75652177, 5.221534445),
    ("0.5", "1e-10", 7.286140424, 6.839329413),
    ("2", "1e-6", 12.51304354, 11.68859625),
]


@pytest.mark.parametrize(("rho", "delta", "classic", "tight"), CONVERSIONS)
def test_known_conversions_are_reproduced(rho: str, delta: str, classic: float, tight: float) -> None:
    assert zcdp.classic_epsilon(rho, delta) == pytest.approx(classic, rel=1e-9)
    assert zcdp.epsilon(Concentrated(Fraction(rho), ADD), delta) == pytest.approx(tight, rel=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "times", "value"), [("0.1", 100, 5.219075238), ("0.01", 10000, 5.221509832), ("1", 10, 19.55392931)]
)
def test_known_compositions_of_pure_losses_are_reproduced(epsilon: str, times: int, value: float) -> None:
    assert zcdp.epsilon(Repeated(Pure(Fraction(epsilon), ADD), times), 1e-6) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("epsilon", ["1e-30", "1e-9", "0.1", "1", "30", "700"])
def test_a_pure_loss_has_rho_epsilon_tanh_half_epsilon(epsilon: str) -> None:
    with mp.workdps(150):
        truth = real(epsilon) * mp.tanh(real(epsilon) / 2)
        assert holds_above(zcdp.rho(Pure(Fraction(epsilon), ADD)), truth, 3e-16)


@pytest.mark.parametrize("order", ["1.0001", "1.5", "2", "10", "300"])
def test_rho_holds_at_every_order_and_is_tight_near_one(order: str) -> None:
    for epsilon in ("0.1", "1", "6"):
        truth = oracle.divergence(*oracle.response(Fraction(epsilon), 2), Fraction(order))
        bound = real(Fraction(zcdp.rho(Pure(Fraction(epsilon), ADD)))) * real(order)
        assert truth <= bound
        if order == "1.0001":
            assert bound <= truth * mp.mpf("1.001")


def test_the_bound_is_the_minimum_over_orders_at_60_digits() -> None:
    source = random.Random(6)
    for _ in range(20):
        rho = Fraction(source.randint(1, 10**6), 10 ** source.randint(3, 12))
        delta = Fraction(1, 10 ** source.randint(1, 30))
        r, d = real(rho), real(delta)

        def value(log_above: mp.mpf, r: mp.mpf = r, d: mp.mpf = d) -> mp.mpf:
            alpha = 1 + mp.exp(log_above)
            return alpha * r + mp.log(1 / (alpha * d)) / (alpha - 1) + mp.log1p(-1 / alpha)

        low, high = mp.mpf(-20), mp.mpf(60)
        for _ in range(120):
            left, right = low + (high - low) * mp.mpf("0.382"), high - (high - low) * mp.mpf("0.382")
            low, high = (low, right) if value(left) < value(right) else (left, high)
        truth = max(mp.mpf(0), value(low))
        assert holds_above(zcdp.epsilon(Concentrated(rho, ADD), delta), truth * (1 - mp.mpf(10) ** -25), 1e-8)


def test_the_bound_lies_above_the_exact_gaussian() -> None:
    for variance in ("0.01", "1", "400"):
        epsilon = zcdp.epsilon(GaussianNoise(1, Fraction(variance), ADD), 1e-6)
        assert oracle.gaussian_delta(mp.mpf(epsilon), 1 / mp.sqrt(real(variance))) <= mp.mpf("1e-6")


ROWS: list[tuple[Event, float]] = [
    (GaussianNoise(3, Fraction(6), ADD), 0.25),
    (BoundedRange(Fraction(2), ADD), 0.5),
    (BoundedRange(Fraction(100), ADD), 100.0),
    (Concentrated(Fraction(1, 4), ADD), 0.25),
    (RandomizedResponse(Fraction(1), 7, REPLACE), 0.46211715726000979),
    (LaplaceNoise(2, Fraction(2), ADD), 0.46211715726000979),
]


@pytest.mark.parametrize(("event", "value"), ROWS, ids=str)
def test_each_kind_has_its_rho(event: Event, value: float) -> None:
    assert zcdp.rho(event) == pytest.approx(value, rel=1e-15)


def test_the_delta_beside_is_taken_off_the_target() -> None:
    event = Approximate(GaussianNoise(1, Fraction(4), ADD), Fraction(1, 10**7))
    left = Fraction(9, 10**7) / (1 - Fraction(1, 10**7))  # δ + (1 - δ)·δ_core is the target
    alone = zcdp.epsilon(GaussianNoise(1, Fraction(4), ADD), left)
    assert zcdp.epsilon(event, Fraction(1, 10**6)) == pytest.approx(alone, rel=1e-12)
    assert zcdp.epsilon(event, Fraction(1, 10**7)) == inf
    assert zcdp.rho(event) == 0.125


def test_extreme_targets_are_finite_and_not_negative() -> None:
    assert zcdp.epsilon(Concentrated(Fraction(1, 10**30), ADD), "1e-9") == 0.0
    assert 0 < zcdp.epsilon(Repeated(Pure(Fraction(700), ADD), 10**9), "1e-300") < inf
    assert 0 < zcdp.epsilon(Concentrated(Fraction(1, 10**20), ADD), "1e-300") < 1e-8
    assert zcdp.classic_epsilon(0, 0.5) == 0.0


def test_a_sample_of_gaussian_noise_is_not_concentrated() -> None:
    with pytest.raises(UnsupportedEvent, match="zCDP"):
        zcdp.rho(PoissonSampled(Fraction(1, 10), GaussianNoise(1, Fraction(1), ADD)))


@pytest.mark.parametrize(("rho", "delta"), [(-1, 0.1), (1, 0), (1, 1), ("x", 0.1), (None, 0.1)])
def test_numbers_that_mean_nothing_are_refused(rho: object, delta: object) -> None:
    with pytest.raises(BadParameter):
        zcdp.classic_epsilon(rho, delta)
