"""Laplace or Gaussian: the quoted loss is what the events cost, and the better noise is chosen."""

from fractions import Fraction

import pytest
from tests.planning.clinic_groups import AGE, COST, PUBLIC_DEPT, SECRET_DEPT, UNIT, asked, group_of, price, private_of

from sfumato.accounting import pld, rdp, zcdp
from sfumato.accounting.approximate import separate
from sfumato.accounting.event import Approximate, Composed, Concentrated, GaussianNoise, Neighbours, Repeated
from sfumato.accounting.loss import PrivacyLoss
from sfumato.accounting.pure import epsilon as pure_epsilon
from sfumato.analysis.private_query import Group, PrivateQuery
from sfumato.language.scalar import Scalar, column
from sfumato.mechanisms.counted_keys import CountedKeys
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.planning.budget_split import LAPLACE_ROOT, laplace_weights, shares
from sfumato.planning.concentrated_loss import concentrated_loss
from sfumato.planning.measurements import needs_of
from sfumato.planning.noise import best_noise, expected_error, laplace_noise
from sfumato.planning.plan import Plan
from sfumato.planning.planner import make_plan

FEW = group_of(asked("count"), asked("sum", COST), asked("avg", AGE), keys=(PUBLIC_DEPT,))
SECRET = group_of(asked("count"), asked("var_samp", COST), keys=(SECRET_DEPT,))
PEOPLE = group_of(asked("count", UNIT, distinct=True), keys=(SECRET_DEPT,), rows=200, groups=200)
PEOPLE_IN_PUBLIC = group_of(asked("count", UNIT, distinct=True), keys=(PUBLIC_DEPT,), rows=200, groups=200)
EVERY_RELATION = pytest.mark.parametrize("neighbours", Neighbours)


def _plan(group: Group, neighbours: Neighbours, delta: object = "1e-6") -> Plan:
    return make_plan(private_of(group, neighbours=neighbours), price("0.5", delta))


@EVERY_RELATION
@pytest.mark.parametrize("group", [FEW, SECRET])
def test_laplace_noise_costs_exactly_what_was_asked(group: Group, neighbours: Neighbours) -> None:
    plan = _plan(group, neighbours)
    assert plan.event is not None
    core, delta = separate(plan.event)
    assert pure_epsilon(core) == plan.loss.epsilon == Fraction(1, 2)
    assert delta == plan.loss.delta == (Fraction(1, 10**6) if group is SECRET else 0)
    assert plan.event.neighbours is neighbours


@EVERY_RELATION
def test_gaussian_noise_is_chosen_where_one_person_touches_many_cells(neighbours: Neighbours) -> None:
    plan = _plan(PEOPLE, neighbours)
    mechanism = plan.groups[0].measured[0].mechanism
    selection = plan.groups[0].selection
    assert isinstance(mechanism, Gaussian)
    assert isinstance(selection, CountedKeys)  # its noise is the noise of the number that is shown
    assert (selection.noise, plan.groups[0].selecting_measurement) == (mechanism, plan.groups[0].measured[0].name)
    assert selection.delta <= Fraction(1, 2 * 10**6)
    assert plan.loss.delta == Fraction(1, 10**6)
    low, high = pld.bounds(mechanism.event, plan.loss.delta / 2)
    assert 0.99 * 0.5 <= low <= 0.5
    assert high <= 0.5 * (1 + 1e-5)


def test_without_delta_noise_is_laplace_noise() -> None:
    plan = _plan(PEOPLE_IN_PUBLIC, Neighbours.ADD_REMOVE, delta=0)
    assert isinstance(plan.groups[0].measured[0].mechanism, Laplace)
    assert plan.loss.delta == 0


def test_many_sums_get_gaussian_noise_whose_events_together_cost_the_quoted_loss() -> None:
    columns = tuple(asked("sum", AGE, where=_numbered(place)) for place in range(40))
    plan = _plan(group_of(*columns), Neighbours.ADD_REMOVE)
    assert all(isinstance(one.mechanism, Gaussian) for one in plan.groups[0].measured)
    assert plan.event is not None
    low, high = pld.bounds(plan.event, plan.loss.delta)
    assert 0.99 * 0.5 <= low <= 0.5
    assert high <= 0.5 * (1 + 1e-5)
    assert zcdp.epsilon(plan.event, plan.loss.delta) > 0.52  # the exact curve buys more than zCDP


def _numbered(place: int) -> Scalar:
    return column("visits", f"flag{place}", AGE.facts)


