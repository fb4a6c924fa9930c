"""A model of the whole table: weighted candidate rows that match the estimated pairs.

Everything here is a function of released numbers and a public seed: free and reproducible.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import shake_256
from heapq import heappop, heappush
from math import sqrt
from time import monotonic

import numpy as np

from sfumato.synthesis.combining import JointEstimate, onto_counts, shrinkage_factors
from sfumato.synthesis.design import Axes
from sfumato.synthesis.domain import Codes, Floats

POOL_ROWS = 40_000
"""Number of candidate rows."""
INDEPENDENT_ONE_IN = 10
"""One candidate row in this number is drawn column by column, so that every combination is possible."""
FIT_STEPS = 120
"""Number of steps of a fit."""
LEARNING_RATE = 0.25
"""Size of the first steps."""
_MEAN_DECAY, _SQUARE_DECAY, _DIVISION_GUARD = 0.9, 0.999, 1e-12
_UNIFORM_STEP = 2.0**-53
_MAX_CACHED_INDICES = 2 * 10**7
"""Maximum number of cached cell indices; further ones are computed at each step."""


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """Different candidate rows, sorted, one array per column; their weights (which add up to 1); the steps it took."""

    rows: tuple[Codes, ...]
    weights: Floats
    steps: int


def uniforms(seed: bytes, purpose: str, count: int) -> Floats:
    """Return numbers in [0, 1) that look random and follow from a public seed: no noise is ever drawn from it."""
    words = np.frombuffer(shake_256(seed + purpose.encode()).digest(8 * count), dtype="<u8")
    return (words >> np.uint64(11)).astype(np.float64) * _UNIFORM_STEP


def targets(combined: JointEstimate) -> dict[Axes, Floats]:
    """Return the shares of the cells of all measured marginals: shrunk, none negative, adding up to 1."""
    total, factors = max(combined.total, 1.0), shrinkage_factors(combined)
    return {axes: onto_counts(combined.table(axes, factors), total) / total for axes in combined.parts if axes}


def spanning_tree(shares: Mapping[Axes, Floats], columns: int) -> list[tuple[int, int | None]]:
    """Return the columns in an order in which each comes after the one it depends on most, with that one [Chow, Liu].

    The tree has the largest sum of mutual informations that measured pairs allow; what no pair reaches stands alone.
    """
    edges: dict[int, list[tuple[float, int, int]]] = {column: [] for column in range(columns)}
    for axes, table in shares.items():
        if len(axes) == 2:
            edge = (-information(table), -axes[0], -axes[1])  # the heap pops the least: the most information
            edges[axes[0]].append(edge)
            edges[axes[1]].append(edge)
    order: list[tuple[int, int | None]] = []
    reached: set[int] = set()
    heap: list[tuple[float, int, int]] = []
    while len(reached) < columns:
        while heap and -heap[0][1] in reached and -heap[0][2] in reached:
            heappop(heap)
        if not heap:
            order.append((min(set(range(columns)) - reached), None))
        else:
            _, first, second = heappop(heap)
            order.append((-first, -second) if -second in reached else (-second, -first))
        new = order[-1][0]
        reached.add(new)
        for edge in edges[new]:
            heappush(heap, edge)
    return order


def information(share: Floats) -> float:
    """Return the mutual information of the two columns of a table of shares."""
    apart = share.sum(axis=1, keepdims=True) * share.sum(axis=0, keepdims=True)
    present = share > 0
    return float((share[present] * np.log(share[present] / apart[present])).sum())


def draw_pool(
    shares: Mapping[Axes, Floats], sizes: Sequence[int], seed: bytes, rows: int = POOL_ROWS
) -> tuple[tuple[Codes, ...], Floats]:
    """Return different candidate rows, sorted, and how often each was drawn.

    Most are drawn along the tree, each column given the one it depends on, some column by column.
    """
    return distinct_rows(draw_along_tree(shares, sizes, seed, rows, rows // INDEPENDENT_ONE_IN))


def draw_along_tree(
    shares: Mapping[Axes, Floats], sizes: Sequence[int], seed: bytes, rows: int, independent: int
) -> list[Codes]:
    """Return rows drawn along the tree; the first `independent` of them are drawn column by column."""
    found: list[Codes] = [np.zeros(rows, dtype=np.int64) for _ in sizes]
    for column, parent in spanning_tree(shares, len(sizes)):
        luck = uniforms(seed, f"pool {column}", rows)
        alone = shares[(column,)]
        found[column] = _draw(alone[None, :], np.zeros(rows, dtype=np.int64), luck)
        if parent is not None:
            pair = shares[min(column, parent), max(column, parent)]
            given = pair if parent < column else pair.T
            empty = given.sum(axis=1, keepdims=True) <= 0
            given = np.where(empty, alone[None, :], given)
            found[column][independent:] = _draw(given, found[parent][independent:], luck[independent:])
    return found


def distinct_rows(rows: Sequence[Codes]) -> tuple[tuple[Codes, ...], Floats]:
    """Return each different row once, sorted, and how often it occurs."""
    order = np.lexsort(tuple(rows[::-1]))
    ordered = [column[order] for column in rows]
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.any([column[1:] != column[:-1] for column in ordered], axis=0)
    first = np.flatnonzero(new)
    return tuple(column[first] for column in ordered), np.diff([*first, len(order)]).astype(np.float64)


def _draw(given: Floats, parents: Codes, luck: Floats) -> Codes:
    """Draw a cell for each row from the shares of its parent's row in `given`."""
    cumulated = np.cumsum(given, axis=1)
    cumulated /= cumulated[:, -1:]
    size = given.shape[1]
    ends = (cumulated + np.arange(len(given))[:, None]).ravel()
    drawn = np.searchsorted(ends, luck + parents, side="right") - parents * size
    return np.asarray(np.clip(drawn, 0, size - 1), dtype=np.int64)


