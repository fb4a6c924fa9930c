"""Which blocks of an ordered key to measure, and how to share the price among their levels: in closed form.

Blocks of nested sizes have nested projections, so the variance of a workload is a sum over levels of what the workload
has there, divided by the precision there. Proof: proofs/hierarchies.md, (4)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from fractions import Fraction
from itertools import pairwise
from math import log, prod

import numpy as np

from sfumato.caches import remembered
from sfumato.planning.budget_split import SHARE_FINENESS

_BRANCHINGS = (4, 8, 16, 32)
"""How many blocks of one level are a block of the next."""
_MAX_LEVELS = 7
_MIN_CELLS = 16
"""Fewer cells are summed up from their own measurements."""
_ROUNDS = 160
_MIN_SHARE = 1e-3
_STARTS = (1.0, 4.0, 20.0)
"""How many times the share of a coarser level the finest one has at first."""
MAX_DEVIATION_RATIO = Fraction(11, 10)
"""No column has a deviation that is more times as large as without blocks."""


class SumKind(StrEnum):
    """Which sums over the cells of an ordered key a column shows."""

    CELLS = auto()
    """Single cells, or anything else that is computed from them."""
    RUNNING = auto()
    """All cells up to each one, or from each one on."""
    RANGES = auto()
    """Cells between two ends; planned as if all pairs of ends were asked for."""
    WINDOW = auto()
    """A number of neighbouring cells around each one."""
    TOTAL = auto()


@dataclass(frozen=True, slots=True)
class OrderedSum:
    """A kind of sum, and of a window how many cells it has."""

    kind: SumKind
    width: int = 0


@dataclass(frozen=True, slots=True)
class LevelShares:
    """The block sizes of all levels, the finest first, and the part of the price that each gets.

    Errors of a share s are proportional to 1/s^power: 2 for Laplace noise, 1 for Gaussian noise.
    """

    sizes: tuple[int, ...]
    parts: tuple[Fraction, ...]
    power: int


@remembered(256)
def level_shares(cells: int, sums: tuple[OrderedSum, ...], power: int) -> LevelShares | None:
    """Return the sizes and shares with the least geometric mean of the variances of these sums; None for one level.

    Where single cells are asked for, the finest level keeps so much that no sum at all is clearly worse than without
    blocks.
    """
    least = float(MAX_DEVIATION_RATIO) ** (-2 / power) if OrderedSum(SumKind.CELLS) in sums else 0.0
    best, found = log(1.0), None
    for sizes in _structures(cells):
        parts = _with_least(_shares(cells, sizes, sums, power, least), least)
        value = sum(map(log, variance_ratios(cells, sizes, sums, [float(part) ** power for part in parts])))
        if value < best:
            best, found = value, LevelShares(sizes, parts, power)
    return found


def variance_ratios(
    cells: int, sizes: Sequence[int], sums: Sequence[OrderedSum], precisions: Sequence[float]
) -> list[float]:
    """Return the mean variance of each kind of sum, beside that from cells with precision 1 alone.

    `precisions` are those of the levels. The last block of a level counts as if it were full.
    """
    at_levels, total = [], 0.0
    for size, precision in zip(sizes, precisions, strict=True):
        total += size * precision
        at_levels.append(total)
    return [
        sum(part / level for part, level in zip(_parts_by_level(cells, tuple(sizes), one), at_levels, strict=True))
        for one in sums
    ]


def projected_variance(
    cells: int, sizes: Sequence[int], between: tuple[int, int], precisions: Sequence[float]
) -> float:
    """Return the planned variance of the sum of the cells from one place to another, both inside."""
    place = np.arange(cells)
    weights = ((place >= between[0]) & (place <= between[1])).astype(np.float64)
    inside, level, found = [], 0.0, 0.0
    for size in sizes:
        first = np.arange(0, cells, size)
        inside.append(float((np.add.reduceat(weights, first) ** 2 / np.minimum(size, cells - first)).sum()))
    for here, above, size, precision in zip(inside, [*inside[1:], 0.0], sizes, precisions, strict=True):
        level += size * precision
        found += max(here - above, 0.0) / level
    return found


def _structures(cells: int) -> list[tuple[int, ...]]:
    found = {
        tuple(branching**level for level in range(levels + 1))
        for branching in _BRANCHINGS
        for levels in range(1, _MAX_LEVELS)
        if cells >= _MIN_CELLS and branching**levels <= cells
    }
    return sorted(found)


@remembered(1024)
def _parts_by_level(cells: int, sizes: tuple[int, ...], one: OrderedSum) -> tuple[float, ...]:
    """Return what part of the squared weights of all sums varies within blocks of each next size only: adds up to 1."""
    inside = [_projected(cells, size, one) for size in sizes]
    steps = [*(max(here - above, 0.0) for here, above in pairwise(inside)), inside[-1]]
    return tuple(step / sum(steps) for step in steps)


def _projected(cells: int, size: int, one: OrderedSum) -> float:
    """Return the squared length of the weights of all sums after each block was averaged.

    It is the sum over blocks of Σ G[i, j] / size over cells i, j of the block, where G[i, j] counts the sums that hold
    both.
    """
    first = np.arange(0, cells, size, dtype=np.float64)
    own, left = np.minimum(size, cells - first), cells - first
    largest = (own - 1) * own * (4 * own + 1) / 6  # Σ max(u, v) over u, v < own
    match one.kind:
        case SumKind.CELLS:
            total = own
        case SumKind.TOTAL:
            total = own**2
        case SumKind.RUNNING:
            total = own**2 * left - largest
        case SumKind.WINDOW:
            total = np.array([_in_windows(int(many), one.width) for many in own[[0, -1]]])
            total = np.concatenate([np.full(len(own) - 1, total[0]), total[1:]])
        case SumKind.RANGES:
            least, products = own**2 * (own - 1) - largest, (own * (own - 1) / 2) ** 2
            total = own**2 * (first + 1) * left - (first + 1) * largest + left * least - products
    return float((total / own).sum())


def _in_windows(cells: int, width: int) -> float:
    """Return how many windows of this width hold two cells of a block, added up over all pairs."""
    gaps = np.arange(1 - cells, cells)
    return float(((cells - np.abs(gaps)) * np.maximum(width - np.abs(gaps), 0)).sum())


def _shares(cells: int, sizes: tuple[int, ...], sums: tuple[OrderedSum, ...], power: int, least: float) -> list[float]:
    """Return shares that move towards what gains most, from several starts."""
    parts = [_parts_by_level(cells, sizes, one) for one in sums]
    best: tuple[float, list[float]] | None = None
    for start in _STARTS:
        shares = _normal([start, *([1.0] * (len(sizes) - 1))], least)
        for _ in range(_ROUNDS):
            gains = _gains(sizes, parts, shares, power)
            mean = sum(share * gain for share, gain in zip(shares, gains, strict=True))
            moved = [max(share * (gain / mean) ** 0.5, _MIN_SHARE) for share, gain in zip(shares, gains, strict=True)]
            shares = _normal(moved, least)
        error = prod(variance_ratios(cells, sizes, sums, [share**power for share in shares]))
        if best is None or error < best[0]:
            best = error, shares
    if best is None:
        raise AssertionError("there is a start")
    return best[1]


def _gains(sizes: Sequence[int], parts: Sequence[Sequence[float]], shares: Sequence[float], power: int) -> list[float]:
    """Return how fast the sum of the logarithms of variances falls with each share."""
    at_levels, total = [], 0.0
    for size, share in zip(sizes, shares, strict=True):
        total += size * share**power
        at_levels.append(total)
    slopes = [0.0] * len(sizes)
    for own in parts:
        variance = sum(part / level for part, level in zip(own, at_levels, strict=True))
        for place, (part, level) in enumerate(zip(own, at_levels, strict=True)):
            slopes[place] += part / level**2 / variance
    found, beyond = [0.0] * len(sizes), 0.0
    for place in reversed(range(len(sizes))):
        beyond += slopes[place]
        found[place] = power * shares[place] ** (power - 1) * sizes[place] * beyond
    return found


def _normal(shares: Sequence[float], least: float) -> list[float]:
    """Return shares that add up to 1, of which the first is at least `least`."""
    found = [share / sum(shares) for share in shares]
    if found[0] >= least:
        return found
    return [least, *(share / sum(found[1:]) * (1 - least) for share in found[1:])]


def _with_least(shares: Sequence[float], least: float) -> tuple[Fraction, ...]:
    """Return shares in the parts that a price is split by: 64ths of the largest, the first still at least `least`."""
    largest = max(shares)
    parts = [max(1, round(share / largest * SHARE_FINENESS)) for share in shares]
    while parts[0] < least * sum(parts) and max(parts[1:]) > 1:
        place = max(range(1, len(parts)), key=lambda at: parts[at])
        parts[place] -= 1
    return tuple(Fraction(part, sum(parts)) for part in parts)
