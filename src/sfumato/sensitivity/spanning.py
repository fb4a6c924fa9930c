"""Compute the local sensitivity of the cost of a minimum spanning tree at every distance; edge weights are protected.

The edges are public, and the graph is connected; weights are integers from 0 to a public bound [NRS07].
Proof: proofs/smooth_sensitivity.md, (10)
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sfumato.errors import BadParameter
from sfumato.exact import integer

Edge = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Network:
    """The public part: edges between the vertices 0, 1, … and the largest weight that one can have.

    >>> Network(((0, 1), (1, 2), (0, 2)), 9).cost((3, 4, 5))
    7
    """

    edges: tuple[Edge, ...]
    highest: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "highest", integer(self.highest, "highest", 1))
        vertices = {vertex for edge in self.edges for vertex in edge}
        joined = len({self._root(vertex, self._join_edges(self.edges)) for vertex in vertices}) == 1
        if not joined or any(start == end for start, end in self.edges):
            raise BadParameter(
                "This is not a connected network.",
                "A spanning tree joins all vertices, and no edge leads back to its own beginning.",
                "Give edges as pairs of different vertices, so that every vertex is reached from every other.",
            )

    def cost(self, weights: tuple[int, ...]) -> int:
        """Return the cost of a minimum spanning tree."""
        order = sorted(range(len(self.edges)), key=lambda edge_index: weights[edge_index])
        parents: dict[int, int] = {}
        total = 0
        for edge_index in order:
            first_root, second_root = (self._root(vertex, parents) for vertex in self.edges[edge_index])
            if first_root != second_root:
                parents[first_root] = second_root
                total += weights[edge_index]
        return total

    def at_distance(self, weights: tuple[int, ...], distance: int) -> int:
        """Return the largest local sensitivity of the cost after `distance` weights changed, exactly."""
        largest = 0
        for edge_index, weight in enumerate(weights):
            bottleneck = self._detour_bottleneck(weights, edge_index, distance)
            largest = max(largest, min(weight, bottleneck), bottleneck - min(weight, bottleneck))
            if distance:  # one of the changes takes this edge's own weight to an end
                largest = max(largest, self._detour_bottleneck(weights, edge_index, distance - 1))
        return largest

    def _detour_bottleneck(self, weights: tuple[int, ...], edge_index: int, raised: int) -> int:
        """Return the heaviest edge on every detour around an edge, after `raised` others got the largest weight."""
        others = [
            (edge, weight)
            for index, (edge, weight) in enumerate(zip(self.edges, weights, strict=True))
            if index != edge_index
        ]
        for bound in sorted({self.highest, *(weight for _, weight in others)}, reverse=True):
            if (
                _count_disjoint_paths(
                    (edge for edge, weight in others if weight < bound), *self.edges[edge_index], raised + 1
                )
                <= raised
            ):
                return bound
        return 0

    def _join_edges(self, edges: Iterable[Edge]) -> dict[int, int]:
        parents: dict[int, int] = {}
        for edge in edges:
            first_root, second_root = (self._root(vertex, parents) for vertex in edge)
            if first_root != second_root:
                parents[first_root] = second_root
        return parents

    def _root(self, vertex: int, parents: dict[int, int]) -> int:
        while vertex in parents:
            vertex = parents[vertex]
        return vertex


def _count_disjoint_paths(edges: Iterable[Edge], start: int, end: int, enough: int) -> int:
    """Return the number of edge-disjoint paths from start to end, up to `enough` (Menger)."""
    free: dict[Edge, int] = {}
    for first, second in edges:
        free[first, second] = free.get((first, second), 0) + 1
        free[second, first] = free.get((second, first), 0) + 1
    for paths in range(enough):
        came_from: dict[int, int] = {start: start}
        waiting = [start]
        while waiting and end not in came_from:
            vertex = waiting.pop()
            for (first, second), left in free.items():
                if first == vertex and left and second not in came_from:
                    came_from[second] = vertex
                    waiting.append(second)
        if end not in came_from:
            return paths
        step_end = end
        while step_end != start:
            free[came_from[step_end], step_end] -= 1
            free[step_end, came_from[step_end]] += 1
            step_end = came_from[step_end]
    return enough
