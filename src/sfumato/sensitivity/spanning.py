"""The cost of a minimum spanning tree, and its local sensitivity at every distance: one edge's weight is protected.

Who is joined with whom is public, and the graph is connected; weights are integers from 0 to a public bound [NRS07].
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
        joined = len({self._root(vertex, self._tree(self.edges)) for vertex in vertices}) == 1
        if not joined or any(one == other for one, other in self.edges):
            raise BadParameter(
                "This is not a connected network.",
                "A spanning tree joins all vertices, and no edge leads back to its own beginning.",
                "Give edges as pairs of different vertices, so that every vertex is reached from every other.",
            )

    def cost(self, weights: tuple[int, ...]) -> int:
        """Return the cost of a minimum spanning tree."""
        order = sorted(range(len(self.edges)), key=lambda place: weights[place])
        parents: dict[int, int] = {}
        total = 0
        for place in order:
            one, other = (self._root(vertex, parents) for vertex in self.edges[place])
            if one != other:
                parents[one] = other
                total += weights[place]
        return total

    def at_distance(self, weights: tuple[int, ...], distance: int) -> int:
        """Return the largest local sensitivity of the cost after `distance` weights changed, exactly."""
        found = 0
        for place, weight in enumerate(weights):
            kept = self._way_round(weights, place, distance)
            found = max(found, min(weight, kept), kept - min(weight, kept))
            if distance:  # one of the changes takes this edge's own weight to an end
                found = max(found, self._way_round(weights, place, distance - 1))
        return found

    def _way_round(self, weights: tuple[int, ...], place: int, raised: int) -> int:
        """Return the heaviest edge that no way round an edge can avoid, after so many others were raised to the top."""
        others = [
            (edge, weight) for at, (edge, weight) in enumerate(zip(self.edges, weights, strict=True)) if at != place
        ]
        for bound in sorted({self.highest, *(weight for _, weight in others)}, reverse=True):
            if _ways((edge for edge, weight in others if weight < bound), *self.edges[place], raised + 1) <= raised:
                return bound
        return 0

    def _tree(self, edges: Iterable[Edge]) -> dict[int, int]:
        parents: dict[int, int] = {}
        for edge in edges:
            one, other = (self._root(vertex, parents) for vertex in edge)
            if one != other:
                parents[one] = other
        return parents

    def _root(self, vertex: int, parents: dict[int, int]) -> int:
        while vertex in parents:
            vertex = parents[vertex]
        return vertex


def _ways(edges: Iterable[Edge], start: int, end: int, enough: int) -> int:
    """Return how many ways from start to end share no edge, up to `enough`: as many as it takes to cut them all."""
    free: dict[Edge, int] = {}
    for one, other in edges:
        free[one, other] = free.get((one, other), 0) + 1
        free[other, one] = free.get((other, one), 0) + 1
    for found in range(enough):
        came: dict[int, int] = {start: start}
        waiting = [start]
        while waiting and end not in came:
            here = waiting.pop()
            for (one, other), left in free.items():
                if one == here and left and other not in came:
                    came[other] = here
                    waiting.append(other)
        if end not in came:
            return found
        there = end
        while there != start:
            free[came[there], there] -= 1
            free[there, came[there]] += 1
            there = came[there]
    return enough
