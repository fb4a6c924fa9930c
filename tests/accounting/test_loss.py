"""What people read is never below what was lost."""

from dataclasses import FrozenInstanceError
from fractions import Fraction
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.accounting import pure, rdp, zcdp
from sfumato.accounting.composition import optimal
from sfumato.accounting.event import Composed, Event, LaplaceNoise, Neighbours, NonPrivate, Pure, Repeated
from sfumato.accounting.filter import Filter
from sfumato.accounting.loss import PrivacyLoss, round_up
from sfumato.errors import BadParameter


@settings(max_examples=100, deadline=None)
@given(st.fractions(min_value=0, max_value=10**15), st.integers(1, 20))
def test_the_text_is_never_below_the_value_and_off_by_one_digit_at_most(value: Fraction, digits: int) -> None:
    shown = Fraction(round_up(value, digits))
    assert value <= shown <= value * (1 + Fraction(10) ** (1 - digits))


def test_known_texts() -> None:
    assert str(PrivacyLoss(Fraction(1, 3), Fraction(1, 3 * 10**9))) == "ε = 0.3334, δ = 3.334e-10"
    assert f"{PrivacyLoss(Fraction(2, 3)):2}" == "ε = 0.67, δ = 0"
    assert round_up(Fraction(10**13)) == "1e13"
    assert str(PrivacyLoss(Fraction(3), Fraction(1, 10**6))) == "ε = 3, δ = 0.000001"


def test_a_loss_is_exact_and_frozen_and_reads_floats_as_their_text() -> None:
    loss = PrivacyLoss(0.1, 1e-6)  # type: ignore[arg-type]
    assert loss == PrivacyLoss(Fraction(1, 10), Fraction(1, 10**6))
    with pytest.raises(FrozenInstanceError):
        loss.epsilon = Fraction(0)  # type: ignore[misc]


@pytest.mark.parametrize(("epsilon", "delta"), [(-1, 0), (1, -1), (1, 2), ("nan", 0), (float("inf"), 0), (None, 0)])
def test_a_loss_that_means_nothing_is_refused(epsilon: object, delta: object) -> None:
    with pytest.raises(BadParameter):
        PrivacyLoss(epsilon, delta)  # type: ignore[arg-type]


@pytest.mark.parametrize("digits", ["x", "0", "²", ">10"])
def test_a_format_that_means_nothing_is_refused(digits: str) -> None:
    with pytest.raises(BadParameter):
        format(PrivacyLoss(Fraction(1)), digits)


HUGE = 10**400  # beyond every float
ADD = Neighbours.ADD_REMOVE


@pytest.mark.parametrize(
    "event",
    [
        Repeated(NonPrivate(ADD), HUGE),
        Composed((Pure(Fraction(HUGE), ADD), NonPrivate(ADD))),
        Composed((Repeated(Pure(Fraction(1), ADD), HUGE), NonPrivate(ADD))),
    ],
    ids=["many times", "beside", "many beside"],
)
def test_numbers_beyond_the_floats_meet_infinity_without_an_accident(event: Event) -> None:
    assert pure.epsilon(event) == zcdp.rho(event) == rdp.loss(event, 2) == inf
    assert zcdp.epsilon(event, "1e-6") == rdp.epsilon(event, "1e-6") == inf
    assert pure.PureLoss(Fraction(HUGE)).compose(NonPrivate(ADD)).epsilon == inf
    for budget in (Filter(Fraction(1), Fraction(1, 10**6)), Filter(Fraction(HUGE), Fraction(0))):
        assert not budget.accepts(event)


@pytest.mark.parametrize(
    "event", [Repeated(Pure(Fraction(1), ADD), HUGE), LaplaceNoise(HUGE, Fraction(1), ADD)], ids=["many", "large"]
)
def test_losses_beyond_the_floats_are_infinite_when_reported_and_exact_when_summed(event: Event) -> None:
    assert pure.epsilon(event) == HUGE
    assert rdp.epsilon(event, "1e-6") == inf
    assert optimal([(PrivacyLoss(Fraction(HUGE)), 3)], "1e-6").epsilon <= 3 * HUGE
