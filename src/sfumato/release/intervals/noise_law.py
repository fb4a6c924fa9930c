"""The laws of integer noise as error bars need them: tails of two, and of any weighted sum.

Everything here is computed after the noise was added, from public parameters alone: it has no meaning for privacy, so
floats are fine. Proof: proofs/intervals.md
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.max_norm import MaxNormPart

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[Any]
"""int64 where the numbers fit, else Python integers."""

_MAX_SIGMA = 1e70
"""Maximum deviation of noise; it exceeds every count, and its fourth power is still a float."""
_MAX_SCALE_RATIO = 1 - 1e-9
_MIN_PROBABILITY, _MIN_VARIANCE = 1e-300, 1e-140
_NEGLIGIBLE_RATIO = 1e-4
"""Ratio of a Laplace part to a normal one below which no printed digit changes."""
_MIN_NORMAL_SCALE = 3.0
"""Scale of a normal law below which it is summed integer by integer."""
_LAPLACE_EXCESS_RATIO = 3.0
"""Excess kurtosis of a Laplace law; no sum of Laplace and normal laws has more."""
_GRIDS = (25, 0.1, 300.0, 0.1, 16.0)
"""Laws of this many excesses, integrated in these steps so far, at deviations in these steps so far."""


@dataclass(frozen=True, slots=True)
class Law:
    """The real law beside an integer one: Laplace of this scale, or normal with it as deviation.

    Theorem: integer noise Z and real noise R of this law can be drawn together with |Z - R| <= `lattice` (Laplace:
    always; normal: as far as the tails are concerned).  Proof: proofs/intervals.md
    """

    laplace: bool
    scale: float

    @property
    def lattice(self) -> float:
        """How far an integer may lie from its real twin: a half, and a little more under small Laplace noise."""
        return 1 - _rounding(self.scale) if self.laplace else 0.5

    @property
    def moments(self) -> tuple[float, float]:
        """Return variance and fourth cumulant of the integer law.

        >>> Law(False, 10.0).moments, [round(value) for value in Law(True, 10.0).moments]
        ((100.0, 0.0), [200, 120000])
        """
        if self.laplace:
            x, rest = np.exp(-1 / self.scale), -np.expm1(-1 / self.scale)
            return float(2 * x / rest**2), float(2 * x * (1 + 4 * x + x**2) / rest**4)
        if self.scale > _MIN_NORMAL_SCALE:
            return self.scale**2, 0.0
        integers = np.arange(-40, 41).astype(np.float64)
        weights = np.exp(-((integers / self.scale) ** 2) / 2)
        second, fourth = (float((weights * integers**power).sum() / weights.sum()) for power in (2, 4))
        return second, fourth - 3 * second**2


def law_of(mechanism: Laplace | Gaussian) -> Law:
    """Return the real law beside a mechanism's noise."""
    match mechanism:
        case Laplace(_, scale, _):
            return Law(True, min(float(scale), _MAX_SIGMA))
        case Gaussian(_, sigma_squared, _):
            return Law(False, min(float(sigma_squared), _MAX_SIGMA**2) ** 0.5)


def moments_of(mechanism: Laplace | Gaussian | MaxNormPart) -> tuple[float, float, float]:
    """Return variance and fourth cumulant of one noisy number, and how much its square moves with others'.

    The fourth cumulant of a sum of w · Z is the sum of w⁴ · fourth, and of (Σ w² · shared)² over every draw that parts
    of the sum share: `fourth` of noise that is shared is what is left beside that.  Proof: proofs/intervals.md, 3
    """
    if not isinstance(mechanism, MaxNormPart):
        return (*law_of(mechanism).moments, 0.0)
    variance, fourth = mechanism.joint.law.moments(mechanism.place)
    shared = variance * (3 * mechanism.joint.law.square_correlation) ** 0.5
    return variance, fourth - 3 * variance**2 - shared**2, shared


def tail_of_two(reach: Floats, one: Law, other: Law, weights: tuple[Floats, Floats]) -> Floats:
    """Return P[|v · X + w · Y| > reach] for independent real X and Y of the two laws, with v, w >= 0."""
    first, second = (
        np.maximum(weight * law.scale, _MIN_PROBABILITY) for weight, law in zip(weights, (one, other), strict=True)
    )
    if one.laplace and other.laplace:
        return _two_laplaces(reach, first, second)
    if one.laplace:
        return _laplace_and_normal(reach, first, second)
    if other.laplace:
        return _laplace_and_normal(reach, second, first)
    from scipy.special import erfc  # a third of a second that Laplace noise does not need

    return np.asarray(erfc(reach / (np.hypot(first, second) * 2**0.5)))


