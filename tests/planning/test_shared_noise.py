"""Counts and sums of the same rows share their noise: what one person moves together, and what that is worth."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from tests.planning.clinic_groups import (
    AGE,
    COST,
    PUBLIC_DEPT,
    UNIT,
    URGENT,
    asked,
    group_of,
    margins,
    price,
    private_of,
)

from sfumato.accounting.event import Composed, GaussianNoise, LaplaceNoise, Neighbours, Pure
from sfumato.accounting.filter import Filter
from sfumato.accounting.loss import PrivacyLoss
from sfumato.accounting.pure import epsilon as pure_epsilon
from sfumato.analysis.private_query import Contribution, Group, Key
from sfumato.language.scalar import column
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.max_norm import MaxNormPart
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.budget_share import choose_plan
from sfumato.planning.budget_split import LAPLACE_ROOT, laplace_weights, shares
from sfumato.planning.measurements import needs_of
from sfumato.planning.noise import laplace_noise, pure_noise
from sfumato.planning.planner import make_plan, make_plans
from sfumato.planning.quote import make_quote
from sfumato.planning.sensitivities import moves_of, side_of
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.max_norm import MaxNormLaw

NULLABLE = COST.facts.nullable
VISITS = group_of(asked("count"), asked("avg", COST), keys=(PUBLIC_DEPT,))
SUMS = group_of(asked("count"), asked("sum", AGE), asked("sum", COST), keys=(PUBLIC_DEPT,))
ADD = Neighbours.ADD_REMOVE
FREE = Contribution(3, 3, False, False)


def _summed(low: int, high: int) -> Quantity:
    facts = AGE.facts
    return Aggregate(
        Aggregation.SUM, (column("rows", "x", type(facts)(facts.type, facts.kind, True, facts.step, low, high)),)
    )


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 2), (1, 2), (-2, -1)])
def test_all_that_a_person_moves_is_so_many_moves_within_the_sides(low: int, high: int, neighbours: Neighbours) -> None:
    """All databases of one person of two rows at most, in one cell or two: rows, present values, and their sum."""
    for rows, cells in product((1, 2), (1, 2)):
        single = list(product(range(cells), [None, *range(low, high + 1)]))
        persons = [list(some) for size in range(rows + 1) for some in combinations_with_replacement(single, size)]
        tables = np.array(
            [
                [
                    [sum(cell == own for own, _ in person), *_present([x for own, x in person if own == cell])]
                    for cell in range(cells)
                ]
                for person in persons
            ]
        )
        public = 1 if cells == 1 else None
        side = side_of(_summed(low, high), public, neighbours)
        assert side is not None
        assert side_of(Aggregate(Aggregation.COUNT), public, neighbours) == 1
        sides = np.array([1, 1, side])
        moved = tables[:, None] - (tables[None, :1] if neighbours is ADD else tables[None])
        norms = (np.abs(moved) / sides).max(axis=3).sum(axis=2)
        most = moves_of(Contribution(rows, rows, False, False), public, neighbours)
        assert norms.max() == most  # never more, and some pair of neighbours moves so much


def _present(values: list[int | None]) -> tuple[int, int]:
    there = [value for value in values if value is not None]
    return len(there), sum(there)


def _variances(group: Group) -> tuple[list[float], list[float]]:
    """Return the integer laws' variances of every measurement: with Laplace noise, and as it is planned."""
    needs = (needs_of(group, ADD),)
    epsilons = tuple(share / 10 for share in shares(laplace_weights(needs), LAPLACE_ROOT))
    found = []
    for groups, _ in (laplace_noise(needs, epsilons, Fraction(0)), pure_noise(needs, Fraction(1, 10), Fraction(0))):
        own = []
        for one in groups[0].measured:
            if isinstance(one.mechanism, MaxNormPart):
                own.append(one.mechanism.joint.law.moments(one.mechanism.place)[0])
            else:
                assert isinstance(one.mechanism, Laplace)
                own.append(2.0 * float(one.mechanism.scale) ** 2)
        found.append(own)
    return found[0], found[1]


def test_a_count_beside_the_average_of_a_nullable_column_errs_half_as_much() -> None:
    assert NULLABLE
    (rows, present, total), (now, there, summed) = _variances(VISITS)
    assert rows / now > 1.9
    side = float(max(abs(COST.facts.low), abs(COST.facts.high)) / 2)
    mean = [total / side**2 + present / 4, summed / side**2 + there / 4]  # of a mean half way between middle and end
    assert mean[0] / mean[1] > 2.6


def test_a_count_and_a_sum_err_half_as_much_as_with_noise_of_their_own() -> None:
    before, now = _variances(group_of(asked("count"), asked("sum", AGE)))
    assert [one / other for one, other in zip(before, now, strict=True)] == pytest.approx([2, 2], rel=0.01)


