"""Which pairs to measure where all of them do not fit: chosen one after another by how far a model is from the data.

The kinds and parameters of all events are declared in advance; which pair a round chooses is adaptive, as in AIM
[MMSM22]. Proof: proofs/selected_marginals.md
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import isqrt, pi, sqrt

import numpy as np

from sfumato.accounting.event import BoundedRange, Composed, Event, GaussianNoise, Neighbours, Repeated
from sfumato.errors import BadParameter
from sfumato.mechanisms.exponential import Exponential
from sfumato.planning.concentrated_loss import concentrated_loss
from sfumato.randomness.source import Source
from sfumato.synthesis.combining import Counts, combine
from sfumato.synthesis.design import (
    MAX_MARGINAL_CELLS,
    MAX_TOTAL_CELLS,
    Axes,
    cells_of,
    check_sizes,
    sensitivity_squared,
)
from sfumato.synthesis.domain import Floats
from sfumato.synthesis.model import spanning_tree, targets

MAX_FULLY_PAIRED_COLUMNS = 16
"""Maximum number of columns that are always measured with all their pairs."""
MAX_PAIR_CELLS = 18_000
"""More columns too, while all pairs together have no more cells; beyond, choosing errs less (docs/synthesis.md)."""
MAX_CELLS_PER_PAIR = 10**5
"""A pair of more cells is never chosen."""
ONE_WAYS_SHARE, CHOOSING_SHARE, MEASURING_SHARE = Fraction(2, 10), Fraction(2, 10), Fraction(6, 10)
_EPSILON_UNITS = 10**9

MeasureMarginal = Callable[[Axes, Fraction], Counts]
"""Gives a marginal with noise of this variance."""


@dataclass(frozen=True, slots=True)
class Selection:
    """How pairs are chosen and measured: everything but which."""

    candidates: tuple[Axes, ...]
    rounds: int
    moved: int
    """The most that one person moves a score."""
    epsilon: Fraction
    """The price of one choice."""
    one_way: Fraction
    pair: Fraction
    """The variances of the noise on columns and on chosen pairs."""
    event: Event
    neighbours: Neighbours


def all_pairs_fit(sizes: Sequence[int]) -> bool:
    """Whether every pair is measured at once: a question of sizes alone, never of the data."""
    pairs = [cells_of(axes, sizes) for axes in combinations(range(len(sizes)), 2)]
    few = len(sizes) <= MAX_FULLY_PAIRED_COLUMNS or sum(pairs) <= MAX_PAIR_CELLS
    return few and max(pairs, default=0) <= MAX_MARGINAL_CELLS and sum(pairs) + sum(sizes) <= MAX_TOTAL_CELLS


@lru_cache(maxsize=64)
def make_selection(
    sizes: tuple[int, ...], epsilon: Fraction, delta: Fraction, rows: int, neighbours: Neighbours
) -> Selection:
    """Return the rounds for columns of these sizes: as many as there are columns, less one."""
    columns = [(axis,) for axis in range(len(sizes))]
    pairs = combinations(range(len(sizes)), 2)
    candidates = tuple(axes for axes in pairs if cells_of(axes, sizes) <= MAX_CELLS_PER_PAIR)
    if not candidates:
        raise BadParameter(
            "No pair of these columns can be measured.",
            f"Each has more than {MAX_CELLS_PER_PAIR:,} cells.",
            "Take fewer bins, or columns with fewer values.",
        )
    check_sizes(sizes, columns)
    rho = concentrated_loss(epsilon, delta)
    if rho is None:
        raise BadParameter(
            "This epsilon is too small at this delta.", "No rho is left for it.", "Give a larger epsilon or delta."
        )
    squared, rounds = sensitivity_squared(rows, neighbours), min(len(sizes) - 1, len(candidates))
    one_way = squared * len(sizes) / (2 * ONE_WAYS_SHARE * rho)
    pair = squared * rounds / (2 * MEASURING_SHARE * rho)
    # ε²/8-zCDP each [CR21]; rounded down
    choice = Fraction(isqrt(int(8 * CHOOSING_SHARE * rho / rounds * _EPSILON_UNITS**2)), _EPSILON_UNITS)
    moved = rows * (2 if neighbours is Neighbours.REPLACE else 1)
    event = Composed(
        (
            Repeated(GaussianNoise(squared, one_way, neighbours), len(sizes)),
            Repeated(BoundedRange(choice, neighbours), rounds),
            Repeated(GaussianNoise(squared, pair, neighbours), rounds),
        )
    )
    return Selection(candidates, rounds, moved, choice, one_way, pair, event, neighbours)


def select(
    selection: Selection,
    sizes: tuple[int, ...],
    exact: Callable[[Axes], Counts],
    measure: MeasureMarginal,
    source: Source,
) -> tuple[list[Axes], list[Fraction], list[Counts]]:
    """Measure every column, then one selected pair after another; return the marginals with their variances.

    `exact` gives secret counts, which are used for the scores only.
    """
    marginals: list[Axes] = [(axis,) for axis in range(len(sizes))]
    variances = [selection.one_way] * len(sizes)
    tables = [measure(axes, selection.one_way) for axes in marginals]
    secret = {axes: exact(axes) for axes in selection.candidates}
    chooser = Exponential(selection.moved, selection.epsilon, selection.neighbours)
    for _ in range(selection.rounds):
        model = tree_pairs(sizes, marginals, variances, tables, selection.candidates)
        left = [axes for axes in selection.candidates if axes not in marginals]
        scores = [marginal_score(secret[axes], model[axes], selection.pair) for axes in left]
        chosen = left[chooser.release(scores, source)]
        marginals.append(chosen)
        variances.append(selection.pair)
        tables.append(measure(chosen, selection.pair))
    return marginals, variances, tables


def marginal_score(exact: Counts, model: Floats, variance: Fraction) -> int:
    """Return how far the model is from the counts, less what the noise of measuring them would be: an integer.

    One person's rows move it by at most their number, up or down; twice that if they are replaced.
    """
    rounded = np.rint(model).astype(np.int64)
    return int(np.abs(exact - rounded).sum()) - round(sqrt(2 / pi * float(variance)) * exact.size)


def tree_pairs(
    sizes: tuple[int, ...],
    marginals: Sequence[Axes],
    variances: Sequence[Fraction],
    tables: Sequence[Counts],
    wanted: Sequence[Axes],
) -> dict[Axes, Floats]:
    """Return the pair counts in the tree of measured marginals: exact, by products along its branches."""
    joint = combine(sizes, marginals, variances, tables)
    shares, total = targets(joint), max(joint.total, 0.0)
    order = spanning_tree(shares, len(sizes))
    given: dict[int, tuple[int, Floats]] = {}
    for new, known in order:
        if known is not None:
            pair = shares[min(new, known), max(new, known)]
            pair = pair if known < new else pair.T
            rows = pair.sum(axis=1, keepdims=True)
            given[new] = known, np.where(rows > 0, pair / np.where(rows > 0, rows, 1.0), shares[(new,)][None, :])
    found: dict[Axes, Floats] = {}
    together: dict[tuple[int, int], Floats] = {}
    for place, (new, _) in enumerate(order):
        for other, _ in order[:place]:
            if new in given:
                known, step = given[new]
                pair = np.diag(shares[(known,)]) if other == known else together[other, known]
                together[other, new] = pair @ step
            else:
                together[other, new] = np.outer(shares[(other,)], shares[(new,)])
            together[new, other] = together[other, new].T
    for axes in wanted:
        found[axes] = total * together[axes[0], axes[1]]
    return found
