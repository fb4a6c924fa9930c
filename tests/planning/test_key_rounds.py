"""Keys selected in rounds: planned from public facts alone, at the price of one round, for no larger charge."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from tests.planning.clinic_groups import COST, SECRET_DEPT, asked, group_of, price, private_of

from sfumato.accounting.approximate import separate
from sfumato.accounting.event import Event, GaussianNoise, Neighbours, Pure
from sfumato.accounting.filter import Filter, rounded_loss
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import BadParameter
from sfumato.mechanisms.key_rounds import KeyRounds
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.mechanisms.renyi_selection import RenyiSelection
from sfumato.planning.budget_share import Share, choose_plan
from sfumato.planning.plan import Plan
from sfumato.planning.planner import PriceTarget, make_plans
from sfumato.planning.quote import make_quote
from sfumato.planning.renyi_keys import MIN_ROWS_PER_KEY, rounds_of

LEVEL, DELTA = Fraction(95, 100), Fraction(1, 10**6)
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
WORST = Fraction(107, 100)
"""A group needs at most so many times the people, and one more, to appear with 95 %, where no round finds others."""


def plans_of(groups: int, rows: int, wish: PriceTarget, neighbours: Neighbours = ADD) -> tuple[Plan, ...]:
    group = group_of(keys=(SECRET_DEPT,), rows=rows, groups=groups, label="group")
    return make_plans(private_of(group, neighbours=neighbours), wish)


def wish_of(epsilon: object, cap: PrivacyLoss) -> PriceTarget:
    return replace(price(epsilon, DELTA), max_loss=cap)


@pytest.mark.parametrize("neighbours", [ADD, REPLACE], ids=str)
@pytest.mark.parametrize(("size", "groups"), [(1, 20), (3, 5), (3, 20), (10, 100)])
def test_rounds_cost_what_one_round_costs_and_come_before_it(size: int, groups: int, neighbours: Neighbours) -> None:
    cap, fresh = PrivacyLoss(Fraction(size), DELTA), Filter(Fraction(size), DELTA)
    found = 0
    for wish in (wish_of(1, cap), PriceTarget(None, DELTA, (), cap, Share(Fraction(1, 10), fresh))):
        plans = plans_of(groups, MIN_ROWS_PER_KEY * groups, wish, neighbours)
        for plan, once, pure in zip(plans, plans[1:], plans[2:], strict=False):
            rounds, single = plan.groups[0].selection, once.groups[0].selection
            if not isinstance(rounds, KeyRounds):
                continue
            found += 1
            assert isinstance(single, RenyiSelection)
            assert isinstance(pure.groups[0].selection, OptimalSelection)
            assert rounds == rounds_of(single)
            assert plan.loss == once.loss == pure.loss
            assert plan.event is not None
            assert once.event is not None
            (core, delta), (one_core, one_delta) = separate(plan.event), separate(once.event)
            parts = [separate(each.event) for each in rounds.rounds]
            assert sum(failing for _, failing in parts) == delta <= one_delta
            for order in single.orders:
                assert rounded_loss(core, order) == sum(rounded_loss(part, order) for part, _ in parts)
            assert all(rounded_loss(core, order) <= rounded_loss(one_core, order) for order in single.orders)
            after, before = fresh.used_after(plan.event), fresh.used_after(once.event)
            assert after is not None
            assert before is not None
            assert after <= before
            assert rounds.units_for(LEVEL) <= WORST * single.units_for(LEVEL) + 1
            assert (rounds.groups_per_unit, rounds.neighbours, rounds.touched) == (groups, neighbours, single.touched)
    assert found


def test_where_people_have_no_other_keys_groups_need_a_little_more_people() -> None:
    order, capacity = 23, Fraction(1, 2)  # about ε = 1 and δ = 10⁻⁶; half and twice of it, and other limits
    for groups, loss, neighbours in product((3, 5, 10, 20, 50), (capacity / 2, capacity, 2 * capacity), (ADD, REPLACE)):
        single = RenyiSelection(DELTA / 2, groups, (order,), (loss,), neighbours)
        last = rounds_of(single).rounds[-1]
        for chance in ("0.05", "0.5", "0.95"):
            assert last.units_for(chance) <= WORST * single.units_for(chance) + 1


def test_public_facts_decide_where_rounds_are_planned() -> None:
    wish = wish_of(1, PrivacyLoss(Fraction(3), DELTA))
    kinds = {
        (groups, rows): [type(plan.groups[0].selection) for plan in plans_of(groups, rows, wish)]
        for groups, rows in ((20, 20), (20, 39), (20, 40), (1, 40))
    }
    assert kinds[20, 20] == kinds[20, 39] == [RenyiSelection, OptimalSelection]
    assert kinds[20, 40] == [KeyRounds, RenyiSelection, OptimalSelection]
    assert kinds[1, 40] == [OptimalSelection]
    with_sum = group_of(asked("sum", COST), keys=(SECRET_DEPT,), rows=100, groups=20, label="group")
    plans = make_plans(private_of(with_sum), wish)
    assert not any(isinstance(plan.groups[0].selection, KeyRounds) for plan in plans)


def test_an_account_is_never_charged_more_than_for_one_round() -> None:
    cap = PrivacyLoss(Fraction(3), DELTA)
    plans = plans_of(20, 60, replace(price("0.3", DELTA / 10), max_loss=cap))
    once = plans[1]
    assert isinstance(plans[0].groups[0].selection, KeyRounds)
    assert once.event is not None
    kinds = set()
    for size in (1, 3, 10):
        fresh = Filter(Fraction(size), DELTA)
        spent: list[Event] = [Pure(Fraction(size, 2), ADD), GaussianNoise(1, Fraction(30, size), ADD)]
        for account in (fresh, *(fresh.charge(event) for event in spent)):
            found = choose_plan(plans, account, None, epsilon=Fraction(3, 10))
            kinds.add(type(found.groups[0].selection))
            assert found.event is not None
            if account.accepts(once.event):
                used, before = account.used_after(found.event), account.used_after(once.event)
                assert used is not None
                assert before is not None
                assert used <= before
    assert KeyRounds in kinds


def test_a_quote_says_that_keys_are_selected_in_rounds() -> None:
    plan = plans_of(20, 60, wish_of(1, PrivacyLoss(Fraction(3), DELTA)))[0]
    (note,) = [note for note in make_quote(plan).notes if note.startswith("Groups are selected privately")]
    assert "from 99 people on" in note
    assert note.endswith("after a round, each person is counted in up to 20 groups that were not found yet.")


def test_rounds_are_two_or_more_of_one_limit() -> None:
    one = RenyiSelection(DELTA, 2, (8,), (Fraction(1, 2),), ADD)
    other = replace(one, groups_per_unit=3)
    for rounds in ((), (one,), (one, other), (one, replace(one, neighbours=REPLACE))):
        with pytest.raises(BadParameter):
            KeyRounds(rounds)
    assert KeyRounds((one, one)).delta == 2 * DELTA
