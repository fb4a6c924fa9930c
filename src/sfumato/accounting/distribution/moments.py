"""ln E e^(zL) of each kind of loss at complex z, for many events at once, with a bound on the rounding error.

L = ln P/Q under P for the pair that dominates the event. A family is one array per parameter; `logs(z)` is a matrix of
events by nodes. Formulas: references [CKS20], [ZDW22] and proofs/pld_contour.md, which also derives the error bounds.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.distribution.tilted_fft import ROUNDOFF

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
RealOrComplex = NDArray[Any]
"""Floats or Complexes: on the real axis the same formulas are evaluated in real arithmetic, which is faster."""


class Family(Protocol):
    """Many events of one kind; `times[i]` is how often the i-th occurs."""

    @property
    def times(self) -> Floats: ...

    def logs(self, z: RealOrComplex) -> RealOrComplex:
        """Return ln M_i(z_j)."""
        ...

    def errors(self, size: Floats, c: float) -> Floats:
        """Return a bound on |computed - true M_i(z_j)| / M_i(Re z_j) for |2 z_j + 1| = size_j and Re z_j <= c."""
        ...

    def largest(self) -> float:
        """Return the sum of the largest losses; infinite if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Binary:
    """Losses +e and -e: Pure, RandomizedResponse of two categories, LaplaceNoise of sensitivity 1."""

    loss: Floats
    times: Floats

    def logs(self, z: RealOrComplex) -> RealOrComplex:
        e = self.loss[:, None]
        return np.asarray(z * e + np.log1p(np.exp(-(2 * z + 1) * e)) - np.log1p(np.exp(-e)))

    def errors(self, size: Floats, c: float) -> Floats:
        return np.asarray(ROUNDOFF * (32 + 16 * self.loss[:, None] * size))

    def largest(self) -> float:
        return math.fsum(self.loss * self.times)

    def atoms(self, c: float) -> tuple[Floats, Floats]:
        """Return the distance of two atoms and the product of their tilted masses."""
        ratio = np.exp(-(2 * c + 1) * self.loss)
        return 2 * self.loss, ratio / (1 + ratio) ** 2


@dataclass(frozen=True, slots=True)
class Response:
    """Losses +e, 0, -e: RandomizedResponse of more than two categories."""

    loss: Floats
    others: Floats
    times: Floats

    def logs(self, z: RealOrComplex) -> RealOrComplex:
        e, others = self.loss[:, None], self.others[:, None]
        # p = 1/(1 + (k-1) e^-e), q = p e^-e;  M = p e^(ze) (1 + e^-((2z+1)e) + (k-2) e^-((z+1)e))
        rest = np.exp(-(2 * z + 1) * e) + others * np.exp(-(z + 1) * e)
        return np.asarray(z * e + np.log1p(rest) - np.log1p((others + 1) * np.exp(-e)))

    def errors(self, size: Floats, c: float) -> Floats:
        return np.asarray(ROUNDOFF * (64 + 32 * self.loss[:, None] * size))

    def largest(self) -> float:
        return math.fsum(self.loss * self.times)

    def atoms(self, c: float) -> tuple[Floats, Floats]:
        """Return the distance of two atoms and the product of their tilted masses."""
        low, middle = np.exp(-(2 * c + 1) * self.loss), self.others * np.exp(-(c + 1) * self.loss)
        total = (1 + low + middle) ** 2
        central = middle > low
        return np.where(central, self.loss, 2 * self.loss), np.where(central, middle, low) / total


