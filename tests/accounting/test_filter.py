"""The filter: exact state, no order of charges, and no adaptive analyst gets more than the budget."""

import json
import random
import re
from dataclasses import astuple
from fractions import Fraction
from functools import cache
from itertools import permutations
from math import exp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.accounting.oracle import mp, real

from sfumato.accounting.event import (
    Approximate,
    BoundedRange,
    Composed,
    Event,
    GaussianNoise,
    LaplaceNoise,
    Neighbours,
    NonPrivate,
    Parallel,
    PoissonSampled,
    Pure,
    RealLaplaceNoise,
    Repeated,
)
from sfumato.accounting.filter import MAX_DENOMINATOR, RENYI_UNITS, Filter, add_losses, rounded_loss
from sfumato.errors import BadParameter, BudgetExhausted, MixedNeighbours, UnsupportedEvent

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
TENTH = Pure(Fraction(1, 10), ADD)
GAUSSIAN = GaussianNoise(1, Fraction(100), ADD)
BUDGETS = [
    ("1/2", "1e-6", 43, 0.267638649248),
    ("1", "1e-6", 23, 0.527489784271),
    ("1", "1e-9", 36, 0.518659617565),
    ("3", "1e-6", 9, 1.57885389051),
    ("10", "1e-6", 4, 5.91356094665),
    ("30", "1e-6", 2, 16.8776366226),
]


def filled(budget: Filter, event: Event) -> tuple[int, Filter]:
    count = 0
    while budget.accepts(event):
        budget = budget.charge(event)
        count += 1
    return count, budget


def capacity(epsilon: Fraction, delta: Fraction, order: int) -> mp.mpf:
    half = real(delta) / 2
    return real(epsilon) + mp.log(order * half) / (order - 1) + mp.log(mp.mpf(order) / (order - 1))


@pytest.mark.parametrize(("epsilon", "delta", "order", "room"), BUDGETS)
def test_known_budgets_open_as_known(epsilon: str, delta: str, order: int, room: float) -> None:
    budget = Filter(Fraction(epsilon), Fraction(delta))
    assert budget.order == order
    assert budget.capacity is not None
    assert budget.capacity / RENYI_UNITS == pytest.approx(room, rel=1e-11)


def test_the_order_is_the_best_of_all_and_the_capacity_is_rounded_down() -> None:
    source = random.Random(11)
    for _ in range(4):
        epsilon = Fraction(source.randint(1, 400), source.choice([10, 100]))
        delta = Fraction(1, 10 ** source.randint(2, 12))
        budget = Filter(epsilon, delta)
        with mp.workdps(40):
            rooms = {order: capacity(epsilon, delta, order) / order for order in range(2, 4097)}
        assert budget.order == max(rooms, key=lambda order: rooms[order])
        exact = capacity(epsilon, delta, budget.order) * RENYI_UNITS
        assert budget.capacity == int(mp.floor(exact))


def test_three_at_a_millionth_takes_39_tenths_and_35_gaussians() -> None:
    assert filled(Filter(Fraction(3), Fraction(1, 10**6)), TENTH)[0] == 39
    assert filled(Filter(Fraction(3), Fraction(1, 10**6)), GAUSSIAN)[0] == 35
    assert filled(Filter(3, 1e-6), Repeated(TENTH, 13))[0] == 3  # type: ignore[arg-type]


def test_used_is_the_share_of_the_budget_in_the_currency_of_the_rule() -> None:
    budget = Filter(Fraction(3), Fraction(1, 10**6))
    assert budget.used == 0
    once = budget.charge(TENTH)
    assert 3 * once.used == pytest.approx(Fraction("0.07681"), abs=1e-5)
    assert once.remaining.delta == budget.delta
    assert once.charge(GAUSSIAN).remaining.delta == budget.delta / 2
    _, full = filled(budget, TENTH)
    assert Fraction(99, 100) < full.used <= 1
    assert full.remaining.delta == budget.delta / 2


def test_with_delta_zero_a_budget_for_m_equal_questions_takes_exactly_m() -> None:
    for questions in (1, 3, 7, 49):
        count, full = filled(Filter(Fraction(1), Fraction(0)), Pure(Fraction(1, questions), ADD))
        assert count == questions
        assert full.spent == full.total
        assert full.remaining.epsilon == 0
        assert full.order is None


def test_with_delta_zero_only_pure_losses_fit() -> None:
    budget = Filter(Fraction(1), Fraction(0))
    for event in (GAUSSIAN, Approximate(TENTH, Fraction(1, 10**9)), NonPrivate(ADD), Composed((TENTH, GAUSSIAN))):
        assert not budget.accepts(event)
        with pytest.raises(BudgetExhausted):
            budget.charge(event)


