"""Sensitivity at every distance against brute force: all small data sets, all ways between them."""

from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest

from sfumato.accounting.event import Neighbours
from sfumato.errors import BadParameter
from sfumato.sensitivity.elastic import JoinedTable, elastic_at_distance
from sfumato.sensitivity.graphs import (
    Graph,
    as_graph,
    triangles,
    triangles_at_distance,
    two_stars,
    two_stars_at_distance,
)
from sfumato.sensitivity.order_statistics import OrderStatistic
from sfumato.sensitivity.smooth import distance_beyond, smooth
from sfumato.sensitivity.spanning import Network
from sfumato.sensitivity.spread import ScaledVariance

LEVELS = [Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(2, 3), Fraction(1)]
Data = tuple[int, ...]


def at_every_distance(
    worlds: Iterable[Data], answer: Callable[[Data], int], near: Callable[[Data], Iterable[Data]], farthest: int
) -> dict[Data, list[int]]:
    """The local sensitivity of each world, and the largest within each distance: by walking."""
    known = list(worlds)
    around = {world: set(near(world)) for world in known}
    largest = {
        world: max((abs(answer(world) - answer(other)) for other in around[world]), default=0) for world in known
    }
    found = {world: [largest[world]] for world in known}
    for _ in range(farthest):
        largest = {w: max(largest[w], *(largest.get(other, 0) for other in around[w]), 0) for w in known}
        for world in known:
            found[world].append(largest[world])
    return found


def replaced(values: Data, highest: int) -> set[Data]:
    return {
        tuple(sorted((*values[:place], value, *values[place + 1 :])))
        for place in range(len(values))
        for value in range(highest + 1)
    }


def one_more_or_fewer(values: Data, highest: int) -> set[Data]:
    fewer = {values[:place] + values[place + 1 :] for place in range(len(values))}
    return fewer | {tuple(sorted((*values, value))) for value in range(highest + 1)}


@pytest.mark.parametrize("level", LEVELS, ids=str)
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_quantiles_of_replaced_people_are_exact(level: Fraction, size: int) -> None:
    statistic = OrderStatistic(level, 0, 4, Neighbours.REPLACE)
    worlds = combinations_with_replacement(range(5), size)
    truth = at_every_distance(worlds, statistic.value, lambda values: replaced(values, 4), 4)
    for values, largest in truth.items():
        assert [statistic.at_distance(values, k) for k in range(5)] == largest


@pytest.mark.parametrize("level", LEVELS, ids=str)
def test_quantiles_of_added_and_removed_people_are_exact(level: Fraction) -> None:
    statistic = OrderStatistic(level, 0, 3, Neighbours.ADD_REMOVE)
    worlds = [world for size in range(8) for world in combinations_with_replacement(range(4), size)]
    truth = at_every_distance(worlds, statistic.value, lambda values: one_more_or_fewer(values, 3), 3)
    for values, largest in truth.items():
        if len(values) <= 4:  # three changes and one more stay among the worlds
            assert [statistic.at_distance(values, k) for k in range(4)] == largest


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_variances_are_exact(size: int) -> None:
    variance = ScaledVariance(-1, 3)
    worlds = [tuple(value - 1 for value in world) for world in combinations_with_replacement(range(5), size)]
    truth = at_every_distance(
        worlds,
        variance.value,
        lambda values: {tuple(v - 1 for v in one) for one in replaced(tuple(v + 1 for v in values), 4)},
        4,
    )
    for values, largest in truth.items():
        assert [variance.at_distance(values, k) for k in range(5)] == largest
        assert largest[-1] <= variance.reach(size)


