"""Losses that take values on a lattice, composed exactly: integer noise, randomized response, pure bounds.

Each loss is start + j step with exact start and step. The greatest common divisor of the steps is the unit of one
convolution; the starts only shift epsilon. A handful of events without a useful unit is enumerated.
Theorem: proofs/pld_lattice.md; the laws: proofs/pld_integer_laplace.md, proofs/pld_integer_gaussian.md
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from sfumato.accounting.distribution import cells
from sfumato.accounting.distribution.cells import Cover, LossCell, Parts
from sfumato.accounting.distribution.tilted_fft import ROUNDOFF, Floats, TiltedLaw, tilted_law
from sfumato.accounting.event import Event, GaussianNoise, LaplaceNoise, Pure, RandomizedResponse
from sfumato.errors import UnsupportedEvent

_MAX_POINTS = 1 << 21
_MAX_WORK_POINTS = 1 << 25
_MAX_LAWS = 256
_MAX_COMBINATIONS = 1_000_000
_DEVIATIONS = 39.0  # an integer Gaussian beyond this many sigma has mass below 1e-330


@dataclass(frozen=True, slots=True)
class Atoms:
    """masses[j] is the probability of the loss start + j step, up to a relative error of `error`."""

    start: Fraction
    step: Fraction
    masses: Floats
    error: float
    infinite: float = 0.0  # an upper bound on the probability of an infinite loss; not 0 only in bounds from above


def loss_atoms(event: Event | LossCell | Cover) -> Atoms | None:
    """Return the loss of the event's dominating pair if it is discrete and the table is small."""
    match event:
        case Pure(e, _) | RandomizedResponse(e, 2, _):
            return Atoms(-e, 2 * e, _binary(float(e)), 8 * ROUNDOFF * (1 + _small(e)))
        case RandomizedResponse(e, categories, _):
            ratio = math.exp(-float(e))
            top = 1 / (1 + (categories - 1) * ratio)
            masses = np.array([top * ratio, top * ratio * (categories - 2), top])
            return Atoms(-e, e, masses, 16 * ROUNDOFF * (1 + _small(e)))
        case LaplaceNoise(steps, scale, _) if steps < _MAX_POINTS:
            return Atoms(-steps / scale, 2 / scale, _laplace(steps, float(1 / scale)), _laplace_error(steps, scale))
        case GaussianNoise(1, sigma_squared, _) if sigma_squared < 1 << 28:
            return _gaussian(1, sigma_squared)
        case LossCell(shift, sigma_squared) if sigma_squared < 1 << 28:
            return _gaussian(shift, sigma_squared)
        case Cover(norm, sigma_squared):
            first, masses, infinite = cells.cover(norm, sigma_squared)
            start = Fraction(norm + 2 * first) / (2 * sigma_squared)
            return Atoms(start, 1 / sigma_squared, masses, 4 * ROUNDOFF, infinite)
        case _:
            return None


def _small(e: Fraction) -> float:
    return min(float(e), 750.0)  # beyond, e^-e is zero in floats


def _binary(e: float) -> Floats:
    ratio = math.exp(-e)
    return np.array([ratio / (1 + ratio), 1 / (1 + ratio)])


def _laplace(steps: int, rate: float) -> Floats:
    # J = min(max(Z, 0), D) has P[J >= j] = x^j / (1 + x), and the loss is (D - 2J)/s: proofs/pld_integer_laplace.md
    powers = np.exp(-rate * np.arange(steps, -1, -1, dtype=np.float64))
    masses = powers * (-math.expm1(-rate) / (1 + math.exp(-rate)))
    masses[0] = powers[0] / (1 + math.exp(-rate))
    masses[-1] = 1 / (1 + math.exp(-rate))
    return np.asarray(masses)


def _laplace_error(steps: int, scale: Fraction) -> float:
    return 8 * ROUNDOFF * (2 + min(float(steps / scale), 750.0) + min(float(1 / scale), 750.0))


@lru_cache(maxsize=8)
def _gaussian(shift: int, sigma_squared: Fraction) -> Atoms:
    furthest = math.ceil(_DEVIATIONS * math.sqrt(float(sigma_squared))) + 2
    n = np.arange(-furthest, furthest + 1, dtype=np.float64)
    weights = np.exp(-(n**2) / (2 * float(sigma_squared)))
    masses = weights / math.fsum(weights)
    start = Fraction(shift * (shift - 2 * furthest)) / (2 * sigma_squared)
    return Atoms(start, shift / sigma_squared, masses, ROUNDOFF * (32 + 4 * _DEVIATIONS**2))


