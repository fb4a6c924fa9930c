"""delta(epsilon) of any mixture of noises by summing E e^(zL) along a line in the complex plane.

The terms are computed once and serve every epsilon (`Table.delta`); one more event multiplies them by its own factors
(`Table.plus`), so a history of 10,000 distinct events grows without starting over.
Theorem (inversion, aliasing, cutting, rounding): proofs/pld_contour.md
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from sfumato.accounting.distribution.decay import cut_places, swept
from sfumato.accounting.distribution.moments import Complexes, Family, Floats
from sfumato.accounting.distribution.tilted_fft import ROUNDOFF, minimise

_RELATIVE_PRECISION = 1e-6  # aimed at, relative to delta; the bounds state what was reached
_MAX_NODES = 1 << 18
_FALLBACK_NODES = 1 << 12  # when no number of nodes would serve
_MAX_WORK_ENTRIES = 5_000_000  # events times nodes
_BLOCK_ENTRIES = 40_000  # matrix entries worked on at a time
_LOG_FLOOR = math.log(1e-8)  # a smaller factor may be a zero of M: it is replaced by 1e-8 with an error of 2.1e-8


@dataclass(frozen=True, slots=True)
class Mixture:
    """Independent losses: real Gaussian noise of total mu^2, and families of events."""

    mu_squared: float
    families: tuple[Family, ...]

    def log_mgf(self, c: float) -> float:
        """Return K(c) = ln E e^(cL), about."""
        return float(self.on_axis(np.array([c]))[0][0])

    def on_axis(self, points: Floats) -> tuple[Floats, Floats]:
        """Return ln E e^(cL) at real points and a bound on the error of each."""
        total = (0.5 * self.mu_squared) * points * (points + 1)
        doubt = 16 * ROUNDOFF * (1 + np.abs(total))
        for family in self.families:
            for part in np.array_split(np.arange(len(points)), 1 + len(family.times) * len(points) // _BLOCK_ENTRIES):
                logs = family.logs(points[part]).real
                total[part] += family.times @ logs
                doubt[part] += family.times @ family.errors(np.abs(2 * points[part] + 1), float(points.max()))
                doubt[part] += ROUNDOFF * (len(family.times) + 8) * (family.times @ np.abs(logs))
        return total, doubt * 1.01

    def on_line(self, c: float, heights: Floats) -> tuple[Complexes, Floats]:
        """Return ln E e^(zL) at z = c + i heights and a bound on the relative error of E e^(zL), as ln(1 + error)."""
        z = c + 1j * heights
        total = (0.5 * self.mu_squared) * z * (z + 1)
        doubt = 16 * ROUNDOFF * (1 + np.abs(total))
        for family in self.families:
            times, foot = family.times[:, None], family.logs(np.array([c])).real
            for part in np.array_split(np.arange(len(z)), 1 + len(times) * len(z) // _BLOCK_ENTRIES):
                logs = family.logs(z[part])
                fall = logs.real - foot
                errors = family.errors(np.abs(2 * z[part] + 1), c) * np.exp(-np.maximum(fall, _LOG_FLOOR))
                small = fall < _LOG_FLOOR
                if small.any():
                    logs = np.where(small, foot + _LOG_FLOOR, logs)
                    errors[small] += 2.1
                logs *= times
                total[part] += logs.sum(axis=0)
                doubt[part] += family.times @ errors
                doubt[part] += ROUNDOFF * (len(times) + 8) * np.abs(logs).sum(axis=0)
        return total, doubt * 1.01

    def largest(self) -> float:
        """Return the largest possible loss."""
        return math.inf if self.mu_squared else math.fsum(family.largest() for family in self.families)

    def count(self) -> int:
        """Return how many factors there are."""
        return 1 + sum(len(family.times) for family in self.families)


@dataclass(frozen=True, slots=True)
class MomentTable:
    """Moments at c + i j spacing (j = 0, 1, …) and at some real points: enough for delta at every epsilon."""

    c: float
    spacing: float
    logs: Complexes
    doubts: Floats
    real_points: Floats
    real_logs: Floats  # rounded up
    omitted: float  # what lies beyond the last node, in units of e^(K(c) - c epsilon)
    largest: float
    laid_for: float  # K(c) when the nodes were chosen
    terms: Complexes  # the summands at epsilon = 0 in units of e^K(c), in rows
    rounding: float  # their error
    turning: float  # the error of turning them by e^(-it epsilon), per unit of epsilon

    def stale(self) -> bool:
        """Tell whether the added losses call for new nodes."""
        return float(self.logs[0].real) > 1.2 * self.laid_for

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return bounds on delta at epsilon >= 0."""
        if epsilon >= self.largest * (1 + 1e-12):
            return 0.0, 0.0
        rows, columns = self.terms.shape
        within = np.exp(-1j * (self.spacing * epsilon) * np.arange(columns))
        across = np.exp(-1j * (self.spacing * epsilon) * (columns * np.arange(rows)))
        total = float((across * (self.terms @ within)).sum().real)
        rounding = self.rounding + self.turning * epsilon
        base = float(self.logs[0].real)
        exponent = base - self.c * epsilon
        if not exponent <= 700:  # far below the epsilon that the nodes were laid for
            return 0.0, 1.0
        scale = math.exp(exponent)
        outward = 1 + ROUNDOFF * (64 + 8 * (abs(base) + self.c * epsilon)) + 2 * float(self.doubts[0])
        upper = (total + rounding + self.omitted) * scale * outward
        lower = (total - rounding - self.omitted) * scale / outward - self._aliases(epsilon)
        return max(0.0, lower), min(1.0, max(upper, 5e-324))

    def _aliases(self, epsilon: float) -> float:
        """Bound the other terms of the aliasing identity: e^(cmW) delta(epsilon + mW), m != 0."""
        c, period = self.c, 2 * math.pi / self.spacing
        below = _series(-c * period)  # delta <= 1
        left = self.real_points < c
        right = self.real_points > c
        for d, log in zip(self.real_points[left], self.real_logs[left], strict=True):
            below = min(below, _series(-(c - d) * period) * math.exp(min(700.0, log - d * epsilon)))
        if epsilon + period >= self.largest * (1 + 1e-12):
            return below * (1 + 1e-9)
        above = math.inf
        for d, log in zip(self.real_points[right], self.real_logs[right], strict=True):
            above = min(above, _series(-(d - c) * period) * math.exp(min(700.0, log - d * epsilon)))
        return (below + above) * (1 + 1e-9)

    def plus(self, more: Mixture) -> "MomentTable":
        """Return the table of these losses and more; the nodes stay, and a further factor only shrinks what is cut."""
        logs, doubts = more.on_line(self.c, self.spacing * np.arange(len(self.logs), dtype=np.float64))
        real_logs, real_doubts = more.on_axis(self.real_points)
        return _with_moments(
            self,
            self.logs + logs,
            (self.doubts + doubts) * (1 + 4 * ROUNDOFF) + ROUNDOFF * np.abs(self.logs + logs),
            self.real_logs + real_logs + real_doubts + 1e-12 * (1 + np.abs(self.real_logs)),
            self.largest + more.largest(),
        )


