"""What a budget shows as spent holds whenever somebody looks, grows with every charge, and never exceeds the cap."""

import random
from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.accounting.oracle import mp, real

from sfumato.accounting import pld
from sfumato.accounting.event import Approximate, Composed, Event, GaussianNoise, LaplaceNoise, Neighbours, Pure
from sfumato.accounting.filter import RENYI_UNITS, Filter
from sfumato.ledger.caps import account_budgets, effect_on
from sfumato.ledger.state import EMPTY

ADD = Neighbours.ADD_REMOVE
MILLIONTH = Fraction(1, 10**6)
EVENTS: tuple[Event, ...] = (
    Pure(Fraction(1, 10), ADD),
    LaplaceNoise(1, Fraction(7), ADD),
    GaussianNoise(1, Fraction(400), ADD),
    GaussianNoise(4, Fraction(90), ADD),
    Approximate(Pure(Fraction(1, 20), ADD), Fraction(1, 10**9)),
)
BUDGETS = [
    Filter(Fraction(3), MILLIONTH),
    Filter(Fraction(1), MILLIONTH),
    Filter(Fraction(1, 10), MILLIONTH),
    Filter(Fraction(2), Fraction(9, 10)),
]
PURE = [Filter(Fraction(3), Fraction(0)), Filter(Fraction(1, 3), Fraction(0))]


@pytest.mark.parametrize("budget", [*BUDGETS, *PURE], ids=str)
def test_nothing_is_spent_before_the_first_charge(budget: Filter) -> None:
    assert budget.spent.epsilon == budget.spent.delta == budget.used == 0
    assert (budget.remaining.epsilon, budget.remaining.delta) == (budget.epsilon, budget.delta)


def test_one_laplace_answer_shows_its_own_price() -> None:
    """Its share in the unit of epsilon is 0.0768, and no mechanism of scale 10 is (0.0768, 0)-DP."""
    budget = Filter(Fraction(3), MILLIONTH).charge(LaplaceNoise(1, Fraction(10), ADD))
    assert (budget.spent.epsilon, budget.spent.delta) == (Fraction(1, 10), MILLIONTH)
    assert budget.used * 3 < Fraction(1, 10)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(BUDGETS + PURE), st.lists(st.sampled_from(EVENTS), max_size=25))
def test_spent_grows_with_every_charge_and_stays_between_the_used_share_and_the_cap(
    budget: Filter, events: list[Event]
) -> None:
    for event in events:
        if not budget.accepts(event):
            continue
        told, used, before = budget.spent_after(event), budget.used_after(event), budget
        budget = budget.charge(event)
        assert budget.spent == told
        assert budget.used == used
        assert before.spent.epsilon < budget.spent.epsilon <= budget.epsilon
        assert budget.spent.epsilon >= budget.epsilon * budget.used
        assert before.used < budget.used <= 1
        assert budget.spent.delta == budget.delta
        assert budget.spent.epsilon + budget.remaining.epsilon == budget.epsilon


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(BUDGETS + PURE), st.lists(st.sampled_from(EVENTS), max_size=25))
def test_what_remains_pays_for_one_more_pure_release(budget: Filter, events: list[Event]) -> None:
    for event in events:
        budget = budget.charge(event) if budget.accepts(event) else budget
    left = budget.remaining.epsilon - Fraction(1, RENYI_UNITS)
    if left > 0:
        assert budget.accepts(Pure(left, ADD))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(EVENTS)), max_size=25),
    st.sampled_from(["1e-6", "1e-9", "1e-5"]),
    st.sampled_from(["1/2", "2", "30"]),
)
def test_the_dataset_has_never_spent_less_than_one_of_its_analysts(
    charges: list[tuple[int, Event]], delta: str, epsilon: str
) -> None:
    accounts = {
        "": Filter(Fraction(3), MILLIONTH),
        "first": Filter(Fraction(1), MILLIONTH),
        "second": Filter(Fraction(epsilon), Fraction(delta)),
        "third": Filter(Fraction(2), Fraction(0)),
    }
    analysts = list(accounts)[1:]
    before = dict.fromkeys(accounts, Fraction(0))
    for which, event in charges:
        name = analysts[which]
        if not (accounts[name].accepts(event) and accounts[""].accepts(event)):
            continue
        told = effect_on(replace(EMPTY, accounts=accounts), name, event)
        accounts |= {charged: accounts[charged].charge(event) for charged in (name, "")}
        shown = account_budgets(replace(EMPTY, accounts=accounts))
        assert (told.used, told.spent) == (shown[name].used, shown[name].spent)
        for account, budget in shown.items():
            assert before[account] <= budget.spent.epsilon <= shown[""].spent.epsilon
        before = {account: budget.spent.epsilon for account, budget in shown.items()}


@pytest.mark.parametrize("seed", range(6))
def test_no_accountant_of_the_same_charges_finds_more(seed: int) -> None:
    """The tightest composition of a fixed list is a lower bound of what any odometer may show."""
    source = random.Random(seed)
    budget = Filter(Fraction(3), MILLIONTH)
    charged: list[Event] = []
    for _ in range(12):
        event = source.choice(EVENTS[:4])
        if budget.accepts(event):
            budget, charged = budget.charge(event), [*charged, event]
    assert pld.bounds(Composed(tuple(charged)), float(MILLIONTH))[0] <= float(budget.spent.epsilon)


@pytest.mark.parametrize(("epsilon", "delta"), [("2", "1/5"), ("5/2", "1/10"), ("1", "1/4"), ("2", "4/5")])
def test_the_best_analyst_who_stops_at_will_gets_no_more_than_delta(epsilon: str, delta: str) -> None:
    """Play the game exactly: at each step stop and compare the loss with what is shown, or ask once more.

    The worst mechanism for a pure epsilon is binary randomized response [KOV15], so this is the largest excess over the
    shown bound of any adaptive choice of these events and any stopping rule.
    """
    sizes = [Pure(Fraction(size, 4), ADD) for size in (1, 2, 3)]
    chance = {event: 1 / (1 + mp.exp(-real(event.epsilon))) for event in sizes}

    @cache
    def value(loss: Fraction, state: Filter) -> mp.mpf:
        stop = max(mp.mpf(0), 1 - mp.exp(real(state.spent.epsilon - loss)))
        plays = [
            chance[event] * value(loss + event.epsilon, state.charge(event))
            + (1 - chance[event]) * value(loss - event.epsilon, state.charge(event))
            for event in sizes
            if state.accepts(event)
        ]
        return max([stop, *plays])

    with mp.workdps(20):
        assert value(Fraction(0), Filter(Fraction(epsilon), Fraction(delta))) <= real(Fraction(delta)) / 2