def _two_laplaces(reach: Floats, one: Floats, other: Floats) -> Floats:
    """(a² e^(-t/a) - b² e^(-t/b)) / (a² - b²), written so that nothing cancels where a is near b."""
    large = np.maximum(one, other)
    ratio = np.clip(np.minimum(one, other) / large, _MIN_PROBABILITY, _MAX_SCALE_RATIO)
    with np.errstate(over="ignore"):
        further = reach / large * (1 / ratio - 1)
    squared = 2 * np.log(ratio)
    return np.asarray(np.exp(-reach / large) * np.expm1(squared - further) / np.expm1(squared))


def _laplace_and_normal(reach: Floats, scale: Floats, deviation: Floats) -> Floats:
    from scipy.special import erfc, log_ndtr

    scale = np.maximum(scale, deviation * _NEGLIGIBLE_RATIO)
    deviation = np.maximum(deviation, scale * _NEGLIGIBLE_RATIO)
    bend, place = deviation / scale, reach / deviation
    rising = np.exp(bend**2 / 2 - reach / scale + log_ndtr(place - bend))
    falling = np.exp(bend**2 / 2 + reach / scale + log_ndtr(-place - bend))
    return np.asarray(erfc(place / 2**0.5) + rising - falling)


def quantile_of_sum(variance: Floats, fourth: Floats, largest: Floats, tail: float) -> Floats:
    """Return t such that a weighted sum of integer noises lies beyond ±t with at most about this probability.

    `variance` and `fourth` (cumulant) are those of the sum, `largest` its largest weight, on whose grid the sum nearly
    lies. Blurred by a uniform law of that width the sum has a density, and its tail is read off the law of the same
    variance and excess between Laplace and normal (symmetric variance-gamma).  Proof: proofs/intervals.md
    """
    with np.errstate(over="ignore", invalid="ignore"):  # noise beyond every number: its excess does not matter
        blurred = variance + largest**2 / 12
        excess = np.clip(
            (fourth - largest**4 / 120) / np.maximum(blurred, _MIN_VARIANCE) ** 2, 0, _LAPLACE_EXCESS_RATIO
        )
    excess = np.nan_to_num(excess, nan=_LAPLACE_EXCESS_RATIO)
    return np.asarray(largest / 2 + np.sqrt(blurred) * np.interp(excess, *_quantiles(_safer(tail))))


def _safer(tail: float) -> float:
    """Return the tail that is asked of the matched law.

    It errs by 2.5 % at most near the middle. Far out a single Laplace part weighs more than two moments tell: by 1.2 at
    a thousandth, by 12 at 10^-8 (`tests/release/test_noise_law.py` looks for the worst).
    """
    return float(tail / max(1.04, 1.6 * (1e-3 / tail) ** 0.3))


@lru_cache(maxsize=256)
def _quantiles(tail: float) -> tuple[Floats, Floats]:
    """Return excesses, and how many deviations the law of each reaches at this tail."""
    excesses, places, logarithms = _tails()
    found = []
    for row in logarithms:
        last = int(np.argmax(row < np.log(1e-7))) or len(row) - 1  # below, the integral is all rounding
        if np.log(tail) < row[last - 1]:  # logarithms of tails are concave: a line only overestimates them
            slope = (row[last - 1] - row[last - 11]) / (places[last - 1] - places[last - 11])
            found.append(places[last - 1] + (np.log(tail) - row[last - 1]) / slope)
        else:
            found.append(np.interp(-np.log(tail), -row[:last], places[:last]))
    return excesses, np.array(found)


@lru_cache(maxsize=1)
def _tails() -> tuple[Floats, Floats, Floats]:
    """Return excesses, deviations, and the logarithm of P[|S| > deviation], by inverting characteristic functions."""
    count, step, far, apart, farthest = _GRIDS
    excesses, places = np.linspace(0, _LAPLACE_EXCESS_RATIO, count), np.arange(0, farthest, apart)
    nodes = (np.arange(int(far / step)) + 0.5) * step
    shapes = 3 / excesses[1:, None]
    functions = np.vstack([np.exp(-(nodes**2) / 2), np.exp(-shapes * np.log1p(nodes**2 / (2 * shapes)))])
    inside = 2 / np.pi * step * (functions @ (np.sin(np.outer(nodes, places)) / nodes[:, None]))
    return excesses, places, np.log(np.maximum(1 - inside, _MIN_PROBABILITY))


def _rounding(scale: float) -> float:
    """Return d such that ⌊|R| + d⌋ has the law of |Z|: s · ln(2 / (1 + e^(-1/s))), which is at most a half."""
    return float(scale * (np.log(2) - np.log1p(np.exp(-1 / scale))))
