"""Pure losses are exact."""

from fractions import Fraction
from math import inf

import pytest
from tests.accounting.oracle import holds_above, mp, real

from sfumato.accounting import pure
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
from sfumato.errors import MixedNeighbours, UnsupportedEvent

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
TENTH = Fraction(1, 10)

EXACT: list[tuple[Event, Fraction]] = [
    (LaplaceNoise(3, Fraction(7), ADD), Fraction(3, 7)),
    (RealLaplaceNoise(TENTH, Fraction(3), REPLACE), Fraction(1, 30)),
    (RandomizedResponse(TENTH, 5, REPLACE), TENTH),
    (BoundedRange(TENTH, ADD), TENTH),
    (Repeated(Pure(TENTH, ADD), 10**9), Fraction(10**8)),
    (Composed((Pure(TENTH, ADD), LaplaceNoise(1, Fraction(3), ADD))), Fraction(13, 30)),
    (Parallel((Pure(TENTH, ADD), LaplaceNoise(1, Fraction(3), ADD))), Fraction(1, 3)),
    (PoissonSampled(Fraction(1), Pure(TENTH, ADD)), TENTH),
    (PoissonSampled(TENTH, Composed(())), Fraction(0)),
    (Parallel(()), Fraction(0)),
]


@pytest.mark.parametrize(("event", "value"), EXACT, ids=str)
def test_pure_losses_are_exact_fractions(event: Event, value: Fraction) -> None:
    found = pure.epsilon(event)
    assert found == value
    assert isinstance(found, Fraction)


@pytest.mark.parametrize("rate", ["1e-9", "0.1", "0.5", "0.999"])
@pytest.mark.parametrize("epsilon", ["1e-9", "0.1", "1", "700", "1e6"])
def test_sampling_amplifies_and_rounds_up(rate: str, epsilon: str) -> None:
    with mp.workdps(100):
        truth = real(epsilon) + mp.log(real(rate) + (1 - real(rate)) * mp.exp(-real(epsilon)))
        found = pure.epsilon(PoissonSampled(Fraction(rate), Pure(Fraction(epsilon), ADD)))
        assert isinstance(found, Fraction)
        assert holds_above(found, truth, 1e-28)
        assert found < Fraction(epsilon)


def test_the_known_sample_is_reproduced() -> None:
    assert float(pure.epsilon(PoissonSampled(TENTH, Pure(Fraction(1), ADD)))) == pytest.approx(0.15856507874, abs=1e-11)


@pytest.mark.parametrize(
    "event",
    [
        GaussianNoise(1, Fraction(1), ADD),
        RealGaussianNoise(Fraction(1), Fraction(1), ADD),
        Concentrated(TENTH, ADD),
        Approximate(Pure(TENTH, ADD), TENTH),
        Repeated(Composed((Pure(TENTH, ADD), GaussianNoise(1, Fraction(1), ADD))), 2),
    ],
    ids=str,
)
def test_what_is_not_pure_is_refused_by_name(event: Event) -> None:
    with pytest.raises(UnsupportedEvent, match="pure"):
        pure.epsilon(event)
    assert pure.epsilon_or_infinity(event) == inf


def test_the_accountant_is_a_value_that_keeps_its_relation() -> None:
    start = pure.PureLoss()
    after = start.compose(Pure(TENTH, ADD)).compose(NonPrivate(ADD))
    assert start.epsilon == 0
    assert after.epsilon == inf
    with pytest.raises(MixedNeighbours):
        after.compose(Pure(TENTH, REPLACE))
