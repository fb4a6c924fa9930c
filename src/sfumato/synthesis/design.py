"""Design the measurements and their noise before any data is read, from names, sizes, epsilon and delta only.

Proof: proofs/marginals.md
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import ceil, log2, prod

from sfumato.accounting import pld
from sfumato.accounting.calibrate import gaussian_sigma_squared
from sfumato.accounting.event import Composed, Event, GaussianNoise, Neighbours
from sfumato.errors import BadParameter
from sfumato.exact import positive, probability, typed_rational

Axes = tuple[int, ...]
"""The columns of a marginal by their numbers, in rising order."""

MAX_MARGINAL_CELLS = 10**6
"""Maximum number of cells of one marginal."""
MAX_TOTAL_CELLS = 10**7
"""Maximum number of cells of all marginals."""
ONE_WAY_SHARE = Fraction(1, 10)
"""Share of the budget for single columns; the rest is for pairs."""
POSITIONS_SHARE = Fraction(1, 10)
"""Share of the budget for finer histograms of single columns, in equal parts, where there are any."""
MIN_USED_SHARE = Fraction(97, 100)
"""Smallest share of epsilon that is used: the search for less noise ends there."""
_VARIANCE_SLACK = 1 + Fraction(4, 10**5)  # the certified bound lies a few millionths above the exact curve
_WEIGHT_UNITS = 1 << 20
_VARIANCE_UNITS = 10**9
_SIMILAR_RATIO, _TARGET_SHARE = Fraction(101, 100), Fraction(985, 1000)
_SEARCH_TRIES = 16


@dataclass(frozen=True, slots=True)
class Design:
    """Marginals with the noise variance of their cells, and the event of releasing all of them."""

    marginals: tuple[Axes, ...]
    sigma_squared: tuple[Fraction, ...]
    event: Event
    fine_variance: Fraction | None = None
    """The variance of finer histograms of single columns, where there are any."""


def read_price(epsilon: object, delta: object) -> tuple[Fraction, Fraction]:
    """Read epsilon and delta; delta = 0 is refused, since the noise is Gaussian."""
    price = positive(typed_rational(epsilon, "epsilon"), "epsilon")
    if typed_rational(delta, "delta") == 0:
        raise BadParameter(
            "A synthetic table needs a delta above 0.",
            "Its noise is Gaussian, which is private at no epsilon with delta = 0.",
            "Give a delta such as 1e-6, or ask the counts one by one with Laplace noise.",
        )
    if not Fraction(1, 10**6) <= price <= 10**4:
        raise BadParameter(
            "epsilon is not between 0.000001 and 10000.", "No table is worth measuring there.", "Try epsilon = 1."
        )
    return price, probability(delta, "delta")


def sensitivity_squared(rows: int, neighbours: Neighbours) -> int:
    """Return the squared L2 sensitivity of one marginal to a person with `rows` rows. Proof: proofs/marginals.md §1.

    >>> sensitivity_squared(3, Neighbours.ADD_REMOVE), sensitivity_squared(3, Neighbours.REPLACE)
    (9, 18)
    """
    return (2 if neighbours is Neighbours.REPLACE else 1) * rows * rows


def cells_of(axes: Axes, sizes: Sequence[int]) -> int:
    """Return how many cells a marginal has."""
    return prod(sizes[axis] for axis in axes)


def check_sizes(sizes: Sequence[int], marginals: Sequence[Axes]) -> None:
    """Refuse marginals that are too large: from their sizes alone, before anything is charged."""
    counts = [cells_of(axes, sizes) for axes in marginals]
    if max(counts) > MAX_MARGINAL_CELLS or sum(counts) > MAX_TOTAL_CELLS:
        raise BadParameter(
            "The marginals of these columns have too many cells.",
            f"One may have {MAX_MARGINAL_CELLS:,} and all together {MAX_TOTAL_CELLS:,}; every cell gets noise, also "
            "an empty one.",
            "Take fewer columns, or fewer bins.",
        )


def all_marginals(columns: int) -> tuple[Axes, ...]:
    """Return every column and every pair.

    >>> all_marginals(3)
    ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2))
    """
    return tuple(axes for way in (1, 2) for axes in combinations(range(columns), way))


def marginal_shares(sizes: Sequence[int]) -> tuple[Fraction, ...]:
    """Return the part of 1/σ² that each marginal of `all_marginals` gets; they add up to 1.

    A tenth goes to the columns, equally. Pairs get the rest in proportion to cells^(2/3), which makes the sum of
    cells·σ least; cells are rounded to a power of 2, so that few different variances have to be accounted for.
    """
    pairs = [axes for axes in all_marginals(len(sizes)) if len(axes) == 2]
    alone = ONE_WAY_SHARE if pairs else Fraction(1)
    weights = [round(2 ** (2 * round(log2(cells_of(axes, sizes))) / 3) * _WEIGHT_UNITS) for axes in pairs]
    total = sum(weights)
    return (
        *(alone / len(sizes) for _ in sizes),
        *((1 - alone) * Fraction(weight, total) for weight in weights),
    )


@lru_cache(maxsize=64)
def all_pairs(
    sizes: tuple[int, ...], epsilon: Fraction, delta: Fraction, rows: int, neighbours: Neighbours, fine: int = 0
) -> Design:
    """Return all columns and pairs with the least noise whose certified epsilon at delta is at most the asked one.

    `fine` further histograms of single columns share `POSITIONS_SHARE` of 1/σ².
    """
    marginals = all_marginals(len(sizes))
    check_sizes(sizes, marginals)
    moved = sensitivity_squared(rows, neighbours)
    coarse = 1 - POSITIONS_SHARE if fine else Fraction(1)
    parts = (*(coarse * part for part in marginal_shares(sizes)), *(POSITIONS_SHARE / fine for _ in range(fine)))

    def _variances(variance: Fraction) -> tuple[Fraction, ...]:
        return tuple(round_up_variance(variance / part) for part in parts)

    variance = _least_variance(
        lambda at: _gaussians(moved, _variances(at), neighbours),
        gaussian_sigma_squared(epsilon, delta, moved),
        epsilon,
        delta,
    )
    found = _variances(variance)
    measured = found[: len(marginals)]
    return Design(marginals, measured, _gaussians(moved, found, neighbours), found[-1] if fine else None)


def _gaussians(moved: int, variances: tuple[Fraction, ...], neighbours: Neighbours) -> Event:
    return Composed(tuple(GaussianNoise(moved, variance, neighbours) for variance in variances))


def round_up_variance(value: Fraction) -> Fraction:
    """Round a variance up, so that it can be stored in few digits."""
    return Fraction(ceil(value * _VARIANCE_UNITS), _VARIANCE_UNITS)


def _least_variance(
    event_at: Callable[[Fraction], Event], curve: Fraction, epsilon: Fraction, delta: Fraction
) -> Fraction:
    """Return a variance, near the least one, at which the certified bound of the composition is at most epsilon.

    All marginals together are one Gaussian release with 1/σ² = Σ 1/σ_m², so the exact curve [BW18] gives the start;
    integer noise of a deviation below one may cost less or more, and then it is looked for.
    """
    variance, enough = curve * _VARIANCE_SLACK, []
    for _ in range(_SEARCH_TRIES):
        upper = Fraction(pld.bounds(event_at(variance), delta)[1])
        if upper <= epsilon:
            enough.append((upper, variance))
            if upper >= MIN_USED_SHARE * epsilon:
                break
        near = epsilon < upper <= epsilon * _SIMILAR_RATIO
        # ε falls at least as fast as 1/σ, and at most as 1/σ²: near the goal a step too far, else a step not far enough
        factor = (upper / epsilon) ** 3 * _VARIANCE_SLACK if near else upper / (epsilon * _TARGET_SHARE)
        variance *= min(max(factor, Fraction(1, 8)), Fraction(8)).limit_denominator(_WEIGHT_UNITS)
    if not enough:
        raise BadParameter(
            "No noise is certified for this price.", "The bounds do not reach it.", "Give a larger epsilon or delta."
        )
    return max(enough)[1]
