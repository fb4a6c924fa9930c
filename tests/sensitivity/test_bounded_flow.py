"""Bounded flow, against a linear programme over rationals, on all small graphs and all of their neighbours."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product
from random import Random

import numpy as np
import pytest
from scipy.optimize import linprog
from tests.laws.choosing import permute_and_flip_law
from tests.sources import HashSource

from sfumato.accounting.event import Neighbours
from sfumato.accounting.pure import epsilon
from sfumato.errors import BadParameter
from sfumato.mechanisms.bounded_flow import BoundedFlow
from sfumato.sensitivity.bounded_flow import OwnerPairs, bounded_flows, doubled_flow

Edges = dict[tuple[int, int], int]
MADE = BoundedFlow(8, Fraction(1), Neighbours.ADD_REMOVE)


def pairs_of(edges: Edges, same_kind: bool) -> OwnerPairs:
    """Return a graph as the mechanism takes it."""
    listed = list(edges)
    ends = [np.array([edge[at] for edge in listed], dtype=np.int64) for at in (0, 1)]
    return OwnerPairs(ends[0], ends[1], np.array(list(edges.values()), dtype=np.int64), same_kind)


def without(edges: Edges, person: tuple[int, int], same_kind: bool) -> Edges:
    """Return a graph without a person: (side, number); of one kind the side means nothing."""
    side, number = person
    return {
        edge: amount for edge, amount in edges.items() if (number not in edge if same_kind else edge[side] != number)
    }


def reference(edges: Edges, bound: int, same_kind: bool) -> Fraction:
    """Return twice the value of the linear programme, which is an integer: found by HiGHS, checked to be near one."""
    if not edges:
        return Fraction(0)
    people = sorted({(0 if same_kind else side, edge[side]) for edge in edges for side in (0, 1)})
    rows = [
        [float(person in {(0 if same_kind else side, edge[side]) for side in (0, 1)}) for edge in edges]
        for person in people
    ]
    found = linprog(
        [-1.0] * len(edges), A_ub=rows, b_ub=[float(bound)] * len(people), bounds=[(0, w) for w in edges.values()]
    )
    assert abs(-2 * found.fun - round(-2 * found.fun)) < 1e-6
    return Fraction(round(-2 * found.fun))


def graphs(same_kind: bool) -> Iterator[Edges]:
    """Give small graphs: all of three people with amounts up to 2 (every seventh), and some of six, drawn."""
    places = list(combinations_with_replacement(range(3), 2)) if same_kind else list(product(range(2), range(3)))
    for number, amounts in enumerate(product(range(3), repeat=len(places))):
        if number % 7 == 3:
            yield {place: amount for place, amount in zip(places, amounts, strict=True) if amount}
    random = Random(5)
    for _ in range(40):
        drawn = [(random.randrange(6), random.randrange(6)) for _ in range(9)]
        edges = {tuple(sorted(edge)) if same_kind else edge: random.randint(1, 9) for edge in drawn}
        yield {(int(first), int(second)): amount for (first, second), amount in edges.items()}


@pytest.mark.parametrize("same_kind", [False, True])
def test_a_flow_is_the_linear_programme_and_nobody_moves_it_further_than_the_bound(same_kind: bool) -> None:
    for edges in graphs(same_kind):
        people = sorted({(side, edge[side]) for edge in edges for side in (0, 1)})
        flows = {bound: doubled_flow(pairs_of(edges, same_kind), bound) for bound in (1, 2, 4, 8)}
        for bound, flow in flows.items():
            if len(edges) > 6 or bound == 2:
                assert flow == reference(edges, bound, same_kind), (edges, bound)
        for person in people:
            left = pairs_of(without(edges, person, same_kind), same_kind)
            others = {bound: doubled_flow(left, bound) for bound in flows}
            for bound, flow in flows.items():
                assert 0 <= flow - others[bound] <= MADE.noise(bound).sensitivity, (edges, person, bound)
            scores = [MADE.scores(list(found.values())) for found in (flows, others)]
            moved = max(abs(mine - theirs) for mine, theirs in zip(*scores, strict=True))
            assert moved <= MADE._selection.sensitivity == 64


def test_totals_with_more_than_31_bits_are_exact() -> None:
    people = 40
    edges = {(giver, taker): 2**29 for giver in range(people) for taker in range(people)}
    assert doubled_flow(pairs_of(edges, False), 2**30) == 2 * people * 2**30
    assert pairs_of(edges, False).total == people * people * 2**29


def test_cutting_one_owner_after_the_other_moves_without_bound() -> None:
    """The reason for all of this: on a path, whoever leaves decides about every row."""
    moved = []
    for length in (4, 8, 16):
        path = {(at, at + 1): at % 2 for at in range(length)}
        totals = []
        for edges in (path, without(path, (0, 0), True)):
            used: set[int] = set()
            total = 0
            for edge, amount in edges.items():
                if not used & set(edge):
                    used |= set(edge)
                    total += amount
            totals.append(total)
        moved.append(abs(totals[0] - totals[1]))
        flows = [doubled_flow(pairs_of(edges, True), 1) for edges in (path, without(path, (0, 0), True))]
        assert abs(flows[0] - flows[1]) <= 2
    assert moved == [2, 4, 8]


def test_the_bound_that_people_need_is_selected_and_both_parts_are_charged() -> None:
    random, source = Random(1), HashSource(b"two owners")
    edges = {(random.randrange(400), random.randrange(4000)): 1 for _ in range(20_000)}
    made = BoundedFlow(1 << 20, Fraction(4, 5), Neighbours.ADD_REMOVE)
    found = made.release(pairs_of(edges, False), source)
    assert found.bound == 64  # most have about 50, nobody more than 75: with 64 a few rows are lost, with 32 a third
    assert abs(found.total - len(edges)) < 64 * 30  # noise of scale 120: beyond with probability e^-16
    assert epsilon(made.event) == Fraction(4, 5)
    assert made.missing(1 << 20, Fraction(95, 100)) == 0 < made.missing(64, Fraction(95, 100))
    assert made.missing(64, Fraction(99_999, 100_000)) > made.missing(64, Fraction(95, 100))
    with pytest.raises(BadParameter):
        made.missing(64, 1 - Fraction(1, 10**9))


@pytest.mark.parametrize("most", [1000, 1 << 20])
def test_noise_seldom_takes_a_bound_far_above_what_people_have(most: int) -> None:
    """Of messages each person has about 24. The probabilities are computed; before, 0.4 % took 512 or more."""
    rng = np.random.default_rng(7)
    people = np.sort(rng.integers(0, 5_000, (60_000, 2)), axis=1)
    edges, sent = np.unique(people[people[:, 0] != people[:, 1]], axis=0, return_counts=True)
    pairs = OwnerPairs(edges[:, 0], edges[:, 1], sent.astype(np.int64), same_kind=True)
    made = BoundedFlow(most, Fraction(1), Neighbours.ADD_REMOVE)
    law = permute_and_flip_law(made.scores(bounded_flows(pairs, made.bounds)), made._selection.rate)
    chances = {bound: float(law[place]) for place, bound in enumerate(made.bounds)}
    assert chances[32] + chances[64] > 0.95
    assert sum(chance for bound, chance in chances.items() if bound >= 16 * 32) < 0.001
    assert sum(chance * bound for bound, chance in chances.items()) < 1.5 * 32 + 10  # the mean noise


@pytest.mark.parametrize("same_kind", [False, True])
@pytest.mark.parametrize("neighbours", Neighbours)
def test_flows_that_are_left_out_change_no_score(same_kind: bool, neighbours: Neighbours) -> None:
    made, left_out = BoundedFlow(64, Fraction(400), neighbours), 0
    for edges in graphs(same_kind):
        pairs = pairs_of({edge: 10 * amount for edge, amount in edges.items()}, same_kind)
        flows = dict(zip(made.bounds, bounded_flows(pairs, made.bounds), strict=True))
        asked = set[int]()

        def flow_at(bound: int, asked: set[int] = asked, flows: dict[int, int] = flows) -> int:
            asked.add(bound)
            return flows[bound]

        made.select(flow_at, HashSource(b"two owners"))
        left_out += len(flows) - len(asked)
        assert made.scores([flows[bound] for bound in sorted(asked)]) == made.scores(list(flows.values()))
    assert left_out > 50


def test_empty_and_too_large() -> None:
    nothing = OwnerPairs(*(np.zeros(0, dtype=np.int64),) * 3, same_kind=True)
    assert doubled_flow(nothing, 4) == nothing.total == 0
    with pytest.raises(BadParameter):
        BoundedFlow(1 << 31, Fraction(1), Neighbours.ADD_REMOVE)
