"""Keys selected under Rényi losses: smaller groups at the same epsilon and delta, for no larger share of a budget."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from tests.planning.clinic_groups import COST, SECRET_DEPT, asked, group_of, price, private_of

from sfumato.accounting.event import Event, GaussianNoise, Neighbours, Pure
from sfumato.accounting.filter import Filter
from sfumato.accounting.loss import PrivacyLoss
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.mechanisms.renyi_selection import RenyiSelection
from sfumato.planning.budget_share import Share, choose_plan
from sfumato.planning.plan import Plan
from sfumato.planning.planner import PriceTarget, make_plans

LEVEL, DELTA = Fraction(95, 100), Fraction(1, 10**6)
CAPS = [PrivacyLoss(Fraction(epsilon), DELTA) for epsilon in ("1", "3", "10")]
MEASURES = {"keys": (), "sum": (asked("sum", COST),), "rows and sum": (asked("count"), asked("sum", COST))}


def wishes(cap: PrivacyLoss) -> list[PriceTarget]:
    account = Filter(cap.epsilon, cap.delta)
    return [
        replace(price("0.5", DELTA), max_loss=cap),
        PriceTarget(None, DELTA, (), cap, Share(Fraction(1, 10), account)),
    ]


def plans_of(
    measures: str, groups: int, wish: PriceTarget, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> list[Plan]:
    group = group_of(*MEASURES[measures], keys=(SECRET_DEPT,), rows=groups, groups=groups, label="group")
    return list(make_plans(private_of(group, neighbours=neighbours), wish))


@pytest.mark.parametrize(
    ("cap", "groups", "neighbours"),
    [
        (CAPS[1], 3, Neighbours.ADD_REMOVE),
        (CAPS[0], 20, Neighbours.ADD_REMOVE),
        (CAPS[2], 20, Neighbours.REPLACE),
        (CAPS[1], 100, Neighbours.ADD_REMOVE),
    ],
    ids=str,
)
def test_each_shows_smaller_groups_at_the_same_price_for_no_larger_charge(
    cap: PrivacyLoss, groups: int, neighbours: Neighbours
) -> None:
    found, fresh = 0, Filter(cap.epsilon, cap.delta)
    for measures, wish in product(MEASURES, wishes(cap)):
        plans = plans_of(measures, groups, wish, neighbours)
        for place, plan in enumerate(plans):
            renyi = plan.groups[0].selection
            if not isinstance(renyi, RenyiSelection):
                continue
            found += 1
            other = plans[place + 1]  # the plan it was made of: an answer that was given with it is still found
            pure = other.groups[0].selection
            assert isinstance(pure, OptimalSelection)
            assert (plan.loss, plan.groups[0].measured) == (other.loss, other.groups[0].measured)
            assert renyi.units_for(LEVEL) < pure.units_for(LEVEL)
            assert (renyi.groups_per_unit, renyi.neighbours) == (pure.groups_per_unit, pure.neighbours)
            assert Filter(pure.epsilon, pure.delta).accepts(renyi.event)
            assert plan.event is not None
            assert other.event is not None
            before, after = fresh.used_after(other.event), fresh.used_after(plan.event)
            assert before is not None
            assert after is not None
            assert after <= before
    assert found >= (4 if groups >= 20 else 0)


def test_a_person_with_twenty_keys_needs_a_third_of_the_people() -> None:
    wish = replace(price(1, DELTA), max_loss=PrivacyLoss(Fraction(3), DELTA))
    renyi, pure = (plan.groups[0].selection for plan in plans_of("keys", 20, wish))
    assert isinstance(renyi, RenyiSelection)
    assert isinstance(pure, OptimalSelection)
    assert (renyi.units_for(LEVEL), pure.units_for(LEVEL)) == (96, 310)


@pytest.mark.parametrize(
    ("groups", "wish"),
    [
        (1, replace(price(1, DELTA), max_loss=CAPS[1])),
        (20, price(1, DELTA)),  # a budget without delta has pure losses only
        (20, replace(price("0.01", DELTA), max_loss=CAPS[1])),
    ],
    ids=["one key", "no delta", "too little"],
)
def test_elsewhere_keys_are_selected_as_before(groups: int, wish: PriceTarget) -> None:
    (plan,) = plans_of("keys", groups, wish)
    assert isinstance(plan.groups[0].selection, OptimalSelection)


def test_an_account_that_spent_its_renyi_losses_gets_the_other_plan() -> None:
    cap = PrivacyLoss(Fraction(1), DELTA)
    plans = tuple(plans_of("keys", 3, replace(price("0.4", DELTA / 10), max_loss=cap)))
    fresh = Filter(cap.epsilon, cap.delta)
    assert isinstance(choose_plan(plans, fresh, None, epsilon=Fraction(2, 5)).groups[0].selection, RenyiSelection)
    spent = fresh.charge(Pure(Fraction(1, 2), Neighbours.ADD_REMOVE))  # nine tenths of the Rényi losses, too
    assert isinstance(choose_plan(plans, spent, None, epsilon=Fraction(2, 5)).groups[0].selection, OptimalSelection)


@pytest.mark.parametrize("groups", [3, 20])
@pytest.mark.parametrize(("own", "whole"), [(3, 3), (1, 3), (1, 10)])
def test_no_cap_is_charged_more_for_keys_under_renyi_losses(groups: int, own: int, whole: int) -> None:
    add_remove, chosen = Neighbours.ADD_REMOVE, set()
    cap = PrivacyLoss(Fraction(own), DELTA)
    plans = tuple(plans_of("sum", groups, replace(price("0.3", DELTA / 10), max_loss=cap)))
    renyi, pure = plans
    assert isinstance(renyi.groups[0].selection, RenyiSelection)
    assert pure.event is not None

    def spent(size: int) -> list[Filter]:
        fresh = Filter(Fraction(size), DELTA)
        before: list[Event] = [Pure(Fraction(size, 2), add_remove), GaussianNoise(1, Fraction(30, size), add_remove)]
        return [fresh, *(fresh.charge(event) for event in before)]

    for account, dataset in product(spent(own), spent(whole)):
        caps = (account, dataset)
        found = choose_plan(plans, account, None, epsilon=Fraction(3, 10), dataset=dataset)
        chosen.add(type(found.groups[0].selection))
        assert found.event is not None
        if all(each.accepts(pure.event) for each in caps):
            used = [(each.used_after(found.event), each.used_after(pure.event)) for each in caps]
            assert all(now is not None and other is not None and now <= other for now, other in used)
    assert OptimalSelection in chosen  # an account that was charged pure losses goes on with them
