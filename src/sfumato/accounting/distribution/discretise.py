"""One curve becomes probabilities on a lattice of losses: one law above it, one below it.

Slopes e^(ih) cut the curve. *Above*: the polygon through the curve's own points ("connect the dots" [DGKKM22]).
*Below*: a polygon with corners at such slopes that never rises over lines P(E) - x Q(E), nor do these over the curve.
Both miss the curve by a second-order term in h, where rounding each loss to the lattice would miss it by a first-order
one. Theorem: proofs/pld_grid.md
"""

import math
from dataclasses import dataclass

import numpy as np

from sfumato.accounting.distribution.curves import (
    MAX_LOG_RATIO,
    ROUNDOFF,
    SPECIAL_FUNCTION_ERROR,
    Floats,
    Line,
    PairCurve,
)

_ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Cut:
    """The losses `offset + i * unit` for i from `first` to `last`."""

    unit: float
    offset: float
    first: int
    last: int

    @property
    def points(self) -> Floats:
        """Return the losses, in ascending order."""
        return self.offset + np.arange(self.first, self.last + 1, dtype=np.float64) * np.float64(self.unit)


@dataclass(frozen=True, slots=True)
class LatticeLaw:
    """`masses[i]` is the probability of the loss `offset + (first + i) * unit`; `infinite` of an infinite loss."""

    masses: Floats
    first: int
    infinite: float
    offset: float = 0.0

    @property
    def excess(self) -> float:
        """Return by how much all probabilities together exceed 1, as they may above the curve."""
        rounding = ROUNDOFF * (8 + 2 * math.log2(len(self.masses)))
        return max(0.0, float(self.masses.sum()) + self.infinite - 1.0) + rounding


def law_above(curve: PairCurve, cut: Cut) -> LatticeLaw:
    """Return a law on the lattice and at infinity whose curve lies nowhere below `curve`."""
    points = cut.points
    values = np.minimum(curve.above(points - 4 * ROUNDOFF * np.abs(points)), 1.0)
    steps = np.maximum(values[:-1] - values[1:], 0.0)
    # survival[i] = P[loss > i-th point]: where the chord between two neighbouring slopes meets x = 0
    survival = (values[1:] + steps / -math.expm1(-cut.unit)) * (1 + SPECIAL_FUNCTION_ERROR)
    survival = np.concatenate([[1.0], survival, [values[-1]]])
    survival = np.maximum.accumulate(survival[::-1])[::-1]  # only ever raised: proofs/pld_grid.md, step 4
    return LatticeLaw(survival[:-1] - survival[1:], cut.first, float(survival[-1]), cut.offset)


def law_below(curve: PairCurve, cut: Cut) -> LatticeLaw:
    """Return a law on the lattice and at infinity whose curve lies nowhere above `curve`."""
    # Beyond FURTHEST, e^t and Q(E) leave the range of floats: such losses count as FURTHEST, which is below them.
    cut = Cut(cut.unit, cut.offset, cut.first, min(cut.last, math.floor((MAX_LOG_RATIO - cut.offset) / cut.unit) - 1))
    middles = cut.points[:-1] + cut.unit / 2
    line = curve.below(middles)
    offset = 0.0 if cut.offset else _concentration_start(cut, line)
    if offset:  # the cell from 0 to unit becomes the first one, and begins at `offset`; its line stays as it is
        at = np.append(cut.unit / 2, offset + middles[1 - cut.first :])
        cut = Cut(cut.unit, offset, 0, cut.last)
        top, heights = _heights(cut, Tangents(at, curve.below(at)), curve.infinite, begins=True)
    else:
        tangents = _at_ends(curve, cut, Tangents(middles, line))
        top, heights = _heights(cut, tangents, curve.infinite, begins=False)
    corners, survival = _convex(heights, cut.unit)
    survival = np.concatenate([[top], survival * (1 - SPECIAL_FUNCTION_ERROR), [curve.infinite]])
    survival = np.minimum.accumulate(np.minimum(survival, 1.0))  # only ever lowered
    masses = np.zeros(len(heights))
    masses[corners] = survival[:-1] - survival[1:]
    return LatticeLaw(masses, cut.first, float(survival[-1]), cut.offset)


