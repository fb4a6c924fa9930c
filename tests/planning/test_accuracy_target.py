"""Accuracy first: the margin that was asked for is reached, and a little less epsilon would miss it."""

from dataclasses import replace
from fractions import Fraction

import pytest
from tests.planning.clinic_groups import AGE, COST, PUBLIC_DEPT, SECRET_DEPT, UNIT, asked, group_of, margins, private_of

from sfumato.accounting.event import Neighbours, Pure
from sfumato.accounting.filter import Filter
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import UnknownName, UnreachableMargin
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.planning.accuracy_target import CONFIDENCE, greatest_variance, least_inverse_scale
from sfumato.planning.budget_share import choose_plan
from sfumato.planning.planner import make_plan, make_plans
from sfumato.planning.quote import make_quote
from sfumato.randomness.discrete_gaussian import DiscreteGaussian
from sfumato.randomness.discrete_laplace import DiscreteLaplace

VISITS = group_of(asked("count"), asked("sum", COST), asked("avg", COST), keys=(PUBLIC_DEPT,))


@pytest.mark.parametrize("reach", [0, 1, 2, 25, 1000, 10**9, 10**30])
def test_the_least_inverse_scale_reaches_and_the_next_smaller_one_does_not(reach: int) -> None:
    found = least_inverse_scale(reach)
    assert DiscreteLaplace(1 / found).margin(CONFIDENCE) <= reach
    assert DiscreteLaplace(1 / (found * (1 - Fraction(2, 10**11)))).margin(CONFIDENCE) > reach


def test_named_columns_get_their_margin_and_the_others_their_mean() -> None:
    plans = make_plans(private_of(VISITS), margins(a1=25, a2="40000"))
    # with noise of their own, not shared
    (plan,) = [plan for plan in plans if not plan.groups[0].joint_noise_measurements]
    quote = make_quote(plan)
    assert quote.margins["a1"] == 25
    assert quote.margins["a2"] == 40000
    count, total, present = plan.groups[0].measured
    costs = [one.sensitivity.l1 / one.mechanism.scale for one in (count, total, present)]  # type: ignore[union-attr]
    assert costs[2] == (costs[0] + costs[1]) / 2
    assert plan.loss.epsilon == sum(costs)
    assert plan.loss.delta == 0


def test_a_name_matches_whatever_its_case() -> None:
    assert make_plan(private_of(VISITS), margins(A1=25)) == make_plan(private_of(VISITS), margins(a1=25))


def test_keys_are_selected_beside_it() -> None:
    plan = make_plan(private_of(group_of(asked("count"), keys=(SECRET_DEPT,))), margins(a1=500, delta="1e-6"))
    selection = plan.groups[0].selection
    assert isinstance(selection, OptimalSelection)
    assert plan.loss.epsilon == 2 * selection.epsilon
    assert plan.loss.delta == Fraction(1, 10**6)


@pytest.mark.parametrize("name", ["a3", "dept"])
def test_what_depends_on_data_has_no_margin_to_ask_for(name: str) -> None:
    with pytest.raises(UnreachableMargin, match="COUNT and SUM"):
        make_plan(private_of(VISITS), margins(**{name: 5}))


def test_an_unknown_column_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownName, match="`a1`"):
        make_plan(private_of(VISITS), margins(total=5))


def test_less_than_half_a_step_is_refused() -> None:
    assert make_plan(private_of(VISITS), margins(a2="0.005", cap=10**12)).loss.epsilon > 0
    with pytest.raises(UnreachableMargin, match="half a step"):
        make_plan(private_of(VISITS), margins(a1="0.49"))


def test_beyond_the_cap_the_nearest_margin_is_named_and_can_be_had() -> None:
    alone = group_of(asked("sum", AGE))
    with pytest.raises(UnreachableMargin) as refused:
        make_plan(private_of(alone), margins(a1=100, cap="0.5"))
    nearest = refused.value.remedy.partition("±")[2].rstrip(".")
    assert make_plan(private_of(alone), margins(a1=nearest, cap="0.5")).loss.epsilon <= Fraction(1, 2)
    with pytest.raises(UnreachableMargin, match="raise the budget"):
        make_plan(private_of(alone), margins(a1=100, cap=0))


def test_where_no_margin_can_be_had_the_search_for_one_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.planning.accuracy_target._affordable", lambda *_: ([], Fraction(9)))
    with pytest.raises(UnreachableMargin, match="Wider margins do not fit either"):
        make_plan(private_of(group_of(asked("sum", AGE))), margins(a1=100, cap="0.5"))


@pytest.mark.parametrize("wanted", [{"a1": 25}, {"a2": "1000"}, {"a1": 25, "a2": "40000"}], ids=str)
def test_no_margin_clearly_below_the_nearest_can_be_had(wanted: dict[str, object]) -> None:
    private = private_of(VISITS)
    with pytest.raises(UnreachableMargin) as refused:
        make_plan(private, margins(**wanted, cap="0.5"))
    offered = dict(pair.split(" ±") for pair in refused.value.remedy.partition("within ")[2].rstrip(".").split(", "))
    assert make_plan(private, margins(**offered, cap="0.5")).loss.epsilon <= Fraction(1, 2)
    nearer = {name: Fraction(margin) * Fraction(97, 100) for name, margin in offered.items()}
    with pytest.raises(UnreachableMargin):
        make_plan(private, margins(**nearer, cap="0.5"))


def test_gaussian_noise_is_taken_where_a_ledger_charges_less_for_it() -> None:
    alone = private_of(group_of(asked("count", UNIT, distinct=True)))
    cap = PrivacyLoss(Fraction(3), Fraction(1, 10**6))
    wish = replace(margins(a1=25, delta="1e-9"), max_loss=cap)
    smooth, plain = make_plans(alone, wish)
    assert isinstance(smooth.groups[0].measured[0].mechanism, Gaussian)
    assert isinstance(plain.groups[0].measured[0].mechanism, Laplace)
    for plan in (smooth, plain):
        assert plan.groups[0].measured[0].mechanism.margin(CONFIDENCE) == 25
    fresh = Filter(Fraction(3), Fraction(1, 10**6))
    assert smooth.event is not None
    assert plain.event is not None
    first, second = fresh.used_after(smooth.event), fresh.used_after(plain.event)
    assert first is not None
    assert second is not None
    assert Fraction(19, 10) * first < second  # nearly twice as many questions
    spent = fresh.charge(
        Pure(Fraction(2), Neighbours.ADD_REMOVE)
    )  # by pure losses: Gaussian noise would end that count
    assert choose_plan((smooth, plain), fresh, None) is smooth
    assert choose_plan((smooth, plain), spent, None) is plain


@pytest.mark.parametrize("reach", [0, 1, 7, 1000, 10**9])
def test_the_variance_is_the_greatest_of_its_digits(reach: int) -> None:
    variance = greatest_variance(reach)
    assert DiscreteGaussian(variance).margin(CONFIDENCE) <= reach
    assert DiscreteGaussian(variance * (1 + Fraction(1, 10**4))).margin(CONFIDENCE) > reach