def test_the_choice_errs_no_more_than_laplace_noise_would() -> None:
    for group in (FEW, SECRET, PEOPLE):
        needs = (needs_of(group, Neighbours.ADD_REMOVE),)
        delta = Fraction(1, 10**6)
        epsilons = tuple(share / 2 for share in shares(laplace_weights(needs), LAPLACE_ROOT))
        plain = expected_error(needs, laplace_noise(needs, epsilons, delta)[0])
        assert expected_error(needs, best_noise(needs, Fraction(1, 2), delta, PrivacyLoss(Fraction(3)))[0][0]) <= plain


def test_counts_of_people_are_charged_as_so_many_counts() -> None:
    plan = _plan(group_of(asked("count", UNIT, distinct=True), keys=(PUBLIC_DEPT,)), Neighbours.ADD_REMOVE)
    assert isinstance(plan.event, Composed)
    (event,) = plan.event.events
    assert isinstance(event, Repeated)
    assert (event.times, pure_epsilon(event)) == (3, Fraction(1, 2))


@pytest.mark.parametrize("epsilon", ["1e-6", "0.001", "0.1", "1", "10", "1000"])
@pytest.mark.parametrize("delta", ["1e-300", "1e-9", "1e-3", "0.5"])
def test_the_concentrated_loss_is_valid_and_nearly_the_largest(epsilon: str, delta: str) -> None:
    rho = concentrated_loss(Fraction(epsilon), Fraction(delta))
    assert rho is not None
    within = zcdp.epsilon(Concentrated(rho, Neighbours.ADD_REMOVE), Fraction(delta))
    beyond = zcdp.epsilon(Concentrated(rho * Fraction(1002, 1000), Neighbours.ADD_REMOVE), Fraction(delta))
    assert within <= float(Fraction(epsilon)) * (1 + 1e-9)
    assert beyond >= float(Fraction(epsilon)) * (1 - 1e-9)


def test_several_groups_share_epsilon_and_delta() -> None:
    other = group_of(asked("count"), keys=(SECRET_DEPT,), label="other")
    plan = make_plan(
        PrivateQuery((SECRET, other), private_of(SECRET).outcome, private_of(SECRET).names, Neighbours.REPLACE),
        price(1, "1e-6"),
    )
    selections = [group.selection for group in plan.groups]
    assert [one.delta for one in selections if one is not None] == [Fraction(1, 2 * 10**6)] * 2
    assert plan.event is not None
    core, delta = separate(plan.event)
    assert (pure_epsilon(core), delta) == (1, plan.loss.delta)  # all of delta is for keys: the noise needs none


def test_gaussian_events_are_gaussian_events() -> None:
    event = _plan(PEOPLE, Neighbours.REPLACE).event
    assert isinstance(event, Composed)
    assert [type(part) for part in event.events] == [Approximate]
    assert isinstance(separate(event)[0], Composed | GaussianNoise)
    assert rdp.loss(event, 2) > 0


@EVERY_RELATION
def test_keys_are_selected_by_the_number_of_people_that_is_shown(neighbours: Neighbours) -> None:
    people = group_of(asked("count", UNIT, distinct=True), asked("sum", COST), keys=(SECRET_DEPT,), rows=1, groups=1)
    plan = make_plan(private_of(people, neighbours=neighbours), price(1, "1e-9"))
    (group,) = plan.groups
    assert isinstance(group.selection, CountedKeys)
    assert [one.name for one in group.measured_after_selection] == ["m2"]
    assert plan.event is not None
    core, delta = separate(plan.event)
    assert (pure_epsilon(core), delta) == (1, group.selection.delta)
    rows = group_of(asked("count"), keys=(SECRET_DEPT,), rows=1, groups=1)  # each row is somebody else's
    alone = make_plan(private_of(rows), price(1, "1e-9")).groups[0]
    assert isinstance(alone.selection, CountedKeys)
    assert (alone.selection.threshold, alone.selection.units_for("0.95")) == (22, 24)


@pytest.mark.parametrize(
    "group",
    [
        group_of(asked("count"), keys=(SECRET_DEPT,)),
        group_of(asked("count", UNIT, distinct=True, where=column("visits", "flag", AGE.facts)), keys=(SECRET_DEPT,)),
        group_of(asked("sum", AGE), keys=(SECRET_DEPT,), rows=1, groups=1),
    ],
    ids=["rows", "some people", "a sum"],
)
def test_other_numbers_do_not_select_keys(group: Group) -> None:
    assert isinstance(make_plan(private_of(group), price(1, "1e-9")).groups[0].selection, OptimalSelection)
