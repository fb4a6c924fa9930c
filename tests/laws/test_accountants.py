"""The laws that every accountant keeps, run over all of them."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from math import inf

import pytest

from sfumato.accounting import pld, pure, rdp, zcdp
from sfumato.accounting.composition import optimal
from sfumato.accounting.event import (
    Approximate,
    BoundedRange,
    Composed,
    Event,
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
    RenyiBounded,
    Repeated,
)
from sfumato.accounting.filter import Filter
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import MixedNeighbours, UnsupportedEvent

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
DELTA = Fraction(1, 10**6)
LARGE = Filter(Fraction(10**6), DELTA)


@dataclass(frozen=True)
class Accountant:
    """A name, and what an event costs at DELTA; `pure_only` for those that know no other events."""

    name: str
    cost: Callable[[Event], float]
    pure_only: bool = False

    def __str__(self) -> str:
        return self.name


def _share(event: Event) -> float:
    return float(LARGE.epsilon * LARGE.charge(event).used) if LARGE.accepts(event) else inf


ACCOUNTANTS = [
    Accountant("pure", lambda event: float(pure.epsilon(event)), pure_only=True),
    Accountant("zcdp", lambda event: zcdp.epsilon(event, DELTA)),
    Accountant("rdp", lambda event: rdp.epsilon(event, DELTA)),
    Accountant("pld", lambda event: pld.bounds(event, DELTA)[1]),
    Accountant("filter", _share),
]
everyone = pytest.mark.parametrize("accountant", ACCOUNTANTS, ids=str)

PURE: list[Callable[[Fraction, Neighbours], Event]] = [
    lambda noise, relation: LaplaceNoise(2, 3 * noise, relation),
    lambda noise, relation: RealLaplaceNoise(Fraction(2), 3 * noise, relation),
    lambda noise, relation: Pure(1 / noise, relation),
    lambda noise, relation: BoundedRange(1 / noise, relation),
    lambda noise, relation: LaplaceBounded(1 / noise, relation),
    lambda noise, relation: RenyiBounded(2 / noise, (4, 32), (1 / noise**2, 8 / noise**2), relation),
    lambda noise, _: RandomizedResponse(1 / noise, 3, REPLACE),
]
NOISY: list[Callable[[Fraction, Neighbours], Event]] = [
    lambda noise, relation: GaussianNoise(1, noise, relation),
    lambda noise, relation: RealGaussianNoise(Fraction(1), noise, relation),
]


def kinds(accountant: Accountant) -> list[Callable[[Fraction, Neighbours], Event]]:
    return PURE if accountant.pure_only else PURE + NOISY


@everyone
def test_nothing_costs_nothing(accountant: Accountant) -> None:
    for nothing in (Composed(()), Parallel(()), Repeated(Composed(()), 10**9), Composed((Composed(()), Parallel(())))):
        assert accountant.cost(nothing) == 0


@everyone
def test_a_release_without_protection_costs_infinity(accountant: Accountant) -> None:
    bare = NonPrivate(ADD)
    small = Pure(Fraction(1, 100), ADD)
    for event in (bare, Repeated(bare, 3), Composed((small, bare)), Parallel((small, bare))):
        assert accountant.cost(event) == inf


@everyone
def test_composing_in_any_order_is_the_same(accountant: Accountant) -> None:
    parts = [kind(Fraction(40 + place), ADD) for place, kind in enumerate(kinds(accountant)[:3])]
    costs = {accountant.cost(Composed(order)) for order in list(permutations(parts))[::3]}
    assert max(costs) == pytest.approx(min(costs), rel=1e-9)


@everyone
def test_repeating_is_composing_with_itself(accountant: Accountant) -> None:
    for kind in kinds(accountant):
        event = kind(Fraction(30), ADD)
        together = accountant.cost(Composed((event, event, event)))
        assert accountant.cost(Repeated(event, 3)) == pytest.approx(together, rel=1e-9)


@everyone
def test_more_noise_never_costs_more(accountant: Accountant) -> None:
    for kind in kinds(accountant):
        costs = [accountant.cost(Repeated(kind(Fraction(noise), REPLACE), 4)) for noise in (1, 8, 64)]
        assert costs == sorted(costs, reverse=True)
        assert costs[-1] < costs[0]


@everyone
def test_asking_more_never_costs_less(accountant: Accountant) -> None:
    for kind in kinds(accountant):
        costs = [accountant.cost(Repeated(kind(Fraction(50), ADD), times)) for times in (1, 3, 20)]
        assert costs == sorted(costs)


@everyone
def test_in_parallel_the_largest_counts(accountant: Accountant) -> None:
    small, large = Pure(Fraction(1, 50), ADD), Pure(Fraction(1, 2), ADD)
    assert accountant.cost(Parallel((small, large, small))) == pytest.approx(accountant.cost(large), rel=1e-9)


@everyone
def test_a_sample_never_costs_more_than_everyone(accountant: Accountant) -> None:
    event = Pure(Fraction(1), ADD)
    costs = [accountant.cost(PoissonSampled(Fraction(rate), event)) for rate in ("1/100", "1/3", "1")]
    assert costs == sorted(costs)
    assert costs[2] == pytest.approx(accountant.cost(event), rel=1e-9)


@everyone
def test_an_unknown_event_is_refused_by_name(accountant: Accountant) -> None:
    @dataclass(frozen=True)
    class Mystery:
        neighbours: Neighbours = ADD

    with pytest.raises(UnsupportedEvent, match="Mystery"):
        accountant.cost(Mystery())  # type: ignore[arg-type]


@everyone
def test_events_of_different_relations_are_refused(accountant: Accountant) -> None:
    with pytest.raises(MixedNeighbours):
        accountant.cost(Composed((Pure(Fraction(1), ADD), Pure(Fraction(1), REPLACE))))


@pytest.mark.parametrize(
    "start",
    [pure.PureLoss(), zcdp.Zcdp(), rdp.Rdp(Fraction(4))],
    ids=lambda start: type(start).__name__,
)
def test_accountants_are_values(start: pure.PureLoss | zcdp.Zcdp | rdp.Rdp) -> None:
    one = start.compose(Pure(Fraction(1, 3), ADD))
    assert start != one
    assert one == start.compose(Composed(())).compose(Pure(Fraction(1, 3), ADD))
    assert hash(one) == hash(start.compose(Pure(Fraction(1, 3), ADD)))
    with pytest.raises(MixedNeighbours):
        one.compose(Pure(Fraction(1), REPLACE))


@pytest.mark.parametrize("name", ["zcdp", "rdp", "pld"])
@pytest.mark.parametrize(("epsilon", "times"), [("1/10", 100), ("1", 3), ("1/100", 2000), ("1/2", 17)])
def test_no_accountant_goes_below_the_exact_optimum(name: str, epsilon: str, times: int) -> None:
    cost = next(accountant.cost for accountant in ACCOUNTANTS if accountant.name == name)
    least = float(optimal([(PrivacyLoss(Fraction(epsilon)), times)], DELTA).epsilon)
    assert cost(Repeated(Pure(Fraction(epsilon), ADD), times)) >= least * (1 - 1e-12)


DOMINATED: list[Event] = [
    Repeated(GaussianNoise(1, Fraction(100), ADD), 35),
    Repeated(RealGaussianNoise(Fraction(1), Fraction(30), ADD), 7),
    Repeated(LaplaceNoise(1, Fraction(10), ADD), 60),
    Repeated(RealLaplaceNoise(Fraction(1), Fraction(4), ADD), 25),
    Repeated(Pure(Fraction(1, 10), ADD), 100),
    Composed((GaussianNoise(1, Fraction(9), ADD), Repeated(LaplaceNoise(2, Fraction(30), ADD), 9))),
    Repeated(Approximate(Pure(Fraction(1, 10), ADD), Fraction(1, 10**9)), 80),
    Repeated(RandomizedResponse(Fraction(1, 5), 4, REPLACE), 40),
    Repeated(BoundedRange(Fraction(1, 2), ADD), 50),
]


@pytest.mark.parametrize("event", DOMINATED, ids=str)
def test_the_finer_accountant_says_no_more(event: Event) -> None:
    lower, upper = pld.bounds(event, DELTA)
    renyi, concentrated = rdp.epsilon(event, DELTA), zcdp.epsilon(event, DELTA)
    assert lower <= renyi
    assert upper <= renyi * (1 + 1e-9)
    assert renyi <= concentrated * (1 + 1e-9)


@pytest.mark.parametrize("event", DOMINATED[2:6:2], ids=str)
def test_the_loss_at_every_order_lies_between_nothing_and_the_pure_loss(event: Event) -> None:
    losses = [rdp.loss(event, order) for order in ("1.001", "1.5", "2", "8", "100", "4096", "1000000")]
    assert losses == sorted(losses)
    assert losses[0] > 0
    assert losses[-1] <= float(pure.epsilon(event))


@pytest.mark.parametrize("event", DOMINATED, ids=str)
def test_what_the_filter_accepts_is_within_its_budget_for_every_accountant(event: Event) -> None:
    """For events fixed in advance the filter's promise can be checked: the exact cost is within the budget."""
    inner = event.event if isinstance(event, Repeated) else event
    budget, times = Filter(Fraction(5), DELTA), 0
    while budget.accepts(inner):
        budget, times = budget.charge(inner), times + 1
    assert times > 0
    assert pld.bounds(Repeated(inner, times), DELTA)[0] <= 5