def _with_moments(
    frame: MomentTable, logs: Complexes, doubts: Floats, real_logs: Floats, largest: float
) -> MomentTable:
    """Return the table on the nodes of `frame` with these moments."""
    heights = frame.spacing * np.arange(len(logs))
    z = frame.c + 1j * heights
    with np.errstate(under="ignore"):
        terms = np.exp(logs - logs[0].real) * (frame.spacing / math.pi) / (z * (z + 1))
        terms[0] /= 2
        size = np.abs(terms)
    # the sum itself rounds by at most (number of terms) u; |log| enters because exp amplifies its rounding
    relative = doubts + ROUNDOFF * (64 + len(logs) + 8 * np.abs(logs - logs[0].real))
    rounding = float((size * np.expm1(np.minimum(relative, 50.0))).sum()) * 1.01
    turning = 16 * ROUNDOFF * float((size * heights).sum()) * 1.01
    rows = math.isqrt(len(logs)) + 1
    padded = np.zeros((rows, -(-len(logs) // rows)), dtype=complex)
    padded.ravel()[: len(terms)] = terms
    return replace(
        frame,
        logs=logs,
        doubts=doubts,
        real_logs=real_logs,
        largest=largest,
        terms=padded,
        rounding=rounding,
        turning=turning,
    )


def _series(log_ratio: float) -> float:
    return math.exp(log_ratio) / -math.expm1(log_ratio) if log_ratio < -1e-9 else math.inf


def for_delta(mixture: Mixture, delta: float) -> MomentTable:
    """Lay the nodes for the epsilon at which delta(epsilon) is about `delta`."""
    log_delta = math.log(max(delta, 1e-300))

    def bound(log_c: float) -> float:
        c = math.exp(log_c)
        return (mixture.log_mgf(c) - log_delta + c * math.log(c / (c + 1)) - math.log(c + 1)) / c

    log_c = minimise(bound, math.log(1e-4), math.log(1e7), steps=10)
    return _lay(mixture, math.exp(log_c), max(0.0, bound(log_c)))


def for_epsilon(mixture: Mixture, epsilon: float) -> MomentTable:
    """Lay the nodes for this epsilon."""

    def height(log_c: float) -> float:
        c = math.exp(log_c)
        return mixture.log_mgf(c) - c * epsilon - math.log(c * (c + 1))

    return _lay(mixture, math.exp(minimise(height, math.log(1e-4), math.log(1e7), steps=14)), epsilon)


def _lay(mixture: Mixture, c: float, epsilon: float) -> MomentTable:
    base = mixture.log_mgf(c)
    step = 0.05 * c
    curvature = (mixture.log_mgf(c + step) + mixture.log_mgf(c - step) - 2 * base) / step**2
    reach = mixture.largest()
    width = math.sqrt(max(curvature, 1e-300, (1e-6 / c) ** 2, (1e-4 * min(reach, 1e9)) ** 2 if reach < 1e9 else 0.0))
    points = np.concatenate([c * np.array([0.3, 0.6]), c + np.array([1.0, 2.5, 4.5, 6.0, 7.5, 9.0, 12.0]) / width])
    reals, doubts = mixture.on_axis(points)
    real_logs = reals + doubts + 1e-12 * (1 + np.abs(reals))
    # the Gaussian guess of delta: e^(K - c eps) / (c (c + 1)) / sqrt(2 pi (width^2 + 1/c^2 + 1/(c + 1)^2))
    flat = c * (c + 1) * math.sqrt(2 * math.pi * (width**2 + 1 / c**2))
    tolerance = _RELATIVE_PRECISION / flat
    spacing = _spacing(points, real_logs, c, base, epsilon, tolerance, width, reach)
    places, omitted = cut_places(mixture.families, mixture.mu_squared, c, spacing, 1 / width)
    count, left_out = _node_count(mixture, places, omitted, tolerance, c, spacing)
    logs, node_doubts = mixture.on_line(c, spacing * np.arange(count + 1, dtype=np.float64))
    frame = MomentTable(
        c, spacing, logs, node_doubts, points, real_logs, left_out, reach, base, np.zeros((1, 1), complex), 0.0, 0.0
    )
    return _with_moments(frame, logs, node_doubts, real_logs, reach)


def _node_count(
    mixture: Mixture, places: Floats, omitted: Floats, tolerance: float, c: float, spacing: float
) -> tuple[int, float]:
    """Return how many nodes to visit and a bound on what the others hold.

    The first place that is good enough, or nearly as good as the furthest that can be paid for.
    """
    most = min(_MAX_NODES, _MAX_WORK_ENTRIES // mixture.count())
    affordable = max(0, int(np.searchsorted(places, spacing * most)) - 1)
    choice = int(np.argmax(omitted <= max(tolerance, 1.2 * float(omitted[affordable]))))
    if not float(places[choice]) / spacing < most:  # nothing useful can be had; 1/|z (z+1)| <= 1/t^2 is always true
        most = min(most, _FALLBACK_NODES)
        end = spacing * most
        return most, (spacing / end**2 + 1 / end) / math.pi * (1 + 1e-9)
    count, left_out = max(1, math.ceil(float(places[choice]) / spacing)), float(omitted[choice])
    if left_out <= tolerance:
        return count, left_out
    first = max(1, math.ceil(float(places[0]) / spacing))
    visited = swept(mixture.families, mixture.mu_squared, c, spacing, first)
    if not len(visited):
        return count, left_out
    furthest = float(visited[min(most, len(visited) + first - 1) - first])
    index = int(np.argmax(visited <= max(tolerance, 1.2 * furthest)))
    return (first + index, float(visited[index])) if visited[index] < left_out else (count, left_out)


def _spacing(
    points: Floats, logs: Floats, c: float, base: float, epsilon: float, tolerance: float, width: float, reach: float
) -> float:
    """Return the widest spacing whose aliases stay below the tolerance at epsilon, as far as the bounds can tell."""
    period = width
    for _ in range(400):
        left, right = points < c, points > c
        rising = logs - base - (points - c) * epsilon
        above = float(np.min(rising[right] - (points[right] - c) * period))
        below = min(-c * period - base + c * epsilon, float(np.min(rising[left] - (c - points[left]) * period)))
        if below <= math.log(tolerance) and (above <= math.log(tolerance) or epsilon + period >= reach * (1 + 1e-12)):
            break
        period *= 1.05
    return 2 * math.pi / period
