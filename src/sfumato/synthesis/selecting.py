"""Which pairs to measure where all of them do not fit: chosen one after another by how far a model is from the data.

As in AIM [MMSM22], rounds begin with much noise, and cost four times as much from then on whenever a measurement says
no more than its noise. So a large table gets many pairs, and a small one few with less noise, without the number of
people being known. The most that rounds may spend together is fixed in advance. Estimates between rounds are sums of
components in closed form [Fuentes et al., arXiv:2602.05674]. Proof: proofs/selected_marginals.md
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import ceil, isqrt, pi, sqrt

import numpy as np

from sfumato.accounting.event import BoundedRange, Composed, Concentrated, Event, GaussianNoise, Neighbours, Repeated
from sfumato.caches import remembered
from sfumato.errors import BadParameter
from sfumato.mechanisms.exponential import Exponential
from sfumato.planning.concentrated_loss import concentrated_loss
from sfumato.randomness.source import Source
from sfumato.synthesis.combining import ComponentSums, Counts, JointEstimate
from sfumato.synthesis.design import (
    MAX_MARGINAL_CELLS,
    MAX_TOTAL_CELLS,
    POSITIONS_SHARE,
    Axes,
    cells_of,
    check_sizes,
    round_up_variance,
    sensitivity_squared,
)
from sfumato.synthesis.domain import Floats
from sfumato.synthesis.model import spanning_tree, targets

MAX_COLUMNS_WITH_ALL_PAIRS = 16
"""Maximum number of columns that are always measured with all their pairs."""
MAX_PAIR_CELLS = 18_000
"""More columns too, while all pairs together have no more cells; beyond, choosing errs less (docs/synthesis.md)."""
MAX_CELLS_PER_PAIR = 10**5
"""A pair of more cells is never chosen."""
ONE_WAYS_SHARE = Fraction(2, 10)
"""Share of rho for single columns; rounds spend the rest."""
CHOOSING_SHARE = Fraction(1, 10)
"""Share of a round for its choice; its measurement gets the rest."""
ROUNDS_PER_COLUMN = 16
"""Number of rounds per column, if all of them stay at the first price."""
PRICE_FACTOR = 4
"""By how much dearer rounds become where a measurement said no more than its noise: half the noise."""
REFRESH_GROWTH = Fraction(5, 4)
"""The model is computed anew when this many times as many rounds were done as at the last time."""
_MAX_MODEL_COUNT = 1 << 45
"""Larger counts of a model count as this much: noise may be of any size."""
_EPSILON_UNITS = 10**12
_EARLIER_CHOOSING_SHARE, _EARLIER_MEASURING_SHARE, _EARLIER_UNITS = Fraction(2, 10), Fraction(6, 10), 10**9

MeasureMarginal = Callable[[Axes, Fraction], Counts]
"""Gives a marginal with noise of this variance."""


@dataclass(frozen=True, slots=True)
class RoundPrice:
    """What one round does with its part of rho: the epsilon of its choice, and the variance of its measurement."""

    epsilon: Fraction
    variance: Fraction


@dataclass(frozen=True, slots=True)
class EarlierSelection:
    """What version 0.14 and earlier declared for the same columns and price: its releases stay known and free."""

    event: Event
    one_way: Fraction
    pair: Fraction


@dataclass(frozen=True, slots=True)
class Selection:
    """How pairs are chosen and measured: everything but which, and at which of the declared prices."""

    candidates: tuple[Axes, ...]
    squared: int
    """The squared L2 sensitivity of one marginal."""
    moved: int
    """The most that one person moves a score."""
    one_way: Fraction
    """The variance of the noise on single columns."""
    rho: Fraction
    """The most that all rounds may spend together."""
    rounds: int
    """The number of rounds, if all of them stay at the first price."""
    event: Event
    neighbours: Neighbours
    earlier: EarlierSelection
    fine_variance: Fraction | None = None
    """The variance of finer histograms of single columns, where there are any."""

    def price(self, rho: Fraction) -> RoundPrice:
        """Return what a round does that may spend `rho`: it spends no more. Proof: proofs/selected_marginals.md."""
        choosing = Fraction(isqrt(int(8 * CHOOSING_SHARE * rho * _EPSILON_UNITS**2)), _EPSILON_UNITS)  # ε²/8 [CR21]
        return RoundPrice(choosing, round_up_variance(self.squared / (2 * (1 - CHOOSING_SHARE) * rho)))


def all_pairs_fit(sizes: Sequence[int]) -> bool:
    """Whether every pair is measured at once: a question of sizes alone, never of the data."""
    pairs = [cells_of(axes, sizes) for axes in combinations(range(len(sizes)), 2)]
    few = len(sizes) <= MAX_COLUMNS_WITH_ALL_PAIRS or sum(pairs) <= MAX_PAIR_CELLS
    return few and max(pairs, default=0) <= MAX_MARGINAL_CELLS and sum(pairs) + sum(sizes) <= MAX_TOTAL_CELLS


@remembered(64)
def make_selection(
    sizes: tuple[int, ...], epsilon: Fraction, delta: Fraction, rows: int, neighbours: Neighbours, fine: int = 0
) -> Selection:
    """Return what rounds may do for columns of these sizes: all but which pairs they choose.

    `fine` further histograms of single columns share `POSITIONS_SHARE` of rho.
    """
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
    squared = sensitivity_squared(rows, neighbours)
    paired = (1 - POSITIONS_SHARE) * rho if fine else rho
    most = MAX_TOTAL_CELLS // max(cells_of(axes, sizes) for axes in candidates)
    return Selection(
        candidates,
        squared,
        rows * (2 if neighbours is Neighbours.REPLACE else 1),
        round_up_variance(squared * len(sizes) / (2 * ONE_WAYS_SHARE * paired)),
        (1 - ONE_WAYS_SHARE) * paired,
        min(ROUNDS_PER_COLUMN * len(sizes), len(candidates), most),
        Concentrated(rho, neighbours),
        neighbours,
        _earlier_selection(len(sizes), len(candidates), rho, squared, neighbours),
        round_up_variance(squared * fine / (2 * POSITIONS_SHARE * rho)) if fine else None,
    )


def _earlier_selection(
    columns: int, candidates: int, rho: Fraction, squared: int, neighbours: Neighbours
) -> EarlierSelection:
    rounds = min(columns - 1, candidates)
    one_way = squared * columns / (2 * ONE_WAYS_SHARE * rho)
    pair = squared * rounds / (2 * _EARLIER_MEASURING_SHARE * rho)
    choice = Fraction(isqrt(int(8 * _EARLIER_CHOOSING_SHARE * rho / rounds * _EARLIER_UNITS**2)), _EARLIER_UNITS)
    parts = (
        Repeated(GaussianNoise(squared, one_way, neighbours), columns),
        Repeated(BoundedRange(choice, neighbours), rounds),
        Repeated(GaussianNoise(squared, pair, neighbours), rounds),
    )
    return EarlierSelection(Composed(parts), one_way, pair)


def select(
    selection: Selection,
    sizes: tuple[int, ...],
    exact: Callable[[Axes], Counts],
    measure: MeasureMarginal,
    source: Source,
) -> tuple[list[Axes], list[Fraction], list[Counts]]:
    """Measure every column, then one selected pair after another; return the marginals with their variances.

    `exact` gives secret counts, which are used for the scores only. A pair may be chosen again, with less noise.
    """
    marginals: list[Axes] = [(axis,) for axis in range(len(sizes))]
    variances = [selection.one_way] * len(sizes)
    tables = [measure(axes, selection.one_way) for axes in marginals]
    sums = ComponentSums(sizes)
    for axes, table in zip(marginals, tables, strict=True):
        sums.add(axes, selection.one_way, table)
    candidates = selection.candidates
    secret = [exact(axes) for axes in candidates]
    cells = np.array([table.size for table in secret])
    left, rho = selection.rho, selection.rho / selection.rounds
    model, misfits, waiting, next_refresh, rounds = {}, np.zeros(0), np.zeros(0, dtype=bool), 0, 0
    while left > 0:
        rho = left if left < 2 * rho else rho  # the last round takes what is left
        price = selection.price(rho)
        if rounds >= next_refresh or waiting.all():
            model = predict_pairs(sums.estimate(), candidates)
            misfits = np.array([misfit(table, model[axes]) for axes, table in zip(candidates, secret, strict=True)])
            waiting = np.zeros(len(candidates), dtype=bool)  # chosen since then: the model does not know them yet
            next_refresh = max(rounds + 1, ceil(rounds * REFRESH_GROWTH))
        places = np.flatnonzero(~waiting)
        hidden = np.rint(np.minimum(_noise_of(price.variance), _MAX_MODEL_COUNT) * cells).astype(np.int64)
        scores = (misfits - hidden)[places]
        chooser = Exponential(selection.moved, price.epsilon, selection.neighbours)
        place = int(places[chooser.release(scores.tolist(), source)])
        chosen = candidates[place]
        table = measure(chosen, price.variance)
        marginals.append(chosen)
        variances.append(price.variance)
        tables.append(table)
        sums.add(chosen, price.variance, table)
        waiting[place] = True
        left -= rho
        rounds += 1
        if np.abs(table - model[chosen]).sum() <= _noise_of(price.variance) * table.size:
            rho, next_refresh = min(PRICE_FACTOR * rho, left), rounds
    return marginals, variances, tables


def _noise_of(variance: Fraction) -> float:
    """Return the mean size of the noise on a cell."""
    return sqrt(2 / pi * float(variance))


def misfit(exact: Counts, model: Floats) -> int:
    """Return how far the model is from the counts, in rows: an integer.

    One person's rows move it by at most their number, up or down; twice that if they are replaced. A model far beyond
    any count is cut, so that 64 bits hold the sum: proofs/selected_marginals.md.
    """
    rounded = np.rint(np.clip(model, -_MAX_MODEL_COUNT, _MAX_MODEL_COUNT)).astype(np.int64)
    return int(np.abs(exact - rounded).sum())


def predict_pairs(joint: JointEstimate, wanted: Sequence[Axes]) -> dict[Axes, Floats]:
    """Return the counts of pairs: as estimated where they were measured, otherwise from the tree of those that were."""
    shares, total = targets(joint), max(joint.total, 0.0)
    tree = tree_pairs(shares, len(joint.sizes))
    return {axes: total * (shares[axes] if axes in shares else tree[axes[0], axes[1]]) for axes in wanted}


def tree_pairs(shares: dict[Axes, Floats], columns: int) -> dict[tuple[int, int], Floats]:
    """Return the shares of all pairs in the tree of measured marginals: exact, by products along its branches."""
    order = spanning_tree(shares, columns)
    given: dict[int, tuple[int, Floats]] = {}
    for new, known in order:
        if known is not None:
            pair = shares[min(new, known), max(new, known)]
            pair = pair if known < new else pair.T
            rows = pair.sum(axis=1, keepdims=True)
            given[new] = known, np.where(rows > 0, pair / np.where(rows > 0, rows, 1.0), shares[(new,)][None, :])
    together: dict[tuple[int, int], Floats] = {}
    for index, (new, _) in enumerate(order):
        for other, _ in order[:index]:
            if new in given:
                known, step = given[new]
                pair = np.diag(shares[(known,)]) if other == known else together[other, known]
                together[other, new] = pair @ step
            else:
                together[other, new] = np.outer(shares[(other,)], shares[(new,)])
            together[new, other] = together[other, new].T
    return together