@dataclass(frozen=True, slots=True)
class RealLaplace:
    """Real Laplace noise, e = sensitivity / scale."""

    loss: Floats
    times: Floats

    def logs(self, z: RealOrComplex) -> RealOrComplex:
        e = self.loss[:, None]
        # M = ((z+1) e^(ze) + z e^-((z+1)e)) / (2z+1)
        return np.asarray(z * e + np.log1p((z * np.expm1(-(2 * z + 1) * e)) / (2 * z + 1)))

    def errors(self, size: Floats, c: float) -> Floats:
        return np.asarray(ROUNDOFF * (64 + 32 * self.loss[:, None] * size))

    def largest(self) -> float:
        return math.fsum(self.loss * self.times)

    def atoms(self, c: float) -> tuple[Floats, Floats]:
        """Return the distance of two atoms and the product of their tilted masses."""
        e = self.loss
        top = 0.5 / np.exp(self.logs(np.array([c])).real[:, 0] - c * e)
        return 2 * e, top**2 * np.exp(-(2 * c + 1) * e)

    def envelope(self, c: float, t: Floats) -> Floats:
        """Return ln of a bound on |M(c + is)| / M(c) for all s >= t."""
        e = self.loss[:, None]
        top = np.sqrt(1 + (4 * c + 3) / ((2 * c + 1) ** 2 + 4 * t**2)) + np.exp(-(2 * c + 1) * e)
        return np.asarray(np.log(top / 2) + c * e - self.logs(np.array([c])).real + 1e-12)


@dataclass(frozen=True, slots=True)
class BoundedRanges:
    """The least pair that dominates every epsilon-bounded-range release: density e^((L-e)/2) on [-e, e] [DDR20]."""

    loss: Floats
    times: Floats

    def logs(self, z: RealOrComplex) -> RealOrComplex:
        e = self.loss[:, None]
        w = 2 * z + 1
        # M = sinh((z+1/2)e) / ((2z+1) sinh(e/2)) = e^(ze) (1 - e^-((2z+1)e)) / ((2z+1) (1 - e^-e))
        return np.asarray(z * e + np.log(np.expm1(-w * e) / (w * np.expm1(-e))))

    def errors(self, size: Floats, c: float) -> Floats:
        return np.asarray(ROUNDOFF * (64 + 64 * (1 + self.loss[:, None]) * size))

    def largest(self) -> float:
        return math.fsum(self.loss * self.times)

    def envelope(self, c: float, t: Floats) -> Floats:
        """Return ln of a bound on |M(c + is)| / M(c) for all s >= t."""
        e = self.loss[:, None]
        bound = (1 + np.exp(-(2 * c + 1) * e)) / (np.hypot(2 * c + 1, 2 * t) * -np.expm1(-e))
        return np.asarray(np.log(bound) + c * e - self.logs(np.array([c])).real + 1e-12)


@dataclass(frozen=True, slots=True)
class IntegerLaplace:
    """Integer Laplace noise moved by D > 1: losses (D - 2j)/s, j = 0 … D (proofs/pld_integer_laplace.md)."""

    steps: Floats
    inverse_scale: Floats
    times: Floats

    def logs(self, z: RealOrComplex) -> RealOrComplex:
        d, r = self.steps[:, None], self.inverse_scale[:, None]
        w = (2 * z + 1) * r
        # M (1+x) e^(-zD/s) = 1 + e^-(wD) + (1-x) (y - y^D)/(1-y), y = e^-w
        between = np.exp(-w) * np.expm1(-w * (d - 1)) / np.expm1(-w)
        total = np.exp(-w * d) - np.expm1(-r) * between
        return np.asarray(z * (d * r) + np.log1p(total) - np.log1p(np.exp(-r)))

    def errors(self, size: Floats, c: float) -> Floats:
        r = self.inverse_scale[:, None]
        return np.asarray(ROUNDOFF * (64 + 64 * size * (self.steps[:, None] * r + 1 + r)))

    def largest(self) -> float:
        return math.fsum(self.steps * self.inverse_scale * self.times)

    def atoms(self, c: float) -> tuple[Floats, Floats]:
        """Return the distance of two atoms and the product of their tilted masses."""
        length = self.steps * self.inverse_scale
        top = np.exp(c * length - self.logs(np.array([c])).real[:, 0]) / (1 + np.exp(-self.inverse_scale))
        return 2 * length, top**2 * np.exp(-(2 * c + 1) * length)