@dataclass(frozen=True, slots=True)
class Tangents:
    """In each cell the line of one set, named for the slope e^`at` there."""

    at: Floats
    line: Line

    def ends(self, cut: Cut) -> tuple[Floats, Floats]:
        """Return lower bounds on each line's height at the left and at the right end of its cell."""
        value, least, most = self.line
        points = cut.points[:-1]
        x = np.exp(np.minimum(points, MAX_LOG_RATIO))
        to_left = np.expm1(np.maximum(self.at - points, 0.0))
        to_right = np.maximum(math.expm1(cut.unit) - to_left, 0.0)
        # lattice points and `at` carry a rounding of 2u |t|, which moves a height by at most that times x Q(E)
        with np.errstate(over="ignore", invalid="ignore"):
            slack = x * most * (SPECIAL_FUNCTION_ERROR * cut.unit + 16 * ROUNDOFF * (np.abs(points) + cut.unit))
            left = np.nan_to_num(value + x * least * to_left - slack, nan=-1.0)
            right = np.nan_to_num(value - x * most * to_right - slack, nan=-1.0)
        return left, right


def _full_set_height(cut: Cut) -> Floats:
    """Return 1 - x, the height of the set of everything, rounded down."""
    heights = -np.expm1(np.minimum(cut.points, 1.0))
    return heights - 8 * ROUNDOFF * (np.abs(heights) + np.abs(cut.points))


def _at_ends(curve: PairCurve, cut: Cut, tangents: Tangents) -> Tangents:
    """Touch the curve at the left end of cells whose line falls below 1 - x, at the right end if below the floor.

    Extreme losses that have probability lie at such ends: there the line meets 1 - x, or the floor, exactly.
    """
    left, right = tangents.ends(cut)
    low = (left < _full_set_height(cut)[:-1]) & (cut.points[1:] < 0)
    high = (right < curve.infinite) & (cut.points[:-1] > 0)
    at = np.where(low, cut.points[:-1], np.where(high, cut.points[1:], tangents.at))
    moved = np.flatnonzero(low | high)
    value, least, most = (part.copy() for part in tangents.line)
    value[moved], least[moved], most[moved] = curve.below(at[moved])
    return Tangents(at, (value, least, most))


def _concentration_start(cut: Cut, line: Line) -> float:
    """Return where the lattice must begin if almost all losses lie within a small part of one unit below 0, else 0.

    Seldom drawn people: nearly every loss is ln(1 - rate), and a lattice with no point near it would merge everything.
    The line of the set at unit/2 meets 1 - x at the mean ratio of what is not in the set: there the lattice begins.
    """
    zero = -cut.first
    if not 0 < zero < len(line[0]):
        return 0.0
    value, mass = float(line[0][zero]), float(line[1][zero] + line[2][zero]) / 2
    if mass >= 0.5:
        return 0.0
    offset = math.log1p(-(value + math.expm1(cut.unit / 2) * mass) / (1 - mass))
    return offset if -cut.unit / 4 < offset < 0 else 0.0


def _heights(cut: Cut, tangents: Tangents, floor: float, *, begins: bool) -> tuple[float, Floats]:
    """Return the height at x = 0 and at the lattice slopes: in each cell below its line, or 1 - x if that is higher.

    `begins`: the lattice begins where the first line meets 1 - x. Otherwise, if the first line lies above 1 - x, the
    lattice begins in the midst of the losses, and those below it are dropped.
    """
    left, right = tangents.ends(cut)
    everything = _full_set_height(cut)
    whole = (left < everything[:-1]) & (cut.points[1:] < 0)
    whole[0] &= not begins
    left, right = np.where(whole, everything[:-1], left), np.where(whole, everything[1:], right)
    top, start = 1.0, everything[0]
    if left[0] > everything[0] and not begins:
        value, least, _ = tangents.line
        top, start = float(value[0] + math.exp(tangents.at[0]) * least[0]) * (1 - SPECIAL_FUNCTION_ERROR), left[0]
    heights = np.minimum(np.append(start, right), np.append(left, floor))
    low = int(np.flatnonzero(heights <= floor)[0])
    # Where the line before the end falls below the floor, no chord may reach it: the floor begins a point earlier.
    heights[low if low > 0 and right[low - 1] >= floor else max(0, low - 1) :] = floor
    return min(top, 1.0), heights


def _convex(heights: Floats, unit: float) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Floats]:
    """Drop corners that point up until none is left; return those kept and where each chord meets x = 0."""
    kept = np.arange(len(heights))
    for _ in range(_ROUNDS):
        survival = _intercepts(heights[kept], np.diff(kept) * unit)
        # a run of corners that all point up is concave: the chord that replaces it lies below it
        good = np.concatenate([[True], survival[:-1] >= survival[1:], [True]])
        if good.all():
            break
        kept = kept[good]
    return kept, _intercepts(heights[kept], np.diff(kept) * unit)


def _intercepts(heights: Floats, widths: Floats) -> Floats:
    return np.asarray(heights[1:] - (heights[:-1] - heights[1:]) / np.expm1(-widths))
