"""Sensitivity is right: for every shape of question, no neighbour moves the exact aggregates further than declared."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.paths.shapes import SHAPES
from tests.paths.worlds import WITH_TOTAL, World, a_world, policy, visit, write

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.analyse import analyse
from sfumato.engines.aggregates import BucketWeights, GroupAggregates, KeyFrequencies
from sfumato.engines.duckdb.engine import DuckDB
from sfumato.engines.duckdb.registration import register
from sfumato.engines.engine import Limits
from sfumato.lab.audits.replay import cross_unit_alarms
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.max_norm import MaxNormPart
from sfumato.mechanisms.meetings import Meetings
from sfumato.mechanisms.top_list import TopList
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.planning.planner import make_plan, parse_price_target
from sfumato.policy.reading import read_policy
from sfumato.query.parse import parse

Moved = dict[str, dict[tuple[Any, ...], int]]


class Opened:
    """The engine of one small clinic."""

    def __init__(self, folder: Path, world: World, **changes: Any) -> None:
        write(folder, world)
        self.policy = read_policy(policy(folder, **changes))
        self.engine = DuckDB(self.policy, register(self.policy, lambda phase, table: None), Limits(threads=1))

    def plan(self, sql: str) -> Plan:
        query = parse(sql, self.engine.catalog)
        private = analyse(query, self.engine.catalog, self.engine.public)
        budget = self.policy.budget
        cap = PrivacyLoss(budget.epsilon, budget.delta)
        wish = parse_price_target(1, None, None, query.options, budget, cap)
        return make_plan(private, wish)

    def aggregates(self, sql: str) -> list[tuple[GroupPlan, GroupAggregates]]:
        plan = self.plan(sql)
        return list(zip(plan.groups, self.engine.run(self.engine.prepare(plan)).groups, strict=True))


def _neighbours(world: World) -> list[World]:
    removed = [world.without(person) for person in world.people]
    return removed + [world.without_answer(place) for place in range(len(world.survey))]


def _replaced(world: World) -> list[World]:
    """Return neighbours in which one person has other rows, and everybody is still there."""
    from random import Random

    found = []
    for person in world.people:
        random = Random(person)
        other = world.without(person)
        rows = [visit(random, person) for _ in range(4)]
        mine = [row for row in world.patients if row["patient_id"] == person]
        found.append(World(other.visits + rows, other.patients + mine, world.survey))
    return found


@pytest.fixture(scope="module")
def clinics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Opened, list[Opened]]]]:
    groups = []
    for seed, changes in ((1, {}), (2, {"visits": {"groups_per_unit": 2, "columns": WITH_TOTAL}})):
        world = a_world(seed)
        folder = tmp_path_factory.mktemp(f"world{seed}")
        first = Opened(folder / "all", world, **{name: dict(value) for name, value in changes.items()})
        others = [
            Opened(folder / f"without{i}", other, **{name: dict(value) for name, value in changes.items()})
            for i, other in enumerate(_neighbours(world))
        ]
        groups.append((first, others))
    yield groups
    for first, others in groups:
        for opened in (first, *others):
            opened.engine.close()


@pytest.fixture(scope="module")
def replacing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Opened, list[Opened]]]:
    world = a_world(3)
    folder = tmp_path_factory.mktemp("replaced")
    first, *others = (
        Opened(folder / str(at), each, neighbours="replace", visits={"columns": WITH_TOTAL})
        for at, each in enumerate([world, *_replaced(world)])
    )
    yield first, others
    for opened in (first, *others):
        opened.engine.close()


def _by_key(group: GroupAggregates) -> Moved:
    columns = dict(group.columns)
    if group.units is not None:
        columns["units of keys"] = group.units
    return {
        name: {
            (*key, bucket): int(value)
            for key, values in zip(group.keys, column, strict=True)
            for bucket, value in enumerate(np.atleast_1d(values))
        }
        for name, column in columns.items()
    }


def _moves(one: dict[tuple[Any, ...], int], other: dict[tuple[Any, ...], int]) -> list[int]:
    return [abs(one.get(key, 0) - other.get(key, 0)) for key in {*one, *other}]


def _joint(plan: GroupPlan) -> list[MaxNormPart]:
    return [one.mechanism for one in plan.joint_noise_measurements if isinstance(one.mechanism, MaxNormPart)]


def _sides(plan: GroupPlan, one: Moved, two: Moved) -> Fraction:
    """Return by how many sides cells moved, all cells together, where their numbers share noise."""
    farthest: dict[tuple[Any, ...], Fraction] = {}
    for measured, part in zip(plan.joint_noise_measurements, _joint(plan), strict=True):
        mine, theirs = one[measured.name], two[measured.name]
        for key in {*mine, *theirs}:
            moved = Fraction(abs(mine.get(key, 0) - theirs.get(key, 0)), part.joint.sides[part.place])
            farthest[key] = max(moved, farthest.get(key, Fraction(0)))
    return sum(farthest.values(), Fraction(0))


def _held(group: GroupAggregates, name: str) -> dict[tuple[Any, ...], int]:
    """Return what every bucket of every cell holds."""
    held = group.held[name]
    assert isinstance(held, BucketWeights)
    entries = zip(held.cells.tolist(), held.buckets.tolist(), held.weights.tolist(), strict=True)
    return {(group.keys[cell], bucket): weight for cell, bucket, weight in entries}


def _check_meetings(mechanism: Meetings, mine: GroupAggregates, theirs: GroupAggregates, name: str) -> int:
    here, there = (
        [_shared(group, name).for_cell(place) for place in range(len(mine.keys))] for group in (mine, theirs)
    )
    assert not list(cross_unit_alarms(mechanism, here, there, 1))
    pairs = zip(mechanism.meetings(here, 10**6), mechanism.meetings(there, 10**6), strict=True)
    return sum(abs(one - other) for one, other in pairs)


def _shared(group: GroupAggregates, name: str) -> KeyFrequencies:
    held = group.held[name]
    assert isinstance(held, KeyFrequencies)
    return held


def _check(first: Opened, others: list[Opened], sql: str) -> int:
    """Compare with every neighbour; return how far anything moved, so that a test can see that something did."""
    farthest = 0
    whole = first.aggregates(sql)
    for other in others:
        for (plan, mine), (same, theirs) in zip(whole, other.aggregates(sql), strict=True):
            assert plan == same, "a plan depends on text, policy and public tables alone"
            one, two = _by_key(mine), _by_key(theirs)
            for measured in plan.measured:
                moves = _moves(one[measured.name], two[measured.name])
                if isinstance(plan.selection, TopList):  # only so many cells are released
                    moves = sorted(moves, reverse=True)[: plan.selection.chosen]
                declared = measured.sensitivity
                assert sum(moves) <= declared.l1, (sql, measured.name)
                assert sum(move * move for move in moves) <= declared.l2_squared, (sql, measured.name)
                assert max(moves, default=0) <= declared.linf, (sql, measured.name)
                mechanism = measured.mechanism
                if isinstance(mechanism, Laplace):
                    assert mechanism.sensitivity >= declared.l1
                elif isinstance(mechanism, Gaussian):
                    assert mechanism.sensitivity_squared >= declared.l2_squared
                farthest = max(farthest, sum(moves))
            assert _sides(plan, one, two) <= max((part.joint.sensitivity for part in _joint(plan)), default=0), sql
            for chosen in plan.chosen:
                if isinstance(chosen.mechanism, Meetings):
                    farthest = max(farthest, _check_meetings(chosen.mechanism, mine, theirs, chosen.name))
                    continue
                moves = _moves(_held(mine, chosen.name), _held(theirs, chosen.name))
                relation = first.policy.neighbours
                assert sum(moves) <= chosen.weight * (1 if relation is Neighbours.ADD_REMOVE else 2), (sql, chosen.name)
                assert chosen.mechanism.neighbours is relation
                farthest = max(farthest, sum(moves))
            if plan.selection is not None:
                people = "units of keys" if mine.units is not None else str(plan.selecting_measurement)
                moves = _moves(one[people], two[people])
                assert max(moves, default=0) <= (
                    plan.threshold_selection.most if plan.threshold_selection is not None else 1
                ), sql
                assert sum(move > 0 for move in moves) <= plan.selection.touched, sql
    return farthest


@pytest.mark.parametrize("sql", SHAPES)
def test_no_person_moves_an_aggregate_further_than_declared(
    clinics: list[tuple[Opened, list[Opened]]], sql: str
) -> None:
    for first, others in clinics:
        _check(first, others, sql)


@pytest.mark.parametrize("sql", SHAPES)
def test_no_replaced_person_moves_an_aggregate_further_than_declared(
    replacing: tuple[Opened, list[Opened]], sql: str
) -> None:
    assert replacing[0].policy.neighbours is Neighbours.REPLACE
    _check(*replacing, sql)


def test_the_law_can_fail(clinics: list[tuple[Opened, list[Opened]]]) -> None:
    """Most shapes do move on some neighbour: a law over constants would prove nothing."""
    some = SHAPES[::4]
    moved = sum(_check(*clinics[0], sql) > 0 for sql in some)
    assert moved > len(some) * Fraction(4, 5)


def test_the_rest_is_a_cell_that_a_person_may_be_in_too(tmp_path: Path) -> None:
    """Different people, or values, of several keys do not add up in a rest; there they would count more than once."""
    from random import Random

    mine = [visit(Random(0), 1) | {"urgent": urgent, "dept": "er", "age": 3} for urgent in (True, False, None)]
    world = World([*mine, visit(Random(1), 2)])
    for neighbours in ("add-remove", "replace"):
        changes = {"visits": {"rows_per_unit": 5}, "neighbours": neighbours}
        first = Opened(tmp_path / neighbours / "all", world, **changes)
        changes = {"visits": {"rows_per_unit": 5}, "neighbours": neighbours}
        other = Opened(tmp_path / neighbours / "other", world.without(1), **changes)
        for sql in (
            "SELECT urgent, COUNT(DISTINCT patient_id) FROM visits GROUP BY ROLLUP (urgent)",
            "SELECT urgent, dept, COUNT(DISTINCT age), COUNT(*) FROM visits GROUP BY CUBE (urgent, dept)",
            "SELECT urgent, SUM(age) FROM visits GROUP BY ROLLUP (urgent)",
        ):
            assert _check(first, [other], sql)
        (whole, _) = first.plan("SELECT urgent, SUM(age) FROM visits GROUP BY ROLLUP (urgent)").groups
        assert whole.group.cells == whole.group.contribution.groups == 3
        first.engine.close()
        other.engine.close()