def test_deltas_of_approximate_events_fill_one_half_of_delta() -> None:
    budget = Filter(Fraction(3), Fraction(1, 10**6))
    event = Approximate(Pure(Fraction(1, 100), ADD), Fraction(1, 10**7))
    count, full = filled(budget, event)
    assert count == 5
    assert full.approximate == Fraction(1, 2 * 10**6)
    assert full.accepts(TENTH)
    with pytest.raises(BudgetExhausted, match="delta"):
        full.charge(event)


def test_losses_are_rounded_up_to_units_of_two_to_the_minus_64() -> None:
    source = random.Random(12)
    for _ in range(60):
        epsilon = Fraction(source.randint(1, 10**6), 10 ** source.randint(5, 11))
        order = source.randint(2, 4096)
        with mp.workdps(120):
            e = real(epsilon)
            exact = e + mp.log((1 + mp.exp(-(2 * order - 1) * e)) / (1 + mp.exp(-e))) / (order - 1)
            assert rounded_loss(Pure(epsilon, ADD), order) == int(mp.ceil(exact * RENYI_UNITS))
            gaussian = rounded_loss(GaussianNoise(1, 1 / epsilon, ADD), order)
            assert gaussian == -(-order * epsilon * RENYI_UNITS // 2)


PIECES: list[Event] = [
    TENTH,
    GAUSSIAN,
    LaplaceNoise(2, Fraction(30), ADD),
    RealLaplaceNoise(Fraction(1), Fraction(17), ADD),
    BoundedRange(Fraction(1, 5), ADD),
    Approximate(GaussianNoise(2, Fraction(300), ADD), Fraction(1, 10**8)),
    PoissonSampled(Fraction(1, 10), Pure(Fraction(1, 3), ADD)),
    PoissonSampled(Fraction(1, 100), GaussianNoise(1, Fraction(4), ADD)),
    Parallel((TENTH, GAUSSIAN)),
]


def test_no_order_of_charges_matters() -> None:
    start = Filter(Fraction(3), Fraction(1, 10**6))
    ends = set()
    for order in permutations(PIECES[:5]):
        budget = start
        for event in order:
            budget = budget.charge(event)
        ends.add(budget)
    assert len(ends) == 1
    assert ends == {start.charge(Composed(tuple(PIECES[:5])))}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25), st.randoms(use_true_random=False))
def test_whatever_is_charged_the_state_is_the_exact_sum(events: list[Event], source: random.Random) -> None:
    budget = Filter(Fraction(3), Fraction(1, 10**6))
    taken = []
    for event in events:
        if budget.accepts(event):
            budget = budget.charge(event)
            taken.append(event)
    source.shuffle(taken)
    again = Filter(Fraction(3), Fraction(1, 10**6))
    for event in taken:
        again = again.charge(event)
    assert again == budget
    assert budget.spent.epsilon <= budget.epsilon
    assert budget.spent.delta <= budget.delta


def test_repeating_an_event_is_charging_it_again() -> None:
    budget = Filter(Fraction(3), Fraction(1, 10**6))
    for event in PIECES:
        assert budget.charge(Repeated(event, 2)) == budget.charge(event).charge(event)


def test_a_filter_is_restored_from_its_fields_and_from_text() -> None:
    budget = Filter(Fraction(3), Fraction(1, 10**6)).charge(TENTH).charge(GAUSSIAN)
    assert Filter(*astuple(budget)) == budget
    text = json.dumps([str(field) if isinstance(field, Fraction) else field for field in astuple(budget)])
    assert Filter(*json.loads(text)) == budget
    other = Filter(
        Fraction(3), Fraction(1, 10**6), order=20
    )  # the stored order stays, whatever a later version prefers
    assert other.charge(TENTH).order == 20


@pytest.mark.parametrize("event", [TENTH, GAUSSIAN], ids=str)
def test_a_refused_event_costs_nothing_and_the_refusal_says_what_why_and_what_next(event: Event) -> None:
    _, full = filled(Filter(Fraction(3), Fraction(1, 10**6)), event)
    with pytest.raises(BudgetExhausted) as refusal:
        full.charge(event)
    assert "3" in refusal.value.what
    assert re.search(r"1\d\d % of the budget", refusal.value.why)
    assert "Rényi" not in str(refusal.value)
    assert "owner" in refusal.value.remedy
    assert full.accepts(Pure(Fraction(1, 10**5), ADD))


