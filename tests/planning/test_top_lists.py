"""Top lists: when one is planned, what it costs, and that nothing else is cut."""

from dataclasses import replace
from fractions import Fraction

import pytest
from tests.planning.clinic_groups import (
    AGE,
    DEPT,
    SECRET_DEPT,
    UNIT,
    asked,
    group_of,
    margins,
    price,
    private_of,
)

from sfumato.accounting import zcdp
from sfumato.accounting.approximate import separate
from sfumato.accounting.event import Neighbours
from sfumato.accounting.filter import Filter
from sfumato.accounting.loss import PrivacyLoss
from sfumato.accounting.pure import epsilon as pure_epsilon
from sfumato.analysis.private_query import Group, Key, PrivateQuery
from sfumato.errors import KeysNeedDelta
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import FilterNode, LimitNode, ProjectNode, SortNode
from sfumato.language.scalar import Operator, Scalar, column, literal
from sfumato.mechanisms.counted_keys import CountedKeys
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.spelled_list import SpelledList
from sfumato.mechanisms.top_list import TopList
from sfumato.planning.budget_share import Share
from sfumato.planning.noise import choices_epsilon
from sfumato.planning.planner import PriceTarget, make_plan, make_plans
from sfumato.planning.quote import make_quote
from sfumato.planning.top_lists import is_a_list
from sfumato.query.types import Type

PEOPLE = asked("count", UNIT, distinct=True)
MANY = Key("dept", DEPT, tuple(f"d{number}" for number in range(200)))
DELTA = Fraction(1, 10**9)


def shop(*more: object, key: Key = SECRET_DEPT, groups: int = 100) -> Group:
    return group_of(PEOPLE, *more, keys=(key,), rows=100, groups=groups)  # type: ignore[arg-type]


def listed(
    group: Group,
    count: int,
    *,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    descending: bool = True,
    offset: int = 0,
) -> PrivateQuery:
    """The largest cells by the first aggregate."""
    private = private_of(group, neighbours=neighbours)
    by: Scalar = column(group.label, "a1", AGE.facts)
    cut = LimitNode(SortNode(private.outcome.source, ((by, descending, False),)), count, offset)
    return replace(private, outcome=ProjectNode(cut, "answer", private.outcome.items))


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("key", [SECRET_DEPT, MANY], ids=["secret", "public"])
@pytest.mark.parametrize("count", [3, 20])
def test_a_list_errs_less_than_all_cells_where_one_person_is_in_many(
    neighbours: Neighbours, key: Key, count: int
) -> None:
    group = shop(key=key)
    one = make_plan(listed(group, count, neighbours=neighbours), price(1, DELTA))
    every = make_plan(private_of(group, neighbours=neighbours), price(1, DELTA)).groups[0]
    chosen = one.groups[0].selection
    assert isinstance(chosen, TopList)
    assert (chosen.chosen, chosen.threshold is None) == (count, key is MANY)
    level = Fraction(95, 100)
    assert one.groups[0].measured[0].mechanism.margin(level) < 0.7 * every.measured[0].mechanism.margin(level)
    if isinstance(every.selection, CountedKeys):
        assert chosen.units_for(level) < every.selection.units_for(level)
    # what is charged is what was asked for
    assert one.event is not None
    core, delta = separate(one.event)
    assert delta <= one.loss.delta <= DELTA
    if isinstance(chosen.noise, Gaussian):
        assert zcdp.epsilon(core, one.loss.delta - delta) <= 1
    else:
        assert pure_epsilon(core) == 1


@pytest.mark.parametrize(
    "private",
    [
        listed(shop(groups=2), 10),  # everybody is in few cells: one noise selects and counts
        listed(shop(), 3, descending=False),
        listed(shop(), 5000),
        listed(shop(key=Key("dept", DEPT, ("er", "icu"))), 3),
        listed(group_of(asked("count"), keys=(SECRET_DEPT,), rows=100, groups=100), 3),  # rows, not people
        listed(group_of(asked("sum", AGE), keys=(SECRET_DEPT,), rows=100, groups=100), 3),
    ],
)
def test_other_orders_cuts_and_counts_measure_all_cells(private: PrivateQuery) -> None:
    assert not isinstance(make_plan(private, price(1, DELTA)).groups[0].selection, TopList)