def graph_of(chosen: Data, size: int) -> Graph:
    graph = np.zeros((size, size), dtype=bool)
    for (one, other), there in zip(combinations(range(size), 2), chosen, strict=True):
        graph[one, other] = graph[other, one] = bool(there)
    return as_graph(graph)


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize(
    ("count", "at_distance"),
    [(triangles, triangles_at_distance), (two_stars, two_stars_at_distance)],
    ids=["triangles", "two-stars"],
)
def test_graph_counts_are_exact(
    size: int, count: Callable[[Graph], int], at_distance: Callable[[Graph, int], int]
) -> None:
    worlds = product((0, 1), repeat=size * (size - 1) // 2)
    truth = at_every_distance(
        worlds,
        lambda chosen: count(graph_of(chosen, size)),
        lambda chosen: [(*chosen[:i], 1 - chosen[i], *chosen[i + 1 :]) for i in range(len(chosen))],
        3,
    )
    for chosen, largest in truth.items():
        assert [at_distance(graph_of(chosen, size), k) for k in range(4)] == largest


def test_elastic_sensitivity_is_never_below_the_truth() -> None:
    """Every person has at most one row in each of two tables, with one of two keys, and the join is counted."""
    rows = list(product((None, 0, 1), repeat=2))
    worlds = [world for size in range(5) for world in combinations_with_replacement(range(len(rows)), size)]

    def frequencies(world: Data) -> tuple[int, int]:
        first, second = (max(sum(rows[who][side] == key for who in world) for key in (0, 1)) for side in (0, 1))
        return first, second

    def joined(world: Data) -> int:
        return sum(rows[one][0] is not None and rows[one][0] == rows[other][1] for one in world for other in world)

    truth = at_every_distance(worlds, joined, lambda world: one_more_or_fewer(world, len(rows) - 1), 1)
    for world, largest in truth.items():
        if len(world) <= 2:
            tables = tuple(JoinedTable(1, frequency) for frequency in frequencies(world))
            assert all(elastic_at_distance(tables, k) >= largest[k] for k in range(2))


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("decay", ["1/2", "9/10"])
def test_neighbours_have_smooth_sensitivities_within_one_decay(neighbours: Neighbours, decay: str) -> None:
    statistic, ratio = OrderStatistic(Fraction(1, 2), 0, 4, neighbours), Fraction(decay)
    near = replaced if neighbours is Neighbours.REPLACE else one_more_or_fewer

    def bound(values: Data) -> Fraction:
        return smooth(lambda k: statistic.at_distance(values, k), ratio, statistic.reach)

    for values in combinations_with_replacement(range(5), 3):
        own = bound(values)
        assert own >= statistic.at_distance(values, 0)
        assert all(ratio * own <= bound(other) <= own / ratio for other in near(values, 4))


def test_distances_to_sensitive_data_move_by_one() -> None:
    statistic = OrderStatistic(Fraction(1, 2), 0, 4, Neighbours.REPLACE)

    def far(values: Data) -> int | None:
        return distance_beyond(lambda k: statistic.at_distance(values, k), 1, statistic.farthest(values))

    distances: dict[Data, int | None] = {values: far(values) for values in combinations_with_replacement(range(5), 4)}
    assert set(distances.values()) == {0, 1, 2}
    for values, own in distances.items():
        assert own is not None
        assert (own == 0) == (statistic.at_distance(values, 0) > 1)
        assert all(abs(own - (distances[other] or 0)) <= 1 for other in replaced(values, 4))
    assert distance_beyond(lambda _: 1, 1, 10) is None


def test_a_decay_that_is_none_is_refused() -> None:
    with pytest.raises(BadParameter):
        smooth(lambda _: 1, Fraction(1), 1)


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(BadParameter):
        as_graph([[False, True], [False, False]])


@pytest.mark.parametrize(
    "network",
    [
        Network(((0, 1), (1, 2), (0, 2)), 3),
        Network(((0, 1), (1, 2), (0, 2), (2, 3)), 2),
        Network(tuple(combinations(range(4), 2)), 1),
        Network(((0, 1), (0, 1), (1, 2)), 2),
    ],
    ids=["triangle", "with a bridge", "complete", "parallel"],
)
def test_spanning_trees_are_as_sensitive_as_walks_find(network: Network) -> None:
    def near(weights: Data) -> set[Data]:
        return {
            (*weights[:place], weight, *weights[place + 1 :])
            for place in range(len(weights))
            for weight in range(network.highest + 1)
        }

    farthest = len(network.edges)
    worlds = list(product(range(network.highest + 1), repeat=farthest))
    for weights, largest in at_every_distance(worlds, network.cost, near, farthest).items():
        assert [network.at_distance(weights, distance) for distance in range(farthest + 1)] == largest


def test_a_network_in_two_parts_has_no_spanning_tree() -> None:
    for edges in (((0, 1), (2, 3)), ((0, 0),), ()):
        with pytest.raises(BadParameter, match="connected network"):
            Network(edges, 1)