@pytest.mark.parametrize(
    ("budget", "event"),
    [
        (Filter(Fraction(3), Fraction(1, 10**6)), TENTH),
        (Filter(Fraction(3), Fraction(1, 10**6)), GAUSSIAN),
        (Filter(Fraction(3), Fraction(0)), TENTH),
        (Filter(Fraction(1, 100), Fraction(1, 10**9)), Pure(Fraction(1, 170), ADD)),
    ],
    ids=str,
)
def test_what_a_budget_affords_fits_and_is_nearly_the_most_that_does(budget: Filter, event: Event) -> None:
    for before in (budget, budget.charge(event)):
        assert before.accepts(Pure(before.affords, ADD))
        assert not before.accepts(Pure(before.affords * Fraction(102, 100), ADD))
    _, budget = filled(budget, event)
    with pytest.raises(BudgetExhausted) as refusal:
        budget.charge(event)
    bought = budget.affords
    assert (f"epsilon ≤ {float(bought):g}" in refusal.value.remedy) is (bought > 0)
    assert not bought or budget.charge(Pure(bought, ADD)).affords < bought


def test_what_protects_nobody_is_never_accepted() -> None:
    budget = Filter(Fraction(10**9), Fraction(1, 2))
    for event in (NonPrivate(ADD), Composed((TENTH, NonPrivate(ADD))), PoissonSampled(Fraction(1, 9), NonPrivate(ADD))):
        assert not budget.accepts(event)


def test_what_has_no_theorem_is_refused_by_name_also_with_delta_zero() -> None:
    odd = PoissonSampled(Fraction(1, 10), Composed((TENTH, GAUSSIAN)))
    for delta in (Fraction(0), Fraction(1, 10**6)):
        with pytest.raises(UnsupportedEvent):
            Filter(Fraction(1), delta).accepts(odd)
        with pytest.raises(UnsupportedEvent):
            Filter(Fraction(1), delta).accepts("an answer")  # type: ignore[arg-type]


def test_another_relation_is_refused() -> None:
    budget = Filter(Fraction(1), Fraction(1, 10**6)).charge(TENTH)
    for attempt in (budget.accepts, budget.charge):
        with pytest.raises(MixedNeighbours):
            attempt(Pure(Fraction(1, 10), REPLACE))


def test_a_budget_too_small_for_any_order_takes_pure_losses_only() -> None:
    budget = Filter(Fraction(1, 1000), Fraction(1, 10**9))
    assert budget.capacity is not None
    assert budget.capacity < 0
    assert not budget.accepts(GaussianNoise(1, Fraction(10**12), ADD))
    assert filled(budget, Pure(Fraction(1, 10000), ADD))[0] == 10
    assert budget.accepts(Composed(()))


@pytest.mark.parametrize(
    "fields",
    [
        (0, 0),
        (-1, 0),
        (1, -1),
        (1, 1),
        ("x", 0),
        (1, None),
        (float("inf"), 0),
        (1, 0, 9),
        (1, 1e-6, 1),
        (1, 1e-6, 4097),
        (1, 1e-6, 2.5),
        (1, 1e-6, 9, -1),
        (1, 1e-6, 9, 0, -1),
        (1, 1e-6, 9, 0, 0.5),
        (1, 1e-6, 9, 0, 0, -1),
        (1, 1e-6, 9, 0, 0, 0, "friends"),
    ],
    ids=str,
)
def test_a_state_that_means_nothing_is_refused(fields: tuple[object, ...]) -> None:
    with pytest.raises(BadParameter):
        Filter(*fields)  # type: ignore[arg-type]


def test_the_odometer_never_falls_and_begins_at_nothing() -> None:
    budget = Filter(Fraction(3), Fraction(1, 10**6))
    assert budget.odometer.epsilon == 0
    last = Fraction(0)
    for _ in range(39):
        budget = budget.charge(TENTH)
        assert budget.odometer.epsilon >= last
        last = budget.odometer.epsilon
    assert budget.odometer.delta == budget.delta
    assert real(last) >= mp.mpf(budget.renyi) / RENYI_UNITS + mp.log(2 * mp.mpf(10) ** 6) / 8
    assert last < Fraction(39, 10)


