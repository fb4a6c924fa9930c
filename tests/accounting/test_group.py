"""Groups: k units lose what the chain of k neighbours loses."""

import random
from fractions import Fraction

import pytest
from tests.accounting.oracle import holds_above, mp, real

from sfumato.accounting import pure, rdp, zcdp
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
from sfumato.accounting.group import group_event, group_loss, group_rho
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import BadParameter, UnsupportedEvent

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
ONE = Fraction(1)

GROUPED: list[tuple[Event, Event]] = [
    (LaplaceNoise(2, ONE, ADD), LaplaceNoise(6, ONE, ADD)),
    (GaussianNoise(2, ONE, ADD), GaussianNoise(18, ONE, ADD)),
    (RealLaplaceNoise(ONE, ONE, ADD), RealLaplaceNoise(Fraction(3), ONE, ADD)),
    (RealGaussianNoise(ONE, ONE, REPLACE), RealGaussianNoise(Fraction(9), ONE, REPLACE)),
    (Pure(ONE, ADD), Pure(Fraction(3), ADD)),
    (BoundedRange(ONE, ADD), BoundedRange(Fraction(3), ADD)),
    (Concentrated(ONE, ADD), Concentrated(Fraction(9), ADD)),
    (RandomizedResponse(ONE, 4, REPLACE), Pure(Fraction(3), REPLACE)),
    (NonPrivate(ADD), NonPrivate(ADD)),
    (Repeated(Pure(ONE, ADD), 5), Repeated(Pure(Fraction(3), ADD), 5)),
    (Composed((Pure(ONE, ADD), NonPrivate(ADD))), Composed((Pure(Fraction(3), ADD), NonPrivate(ADD)))),
    (Parallel((Pure(ONE, ADD), Pure(Fraction(2), ADD))), Pure(Fraction(6), ADD)),
    (Composed(()), Composed(())),
    (Parallel(()), Composed(())),
]


@pytest.mark.parametrize(("event", "three"), GROUPED, ids=str)
def test_three_units_lose_what_the_theorem_says(event: Event, three: Event) -> None:
    assert group_event(event, 3) == three
    assert group_event(event, 1) == event


def test_the_known_group_is_reproduced() -> None:
    three = group_loss(PrivacyLoss(ONE, Fraction(1, 10**6)), 3)
    assert three.epsilon == 3
    assert float(three.delta) == pytest.approx(1.11073379274e-5, rel=1e-11)


def test_group_deltas_round_up_from_60_digits_and_end_at_one() -> None:
    source = random.Random(10)
    for _ in range(100):
        epsilon = Fraction(source.randint(1, 10**6), 10 ** source.randint(5, 15))
        delta, size = Fraction(1, 10 ** source.randint(3, 20)), source.randint(2, 50)
        with mp.workdps(100):
            truth = real(delta) * mp.expm1(size * real(epsilon)) / mp.expm1(real(epsilon))
            assert holds_above(group_loss(PrivacyLoss(epsilon, delta), size).delta, min(mp.mpf(1), truth), 1e-20)
    assert group_loss(PrivacyLoss(Fraction(700), Fraction(1, 2)), 10**6).delta == 1
    assert group_loss(PrivacyLoss(Fraction(0), Fraction(1, 10)), 3).delta == Fraction(3, 10)


def test_a_group_of_a_group_is_a_group() -> None:
    loss = PrivacyLoss(Fraction(1, 2), Fraction(1, 10**9))
    assert float(group_loss(group_loss(loss, 2), 3).delta) == pytest.approx(float(group_loss(loss, 6).delta), rel=1e-12)
    assert group_rho(group_rho("0.1", 2), 3) == group_rho("0.1", 6) == Fraction(36, 10)


@pytest.mark.parametrize("event", [GaussianNoise(1, Fraction(50), ADD), LaplaceNoise(1, Fraction(9), ADD)], ids=str)
def test_grouped_noise_agrees_with_the_grouped_loss(event: Event) -> None:
    grouped = group_event(event, 4)
    assert zcdp.rho(grouped) <= 16 * zcdp.rho(event) * (1 + 1e-15)
    assert pure.epsilon_or_infinity(grouped) == 4 * pure.epsilon_or_infinity(event)
    assert rdp.loss(grouped, 3) >= 4 * rdp.loss(event, 3)


def test_approximate_and_sampled_pure_events_group_through_their_bound() -> None:
    event = Approximate(Pure(ONE, ADD), Fraction(1, 10**6))
    three = group_event(event, 3)
    assert isinstance(three, Approximate)
    assert three.event == Pure(Fraction(3), ADD)
    assert three.delta == group_loss(PrivacyLoss(ONE, Fraction(1, 10**6)), 3).delta
    assert group_event(Approximate(Pure(Fraction(9), ADD), Fraction(1, 2)), 3) == NonPrivate(ADD)
    sampled = PoissonSampled(Fraction(1, 10), Pure(ONE, ADD))
    assert group_event(sampled, 2) == Pure(Fraction(2 * pure.epsilon(sampled)), ADD)


@pytest.mark.parametrize(
    "event",
    [
        PoissonSampled(Fraction(1, 10), GaussianNoise(1, ONE, ADD)),
        Parallel((GaussianNoise(1, ONE, ADD),)),
        Approximate(GaussianNoise(1, ONE, ADD), Fraction(1, 10)),
        "nothing known",
    ],
    ids=str,
)
def test_what_has_no_theorem_is_refused_by_name(event: Event) -> None:
    with pytest.raises(UnsupportedEvent, match="group"):
        group_event(event, 2)


@pytest.mark.parametrize("units", [0, -1, 1.5, True, "2", None])
def test_a_group_that_is_none_is_refused(units: int) -> None:
    with pytest.raises(BadParameter):
        group_event(Pure(ONE, ADD), units)
    with pytest.raises(BadParameter):
        group_loss(PrivacyLoss(ONE), units)
