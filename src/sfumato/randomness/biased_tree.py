"""Play many small games against a source of biased bits in float64, to locate worst cases, never to decide them.

Each game is a value that is constant between a few places of 0 … 2**depth; the opponent makes its mean as large as
a bias allows, bit by bit (`adversary` says how). Rounding moves a result by less than depth · 2^-50 of the values
that take part in it; callers leave a margin far beyond that, or repeat the best ones exactly.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
MAX_TREE_BITS = 60
"""Maximum number of coin bits that fit into a word with bits to spare."""
FLOAT_SLACK = 1e-10
"""Far above what rounding does in float64, far below what anybody sees."""
_CHUNK_PAIRS = 1 << 14


def play(ends: Indices, pieces: Floats, depth: int, gamma: float) -> Floats:
    """Return what the best policies reach: one row per game.

    `ends` (games × m) are the places where the value changes, ascending; `pieces` (games × (m + 1) × columns) what it
    is between them. The first column is what the opponent makes large; the others come along.
    """
    games = len(ends)
    places = np.concatenate([np.zeros((games, 1), dtype=np.int64), ends], axis=1)  # the first stands for the root
    rows = np.arange(games)[:, None]
    last = pieces.shape[1] - 1
    reached = pieces[rows, np.minimum(_count_passed(ends, places), last)]
    for level in range(depth - 1, -1, -1):
        shift = depth - level - 1
        nodes = places >> (shift + 1)
        below = places >> shift
        left, right = (
            _child(2 * nodes + side, below, reached, pieces, _count_passed(ends, (2 * nodes + side) << shift), last)
            for side in (0, 1)
        )
        better = (left[..., :1] >= right[..., :1]).astype(np.float64)
        more = (1.0 + gamma) / 2.0
        weight = better * more + (1.0 - better) * (1.0 - more)
        reached = weight * left + (1.0 - weight) * right
    result: Floats = reached[:, 0]
    return result


def worst_places(first: Indices, second: Indices, depth: int, gamma: float) -> Indices:
    """Return the numbers of those pairs of intervals (rows: low, high) whose worst ratio may be the largest of all.

    Dinkelbach's method over all pairs: pairs that do not reach the ratio of the others are dropped.
    """
    kept: Indices = np.arange(len(first), dtype=np.int64)
    worst = 0.0
    while True:
        reached = np.concatenate(
            [
                play_ratio(
                    first[kept[at : at + _CHUNK_PAIRS]], second[kept[at : at + _CHUNK_PAIRS]], worst, depth, gamma
                )
                for at in range(0, len(kept), _CHUNK_PAIRS)
            ]
        )
        value, one, other = reached.T
        kept = kept[value >= -FLOAT_SLACK * (one + worst * other)]
        better = float((one / other).max())
        if better <= worst * (1 + 1e-13):
            return kept
        worst = max(worst, better)


def play_ratio(first: Indices, second: Indices, ratio: float, depth: int, gamma: float) -> Floats:
    """Return V, P[first], P[second] of the policies best for 1[first] - ratio · 1[second]."""
    ends = np.sort(np.concatenate([first, second], axis=1), axis=1)
    starts = np.concatenate([np.zeros((len(ends), 1), dtype=np.int64), ends], axis=1)
    one = (first[:, :1] <= starts) & (starts < first[:, 1:])
    other = (second[:, :1] <= starts) & (starts < second[:, 1:])
    pieces = np.stack([one - ratio * other, one.astype(np.float64), other.astype(np.float64)], axis=2)
    return play(ends, pieces, depth, gamma)


def _count_passed(ends: Indices, places: Indices) -> Indices:
    """Return how many ends lie at or before each place: the number of its piece."""
    passed: Indices = (ends[:, None, :] <= places[:, :, None]).sum(axis=2)
    return passed


def _child(wanted: Indices, below: Indices, reached: Floats, pieces: Floats, piece: Indices, last: int) -> Floats:
    """Return what a child reaches: found among the nodes that an end lies in, else the piece that it is part of."""
    rows = np.arange(len(wanted))[:, None]
    found = pieces[rows, np.minimum(piece, last)]
    for index in range(below.shape[1]):
        same = wanted == below[:, index, None]
        found = np.where(same[..., None], reached[:, index, None, :], found)
    return found