@pytest.mark.parametrize(("epsilon", "delta"), [("2", "1/5"), ("5/2", "1/10"), ("1", "1/4")])
def test_the_best_adaptive_analyst_gets_no_more_than_delta(epsilon: str, delta: str) -> None:
    """Play the game against the filter exactly: pure events of three sizes, chosen after each answer.

    The worst mechanism for a pure epsilon is binary randomized response [KOV15], so the value of the game is the
    largest delta(epsilon) that any adaptive choice of these events reaches.
    """
    sizes = [Pure(Fraction(size, 4), ADD) for size in (1, 2, 3)]
    budget = Filter(Fraction(epsilon), Fraction(delta))
    chance = {event: 1 / (1 + mp.exp(-real(event.epsilon))) for event in sizes}

    @cache
    def value(loss: Fraction, state: Filter) -> mp.mpf:
        stop = max(mp.mpf(0), 1 - mp.exp(real(budget.epsilon - loss)))
        plays = [
            chance[event] * value(loss + event.epsilon, state.charge(event))
            + (1 - chance[event]) * value(loss - event.epsilon, state.charge(event))
            for event in sizes
            if state.accepts(event)
        ]
        return max([stop, *plays])

    with mp.workdps(20):
        reached = value(Fraction(0), budget)
    assert 0 < reached <= real(delta) / 2


def _losses(event: Event) -> list[tuple[float, Fraction]]:
    """The worst outcomes of an event, as chances under P and exact losses; together they are no more than all of P."""
    match event:
        case Pure(epsilon, _):
            chance = 1 / (1 + exp(-epsilon))
            return [(chance, epsilon), (1 - chance, -epsilon)]
        case GaussianNoise(1, variance, _):
            weights = {z: exp(-z * z / (2 * variance)) for z in range(-30, 31)}
            total = sum(weights.values())
            return [(weights[z] / total, Fraction(1 - 2 * z) / (2 * variance)) for z in range(-6, 7)]
        case _:
            raise TypeError(event)


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1/2"), ("2", "1/5"), ("1/2", "4/5")])
def test_an_analyst_who_mixes_pure_gaussian_and_failing_releases_gets_no_more_than_delta(
    epsilon: str, delta: str
) -> None:
    """Four questions, each chosen after the answers before: failing reveals everything, the others do their worst.

    More than half of delta is reached, so the two halves are really added up by this game.
    """
    budget, share = Filter(Fraction(epsilon), Fraction(delta)), Fraction(delta) / 4
    cores = (
        Pure(Fraction(1, 4), ADD),
        Pure(Fraction(1), ADD),
        GaussianNoise(1, Fraction(2), ADD),
        GaussianNoise(1, Fraction(4), ADD),
    )
    plays: list[tuple[Event, float, list[tuple[float, Fraction]]]] = [(core, 0.0, _losses(core)) for core in cores]
    plays += [(Approximate(core, share), float(share), _losses(core)) for core in cores[:3]]

    @cache
    def value(loss: Fraction, state: Filter, left: int) -> float:
        best = max(0.0, 1 - exp(budget.epsilon - loss))
        for event, failing, outcomes in plays if left else []:
            if state.accepts(event):
                after = state.charge(event)
                kept = sum(chance * value(loss + more, after, left - 1) for chance, more in outcomes)
                best = max(best, failing + (1 - failing) * kept)
        return best

    reached = value(Fraction(0), budget, 4)
    assert Fraction(delta) / 2 < reached <= Fraction(delta)


@pytest.mark.parametrize("questions", [3, 7, 997, 10**39 + 3])
def test_a_budget_for_exactly_m_equal_questions_is_exact_for_every_m(questions: int) -> None:
    share, budget = Fraction(1, questions), Filter(Fraction(1), Fraction(0))
    for _ in range(min(questions, 1000)):
        budget = budget.charge(Pure(share, ADD))
    assert budget.pure == min(questions, 1000) * share
    if questions < 1000:
        with pytest.raises(BudgetExhausted):
            budget.charge(Pure(share, ADD))


def test_sums_of_long_fractions_stay_short_and_are_never_below_the_truth() -> None:
    dice = random.Random(8)
    budget, exact = Filter(Fraction(1), Fraction(1, 10**6)), Fraction(0)
    for _ in range(300):
        loss, delta = (Fraction(1, dice.randrange(10**39, 10**40)) for _ in range(2))
        budget, exact = budget.charge(Approximate(Pure(loss, ADD), delta)), exact + loss
        assert budget.pure is not None
        assert exact <= budget.pure < exact + Fraction(300, RENYI_UNITS)
        assert max(budget.pure.denominator, budget.approximate.denominator) <= MAX_DENOMINATOR
    assert exact.denominator > MAX_DENOMINATOR  # so some of them were rounded


@given(st.fractions(0, 1), st.fractions(0, 1))
def test_short_fractions_are_added_exactly(one: Fraction, other: Fraction) -> None:
    assert add_losses(one, other) == one + other
