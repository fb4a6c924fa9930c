"""Local sensitivity of counts in a graph, where one edge is protected, at every distance [NRS07].

A graph is a symmetric matrix of truth values without loops. Proof: proofs/smooth_sensitivity.md, (5) and (6)
"""

from itertools import combinations

import numpy as np
import numpy.typing as npt

from sfumato.errors import BadParameter

Graph = npt.NDArray[np.bool_]


def as_graph(edges: object) -> Graph:
    """Read a matrix of truth values, or refuse it."""
    graph = np.asarray(edges)
    square = graph.ndim == 2 and graph.shape[0] == graph.shape[1]
    if not square or graph.dtype != np.bool_ or graph.diagonal().any() or (graph != graph.T).any():
        raise BadParameter(
            "This is not a graph.",
            "A graph is a symmetric square matrix of truth values with a false diagonal.",
            "Build it with numpy.zeros((n, n), dtype=bool) and set both entries of each edge.",
        )
    return graph


def triangles(graph: Graph) -> int:
    """Return the number of triangles."""
    wide = graph.astype(np.int64)
    return int(np.trace(wide @ wide @ wide)) // 6


def triangles_at_distance(graph: Graph, distance: int) -> int:
    """Return the largest local sensitivity of the number of triangles after `distance` edges changed, exactly.

    A pair with a common neighbours gets one more from each vertex that is adjacent to one of the two (one edge each),
    then one more for every two edges.
    """
    wide = graph.astype(np.int64)
    size, common = len(wide), wide @ wide
    degrees = wide.sum(axis=1)
    half = degrees[:, None] + degrees[None, :] - 2 * common - 2 * wide
    reached = np.minimum(common + (distance + np.minimum(distance, half)) // 2, max(0, size - 2))
    return max((int(reached[pair]) for pair in combinations(range(size), 2)), default=0)


def two_stars(graph: Graph) -> int:
    """Return the number of paths of two edges."""
    degrees = graph.astype(np.int64).sum(axis=1)
    return int((degrees * (degrees - 1) // 2).sum())


def two_stars_at_distance(graph: Graph, distance: int) -> int:
    """Return the largest local sensitivity of the number of two-edge paths after `distance` edges changed, exactly.

    An edge belongs to as many paths as its ends have other edges; each changed edge adds one of these.
    """
    wide = graph.astype(np.int64)
    size, degrees = len(wide), wide.sum(axis=1)
    others = np.minimum(degrees[:, None] + degrees[None, :] - 2 * wide + distance, 2 * max(0, size - 2))
    return max((int(others[pair]) for pair in combinations(range(size), 2)), default=0)
