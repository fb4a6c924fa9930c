"""Integer Gaussian noise on integers that move by a vector of known norm: all relevant vectors are tried.

Up to signs and order, an integer vector of squared norm n is a partition of n into squares; each moves its cells by
whole steps, so its losses lie on the lattice (n - 2k)/(2 sigma^2) and can be convolved without discretising anything.
Theorem: proofs/pld_integer_gaussian.md, parts 3 and 4
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from sfumato.accounting.distribution.convolved import sum_from_above
from sfumato.accounting.distribution.curves import (
    ROUNDOFF,
    SPECIAL_FUNCTION_ERROR,
    Anchors,
    Bracketed,
    Closed,
    Floats,
    Line,
    PairCurve,
    atomic_curve,
    worst,
)
from sfumato.accounting.distribution.grid_sum import Composition, SummedLosses
from sfumato.accounting.distribution.tilted_fft import RepeatedLaw, tilted_law
from sfumato.accounting.event import Event

_MAX_EXHAUSTIVE_VECTORS, _MAX_VECTORS = 4, 64
_MAX_WORK_POINTS = 250_000  # vectors times lattice points of one law
_LAW_REACH_DEVIATIONS = 14.0  # standard deviations that a law is listed for; beyond lies less than e^-97
_OMITTED_PROBABILITY = 1e-42
_TARGETS = (0.2, 1e-6, 1e-18)  # four standard deviations apart: each tilt is sharp for two on either side


@dataclass(frozen=True, slots=True)
class LossCell:
    """Integer Gaussian noise in one cell, whose value a unit moves by `shift`."""

    shift: int
    sigma_squared: Fraction


@dataclass(frozen=True, slots=True)
class Cover:
    """A law on the lattice whose curve lies nowhere below that of any vector of this squared norm."""

    norm: int
    sigma_squared: Fraction


Parts = Mapping[Event, int] | Mapping[Event | LossCell | Cover, int]
"""A composition, in which integer Gaussian noise may have been replaced by its pieces."""


@lru_cache(maxsize=64)
def vectors(norm: int) -> tuple[tuple[int, ...], ...]:
    """Return the vectors of positive integers, in descending order, with this sum of squares; () if too many.

    >>> vectors(5), vectors(9)[0]
    (((2, 1), (1, 1, 1, 1, 1)), (3,))
    """
    if norm > 48:  # 49 has 98 of them
        return ()
    return tuple(_descending(norm, math.isqrt(norm)))


def _descending(norm: int, largest: int) -> list[tuple[int, ...]]:
    if norm == 0:
        return [()]
    tops = range(min(largest, math.isqrt(norm)), 0, -1)
    return [(top, *rest) for top in tops for rest in _descending(norm - top * top, top)]


def pays_to_list(norm: int, sigma_squared: Fraction) -> bool:
    """Tell whether trying every vector pays: there are few, and their laws are short."""
    count = len(vectors(norm))
    if not 0 < count <= _MAX_VECTORS or sigma_squared < Fraction(1, 10**4):
        return False
    return count * 2 * _LAW_REACH_DEVIATIONS * math.sqrt(norm * sigma_squared) <= _MAX_WORK_POINTS


def typical(norm: int) -> tuple[tuple[int, ...], ...]:
    """Return a few vectors of this norm, one of which is usually the worst when it is repeated."""
    roots = [root for root in range(1, math.isqrt(norm) + 1) if norm % root**2 == 0]
    return tuple(dict.fromkeys([*((root,) * (norm // root**2) for root in roots), vectors(norm)[0]]))


@lru_cache(maxsize=64)
def curve(vector: tuple[int, ...], sigma_squared: Fraction) -> PairCurve:
    """Return the curve of one vector, by several tilts of its exact law."""
    norm = sum(shift * shift for shift in vector)
    unit, half = float(1 / sigma_squared), float(Fraction(norm) / (2 * sigma_squared))
    laws = [_loss_law(shift, float(sigma_squared), count) for shift, count in Counter(vector).items()]
    exponent = (
        _LAW_REACH_DEVIATIONS**2 / 2
        + 2 * _LAW_REACH_DEVIATIONS / math.sqrt(float(sigma_squared))
        + 2 / float(sigma_squared)
    )
    tilts = []
    for target in _TARGETS:
        law = tilted_law(laws, unit, target, mass_error=ROUNDOFF * (32 + 4 * exponent))
        below = sum_from_above(law, half, 0.0)
        tilts.append(Composition(replace(below, infinite=len(vector) * _OMITTED_PROBABILITY), below))
    both = tuple(tilts)
    return SummedLosses(both, both, (-half, half, norm // math.gcd(*vector)))


def _loss_law(shift: int, sigma_squared: float, times: int) -> RepeatedLaw:
    furthest = math.ceil(_LAW_REACH_DEVIATIONS * math.sqrt(sigma_squared)) + 1
    z = np.arange(-furthest, furthest + 1, dtype=np.float64)
    weights = np.exp(-z * z / (2 * sigma_squared))
    masses = np.zeros(2 * furthest * shift + 1)
    masses[::shift] = weights / math.fsum(weights.tolist())
    return masses, -furthest * shift, times


@lru_cache(maxsize=32)
def cover(norm: int, sigma_squared: Fraction) -> tuple[int, Floats, float]:
    """Return (k, masses, infinite): masses[i] belongs to the loss (norm + 2(k + i))/(2 sigma^2).

    The polygon through the largest of all vectors' curves at the lattice's own slopes, where their corners lie.
    """
    reach = math.ceil(_LAW_REACH_DEVIATIONS * math.sqrt(norm * sigma_squared)) + norm
    k = np.arange(-reach, reach + 1)
    points = (norm + 2 * k) / (2 * float(sigma_squared))
    before = points - 4 * ROUNDOFF * np.abs(points)
    values = np.minimum(np.max([curve(vector, sigma_squared).above(before) for vector in vectors(norm)], axis=0), 1.0)
    steps = np.maximum(values[:-1] - values[1:], 0.0)
    survival = (values[1:] + steps / -math.expm1(-1 / float(sigma_squared))) * (1 + SPECIAL_FUNCTION_ERROR)
    survival = np.concatenate([[1.0], survival, [values[-1]]])
    survival = np.maximum.accumulate(survival[::-1])[::-1]  # only ever raised: proofs/pld_grid.md, step 4
    return -reach, survival[:-1] - survival[1:], float(survival[-1])


@dataclass(frozen=True, slots=True)
class Lifted:
    """A curve and a constant: an upper bound only."""

    near: Closed
    by: float
    anchors: Anchors | None
    infinite: float = 0.0

    def above(self, t: Floats) -> Floats:
        """Return the sum of both."""
        return self.near.above(t) + self.by * (1 + 4 * ROUNDOFF)

    def below(self, t: Floats) -> Line:
        """Return the empty set's line."""
        return np.zeros_like(t), np.zeros_like(t), np.zeros_like(t)


@lru_cache(maxsize=32)
def greatest_curve(norm: int, sigma_squared: Fraction) -> PairCurve:
    """Return, above, the curve of `cover` (folded at t = 0, as each vector's is), and below, one vector's."""
    if len(vectors(norm)) == 1:
        return curve(vectors(norm)[0], sigma_squared)
    # then every curve can be asked at each slope, also between the lattice's own
    if len(vectors(norm)) <= _MAX_EXHAUSTIVE_VECTORS:
        return worst(tuple(curve(vector, sigma_squared) for vector in vectors(norm)))
    first, masses, infinite = cover(norm, sigma_squared)
    losses = (norm + 2 * (first + np.arange(len(masses)))) / (2 * float(sigma_squared))
    one = worst(tuple(curve(vector, sigma_squared) for vector in typical(norm))).chosen
    above = Lifted(
        atomic_curve(losses, masses, np.full(len(masses), 4 * SPECIAL_FUNCTION_ERROR), None), infinite, one.anchors
    )
    return Bracketed((above,), (one,))
