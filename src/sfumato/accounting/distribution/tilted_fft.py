"""Sums of independent losses on one lattice, convolved by a tilted FFT whose every error is part of the answer.

`prepare(masses, unit, target)` convolves once; `Prepared.delta(epsilon)` then costs one pass over the result, so that
solving for epsilon costs one FFT. `convolved_delta` does both for one epsilon. A law is `(array, first, times)`:
`array[i]` is the probability of the loss `(first + i) * unit`, and the law is convolved with itself `times` times.
An array may sum to less than 1 (mass that was dropped, or that lies at +infinity and is passed as `infinite`).

Each law is multiplied by e^(theta loss), which moves its bulk to the losses that decide delta(epsilon): rounding errors
of the FFT are then relative to delta and not to 1. Theorem and error terms: proofs/pld_lattice.md
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from sfumato.errors import UnsupportedEvent

Floats = NDArray[np.float64]
RepeatedLaw = tuple[Floats, int, int]
Logged = tuple[Floats, Floats, int]
"""Losses, logarithms of their masses, times: the same law without its empty places."""

ROUNDOFF = 2.0**-53
_MAX_SPILLED_PROBABILITY = 1e-13  # tilted mass that may lie outside the window
_MAX_FFT_POINTS = 1 << 21  # points of one FFT: 16 MB for its half spectrum, about 120 MB in total
_MAX_SPARSE_ATOMS = 8  # laws with at most this many atoms are transformed exactly, by definition
_MAX_TILT = 1e7
_THINNED_POINTS = 2048  # points by which a tilt is looked for
_MAX_EXPONENT_STEP = 0.3  # change of the tilt's exponent from one such point to the next


@dataclass(frozen=True, slots=True)
class TiltedLaw:
    """A convolved, tilted law: `masses[i]` is the tilted probability of the loss `(first + i) * unit`."""

    masses: Floats
    first: int
    unit: float
    theta: float
    log_scale: float  # delta(epsilon) = sum of masses * e^(log_scale - theta loss) * (1 - e^(epsilon - loss))
    pointwise: float  # no tilted mass is further than this from the truth, wrap-around aside
    spill: float  # tilted mass outside the window, all of which may have been wrapped into it
    relative: float  # relative error of all positive factors together, as a logarithm
    largest: int  # no loss exceeds largest * unit

    def delta(self, epsilon: float, infinite: float = 0.0) -> tuple[float, float]:
        """Return bounds on delta at `epsilon` (of any sign); `infinite` is mass at +infinity, counted by both."""
        if epsilon >= self.largest * self.unit + 4 * ROUNDOFF * abs(self.largest * self.unit):
            return max(0.0, infinite * (1 - 4 * ROUNDOFF)), min(1.0, infinite * (1 + 4 * ROUNDOFF))
        start = max(0, math.floor(epsilon / self.unit) - self.first - 1)
        reach = len(self.masses) if self.theta == 0 else math.ceil(60.0 / (self.theta * self.unit)) + 2
        stop = min(len(self.masses), start + reach)
        losses = (self.first + np.arange(start, stop, dtype=np.float64)) * self.unit
        above = losses - epsilon
        slack = 4 * ROUNDOFF * (np.abs(losses) + abs(epsilon))
        decay = np.exp(-self.theta * np.maximum(above, 0.0))
        most = decay * -np.expm1(-np.maximum(above + slack, 0.0))
        least = decay * -np.expm1(-np.maximum(above - slack, 0.0))
        part = self.masses[start:stop]
        sure = max(0.0, float(np.dot(part, least)))  # masses were clipped at 0: no cancellation in these sums
        possible = float(np.dot(part, most))
        noise = self.pointwise * float(most.sum())
        # (1 - e^-u) e^(-theta u) <= 1/(theta + 1) for every u >= 0: the weight of mass that is not where it belongs
        stray = self.spill / (self.theta + 1.0)
        if stop < len(self.masses):
            stray += 1e-26  # e^-60: what lies beyond `reach`, of total mass at most 1
        exponent = self.log_scale - self.theta * epsilon
        far = float(np.abs(losses).max(initial=0.0)) + abs(epsilon)
        relative = self.relative + ROUNDOFF * (64 + 8 * abs(self.log_scale) + 8 * self.theta * far)
        upper = (possible + noise + stray) * (1 + relative) * _directed_exp(exponent, 1) + infinite
        lower = (sure - noise - stray) * max(0.0, 1 - relative) * _directed_exp(exponent, -1) + infinite
        return max(0.0, lower * (1 - 8 * ROUNDOFF)), min(1.0, upper * (1 + 8 * ROUNDOFF))


def convolved_delta(
    masses: Sequence[RepeatedLaw], unit: float, epsilon: float, infinite: float, target: float, mass_error: float = 0.0
) -> tuple[float, float]:
    """Return certified bounds on delta(epsilon) of the sum of these independent losses.

    `infinite` is the mass at +infinity to add (0 if there is none). `target` guesses delta(epsilon) and only chooses
    the tilt: a wrong guess widens the bounds and breaks nothing. `mass_error` bounds the relative error of each mass.
    """
    return tilted_law(masses, unit, target, epsilon=epsilon, mass_error=mass_error).delta(epsilon, infinite)


def tilted_law(
    masses: Sequence[RepeatedLaw], unit: float, target: float, epsilon: float | None = None, mass_error: float = 0.0
) -> TiltedLaw:
    """Convolve laws on the lattice of `unit`, tilted for the epsilon at which delta is about `target`.

    A given `epsilon` chooses the tilt instead of `target`. Theorem: proofs/pld_lattice.md
    """
    laws = [_trim_law(law) for law in masses]
    laws = [law for law in laws if law[2] > 0]
    if any(not len(law[0]) for law in laws):  # a law without mass: so is the sum
        return TiltedLaw(np.zeros(1), 0, unit, 0.0, 0.0, 0.0, 0.0, 0.0, 0)
    logged = _log_laws(laws, unit)
    rough = [_thin_law(law) for law in logged]
    theta = _tilt(rough, target, epsilon)
    if theta * _widest_step(rough) > _MAX_EXPONENT_STEP:  # too steep for a thinned law to tell
        rough, theta = logged, _tilt(logged, target, epsilon)
    tilted, log_scale, relative = _tilt_laws(laws, logged, unit, theta)
    relative += mass_error * 1.01 * sum(times for _, _, times in laws)
    low = sum(first * times for _, first, times in laws)
    high = sum((first + len(law) - 1) * times for law, first, times in laws)
    start, stop, spill = _window(logged, rough, unit, theta, low, high)
    points = 1 << max(1, (stop - start).bit_length())
    if points > _MAX_FFT_POINTS:
        raise UnsupportedEvent(
            f"a sum of losses on {points} lattice points",
            "privacy loss distribution",
            "The lattice is finer than memory allows.",
            "Use events with a coarser common unit.",
        )
    convolved, pointwise = _convolve(tilted, points, start)
    spill += 1e-290 * sum(len(law) * times for law, _, times in laws)  # masses that underflowed
    relative = math.expm1(min(50.0, relative * 1.01))
    convolved = np.maximum(convolved[: stop - start + 1], 0.0)  # `spill` includes the mass wrapped beyond `stop`
    return TiltedLaw(convolved, start, unit, theta, log_scale, pointwise, spill, relative, high)


def _trim_law(law: RepeatedLaw) -> RepeatedLaw:
    array, first, times = law
    (kept,) = np.nonzero(array)
    if not len(kept):
        return np.zeros(0), 0, times
    return np.ascontiguousarray(array[kept[0] : kept[-1] + 1], dtype=np.float64), first + int(kept[0]), times


def _log_laws(laws: Sequence[RepeatedLaw], unit: float) -> list[Logged]:
    logged: list[Logged] = []
    for array, first, times in laws:
        (places,) = np.nonzero(array)
        losses = np.asarray((first + places) * unit, dtype=np.float64)
        logged.append((losses, np.log(array[places]), times))
    return logged


def _thin_law(law: Logged) -> Logged:
    """Return about the same law on fewer points, by which tilts and windows are looked for; none is decided by it."""
    losses, logs, times = law
    width = len(losses) // _THINNED_POINTS
    if width < 2:
        return law
    whole = len(losses) // width * width
    rows = logs[:whole].reshape(-1, width)
    top = rows.max(axis=1)
    sums = top + np.log(np.exp(rows - top[:, None]).sum(axis=1))
    middles = losses[:whole].reshape(-1, width).mean(axis=1)
    return np.append(middles, losses[whole:]), np.append(sums, logs[whole:]), times


def _widest_step(laws: Sequence[Logged]) -> float:
    return max(
        (float(np.diff(losses).max(initial=0.0)) for losses, _, _ in laws if len(losses) > _MAX_SPARSE_ATOMS),
        default=0.0,
    )


def _log_mgf(laws: Sequence[Logged], theta: float) -> float:
    """Return the sum of ln E e^(theta L): an estimate, used to choose tilts and, with a margin, in Chernoff bounds."""
    return math.fsum(times * _log_mean(losses, logs, theta) for losses, logs, times in laws)


def _log_mean(losses: Floats, logs: Floats, theta: float) -> float:
    exponents = theta * losses + logs
    top = float(exponents.max())
    exponents -= top
    return top + math.log(float(np.exp(exponents, out=exponents).sum()))


def _tilt(laws: Sequence[Logged], target: float, epsilon: float | None) -> float:
    """Minimise the Rényi bound on epsilon at `target`, or on delta at `epsilon` [CKS20, §2.3]."""
    log_target = math.log(min(max(target, 1e-300), 0.999999))

    def bound(log_theta: float) -> float:
        theta = math.exp(log_theta)
        best = theta * math.log(theta / (theta + 1)) - math.log(theta + 1)
        if epsilon is not None:
            return _log_mgf(laws, theta) - theta * epsilon + best
        return (_log_mgf(laws, theta) - log_target + best) / theta

    return math.exp(minimise(bound, math.log(1e-4), math.log(_MAX_TILT), steps=12))


def minimise(function: Callable[[float], float], low: float, high: float, steps: int = 28) -> float:
    """Return a point near the minimum of a function with one valley, by a coarse look and golden sections."""
    grid = np.linspace(low, high, 14)
    values = [function(float(point)) for point in grid]
    best = int(np.argmin(values))
    a, b = float(grid[max(0, best - 1)]), float(grid[min(len(grid) - 1, best + 1)])
    ratio = (math.sqrt(5) - 1) / 2
    c, d = b - ratio * (b - a), a + ratio * (b - a)
    at_c, at_d = function(c), function(d)
    for _ in range(steps):
        if at_c < at_d:
            b, d, at_d = d, c, at_c
            c = b - ratio * (b - a)
            at_c = function(c)
        else:
            a, c, at_c = c, d, at_d
            d = a + ratio * (b - a)
            at_d = function(d)
        if b - a < 1e-3:
            break
    return (a + b) / 2


def _tilt_laws(
    laws: Sequence[RepeatedLaw], logged: Sequence[Logged], unit: float, theta: float
) -> tuple[list[RepeatedLaw], float, float]:
    """Tilt each law by e^(theta loss - c), c near ln E e^(theta L), so that the factors' product is e^(sum of c)."""
    tilted: list[RepeatedLaw] = []
    scales: list[float] = []
    relative = 0.0
    for (array, first, times), (losses, logs, _) in zip(laws, logged, strict=True):
        scale = _log_mean(losses, logs, theta)
        exponents = (theta * unit) * (first + np.arange(len(array), dtype=np.float64)) - scale
        with np.errstate(under="ignore"):
            half = np.exp(np.minimum(exponents / 2, 600.0))  # in two steps: tiny masses may need more than e^709
            tilted.append((array * half * half, first, times))
        scales.append(times * scale)
        furthest = theta * unit * max(abs(first), abs(first + len(array)))
        relative += times * ROUNDOFF * (16 + 4 * (furthest + abs(scale)))
    return tilted, math.fsum(scales), relative


