"""A convolved lattice law read as a curve: delta at any epsilon in one lookup, with every error counted.

Sums over the tail of the law are taken once, from above, as recurrences of positive terms. A bound at one epsilon also
holds at its neighbours, because delta never increases with epsilon. Theorem: proofs/pld_grid.md, step 5
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import signal

from sfumato.accounting.distribution.curves import ROUNDOFF, Floats, Line
from sfumato.accounting.distribution.tilted_fft import TiltedLaw

_STRIDE_POINTS = 16


@dataclass(frozen=True, slots=True)
class Convolved:
    """The curve of a convolved law, in units that grow as e^(log_scale - theta t): see `sum_from_above`."""

    heights: Floats  # delta at lattice point j, times e^(theta t_j - log_scale)
    slopes: Floats  # Q[L >= t_j], times e^((theta + 1) t_j - log_scale)
    first: int
    unit: float
    offset: float
    theta: float
    log_scale: float
    doubt: float  # absolute error of `heights`
    mass_doubt: float  # absolute error of `slopes`
    relative: float  # relative error of everything
    infinite: float
    sure: Floats  # the largest lower bound on delta at every 16th lattice point from the j-th of them on
    possible: Floats  # the least upper bound on delta at every 16th lattice point up to the j-th of them

    def above(self, epsilon: Floats) -> Floats:
        """Return upper bounds on delta(epsilon)."""
        near = epsilon - 8 * ROUNDOFF * (np.abs(epsilon) + abs(self.offset) + self.unit)
        index, line, scale, _ = self._segment(near)
        with np.errstate(over="ignore", invalid="ignore"):
            upper = line * (1 + self.relative) * scale + self.doubt * self._error_scale(near)
        before = np.where(index > 0, self.possible[np.maximum(index - 1, 0) // _STRIDE_POINTS], 1.0)
        upper = np.fmin(upper, before)  # fmin and fmax: a NaN says nothing
        return np.minimum((upper + self.infinite) * (1 + 8 * ROUNDOFF), 1.0)

    def below(self, epsilon: Floats) -> Line:
        """Return lower bounds on delta(epsilon) and bounds on the slope of the line that gives them."""
        far = epsilon + 8 * ROUNDOFF * (np.abs(epsilon) + abs(self.offset) + self.unit)
        index, line, scale, mass = self._segment(far)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            lower = line * (1 - self.relative) * scale - self.doubt * self._error_scale(far)
            lower = np.nan_to_num(lower, nan=0.0, neginf=0.0, posinf=0.0)
            least = np.maximum(self.slopes[index] * (1 - self.relative) - self.mass_doubt, 0.0) * mass
            most = (self.slopes[index] * (1 + self.relative) + self.mass_doubt) * mass
        return (lower + self.infinite) * (1 - 8 * ROUNDOFF), least, np.nan_to_num(most, nan=np.inf)

    def least(self, epsilon: float) -> float:
        """Return the best lower bound on delta(epsilon): at epsilon, or at any lattice point above it."""
        value = float(self.below(np.array([epsilon]))[0][0])
        index = -(-max(0, math.ceil((epsilon - self.offset) / self.unit) - self.first + 1) // _STRIDE_POINTS)
        later = float(self.sure[index]) + self.infinite if index < len(self.sure) else 0.0
        return max(value, later * (1 - 8 * ROUNDOFF), 0.0)

    def _error_scale(self, epsilon: Floats) -> Floats:
        """Return the scale of mass that may lie anywhere above epsilon, also before the lattice begins."""
        return np.asarray(np.exp(self.log_scale - self.theta * epsilon) * (1 + self.relative))

    def _segment(self, epsilon: Floats) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Floats, Floats, Floats]:
        """Return the lattice point that ends epsilon's segment, its line at epsilon, and the scales of delta and Q."""
        position = np.floor((epsilon - self.offset) / self.unit) - self.first + 1
        index = np.clip(np.nan_to_num(position), 0, len(self.heights) - 1).astype(np.int64)
        ends = self.offset + (self.first + index) * self.unit
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            line = self.heights[index] + np.maximum(-np.expm1(epsilon - ends), 0.0) * self.slopes[index]
            scale = np.exp(self.log_scale - self.theta * ends)
            mass = np.exp(self.log_scale - (self.theta + 1) * ends)
        return index, line, scale, mass


def sum_from_above(law: TiltedLaw, offset: float, infinite: float) -> Convolved:
    """Sum a convolved law from above, for epsilon >= 0; `offset` moves its losses, `infinite` lies at infinity."""
    theta, unit = law.theta, law.unit
    # Points before the window, whose own mass is part of `spill`: from them delta is known below the window, too.
    before = min(1 << 14, math.ceil(30 / ((theta + 1) * unit)) + 1)
    masses, first = np.concatenate([np.zeros(before), law.masses]), law.first - before
    size = len(masses)
    shift = theta * offset  # tilted masses belong to losses without the offset
    fall, step = math.exp(-(theta + 1) * unit), -math.expm1(-unit)
    # slopes[j] = w_j + e^(-(theta+1)h) slopes[j+1]; heights[j] = e^(-theta h) (heights[j+1] + (1 - e^-h) slopes[j+1])
    slopes = signal.lfilter([1.0], [1.0, -fall], masses[::-1])
    slow = math.exp(-theta * unit)
    heights = signal.lfilter([0.0, slow * step], [1.0, -slow], slopes)[::-1]
    slopes = slopes[::-1]
    del masses
    # A mass in the wrong place weighs at most max (1 - e^-v) e^(-theta v) <= 1/(theta + 1). Errors of one size at every
    # lattice point add up to the integral of that function over the unit and, as it has one hump, once its maximum.
    errors = min(float(size), 1 / (unit * theta) + 1) if theta > 0 else float(size)
    doubt = (law.pointwise * errors + law.spill) / (theta + 1) * math.exp(min(theta * unit, 700.0)) * 1.001
    mass_doubt = (law.pointwise / -math.expm1(-(theta + 1) * unit) + law.spill) * math.exp(
        min((theta + 1) * unit, 700.0)
    )
    ends = np.abs(np.array([first, first + size], dtype=np.float64) * unit).max() + abs(offset)
    relative = math.expm1(
        min(50.0, law.relative + ROUNDOFF * (64 + 6 * size + 8 * abs(law.log_scale) + 8 * (theta + 1) * float(ends)))
    )
    scaled = law.log_scale + shift
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        some = heights[::_STRIDE_POINTS]
        scale = np.exp(scaled - theta * (offset + (first + np.arange(0, size, _STRIDE_POINTS)) * unit))
        low = np.nan_to_num((some * (1 - relative) - doubt) * scale, nan=0.0, posinf=0.0, neginf=0.0)
        high = np.nan_to_num((some * (1 + relative) + doubt) * scale, nan=np.inf, posinf=np.inf)
    sure = np.maximum.accumulate(low[::-1])[::-1]
    possible = np.minimum.accumulate(high)
    # epsilon is never negative: masses well below 0 have been summed and are dropped
    start = min(max(0, math.floor(-offset / unit) - 4 - first), size - 2) // _STRIDE_POINTS
    heights, slopes = heights[start * _STRIDE_POINTS :].copy(), slopes[start * _STRIDE_POINTS :].copy()
    sure, possible, first = sure[start:].copy(), possible[start:].copy(), first + start * _STRIDE_POINTS
    return Convolved(
        heights, slopes, first, unit, offset, theta, scaled, doubt, mass_doubt, relative, infinite, sure, possible
    )