@dataclass(frozen=True, slots=True)
class Lattice:
    """A convolution on one unit; the loss is `start` plus what was convolved."""

    prepared: TiltedLaw
    start: Fraction
    infinite: float = 0.0

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return bounds on delta at epsilon."""
        shifted = Fraction(epsilon) - self.start
        near = float(shifted)
        _, upper = self.prepared.delta(math.nextafter(near, -math.inf), self.infinite)
        lower, _ = self.prepared.delta(math.nextafter(near, math.inf))
        return lower, upper


@dataclass(frozen=True, slots=True)
class Listed:
    """Every possible total loss and its probability."""

    losses: Floats
    masses: Floats
    slack: float  # no loss is further than this from the truth
    error: float  # relative, of every mass

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return bounds on delta at epsilon."""
        slack = self.slack + 4 * ROUNDOFF * abs(epsilon)
        above = self.losses - epsilon
        upper = float(np.dot(self.masses, -np.expm1(-np.maximum(above + slack, 0.0))))
        lower = float(np.dot(self.masses, -np.expm1(-np.maximum(above - slack, 0.0))))
        doubt = self.error + ROUNDOFF * (len(self.masses) + 16)
        return lower * (1 - doubt), min(1.0, upper * (1 + doubt))


def exact_lattice(parts: Parts, target: float, epsilon: float | None = None) -> Lattice | None:
    """Return the exact composition on the common unit, or None where there is none that memory and time allow."""
    laws = _laws(parts)
    if laws is None:
        return None
    unit = _common([law.step for law, _ in laws])
    if unit * _MAX_POINTS < max(law.step for law, _ in laws):
        return None
    strides = [int(law.step / unit) for law, _ in laws]
    lengths = [(len(law.masses) - 1) * stride + 1 for (law, _), stride in zip(laws, strides, strict=True)]
    whole = sum(times * (length - 1) for (_, times), length in zip(laws, lengths, strict=True))
    spread = math.sqrt(sum(times * _variance(law) for law, times in laws)) / float(unit)
    points = min(float(whole), 20 * spread + 64)
    if max(lengths) > _MAX_POINTS or points > _MAX_POINTS / 2 or points * len(laws) + sum(lengths) > _MAX_WORK_POINTS:
        return None
    masses = []
    for (law, times), stride, length in zip(laws, strides, lengths, strict=True):
        array = np.zeros(length)
        array[::stride] = law.masses
        masses.append((array, 0, times))
    start = sum((times * law.start for law, times in laws), Fraction(0))
    error = sum(times * law.error for law, times in laws) / sum(times for _, times in laws)
    shifted = None if epsilon is None else float(Fraction(epsilon) - start)
    try:
        return Lattice(tilted_law(masses, float(unit), target, shifted, error), start, _infinite(laws))
    except UnsupportedEvent:  # the window grew beyond the estimate: another engine answers
        return None


def _infinite(laws: list[tuple[Atoms, int]]) -> float:
    """Return an upper bound on the probability of any infinite loss; masses may exceed 1 by a rounding each."""
    excess = math.fsum(times * max(0.0, float(law.masses.sum()) - 1 + 64 * ROUNDOFF) for law, times in laws)
    lost = math.fsum(times * law.infinite for law, times in laws)
    return min(1.0, lost * math.exp(min(excess, 700.0)) * (1 + 1e-9)) if lost else 0.0


def enumerate_losses(parts: Parts) -> Listed | None:
    """Return the law of the total loss point by point, or None beyond a million combinations."""
    laws = _laws(parts)
    if laws is None or any(law.infinite for law, _ in laws):
        return None
    if math.prod((len(law.masses) - 1) * times + 1 for law, times in laws) > _MAX_COMBINATIONS:
        return None
    losses, masses, reach, error = np.zeros(1), np.ones(1), 0.0, 8 * ROUNDOFF
    for law, times in laws:
        if len(law.masses) * times > 1 << 13:
            return None
        own = _convolution_power(law.masses, times)
        losses = np.add.outer(losses, float(times * law.start) + float(law.step) * np.arange(len(own))).ravel()
        masses = np.multiply.outer(masses, own).ravel()
        reach += abs(float(times * law.start)) + float(law.step) * len(own)
        error += times * law.error + ROUNDOFF * (16 + 2 * times * (len(law.masses) + 2))
    return Listed(losses, masses, ROUNDOFF * (8 + 2 * len(laws)) * reach, error * 1.01)


def _convolution_power(masses: Floats, times: int) -> Floats:
    result, square = np.ones(1), masses
    while times:
        if times & 1:
            result = np.convolve(result, square)
        times >>= 1
        if times:
            square = np.convolve(square, square)
    return result


def _laws(parts: Parts) -> list[tuple[Atoms, int]] | None:
    if len(parts) > _MAX_LAWS:
        return None
    laws = []
    for event, times in parts.items():
        law = loss_atoms(event)
        if law is None:
            return None
        laws.append((law, times))
    return laws


def _common(steps: list[Fraction]) -> Fraction:
    denominator = math.lcm(*(step.denominator for step in steps))
    return Fraction(math.gcd(*(int(step * denominator) for step in steps)), denominator)


def _variance(law: Atoms) -> float:
    places = float(law.step) * np.arange(len(law.masses))
    mean = float(np.dot(places, law.masses))
    return float(np.dot((places - mean) ** 2, law.masses))
