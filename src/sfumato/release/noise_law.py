"""The laws of integer noise as error bars need them: tails of weighted sums, and draws that anyone may repeat.

Everything here is computed after the noise was added, from public parameters alone: it has no meaning for privacy, so
floats are fine, and so is a stream that can be repeated. Proof: proofs/intervals.md
"""

from dataclasses import dataclass
from functools import lru_cache
from hashlib import shake_256
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[Any]
"""int64 where the numbers fit, else Python integers."""

_WIDEST = 2.0**48
_NEARLY_ONE = 1 - 1e-9
_SMALLEST = 1e-300
_NEGLIGIBLE = 1e-4
"""A Laplace part smaller than this beside a normal one changes no digit that is shown."""


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


def law_of(mechanism: Laplace | Gaussian) -> Law:
    """Return the real law beside a mechanism's noise."""
    match mechanism:
        case Laplace(_, scale, _):
            return Law(True, float(scale))
        case Gaussian(_, sigma_squared, _):
            return Law(False, float(sigma_squared) ** 0.5)


def tail_of_two(reach: Floats, one: Law, other: Law, weight: Floats) -> Floats:
    """Return P[|X + weight · Y| > reach] for independent real X and Y of the two laws, reach and weight >= 0."""
    scaled = np.maximum(weight * other.scale, _SMALLEST)
    if one.laplace and other.laplace:
        return _two_laplaces(reach, one.scale, scaled)
    if one.laplace:
        return _laplace_and_normal(reach, np.full_like(scaled, one.scale), scaled)
    if other.laplace:
        return _laplace_and_normal(reach, scaled, np.full_like(scaled, one.scale))
    from scipy.special import erfc  # a third of a second that Laplace noise does not need

    spread = np.hypot(one.scale, scaled)
    return np.asarray(erfc(reach / (spread * 2**0.5)))


def _two_laplaces(reach: Floats, one: float, other: Floats) -> Floats:
    """(a² e^(-t/a) - b² e^(-t/b)) / (a² - b²), written so that nothing cancels where a is near b."""
    large = np.maximum(one, other)
    ratio = np.clip(np.minimum(one, other) / large, _SMALLEST, _NEARLY_ONE)
    with np.errstate(over="ignore"):
        further = reach / large * (1 / ratio - 1)
    squared = 2 * np.log(ratio)
    return np.asarray(np.exp(-reach / large) * np.expm1(squared - further) / np.expm1(squared))


def _laplace_and_normal(reach: Floats, scale: Floats, deviation: Floats) -> Floats:
    from scipy.special import erfc, log_ndtr

    scale = np.maximum(scale, deviation * _NEGLIGIBLE)
    bend, place = deviation / scale, reach / deviation
    rising = np.exp(bend**2 / 2 - reach / scale + log_ndtr(place - bend))
    falling = np.exp(bend**2 / 2 + reach / scale + log_ndtr(-place - bend))
    return np.asarray(erfc(place / 2**0.5) + rising - falling)


def draw_noise(mechanism: Laplace | Gaussian, shares: Floats) -> Integers:
    """Return the noise at these shares of its law: exactly the integer Laplace law, nearly the Gaussian one."""
    law = law_of(mechanism)
    if law.laplace:
        sizes = np.floor(-law.scale * np.log1p(-np.abs(2 * shares - 1)) + _rounding(law.scale))
        noise = np.copysign(sizes, shares - 0.5)
    else:
        from scipy.special import ndtri

        noise = np.rint(law.scale * ndtri(shares))
    if law.scale < _WIDEST:
        return noise.astype(np.int64)
    return np.array([int(value) for value in noise.flat], dtype=object).reshape(noise.shape)


@lru_cache(maxsize=8)
def even_shares(seed: str, draws: int, columns: int) -> Floats:
    """Return a Latin square of shares: in each column the middles of `draws` equal parts of (0, 1), shuffled.

    The order comes from SHAKE-256 of the seed: the same receipt always has the same error bars.
    """
    size = draws * columns
    words = np.frombuffer(shake_256(seed.encode()).digest(8 * size), dtype="<u8").reshape(columns, draws)
    shares = np.empty((columns, draws))
    np.put_along_axis(shares, words.argsort(axis=1), (np.arange(draws) + 0.5)[None, :] / draws, axis=1)
    shares.flags.writeable = False
    return shares


def _rounding(scale: float) -> float:
    """Return d such that ⌊|R| + d⌋ has the law of |Z|: s · ln(2 / (1 + e^(-1/s))), which is at most a half."""
    return float(scale * (np.log(2) - np.log1p(np.exp(-1 / scale))))