@dataclass(frozen=True, slots=True)
class IntegerGaussian:
    """Integer Gaussian noise moved by 1: losses (1 - 2n)/(2 sigma^2)."""

    sigma_squared: Floats
    times: Floats

    def logs(self, z: RealOrComplex) -> RealOrComplex:
        s = self.sigma_squared[:, None]
        turns = np.rint(z.imag / (2 * math.pi * s))  # M(z + 2 pi i sigma^2 m) = (-1)^m M(z)
        near = z - 1j * (2 * math.pi * s * turns) if turns.any() else np.broadcast_to(z, turns.shape)
        total = _log_theta(near, s) - _log_theta(np.zeros((1, 1)), s)
        return np.asarray(near * (near + 1) / (2 * s) + total + (1j * math.pi * (turns % 2) if turns.any() else 0))

    def errors(self, size: Floats, c: float) -> Floats:
        s = self.sigma_squared[:, None]
        near = np.minimum(size, 2 * c + 1 + 2 * math.pi * s)  # the node is moved by whole periods first
        return np.asarray(ROUNDOFF * (64 + 64 * size * (1 + 1 / np.sqrt(s) + (c + 1) / s) + 16 * near**2 / s))

    def largest(self) -> float:
        return math.inf if len(self.times) else 0.0

    def atoms(self, c: float) -> tuple[Floats, Floats]:
        """Return the distance of two atoms and the product of their tilted masses."""
        s = self.sigma_squared
        offset = c - math.floor(c)
        normaliser = _log_theta(np.full((1, 1), c), s[:, None]).real[:, 0] + 0.5 * np.log(2 * math.pi * s)
        return 1 / s, np.exp(-(offset**2 + (1 - offset) ** 2) / (2 * s) - 2 * normaliser - 1e-9)

    def envelope(self, c: float, t: Floats) -> Floats:
        """Return ln of a bound on |M(c + is)| / M(c) for all s in [t, 3t/2]; 0 where none is known."""
        s = self.sigma_squared[:, None]
        with np.errstate(over="ignore"):
            side = 2.1 * np.exp(np.minimum(0.0, -2 * math.pi**2 * s + 3 * math.pi * t))
        bound = -(t**2) / (2 * s) + np.log((1 + side) / (1 - 2.1 * np.exp(-2 * math.pi**2 * s)))
        known = (1.5 * t < math.pi * s) & (s >= 0.25)
        return np.asarray(np.where(known, np.minimum(bound + 1e-12, 0.0), 0.0))


def _log_theta(z: RealOrComplex, s: Floats) -> RealOrComplex:
    """Return ln( sum_n e^(-(n+z)^2/2s) / sqrt(2 pi s) ), |Im z| <= pi s."""
    z = np.broadcast_to(z - np.floor(z.real), np.broadcast_shapes(z.shape, s.shape))
    smooth = s[:, 0] >= 0.25
    if smooth.all():
        return _by_poisson(z, s)
    logs = np.empty(z.shape, dtype=z.dtype)
    logs[smooth] = _by_poisson(z[smooth], s[smooth])
    logs[~smooth] = _by_definition(z[~smooth], s[~smooth])
    return logs


def _by_poisson(z: RealOrComplex, s: Floats) -> RealOrComplex:
    # sum_k e^(-2 pi^2 s k^2) e^(2 pi i k z): the k-th pair of terms is at most 2 e^(2 pi k (|Im z| - pi s k))
    steep = float((np.abs(z.imag) - math.pi * s).max(initial=-math.inf))
    least = float(s.min(initial=math.inf))
    total = np.zeros(z.shape, dtype=z.dtype)
    for k in (1, 2, 3, 4):  # for s >= 1/4 and k > 4 below 1e-42
        if 2 * math.pi * k * (steep - math.pi * least * (k - 1)) < -92:  # below 1e-40
            break
        damping = -2 * math.pi**2 * s * k * k
        if np.iscomplexobj(z):
            total += np.exp(damping + 2j * math.pi * k * z) + np.exp(damping - 2j * math.pi * k * z)
        else:
            total += 2 * np.exp(damping) * np.cos(2 * math.pi * k * z)
    return np.asarray(np.log1p(total))


def _by_definition(z: RealOrComplex, s: Floats) -> RealOrComplex:
    # Re z lies in [0, 1): for s < 1/4 and |n + Re z| >= 9 a term is below e^-160 of the largest
    nearest = np.minimum(z.real, 1 - z.real) ** 2
    total = np.zeros(z.shape, dtype=z.dtype)
    for n in range(-10, 10):
        total += np.exp(-((n + z) ** 2 - nearest) / (2 * s))
    return np.asarray(np.log(total) - nearest / (2 * s) - 0.5 * np.log(2 * math.pi * s))
