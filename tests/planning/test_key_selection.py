"""The number of rows that is shown selects the keys that nobody declared, where that errs less and shows as much."""

from dataclasses import replace
from fractions import Fraction

import pytest
from tests.planning.clinic_groups import (
    AGE,
    COST,
    PUBLIC_DEPT,
    SECRET_DEPT,
    UNIT,
    asked,
    group_of,
    margins,
    price,
    private_of,
)

from sfumato.accounting.approximate import separate
from sfumato.accounting.event import Neighbours
from sfumato.accounting.filter import Filter
from sfumato.accounting.loss import PrivacyLoss
from sfumato.accounting.pure import epsilon as pure_epsilon
from sfumato.analysis.private_query import Group, PrivateQuery
from sfumato.language.rel_nodes import LimitNode, SortNode
from sfumato.language.scalar import Scalar, column
from sfumato.mechanisms.counted_keys import CountedKeys
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.mechanisms.renyi_selection import RenyiSelection
from sfumato.planning.budget_share import Share
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.planning.planner import PriceTarget, make_plan, make_plans
from sfumato.planning.quote import make_quote
from sfumato.query.aggregate import Aggregate

DELTA, LEVEL = Fraction(1, 10**9), Fraction(95, 100)
ROWS = asked("count")
NEGATIVE = replace(AGE, facts=replace(AGE.facts, low=-1))
WISHES = {
    "epsilon": price(1, DELTA),
    "share": PriceTarget(
        None,
        DELTA,
        (),
        PrivacyLoss(Fraction(3), Fraction(1, 10**6)),
        Share(Fraction(1, 10), Filter(Fraction(3), Fraction(1, 10**6))),
    ),
    "within": margins(cap=10, delta=DELTA, a1=300),
}


def visits(*measures: Aggregate[Scalar], rows: int = 100, groups: int = 100, label: str = "group") -> Group:
    return group_of(*measures, keys=(SECRET_DEPT,), rows=rows, groups=groups, label=label)


def both(
    group: Group, wish: PriceTarget, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> tuple[GroupPlan, GroupPlan]:
    """The preferred plan of a group, and the one that selects keys by themselves."""
    plans = make_plans(private_of(group, neighbours=neighbours), wish)
    return plans[0].groups[0], next(one.groups[0] for one in plans if one.groups[0].selecting_measurement is None)


def largest(private: PrivateQuery, count: int = 3) -> PrivateQuery:
    """The largest cells by the first aggregate."""
    by = column(private.groups[0].label, "a1", AGE.facts)
    cut = LimitNode(SortNode(private.outcome.source, ((by, True, False),)), count, 0)
    return replace(private, outcome=replace(private.outcome, source=cut))


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES)
def test_the_noisy_number_of_rows_selects_keys_that_nobody_declared(wish: PriceTarget, neighbours: Neighbours) -> None:
    one, every = both(visits(ROWS), wish, neighbours)
    assert isinstance(one.selection, CountedKeys)
    assert isinstance(every.selection, OptimalSelection | RenyiSelection)
    assert (one.selecting_measurement, one.selection.most, one.selection.groups_per_unit) == ("m1", 100, 100)
    assert one.selection.delta <= DELTA
    reached, before = (group.measured[0].mechanism.margin(LEVEL) for group in (one, every))
    assert reached <= 300 if wish.within else 3 * reached < before


def test_it_is_the_same_price_and_the_event_says_so() -> None:
    plan = make_plan(private_of(visits(ROWS)), price(1, DELTA))
    assert plan.event is not None
    core, delta = separate(plan.event)
    assert pure_epsilon(core) == 1
    assert delta <= plan.loss.delta == DELTA


def test_a_margin_costs_less_that_way() -> None:
    one, every = (
        plan.loss.epsilon
        for plan in make_plans(private_of(visits(ROWS)), WISHES["within"])
        if isinstance(plan.groups[0].measured[0].mechanism, Laplace)
    )
    assert 2 * one == every


@pytest.mark.parametrize(
    ("rows", "groups", "by_rows"),
    [
        (3, 1, True),  # from 71 rows on instead of 44 people, and half the margin
        (5, 1, False),  # from 117 rows on
        (20, 3, False),  # 490 rows instead of 99 people; with 184 rows a number told something before
        (20, 20, True),
        (100, 10, True),  # 2,564 rows instead of 271 people, of whose numbers nothing below 1,669 could be told
    ],
)
def test_a_group_appears_from_at_most_twice_the_size_that_told_something(rows: int, groups: int, by_rows: bool) -> None:
    plan = make_plan(private_of(visits(ROWS, rows=rows, groups=groups)), price(1, DELTA))
    assert isinstance(plan.groups[0].selection, CountedKeys) is by_rows


