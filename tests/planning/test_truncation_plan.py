"""What is published of losses: one person moves it by no more than was charged, and the bounds hold."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import product
from math import log

import pytest

from sfumato.accounting.event import Composed, Pure
from sfumato.language.rel_nodes import ScanNode
from sfumato.planning.bounding.truncation import (
    BUCKET_COUNT,
    CUT,
    CUT_PEOPLE,
    MOVED,
    ROWS,
    TruncationBlock,
    TruncationBounds,
    TruncationStatistic,
    blocks,
    plan_truncation_release,
    statistics,
    truncation_bounds,
)
from sfumato.planning.bounding.truncation_strategies import select_strategies
from sfumato.planning.plan import Plan
from sfumato.policy.policy import Policy
from sfumato.policy.reading import read_policy

Losses = Sequence[tuple[int, ...]]
"""What one person lost, statistic by statistic: removed, beyond, (above, below)."""


def _policy(neighbours: str = "add-remove", truncation: object = 0.05, unit: str = "who", rows: int = 3) -> Policy:
    return read_policy(
        {
            "source": "csv:nowhere",
            "ledger": "sqlite:nowhere.ledger",
            "neighbours": neighbours,
            "budget": {"epsilon": 3, "delta": 0} | ({} if truncation is None else {"truncation": truncation}),
            "tables": {
                "visits": {
                    "unit": unit,
                    **({} if unit == "rows" else {"rows_per_unit": rows}),
                    "columns": {
                        "who": {"type": "integer"},
                        "cost": {"type": "integer", "bounds": [-2, 1]},
                        "paid": {"type": "integer", "bounds": [0, 4]},
                        "day": {"type": "date"},
                        "kind": {"type": "integer", "values": [1, 2]},
                    },
                },
                "votes": {"unit": "rows", "columns": {"choice": {"type": "integer"}}},
            },
        }
    )


def plan_of(policy: Policy) -> Plan:
    plan = plan_truncation_release(policy)
    assert plan is not None
    return plan


def test_what_can_be_cut_is_measured_and_nothing_else() -> None:
    found = statistics(_policy())
    assert [(one.table, one.column, one.max_contribution, one.base, one.tail) for one in found] == [
        ("visits", ROWS, 3, 1, True),
        ("visits", MOVED, 3, 3, False),
        ("visits", "cost", 6, 2, True),
        ("visits", "paid", 12, 3, True),
    ]
    assert found[0].bucket_edges[:3] == (4, 16, 64)
    assert plan_truncation_release(_policy(truncation=None)) is None


def test_a_way_measures_every_statistic_once() -> None:
    for unit, ways in (("who", 4), ("rows", 3)):
        policy = _policy(unit=unit)
        found = [block for block in blocks(policy) if block.strategy is not None]
        assert {block.strategy for block in found} == set(range(ways))
        for way in range(ways):
            names = [one.column for block in found if block.strategy == way for one in block.statistics]
            assert sorted(names) == sorted(one.column for one in statistics(policy))


@pytest.mark.parametrize(("unit", "rows"), [("who", 3), ("who", 120), ("rows", 3)])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_neighbours_stay_within_the_declared_loss_whichever_way_is_taken(neighbours: str, unit: str, rows: int) -> None:
    """Over small and large losses of one person: the sum of distances in units of the scales is at most epsilon."""
    policy = _policy(neighbours, unit=unit, rows=rows)
    plan, found = plan_of(policy), blocks(policy)
    assert isinstance(plan.event, Composed)
    events = [part for table in plan.event.events if isinstance(table, Composed) for part in table.events]
    charged = [event.epsilon for event in events if isinstance(event, Pure)]
    assert sum(charged, Fraction(0)) == policy.budget.truncation
    people = _people(statistics(policy))
    others: list[Losses] = (
        people if neighbours == "replace" else [[(0,) * len(one.parts) for one in statistics(policy)]]
    )
    for way in dict.fromkeys(block.strategy for block in found if block.strategy is not None):
        total = Fraction(0)
        for block, group in zip(found, plan.groups, strict=True):
            assert isinstance(group.group.rows, ScanNode)
            assert (group.group.rows.table, group.group.rows.max_rows_per_unit) == ("visits" + CUT, 1)
            if block.strategy not in (None, way):
                continue
            scales = {each.name: each.mechanism.scale for each in group.measured}  # type: ignore[union-attr]
            mine, theirs = (_different(_coordinates(block, policy, one) for one in some) for some in (people, others))
            total += max(
                sum(abs(a[name] - b[name]) / scale for name, scale in scales.items()) for a in mine for b in theirs
            )
        assert total <= policy.budget.truncation
        assert total >= policy.budget.truncation * Fraction(2, 3)  # no more noise than needed


def _different(coordinates: Iterable[dict[str, int]]) -> list[dict[str, int]]:
    return list({tuple(sorted(one.items())): one for one in coordinates}.values())


def _people(found: Sequence[TruncationStatistic]) -> list[Losses]:
    amounts = [
        [(0,) * len(one.parts), (0,) * (len(one.parts) - 1) + (one.base - 1 if one.tail else one.max_contribution,)]
        + (
            [
                (one.base,) * len(one.parts),
                (one.bucket_edges[1],) + (0,) * (len(one.parts) - 1),
                (one.bucket_edges[-1],) * len(one.parts),
            ]
            if one.tail
            else []
        )
        for one in found
    ]
    return [list(one) for one in product(*amounts)]


def _coordinates(block: TruncationBlock, policy: Policy, losses: Losses) -> dict[str, int]:
    """Return what one person adds to each released number, by the definition."""
    lost = dict(zip((one.column for one in statistics(policy)), losses, strict=True))
    found: dict[str, int] = defaultdict(int)
    buckets = [
        max(
            (at for at in range(BUCKET_COUNT) if one.bucket_edges[at] <= sum(lost[one.column]) + one.max_contribution),
            default=-1,
        )
        for one in block.tailed
    ]
    if block.strategy is None:
        pairs = list(zip(block.tailed, buckets, strict=True))
        rows, numbers = (any(at >= 0 for one, at in pairs if (one.column == ROWS) == here) for here in (True, False))
        found |= {"both": 1} if rows and numbers else {"rows": 1} if rows else {"numbers": 1} if numbers else {}
    elif max(buckets, default=-1) >= 0:
        found[f"h{max(buckets)}"] = 1
    else:
        found |= {
            f"s{at}": amount for at, amount in enumerate(part for one in block.statistics for part in lost[one.column])
        }
        found |= {CUT_PEOPLE: 1} if ROWS in [one.column for one in block.tailed] and any(lost[ROWS]) else {}
    return found


def _published(people: Sequence[int], noise: int = 0, way: int = 0) -> TruncationBounds:
    """Publish losses of rows with this noise on each number, in units of its scale."""
    policy = _policy()
    plan = plan_of(policy)
    noisy = {}
    for block, group in zip(blocks(policy), plan.groups, strict=True):
        if block.strategy != way:
            continue
        found: dict[str, int] = defaultdict(int)
        for losses, number in Counter(people).items():
            for name, amount in _coordinates(block, policy, [(losses,), (0,), (0, 0), (0, 0)]).items():
                found[name] += amount * number
        scales = {each.name: int(each.mechanism.scale) for each in group.measured}  # type: ignore[union-attr]
        noisy[group.group.label] = {name: found[name] + noise * scale for name, scale in scales.items()}
    return truncation_bounds(policy, plan, noisy)


def _removed(published: TruncationBounds, tail: Fraction = Fraction(1, 40)) -> int | None:
    found = published.bounds_at("visits", [ROWS], tail)[ROWS]
    return None if found is None else found["removed"]


@pytest.mark.parametrize("way", range(4))
@pytest.mark.parametrize(
    "people", [[], [1] * 5000, [3] * 2000, [2**k for k in range(12) for _ in range(2 ** (12 - k))]], ids=len
)
def test_the_bound_holds_for_regular_tails_as_long_as_the_noise_is_within_its_margins(
    people: list[int], way: int
) -> None:
    for noise in (-3, 0, 3):
        found = _removed(_published(people, noise, way))
        assert found is not None
        assert found >= sum(people)


@pytest.mark.parametrize("way", range(4))
def test_people_who_lost_rows_are_counted_and_their_bound_does_not_grow_with_the_cap(way: int) -> None:
    """A cap of 300 and one of 3,000, of which people lost few rows: they were bounded by the rows that noise hides."""
    found = []
    for cap in (300, 3000):
        policy = _policy(rows=cap)
        people = 2000
        noisy = {}
        for block, group in zip(blocks(policy), plan_of(policy).groups, strict=True):
            if block.strategy == way:
                names = [one.name for one in group.measured]
                noisy[group.group.label] = dict.fromkeys(names, 0)
                if CUT_PEOPLE in names:
                    noisy[group.group.label] |= {CUT_PEOPLE: people, "s0": 3 * people}
        bounds = truncation_bounds(policy, plan_of(policy), noisy).bounds_at("visits", [ROWS], Fraction(1, 40))[ROWS]
        assert bounds is not None
        assert people <= bounds[CUT_PEOPLE]
        found.append(bounds[CUT_PEOPLE] - people)
    assert found[0] == found[1] < 3000  # how many people noise hides, whatever each of them may lose


def test_people_that_are_found_far_out_leave_it_unbounded() -> None:
    assert _removed(_published([10**6] * 5000)) is None
    assert _removed(_published([10**6] * 5)) is not None  # the noise hides five


def test_more_people_and_more_noise_never_make_a_bound_smaller() -> None:
    found = [_removed(_published([7] * people, noise)) for people in (0, 100) for noise in (-1, 0, 2)]
    bounds = [one for one in found if one is not None]
    assert len(bounds) == 6
    assert bounds[:3] == sorted(bounds[:3])
    assert all(small <= large for small, large in zip(bounds[:3], bounds[3:], strict=True))


def test_buckets_that_hold_few_people_bound_what_a_regular_tail_would_allow() -> None:
    """Without noise, in a table of a million people who lose little and fewer and fewer who lose more."""
    thin = [4**k for k in range(7) for _ in range(10**6 // 16**k)]
    found, people = _removed(_published(thin)), 4 * 1_062_500 // 3
    assert found is not None
    assert sum(thin) <= found <= 3 * people * 4 * (log(people) + 3) / 4


@pytest.mark.parametrize(
    ("seen", "way"),
    [("", 0), ("rows", 2), ("numbers", 3), ("both", 3)],
)
def test_of_what_many_people_lost_much_is_measured_apart(seen: str, way: int) -> None:
    policy = _policy()
    plan = plan_of(policy)
    pairs = list(zip(blocks(policy), plan.groups, strict=True))
    [look] = [group for block, group in pairs if block.strategy is None]
    noisy = {one.name: 3000 if one.name == seen else 0 for one in look.measured}
    taken = select_strategies(policy, plan, {look.group.label: noisy})
    assert taken == {group.group.label for block, group in pairs if block.strategy == way}