def test_counts_and_sums_share_their_noise_in_every_margin_of_one_table() -> None:
    keys = (PUBLIC_DEPT, Key("urgent", URGENT, (False, True)))
    groups = (
        replace(group_of(asked("count"), asked("sum", AGE), keys=keys[:size], label=f"by {size}"), contribution=FREE)
        for size in (2, 1, 0)
    )
    plan = make_plan(private_of(*groups), price(1))
    assert len(plan.tables) == 2
    assert [len(group.joint_noise_measurements) for group in plan.groups] == [2, 2, 2]
    assert plan.event is not None
    assert pure_epsilon(plan.event) == 1
    now = [group.measured[0].mechanism.margin(Fraction(95, 100)) for group in plan.groups]
    alone = make_plan(
        private_of(*(replace(group, asked=group.asked[:1]) for group in plan.private.groups)), price("0.5")
    )  # half of the price for the counts, as if nothing were shared
    before = [group.measured[0].mechanism.margin(Fraction(95, 100)) for group in alone.groups]
    assert all(1.3 * reach < then for reach, then in zip(now, before, strict=True))


def test_it_is_one_event_of_the_whole_price() -> None:
    plan = make_plan(private_of(SUMS), price("0.5", 0))
    assert plan.event == Composed((Pure(Fraction(1, 2), ADD),))
    assert len(plan.groups[0].joint_noise_measurements) == 3
    assert make_quote(plan).margins["a1"] == plan.groups[0].measured[0].mechanism.margin(Fraction(95, 100))


@pytest.mark.parametrize(
    ("delta", "epsilon", "together"), [(0, "0.01", True), ("1e-6", "0.2", True), ("1e-6", "0.05", False)]
)
def test_noise_is_shared_where_it_errs_less_for_what_is_charged(delta: str, epsilon: str, together: bool) -> None:
    """Of many small questions a ledger counts the Rényi losses, which noise of their own has less of."""
    wish = replace(price(epsilon, delta), max_loss=PrivacyLoss(Fraction(3), Fraction(delta)))
    plans = make_plans(private_of(SUMS), wish)
    assert [bool(plan.groups[0].joint_noise_measurements) for plan in plans] == [together, not together]
    assert choose_plan(plans, Filter(Fraction(3), Fraction(delta)), None, epsilon=wish.epsilon) is plans[0]


def test_an_account_that_cannot_pay_for_the_preferred_noise_gets_the_other() -> None:
    wish = replace(price("0.5", "1e-6"), max_loss=PrivacyLoss(Fraction(3), Fraction(1, 10**6)))
    shared, alone = make_plans(private_of(SUMS), wish)
    account = Filter(Fraction(3), Fraction(1, 10**6))
    for _ in range(20):
        account = account.charge(GaussianNoise(1, Fraction(70), ADD))  # only its Rényi losses count from now on
    assert shared.event is not None
    assert not account.accepts(shared.event)
    assert choose_plan((shared, alone), account, None, epsilon=wish.epsilon) is alone
    # an analyst who has spent nothing is charged to the dataset, too
    fresh, whole = Filter(Fraction(3), Fraction(1, 10**6)), account
    assert choose_plan((shared, alone), fresh, None, epsilon=wish.epsilon) is shared
    assert choose_plan((shared, alone), fresh, None, epsilon=wish.epsilon, dataset=whole) is alone
    assert choose_plan((shared, alone), fresh, None, dataset=whole) is alone
    assert choose_plan((shared, alone), fresh, Fraction(1, 2), dataset=whole) is alone


def test_what_no_row_moves_has_noise_of_its_own() -> None:
    people = group_of(asked("count", UNIT, distinct=True), asked("count"), asked("sum", AGE), keys=(PUBLIC_DEPT,))
    plan = make_plan(private_of(people), price("0.5", 0))
    kinds = [type(one.mechanism) for one in plan.groups[0].measured]
    assert kinds == [Laplace, MaxNormPart, MaxNormPart]
    alone = make_plan(private_of(group_of(asked("sum", AGE))), price("0.5", 0)).event
    assert isinstance(alone, Composed)
    assert [type(one) for one in alone.events] == [LaplaceNoise]


def test_margins_of_several_columns_cost_what_the_most_exact_of_them_needs() -> None:
    both = private_of(group_of(asked("count"), asked("sum", AGE)))
    plan = make_plan(both, margins(a1=25, a2=3000))
    quote, moved = make_quote(plan), plan.groups[0].measured[0].sensitivity.l1
    assert len(plan.groups[0].joint_noise_measurements) == 2
    assert quote.margins["a1"] == 25
    assert isinstance(quote.margins["a2"], int)
    assert quote.margins["a2"] <= 3000
    alone = [moved / one for one in _scales(25, 3000 // AGE.facts.high)]
    assert max(alone) < plan.loss.epsilon < sum(alone)
    less = MaxNormLaw((1, AGE.facts.high), plan.loss.epsilon / moved * Fraction(999, 1000))
    assert less.margin(0, Fraction(95, 100)) > 25 or less.margin(1, Fraction(95, 100)) > 3000


def _scales(*reaches: int) -> list[Fraction]:
    """Return about the widest Laplace noise for each margin."""
    found = []
    for reach in reaches:
        scale = Fraction(reach, 2)
        while DiscreteLaplace(scale).margin(Fraction(95, 100)) > reach:
            scale = scale * Fraction(99, 100)
        found.append(scale)
    return found