def test_a_condition_below_the_cut_measures_all_cells_unless_it_asks_for_large_ones() -> None:
    private = listed(shop(asked("count", AGE, distinct=True)), 3)
    cut = private.outcome.source
    assert isinstance(cut, LimitNode)
    assert isinstance(cut.source, SortNode)
    order, table = cut.source.keys, cut.source.source
    people = order[0][0]
    ten, ages = literal(10, people.facts), column("group", "a2", AGE.facts)

    def _having(condition: Scalar) -> PrivateQuery:
        inner = LimitNode(SortNode(FilterNode(table, condition), order), 3, 0)
        return replace(private, outcome=replace(private.outcome, source=inner))

    def _holds(operator: Operator, *parts: Scalar) -> Scalar:
        return Scalar(operator, parts, Facts(Type.BOOLEAN, Kind.BOOLEAN))

    more, least = _holds(Operator.LESS, ten, people), _holds(Operator.AT_MOST, ten, people)
    for condition, same in (
        (more, True),
        (_holds(Operator.AND, more, least), True),
        (_holds(Operator.LESS, people, ten), False),
        (_holds(Operator.LESS, ten, ages), False),
        (_holds(Operator.AND, more, _holds(Operator.LESS, ten, ages)), False),
        (_holds(Operator.OR, more, least), False),
        (_holds(Operator.LESS, ages, people), False),
    ):
        plan = make_plan(_having(condition), price(1, DELTA))
        assert isinstance(plan.groups[0].selection, TopList) is same
        assert not is_a_list(plan)  # noise decides which of them pass, and the answer says so


def test_what_comes_after_the_first_is_among_so_many_more() -> None:
    plan = make_plan(listed(shop(), 3, offset=2), price(1, DELTA))
    assert isinstance(plan.groups[0].selection, TopList)
    assert plan.groups[0].selection.chosen == 5
    assert not is_a_list(plan)
    assert is_a_list(make_plan(listed(shop(), 5), price(1, DELTA)))


def test_a_group_that_another_question_reads_is_not_cut() -> None:
    private, whole = listed(shop(), 3), private_of(shop())
    (plan,) = make_plans(private, price(1, DELTA), (private.outcome, whole.outcome))
    assert isinstance(plan.groups[0].selection, CountedKeys)


def test_what_else_is_measured_gets_noise_for_the_chosen_cells_alone() -> None:
    plan = make_plan(listed(shop(asked("count", AGE, distinct=True)), 2), price(1, DELTA))
    assert isinstance(plan.groups[0].selection, TopList)
    people, ages = plan.groups[0].measured
    assert (people.sensitivity.l1, ages.sensitivity.l1) == (2, 100)


def test_a_share_and_a_margin_are_fulfilled_by_lists_too() -> None:
    account = Filter(Fraction(3), Fraction(1, 10**6))
    wish = PriceTarget(None, DELTA, (), PrivacyLoss(Fraction(3), Fraction(1, 10**6)), Share(Fraction(1, 10), account))
    plans = make_plans(listed(shop(), 3), wish)
    assert isinstance(plans[0].groups[0].selection, TopList)
    for plan in plans:
        assert plan.event is not None
        used = account.used_after(plan.event)
        assert used is not None
        assert used <= Fraction(1, 10)
    within = make_plan(listed(shop(), 3), margins(cap=3, delta=DELTA, a1=20))
    assert isinstance(within.groups[0].selection, TopList)
    assert within.groups[0].measured[0].mechanism.margin(Fraction(95, 100)) <= 20


def test_without_a_delta_the_commonest_texts_are_spelled() -> None:
    plan = make_plan(listed(shop(), 2), price(1))
    (group,) = plan.groups
    assert isinstance(group.selection, SpelledList)
    assert group.selection.longest == 32
    assert plan.event is not None
    assert pure_epsilon(plan.event) == 1
    assert plan.loss.delta == 0
    assert any("without a delta" in note for note in make_quote(plan).notes)
    for other in (private_of(shop()), listed(shop(key=Key("age", AGE, None)), 2)):
        with pytest.raises(KeysNeedDelta):
            make_plan(other, price(1))


def test_a_quote_says_how_a_list_is_made() -> None:
    quote = make_quote(make_plan(listed(shop(), 3), price(1, DELTA)))
    assert quote.mechanisms["dept"] == "the 3 largest, chosen privately"
    assert any("chosen privately, one after another" in note and "people on" in note for note in quote.notes)


@pytest.mark.parametrize("margin", [10**14, 10**30])
def test_a_list_within_any_margin_has_a_price(margin: int) -> None:
    private = listed(shop(key=MANY), 3)
    wish = replace(
        margins(**{private.names[-1]: margin}), delta=DELTA, max_loss=PrivacyLoss(Fraction(100), DELTA * 1000)
    )
    plan = make_plan(private, wish)
    assert plan.event is not None  # noise so wide may be (0, delta)-DP, but it is charged
    assert plan.loss.epsilon < 1


@pytest.mark.parametrize("rho", [Fraction(1, 3), Fraction(1, 10**30), Fraction(1, 10**70)])
def test_choices_cost_nearly_the_whole_of_their_loss_and_never_more(rho: Fraction) -> None:
    each = choices_epsilon(3, rho) / 3
    assert rho * Fraction(999, 1000) < 3 * each**2 / 8 <= rho