def _window(
    laws: Sequence[Logged], rough: Sequence[Logged], unit: float, theta: float, low: int, high: int
) -> tuple[int, int, float]:
    """Return the lattice points that hold all but `spill` of the tilted mass, by Chernoff's bound on each side.

    The bound holds for every step; a thinned law finds a good one, and the law itself says how far it reaches.
    """
    if high - low < 1 << 12:
        return low, high, 0.0
    bases = {id(law): _log_mgf(law, theta) for law in (laws, rough)}
    furthest = sum(times * float(np.abs(losses).max()) for losses, _, times in laws)
    count = sum(times for _, _, times in laws)

    def reach(sign: int) -> float:
        def at(log_step: float, known: Sequence[Logged]) -> float:
            step, base = math.exp(log_step), bases[id(known)]
            doubt = 1e-13 * (count + abs(base) + (theta + step) * furthest)  # the rounding of both logarithms
            return (_log_mgf(known, theta + sign * step) - base - math.log(_MAX_SPILLED_PROBABILITY) + doubt) / step

        return at(minimise(lambda log_step: at(log_step, rough), math.log(1e-3), math.log(1e6), steps=7), laws)

    top, bottom = reach(1), -reach(-1)
    stop, start = math.ceil(top / unit) + 1, math.floor(bottom / unit) - 1
    spill = _MAX_SPILLED_PROBABILITY * ((stop < high) + (start > low)) * 1.01
    return max(start, low), min(stop, high), spill


