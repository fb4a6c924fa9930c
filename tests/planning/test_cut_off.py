"""What is published of losses: one person moves it by no more than was charged, and the bounds hold."""

from collections import defaultdict
from fractions import Fraction
from itertools import product
from math import exp

import pytest

from sfumato.accounting.event import Composed, Neighbours, Pure
from sfumato.language.flow import Read
from sfumato.mechanisms.laplace import Laplace
from sfumato.planning.cut_off import (
    CUT,
    FAR,
    MOVED,
    ROWS,
    CutOff,
    Statistic,
    _sum_of_two,
    cut_off,
    losses_plan,
    statistics,
)
from sfumato.planning.plan import Plan
from sfumato.policy.policy import Policy
from sfumato.policy.reading import read_policy


def _policy(neighbours: str = "add-remove", truncation: object = 0.05) -> Policy:
    return read_policy(
        {
            "source": "csv:nowhere",
            "ledger": "sqlite:nowhere.ledger",
            "neighbours": neighbours,
            "budget": {"epsilon": 3, "delta": 0} | ({} if truncation is None else {"truncation": truncation}),
            "tables": {
                "visits": {
                    "unit": "who",
                    "rows_per_unit": 3,
                    "columns": {
                        "who": {"type": "integer", "bounds": [0, 9]},
                        "cost": {"type": "integer", "bounds": [-2, 1]},
                        "day": {"type": "date"},
                        "kind": {"type": "integer", "values": [1, 2]},
                    },
                },
                "votes": {"unit": "rows", "columns": {"choice": {"type": "integer"}}},
            },
        }
    )


def _plan(policy: Policy) -> Plan:
    plan = losses_plan(policy)
    assert plan is not None
    return plan


def test_what_can_be_cut_is_measured_and_nothing_else() -> None:
    found = statistics(_policy())
    assert [(one.table, one.column, one.base, one.tail) for one in found] == [
        ("visits", ROWS, 3, True),
        ("visits", MOVED, 3, False),
        ("visits", "cost", 6, True),
    ]
    assert losses_plan(_policy(truncation=None)) is None


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_neighbours_stay_within_the_declared_loss(neighbours: str) -> None:
    """Over all small losses of one person: the sum of distances in units of the scales is at most epsilon."""
    policy = _policy(neighbours)
    plan = _plan(policy)
    assert isinstance(plan.event, Composed)
    events = [event for event in plan.event.events if isinstance(event, Pure)]
    assert sum((event.epsilon for event in events), Fraction(0)) == policy.budget.truncation
    for one, group, event in zip(statistics(policy), plan.groups, events, strict=True):
        assert isinstance(group.group.rows, Read)
        assert group.group.rows.table == "visits" + CUT
        assert group.group.rows.most == 1
        scales = {each.name: each.mechanism.scale for each in group.measured}  # type: ignore[union-attr]
        amounts = range(one.base + 1) if not one.tail else [0, 1, one.base - 1, one.base, FAR * one.base, 10**9]
        people = [_coordinates(one, losses) for losses in product(amounts, repeat=len(one.parts))]
        others = people if neighbours == "replace" else [defaultdict(int)]
        farthest = max(
            sum(abs(mine[name] - theirs[name]) / scale for name, scale in scales.items())
            for mine in people
            for theirs in others
        )
        assert farthest <= event.epsilon
        assert farthest >= event.epsilon * Fraction(2, 3)  # and no more noise than needed


def _coordinates(one: Statistic, losses: tuple[int, ...]) -> dict[str, int]:
    """Return what one person adds to each released number, by the definition."""
    found: dict[str, int] = defaultdict(int)
    total = sum(losses)
    if not one.tail or total < one.base:
        found |= {f"s{at}": amount for at, amount in enumerate(losses)}
    elif total < FAR * one.base:
        found["mid"] = 1
    else:
        found["far"] = 1
    return found


def _published(people: list[int], noise: int = 0) -> CutOff:
    """Publish losses of rows with this noise on each number, in units of its scale."""
    policy = _policy()
    plan = _plan(policy)
    noisy = {}
    for one, group in zip(statistics(policy), plan.groups, strict=True):
        found: dict[str, int] = defaultdict(int)
        for losses in people if one.column == ROWS else []:
            for name, amount in _coordinates(one, (losses,)).items():
                found[name] += amount
        scales = {each.name: int(each.mechanism.scale) for each in group.measured}  # type: ignore[union-attr]
        noisy[group.group.label] = {name: found[name] + noise * scale for name, scale in scales.items()}
    return cut_off(policy, plan, noisy)


@pytest.mark.parametrize(
    "people", [[], [1] * 5000, [3] * 2000, [2**k for k in range(12) for _ in range(2 ** (12 - k))]]
)
def test_the_bound_holds_for_regular_tails_as_long_as_the_noise_is_within_its_margins(people: list[int]) -> None:
    tail = Fraction(1, 40)
    for noise in (-3, 0, 3):
        found = _published(people, noise).bounds_at("visits", ROWS, tail)
        assert found is not None
        assert found["removed"] >= sum(people)


def test_people_that_are_found_far_out_leave_it_unbounded() -> None:
    assert _published([10**6] * 5000).bounds_at("visits", ROWS, Fraction(1, 40)) is None
    assert _published([10**6] * 5).bounds_at("visits", ROWS, Fraction(1, 40)) is not None  # the noise hides five


def test_the_quantile_of_two_noises_is_that_of_their_convolution() -> None:
    for scale in (Fraction(1, 2), Fraction(3), Fraction(40)):
        x = exp(-1 / float(scale))
        law = {n: (1 - x) / (1 + x) * x ** abs(n) for n in range(-2000, 2001)}
        for tail in (Fraction(1, 10), Fraction(1, 100)):
            reach = _sum_of_two(scale, tail)
            both = {n: sum(law[k] * law[n - k] for k in range(-1000, 1001)) for n in (*range(reach - 3, reach + 400),)}
            beyond = sum(both[n] for n in range(reach + 1, reach + 400))
            assert beyond <= tail
            assert beyond + both[reach] + both[reach - 1] > tail
    assert Laplace(1, Fraction(40), Neighbours.ADD_REMOVE).margin(Fraction(9, 10)) < _sum_of_two(
        Fraction(40), Fraction(1, 20)
    )
