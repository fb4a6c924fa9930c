"""How far the integrand of the contour can still reach beyond T: certified, so that cutting there is certified.

The bound is a product over events of bounds on |M_i(c + it)| / M_i(c). Noise with a density decays by a formula; a loss
with two atoms at distance d and tilted masses p, q has |M/M(c)|^2 <= 1 - 4pq sin^2(td/2), which returns to 1, but
different events do not return together. Proof: proofs/pld_contour.md
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.distribution.moments import (
    Binary,
    BoundedRanges,
    Family,
    Floats,
    IntegerGaussian,
    IntegerLaplace,
    RealLaplace,
    Response,
)
from sfumato.accounting.distribution.tilted_fft import ROUNDOFF

CELL_GROWTH = 1.5  # a cell is [t, GROWTH t]; IntegerGaussian.envelope and _spread rely on this value
_MAX_MONOTONE_SCALE = 1.25  # sin^2 is least at the left end of [x, 1.5 x] while x <= 2 pi / 5
_CELL_COUNT = 60
_ATOMIC = Binary | Response | RealLaplace | IntegerLaplace | IntegerGaussian
_SWEPT_EVENTS = 3000
_SWEPT_NODES = 1 << 20
_SWEPT_WORK = 1 << 28  # events times nodes
_SWEPT_BYTES = 1 << 23


def log_envelope(families: Sequence[Family], mu_squared: float, c: float, starts: Floats) -> Floats:
    """Return, for each cell [t, 3t/2], ln of a bound on the product of |M_i(c + is)| / M_i(c) over the cell."""
    total = -0.5 * mu_squared * starts**2
    distances: list[Floats] = []
    weights: list[Floats] = []
    for family in families:
        smooth = np.zeros(len(starts))
        if isinstance(family, RealLaplace | BoundedRanges | IntegerGaussian):
            for part in np.array_split(np.arange(len(starts)), 1 + len(starts) * len(family.times) // 200_000):
                logs = np.minimum(family.envelope(c, starts[part]), 0.0)
                smooth[part] = family.times @ logs
        if isinstance(family, _ATOMIC):
            distance, weight = family.atoms(c)
            if not smooth.any():
                distances.append(distance)
                weights.append(weight * family.times * (1 - 1e-9))
            else:
                total += np.minimum(smooth, _returns(distance, weight * family.times * (1 - 1e-9), starts))
        else:
            total += smooth
    if distances:
        total += _returns(np.concatenate(distances), np.concatenate(weights), starts)
    return total


def cut_places(
    families: Sequence[Family], mu_squared: float, c: float, spacing: float, first: float
) -> tuple[Floats, Floats]:
    """Return places T to cut at, and for each a bound on the omitted part in units of e^(K(c) - c epsilon)."""
    starts: Floats = np.asarray(first * CELL_GROWTH ** np.arange(_CELL_COUNT + 1), dtype=np.float64)
    with np.errstate(under="ignore"):
        bound = np.exp(np.minimum(log_envelope(families, mu_squared, c, starts), 0.0))
    # 1/|z (z+1)| <= 1/t^2, and a sum of decreasing terms exceeds its integral by at most its first term
    cells = bound[:-1] * (spacing / starts[:-1] ** 2 + (1 / starts[:-1]) * (1 - 1 / CELL_GROWTH)) / math.pi
    beyond = (spacing / starts[-1] ** 2 + 1 / starts[-1]) / math.pi
    return starts[:-1], (np.cumsum(cells[::-1])[::-1] + beyond) * (1 + 1e-9)


def swept(families: Sequence[Family], mu_squared: float, c: float, spacing: float, first: int) -> Floats:
    """Return bounds on the part omitted by cutting after node first, first + 1, …, by visiting the nodes themselves.

    At a node t_j the product is at most exp(-sum of weight * (1 - cos(t_j distance))): one matrix product for all of
    them, since e^(i t d) of t = (a columns + b) spacing factors. Beyond the last node the product is at most 1.
    """
    atomic = [family for family in families if isinstance(family, _ATOMIC)]
    if not atomic or sum(len(family.times) for family in atomic) > _SWEPT_EVENTS:
        return np.zeros(0)
    pairs = [(*family.atoms(c), family.times) for family in atomic]
    distance = np.concatenate([distance for distance, _, _ in pairs])
    weight = np.concatenate([weight * times for _, weight, times in pairs]) * (1 - 1e-9)
    last = max(2 * first, min(_SWEPT_NODES, _SWEPT_WORK // len(weight)))
    columns = math.isqrt(last)
    within = np.exp(1j * spacing * np.outer(distance, np.arange(columns)))
    chunks = np.array_split(np.arange(last // columns), 1 + last * 16 // _SWEPT_BYTES)
    bounds = np.concatenate([_visited_nodes(chunk, within, distance, weight, spacing, mu_squared) for chunk in chunks])
    end = spacing * (len(bounds) - 1)
    beyond = spacing / end**2 + 1 / end
    omitted = np.cumsum(bounds[:first:-1])[::-1] * spacing + beyond
    return np.asarray(np.append(omitted, beyond) * ((1 + 1e-9) / math.pi))


def _visited_nodes(
    rows: NDArray[np.int64],
    within: NDArray[np.complex128],
    distance: Floats,
    weight: Floats,
    spacing: float,
    mu_squared: float,
) -> Floats:
    columns = within.shape[1]
    across = weight * np.exp(1j * spacing * columns * np.outer(rows, distance))
    heights = (spacing * (columns * rows[:, None] + np.arange(columns))).ravel()
    # the phases are rounded by t d u: each cosine may be off by that much
    slack = 8 * ROUNDOFF * float(np.dot(weight, distance)) * heights + 1e-12 * float(weight.sum())
    exponents = (across @ within).real.ravel() - float(weight.sum()) + slack - 0.5 * mu_squared * heights**2
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(np.minimum(exponents, 0.0)) / np.maximum(heights, spacing) ** 2)


def _returns(distance: Floats, weight: Floats, starts: Floats) -> Floats:
    """Return for each cell a bound on sum of ln|M_i| / M_i(c) <= -2 sum of weight * sin^2(t distance / 2)."""
    order = np.argsort(distance)
    distance, weight = distance[order], weight[order]
    total = np.zeros(len(starts))
    for index, start in enumerate(starts):
        tame = int(np.searchsorted(distance, 2 * _MAX_MONOTONE_SCALE / start, side="right"))
        sure = float(np.dot(weight[:tame], np.sin(distance[:tame] * (start / 2)) ** 2))
        total[index] = -2 * (sure + _pair_bound(distance[tame:], weight[tame:], float(start))) * (1 - 1e-9)
    return total


def _pair_bound(distance: Floats, weight: Floats, start: float) -> float:
    """Bound the sum below by pairs of events: sin^2 a + sin^2 b >= sin^2(a - b) / 2.

    Events of bins 3m and 3m + 2 of width g = 1.2/t differ by g … 3g: half of that times [t, 1.5t] lies within
    [0.6, 2.7], where sin^2 >= 0.18. Pairing off two bins keeps at least the lesser weight, spread over the pairs.
    """
    if len(distance) < 2:
        return 0.0
    bins = np.floor((distance - distance[0]) * (start / 1.2)).astype(np.int64)
    present, first = np.unique(bins, return_index=True)
    if len(present) < 2:
        return 0.0
    sums = np.add.reduceat(weight, first)
    partner = np.minimum(np.searchsorted(present, present + 2), len(present) - 1)
    good = (present % 3 == 0) & (present[partner] == present + 2)
    return 0.09 * 0.999 * float(np.minimum(sums[good], sums[partner[good]]).sum())