def places_of(rows: Sequence[Codes], axes: Axes, sizes: Sequence[int]) -> Codes:
    """Return the cell of each row in a marginal, counted through."""
    place = np.zeros(len(rows[0]), dtype=np.int64)
    for axis in axes:
        place = place * sizes[axis] + rows[axis]
    return place


def fit_weights(
    rows: tuple[Codes, ...],
    shares: Mapping[Axes, Floats],
    sizes: Sequence[int],
    *,
    steps: int = FIT_STEPS,
    seconds: float = float("inf"),
    start: Floats,
    rate: float = LEARNING_RATE,
) -> tuple[Floats, Floats, int]:
    """Return the weights of the rows, their logarithms, and the steps taken: Adam on the squared distance of all pairs.

    It begins at the logarithms `start`, and ends after `steps`, or after the step in which `seconds` have passed.
    """
    widest = [axes for axes in shares if not any(set(axes) < set(other) for other in shares)]
    goals = [(axes, shares[axes].ravel()) for axes in widest]
    kept = {
        axes: places_of(rows, axes, sizes) for axes, _ in goals[: max(1, _MAX_CACHED_INDICES // max(len(rows[0]), 1))]
    }
    logarithms = start.copy()
    mean, square = np.zeros_like(logarithms), np.zeros_like(logarithms)
    weights, begun, done = _softmax(logarithms), monotonic(), 0
    while done < steps and monotonic() - begun < seconds:
        slope = np.zeros_like(logarithms)
        for axes, goal in goals:
            place = kept[axes] if axes in kept else places_of(rows, axes, sizes)
            slope += (np.bincount(place, weights, goal.size) - goal).take(place)
        slope = weights * (slope - weights @ slope)
        slower = sqrt(1 - done / steps)  # smaller and smaller steps, so that it comes to rest
        done += 1
        mean = _MEAN_DECAY * mean + (1 - _MEAN_DECAY) * slope
        square = _SQUARE_DECAY * square + (1 - _SQUARE_DECAY) * slope * slope
        step = mean / (1 - _MEAN_DECAY**done) / (np.sqrt(square / (1 - _SQUARE_DECAY**done)) + _DIVISION_GUARD)
        logarithms -= rate * slower * step
        weights = _softmax(logarithms)
    return weights, logarithms, done


def _softmax(logarithms: Floats) -> Floats:
    powers = np.exp(logarithms - logarithms.max())
    return np.asarray(powers / powers.sum())