def _convolve(laws: Sequence[RepeatedLaw], points: int, start: int) -> tuple[Floats, float]:
    """Multiply characteristic functions; return the law on start, start+1, … and its largest rounding error."""
    half = points // 2 + 1
    log_product = np.zeros(half, dtype=np.complex128)
    log_most = np.zeros(half)
    doubt = np.zeros(half)  # sum of times * error / size: the relative error of the product
    rounding = np.zeros(half)
    shift = -start
    for array, first, times in laws:
        values, error = _transform(array, points)
        size = np.maximum(np.abs(values), 1e-300)
        values[size <= 1e-300] = 1e-300
        logs = np.log(values, out=values)
        size += error
        doubt += (times * error) / size
        log_most += times * np.log(size, out=size)
        rounding += (times * ROUNDOFF) * (16 + 8 * np.abs(logs, out=size))
        logs *= times
        log_product += logs
        del values, logs, size
        shift += times * first  # every transform has its law start at index 0
    index = np.arange(half, dtype=np.int64)
    turns = (index * (shift % points)) % points  # exact in integers: a shift is a rotation by this angle
    with np.errstate(under="ignore"):
        product = np.exp(log_product, out=log_product)
        product *= np.exp((-2j * math.pi / points) * turns)
        most = np.exp(log_most, out=log_most)
    doubt += np.expm1(np.minimum(rounding, 50.0, out=rounding), out=rounding)
    uncertain = most * (doubt + 32 * ROUNDOFF)
    # |each output error| <= mean error of the inputs + 10 u log2 N * mean size of the inputs (two halves of a spectrum)
    pointwise = 2 * float(uncertain.sum() + 10 * ROUNDOFF * math.log2(points) * most.sum()) / points
    return fft.irfft(product, points, overwrite_x=True), pointwise * 1.01


def _transform(array: Floats, points: int) -> tuple[NDArray[np.complex128], float]:
    """Return the array's characteristic function at every frequency and a bound on the error of each value."""
    if len(array) > points:  # folding into the window is what aliasing does anyway, and is exact up to rounding
        array = np.concatenate([array, np.zeros(-len(array) % points)]).reshape(-1, points).sum(axis=0)
    (atoms,) = np.nonzero(array)
    total = float(array.sum())
    if len(atoms) > _MAX_SPARSE_ATOMS:
        return np.asarray(fft.rfft(array, points)), 12 * ROUNDOFF * math.log2(points) * total
    index = np.arange(points // 2 + 1, dtype=np.int64)
    values = np.zeros(points // 2 + 1, dtype=np.complex128)
    for atom in atoms:
        turns = (index * int(atom)) % points  # the angle is reduced exactly
        values += array[atom] * np.exp((-2j * math.pi / points) * turns)
    return values, 24 * ROUNDOFF * total


def _directed_exp(exponent: float, direction: int) -> float:
    if exponent > 700:
        return math.inf if direction > 0 else math.exp(700)
    return math.exp(exponent)