@pytest.mark.parametrize("more", [asked("sum", COST), asked("avg", AGE)], ids=["sum", "avg"])
def test_also_beside_a_sum_or_an_average(more: Aggregate[Scalar]) -> None:
    one, every = both(visits(ROWS, more, rows=20, groups=20), price(1, DELTA))
    assert isinstance(one.selection, CountedKeys)
    for now, before in zip(one.measured, every.measured, strict=True):
        assert now.mechanism.margin(LEVEL) < before.mechanism.margin(LEVEL)
    few = make_plan(private_of(visits(ROWS, more, rows=3, groups=1)), price(1, DELTA))
    assert few.groups[0].selecting_measurement is None  # 83 rows instead of 56 people for a tenth


def test_the_count_inside_an_average_selects_too() -> None:
    plan = make_plan(private_of(visits(asked("avg", AGE), rows=20, groups=20)), price(1, DELTA))
    assert isinstance(plan.groups[0].selection, CountedKeys)
    nullable = make_plan(private_of(visits(asked("avg", COST), rows=20, groups=20)), price(1, DELTA))
    assert isinstance(nullable.groups[0].selection, OptimalSelection)  # not everybody has a cost


def test_people_select_where_they_are_counted_and_declared_keys_need_no_selection() -> None:
    people = make_plan(private_of(visits(ROWS, asked("count", UNIT, distinct=True))), price(1, DELTA)).groups[0]
    assert isinstance(people.selection, CountedKeys)
    assert (people.selecting_measurement, people.selection.most) == ("m2", 1)
    public = group_of(ROWS, keys=(PUBLIC_DEPT,), rows=100, groups=100)
    assert make_plan(private_of(public), price(1, DELTA)).groups[0].selection is None


@pytest.mark.parametrize("neighbours", Neighbours)
def test_a_list_by_a_sum_is_selected_by_that_sum(neighbours: Neighbours) -> None:
    total = visits(asked("sum", AGE))
    private = largest(private_of(total, neighbours=neighbours))
    one = make_plan(private, price(1, DELTA))
    every = make_plan(private_of(total, neighbours=neighbours), price(1, DELTA)).groups[0]  # no list: all are shown
    assert isinstance(every.selection, OptimalSelection)
    (group,) = one.groups
    assert isinstance(group.selection, CountedKeys)
    assert group.selection.most == 100 * 120
    assert group.selection.delta <= DELTA
    reached, before = (plan.measured[0].mechanism.margin(LEVEL) for plan in (group, every))
    assert 10 * reached < before
    assert group.selection.units_for(LEVEL) <= 2 * before
    assert any("from a sum of" in note for note in make_quote(one).notes)


@pytest.mark.parametrize(
    ("group", "selected"),
    [
        (visits(asked("sum", AGE), rows=20, groups=2), None),  # groups would need several times the sum to appear
        (visits(asked("sum", NEGATIVE)), None),  # which may be negative
        (visits(asked("sum", AGE), ROWS), "m2"),  # rows are counted, so that they select
        (visits(asked("sum", AGE), asked("count", UNIT, distinct=True)), "m2"),
    ],
)
def test_a_list_by_a_sum_is_selected_otherwise(group: Group, selected: str | None) -> None:
    assert make_plan(largest(private_of(group)), price(1, DELTA)).groups[0].selecting_measurement == selected


def test_each_group_of_a_question_is_judged_by_itself() -> None:
    many, few = visits(ROWS, rows=5, groups=5, label="many"), visits(ROWS, rows=20, groups=1, label="few")
    plan: Plan = make_plan(private_of(many, few), price(1, DELTA))
    assert [type(group.selection) for group in plan.groups] == [CountedKeys, OptimalSelection]


def test_a_quote_says_from_how_many_rows_on_a_group_appears() -> None:
    quote = make_quote(make_plan(private_of(visits(ROWS)), price(1, DELTA)))
    assert any("from 2,795 rows on" in note for note in quote.notes)
    assert quote.margins["a1"] == 300
