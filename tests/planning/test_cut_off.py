"""What is published of losses: one person moves it by no more than was charged, and the bounds hold."""

from collections import defaultdict
from fractions import Fraction
from itertools import product

import pytest

from sfumato.accounting.event import Composed, Pure
from sfumato.language.flow import Read
from sfumato.planning.cut_off import (
    BUCKETS,
    CUT,
    MOVED,
    ROWS,
    CutOff,
    Statistic,
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
    assert [(one.table, one.column, one.most, one.base, one.tail) for one in found] == [
        ("visits", ROWS, 3, 1, True),
        ("visits", MOVED, 3, 3, False),
        ("visits", "cost", 6, 2, True),
    ]
    assert found[0].ends[:3] == (4, 16, 64)
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
        amounts = range(one.base + 1) if not one.tail else [0, 1, one.base - 1, one.base, one.ends[1], one.ends[-1]]
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
    had = sum(losses) + one.most
    if not one.tail or had < one.ends[0]:
        found |= {f"s{at}": amount for at, amount in enumerate(losses)}
    else:
        found[f"h{max(place for place in range(BUCKETS) if one.ends[place] <= had)}"] = 1
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


def test_more_people_and_more_noise_never_make_a_bound_smaller() -> None:
    tail = Fraction(1, 40)
    found = [
        _published([7] * people, noise).bounds_at("visits", ROWS, tail) for people in (0, 100) for noise in (-1, 0, 2)
    ]
    bounds = [one["removed"] for one in found if one is not None]
    assert len(bounds) == 6
    assert bounds[:3] == sorted(bounds[:3])
    assert all(small <= large for small, large in zip(bounds[:3], bounds[3:], strict=True))
