"""Covariances, correlations and lines through noisy pairs: estimates, and many ratios at once.

Every one of them is a ratio of weighted sums of the noisy integers, if the true means (and for some one number more)
were known; and to first order it does not matter which number that is. Proof: proofs/intervals.md, 5
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf

import numpy as np

from sfumato.planning.aggregates.centred_sums import Centred
from sfumato.planning.aggregates.covariance import CorrelationColumn, CovarianceColumn, Pairs, RegressionColumn
from sfumato.release.aggregates.average import above_zero
from sfumato.release.aggregates.many_ratios import GroupSums, NumberWeights, added, deviations, times
from sfumato.release.aggregates.variance import divided_by, rows_divided_by, too_few, widest
from sfumato.release.intervals.form_algebra import sum_of
from sfumato.release.intervals.forms import NEVER, Affine, EnclosedNumbers, Ends, Events, Nulls, Ratio
from sfumato.release.intervals.measured_cells import MeasuredCells
from sfumato.release.intervals.noise_law import Floats, Integers

Paired = CovarianceColumn | RegressionColumn | CorrelationColumn

_OF_A_MEAN = Fraction(1, 20)
"""This share of what may be missed is spent on where each of the two means lies,"""
_OF_THE_REST = Fraction(1, 10)
"""this on the one number that a correlation or an intercept needs besides."""


def paired_point(made: Paired, measured: Mapping[str, Integers]) -> Floats:
    """Return the estimate; NaN where there are too few rows, or x (or y, for a correlation) does not vary."""
    pairs = made.pairs
    count, x, y, products = (measured[name].astype(np.float64) for name in pairs.measured)
    with np.errstate(all="ignore"):
        rows = above_zero(count)
        together = products - x * (y / rows)
        match made:
            case CovarianceColumn():
                divisor = rows_divided_by(made.divisor, count)
                most = float((pairs.x.high - pairs.x.low) * (pairs.y.high - pairs.y.low)) / 4 * count / divisor
                return np.clip(together / divisor, -most, most) * float(made.step)
            case RegressionColumn():
                squares = above_zero(measured[made.x_squares].astype(np.float64) - x * (x / rows))
                slope = together / squares
                along, above = pairs.x.offset + x / rows, pairs.y.offset + y / rows
                return np.asarray((above - slope * along if made.intercept else slope) * float(made.step))
            case CorrelationColumn():
                of_x = above_zero(measured[made.x_squares].astype(np.float64) - x * (x / rows))
                of_y = above_zero(measured[made.y_squares].astype(np.float64) - y * (y / rows))
                found = np.clip(together / np.sqrt(of_x) / np.sqrt(of_y), -1, 1)
                return np.asarray(found**2 if made.square else found)


def paired_form(label: str, made: Paired, cells: MeasuredCells, rows: int) -> EnclosedNumbers:
    """Return the box of the ends that are farthest over all means, and over the one number besides."""
    known = _PairSums(GroupSums(cells, label, rows), made.pairs, sum_of(cells, label, {made.pairs.count: 1.0}, rows))
    one = np.ones(rows, dtype=np.int64)
    events: Events = {(label, made.name): one}
    match made:
        case CovarianceColumn():
            nulls = too_few(known.under, made.divisor.fewest)
            return EnclosedNumbers(
                events, known.under.events, _unless_near(known.under, _covariances(made, known)), nulls
            )
        case RegressionColumn():
            ends = _intercepts(made, known) if made.intercept else _slopes(made, known)
            nulls = _may_not_vary(known, (made.x_squares, None))
            return EnclosedNumbers(events, {(label, made.name, "varies"): one}, _unless_near(known.under, ends), nulls)
        case CorrelationColumn():
            nulls = _may_not_vary(known, (made.x_squares, made.y_squares))
            ends = _squares(_correlations(made, known)) if made.square else _correlations(made, known)
            return EnclosedNumbers(events, {(label, made.name, "varies"): one}, _unless_near(known.under, ends), nulls)


@dataclass(frozen=True, slots=True)
class _Means:
    """A mean of x and one of y, from their offsets."""

    x: Floats
    y: Floats


@dataclass(frozen=True, slots=True)
class _PairSums:
    """The sums of pairs, and what follows from them once the means are known."""

    sums: GroupSums
    pairs: Pairs
    under: Affine

    def together(self, means: _Means) -> NumberWeights:
        """Return SXY."""
        pairs = self.pairs
        return deviations(pairs.count, (pairs.x_total, pairs.y_total), pairs.products, (means.x, means.y))

    def squares_of_x(self, squares: str, means: _Means) -> NumberWeights:
        """Return SXX."""
        return deviations(self.pairs.count, (self.pairs.x_total,) * 2, squares, (means.x, means.x))

    def squares_of_y(self, squares: str, means: _Means) -> NumberWeights:
        """Return SYY."""
        return deviations(self.pairs.count, (self.pairs.y_total,) * 2, squares, (means.y, means.y))

    def means(self, tail: Fraction) -> list[_Means]:
        """Return the estimated means, and the corners of where the true ones lie, but for twice the tail.

        The change of a sum by another mean is bilinear, and the noise's reach convex: corners are the farthest.
        """
        x, y = self._mean(self.pairs.x_total, self.pairs.x, tail), self._mean(self.pairs.y_total, self.pairs.y, tail)
        return [_Means(x[1], y[1]), *(_Means(x[one], y[other]) for one in (0, 2) for other in (0, 2))]

    def _mean(self, total: str, grid: Centred, tail: Fraction) -> tuple[Floats, Floats, Floats]:
        over, rows = sum_of(self.sums.cells, self.sums.label, {total: 1.0}, self.sums.rows), self.sums.rows
        low, high = (np.full(rows, float(end - grid.offset)) for end in (grid.low, grid.high))
        least, most = Ratio(over, self.under, low, high, (self.under,)).ends(tail)
        with np.errstate(all="ignore"):
            centre = np.where(self.under.centre > 0, over.centre / self.under.centre, 0)
        return least, np.clip(centre, least, most), most


def _unless_near(under: Affine, ends: Callable[[Fraction], Ends]) -> Callable[[Fraction], Ends]:
    """Return the same ends, but all that is possible where a count is so near the threshold that it says too little."""

    def found(tail: Fraction) -> Ends:
        if tail == NEVER:
            return ends(tail)
        near, (low, high), (least, most) = under.near(tail), ends(tail), ends(NEVER)
        return np.where(near, least, low), np.where(near, most, high)

    return found


def _covariances(made: CovarianceColumn, known: _PairSums) -> Callable[[Fraction], Ends]:
    pairs, step = made.pairs, float(made.step)
    most = widest(float(pairs.x.high - pairs.x.low), float(pairs.y.high - pairs.y.low), made.divisor)
    divisor, less = divided_by(made.divisor, pairs.count)

    def ends(tail: Fraction) -> Ends:
        if tail == NEVER:
            return np.full(known.sums.rows, -most * step), np.full(known.sums.rows, most * step)
        points = [(known.together(means), divisor) for means in known.means(tail * _OF_A_MEAN)]
        low, high = known.sums.ratios(points, less, float(tail * (1 - 2 * _OF_A_MEAN)), (-most, most))
        return low * step, high * step

    return ends


def _slopes(made: RegressionColumn, known: _PairSums) -> Callable[[Fraction], Ends]:
    step = float(made.step)

    def ends(tail: Fraction) -> Ends:
        if tail == NEVER:
            return _anything(known)
        low, high = _slope(made, known, known.means(tail * _OF_A_MEAN), tail * (1 - 2 * _OF_A_MEAN))
        return low * step, high * step

    return ends


def _slope(made: RegressionColumn, known: _PairSums, means: Sequence[_Means], tail: Fraction) -> Ends:
    """Return SXY/SXX in steps; where SXX cannot be told from 0, it may be anything."""
    points = [(known.together(mean), known.squares_of_x(made.x_squares, mean)) for mean in means]
    return known.sums.ratios(points, 0.0, float(tail), (-inf, inf))


def _intercepts(made: RegressionColumn, known: _PairSums) -> Callable[[Fraction], Ends]:
    """Return where intercepts lie.

    With b the true slope SXY - b·SXX is 0. So the intercept is (Σy - bΣx + λ(SXY - b·SXX))/N whatever λ is; with
    λ = -Σx/SXX it does not depend on b to first order.
    """
    pairs, step = made.pairs, float(made.step)

    def ends(tail: Fraction) -> Ends:
        if tail == NEVER:
            return _anything(known)
        means = known.means(tail * _OF_A_MEAN)
        low, high = _slope(made, known, means, tail * _OF_THE_REST)
        bounded = np.isfinite(low) & np.isfinite(high)
        low, high = np.where(bounded, low, 0.0), np.where(bounded, high, 0.0)
        x_sum = {pairs.x_total: 1.0, pairs.count: float(pairs.x.offset)}
        y_sum = {pairs.y_total: 1.0, pairs.count: float(pairs.y.offset)}
        squares = known.sums.value(known.squares_of_x(made.x_squares, means[0]))
        with np.errstate(all="ignore"):
            middle = np.clip(known.sums.value(known.together(means[0])) / squares, low, high)
            turned = np.where(squares > 0, -known.sums.value(x_sum) / squares, 0.0)
        points = []
        for one, slope in _around(means, (low, np.where(bounded, middle, 0.0), high)):
            together, of_x = known.together(one), known.squares_of_x(made.x_squares, one)
            nothing = times(added(together, times(of_x, -slope)), turned)
            points.append((added(y_sum, times(x_sum, -slope), nothing), {pairs.count: 1.0}))
        rest = float(tail * (1 - 2 * _OF_A_MEAN - _OF_THE_REST))
        least, most = known.sums.ratios(points, 0.0, rest, (-inf, inf))
        return np.where(bounded, least * step, -inf), np.where(bounded, most * step, inf)

    return ends


def _correlations(made: CorrelationColumn, known: _PairSums) -> Callable[[Fraction], Ends]:
    """Return where correlations lie.

    √(SXX·SYY) is the least of (t·SXX + SYY/t)/2 over t, and is it at the true t = √(SYY/SXX): there the correlation is
    a ratio of two weighted sums, which does not depend on t to first order.
    """

    def ends(tail: Fraction) -> Ends:
        rows = known.sums.rows
        if tail == NEVER:
            return np.full(rows, -1.0), np.full(rows, 1.0)
        means = known.means(tail * _OF_A_MEAN)
        spreads = [
            (known.squares_of_x(made.x_squares, mean), known.squares_of_y(made.y_squares, mean)) for mean in means
        ]
        turned = [(of_y, of_x) for of_x, of_y in spreads]
        low, high = known.sums.ratios(turned, 0.0, float(tail * _OF_THE_REST), (0.0, inf))
        bounded = (low > 0) & np.isfinite(high)
        low, high = np.where(bounded, low, 1.0), np.where(bounded, high, 1.0)
        of_x, of_y = (known.sums.value(weights) for weights in spreads[0])
        with np.errstate(all="ignore"):
            middle = np.clip(np.where((of_x > 0) & (of_y > 0), of_y / of_x, low), low, high)
        points = []
        for one, root in _around(means, (np.sqrt(low), np.sqrt(middle), np.sqrt(high))):
            of_both = known.squares_of_x(made.x_squares, one), known.squares_of_y(made.y_squares, one)
            points.append((known.together(one), added(times(of_both[0], root / 2), times(of_both[1], 0.5 / root))))
        rest = float(tail * (1 - 2 * _OF_A_MEAN - _OF_THE_REST))
        least, most = known.sums.ratios(points, 0.0, rest, (-1.0, 1.0))
        return np.where(bounded, least, -1.0), np.where(bounded, most, 1.0)

    return ends


def _around(means: Sequence[_Means], others: tuple[Floats, Floats, Floats]) -> Iterator[tuple[_Means, Floats]]:
    """Give the points that are tried: one number moves at a time, because what two do together is smaller still."""
    low, middle, high = others
    yield from ((mean, middle) for mean in means)
    yield from ((means[0], low), (means[0], high))


def _squares(find: Callable[[Fraction], Ends]) -> Callable[[Fraction], Ends]:
    """Return where the squares of correlations lie."""

    def ends(tail: Fraction) -> Ends:
        low, high = find(tail)
        least = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(low**2, high**2))
        return least, np.maximum(low**2, high**2)

    return ends


def _may_not_vary(known: _PairSums, squares: tuple[str, str | None]) -> Callable[[Fraction], Nulls]:
    """Return where a value may be NULL: where x (or y, if its squares are given) may not vary, as without any pair."""

    def nulls(tail: Fraction) -> Nulls:
        if tail == NEVER:  # whatever the data: there may be no pair
            return np.ones(known.sums.rows, dtype=bool), np.zeros(known.sums.rows, dtype=bool)
        means = known.means(tail * _OF_A_MEAN)
        rest = float(tail * (1 - 2 * _OF_A_MEAN) / 2)
        maybe = np.zeros(known.sums.rows, dtype=bool)
        spreads = [[known.squares_of_x(squares[0], mean) for mean in means]]
        spreads += [] if squares[1] is None else [[known.squares_of_y(squares[1], mean) for mean in means]]
        for spread in spreads:
            nothing: NumberWeights = {}
            low, _ = known.sums.ratios([(one, nothing) for one in spread], -1.0, rest, (0.0, inf))
            maybe = maybe | (low <= 0)
        return maybe, np.zeros_like(maybe)

    return nulls


def _anything(known: _PairSums) -> Ends:
    return np.full(known.sums.rows, -inf), np.full(known.sums.rows, inf)
