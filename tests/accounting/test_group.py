"""Groups: k units lose what the chain of k neighbours loses."""

import random
from fractions import Fraction

import pytest
from tests.accounting.oracle import holds_above, mp, real

from sfumato.accounting import pure, rdp, zcdp
from sfumato.accounting.approximate import separate
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
from sfumato.mechanisms.optimal_selection import OptimalSelection

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


def _loss_in_steps(shifts: tuple[int, ...], x: Fraction) -> dict[int, Fraction]:
    """The law of the privacy loss, in units of 1/scale, of integer Laplace noise with x = e^(-1/scale)."""
    law = {0: ONE}
    for shift in filter(None, shifts):
        cell = {shift - 2 * j: (1 - x) / (1 + x) * x**j for j in range(1, shift)}
        cell |= {shift: 1 / (1 + x), -shift: x**shift / (1 + x)}
        wider: dict[int, Fraction] = {}
        for loss, chance in law.items():
            for more, share in cell.items():
                wider[loss + more] = wider.get(loss + more, Fraction(0)) + chance * share
        law = wider
    return law


def _delta_in_steps(law: dict[int, Fraction], steps: int, x: Fraction) -> Fraction:
    return sum((chance * (1 - x ** (loss - steps)) for loss, chance in law.items() if loss > steps), Fraction(0))


def _falling(total: int, most: int) -> list[tuple[int, ...]]:
    """Every way to write `total` as a sum of numbers of at most `most`, the largest first."""
    if total == 0:
        return [()]
    return [(first, *rest) for first in range(min(total, most), 0, -1) for rest in _falling(total - first, first)]


@pytest.mark.parametrize("x", [Fraction(1, 10), Fraction(1, 2), Fraction(99, 100)], ids=str)
def test_a_step_moved_from_a_smaller_shift_to_a_larger_one_never_lowers_delta(x: Fraction) -> None:
    """Exact; between whole steps delta is linear in e^epsilon, so that whole steps decide."""
    for small in range(1, 6):
        for large in range(small, 6):
            before, after = _loss_in_steps((small, large), x), _loss_in_steps((small - 1, large + 1), x)
            for steps in range(-small - large, small + large + 1):
                assert _delta_in_steps(before, steps, x) <= _delta_in_steps(after, steps, x)


@pytest.mark.parametrize(("units", "cells"), [(2, 2), (3, 2), (5, 2), (4, 3), (2, 4)])
def test_however_a_group_spreads_over_cells_the_group_event_covers_its_delta(units: int, cells: int) -> None:
    x = Fraction(2, 3)
    grouped = group_event(Repeated(LaplaceNoise(1, Fraction(7), ADD), cells), units)
    assert grouped == Repeated(LaplaceNoise(units, Fraction(7), ADD), cells)
    covering = _loss_in_steps((units,) * cells, x)
    for total in range(1, units * cells + 1):
        for shifts in _falling(total, units):
            law = _loss_in_steps(shifts, x)
            for steps in range(units * cells):
                assert _delta_in_steps(law, steps, x) <= _delta_in_steps(covering, steps, x)


def test_decisions_about_keys_are_grouped_by_their_whole_loss() -> None:
    """Two of three units at each of three keys may cost more delta than three units at each of two."""
    event = OptimalSelection(ONE, Fraction(1, 10**6), 2, ADD).event
    assert event.event == Repeated(Pure(Fraction(1, 2), ADD), 2)
    three = group_event(event, 3)
    assert isinstance(three, Approximate)
    assert three.event == Pure(Fraction(3), ADD)


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


def test_a_failure_beside_nothing_is_not_forgotten() -> None:
    """A group of two meets either one's failure: delta doubles, also where no loss stands beside it."""
    failure = Approximate(Composed(()), Fraction(1, 10**9))
    assert separate(group_event(failure, 2))[1] == Fraction(2, 10**9)
    assert separate(group_event(Composed((failure, Pure(Fraction(1), Neighbours.ADD_REMOVE))), 2))[1] == Fraction(
        2, 10**9
    )
