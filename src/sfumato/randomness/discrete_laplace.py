"""Integer Laplace noise, exactly: P[Z = z] = (1 - x) / (1 + x) · x^|z| with x = e^(-1/scale).

Z = S · (1 + G): a sign S that is minus, zero or plus, and a geometric G. Every sample draws both, so that the
work does not depend on the noise. Proof: proofs/discrete_laplace.md
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import log
from operator import index

import numpy as np

from sfumato.caches import remembered
from sfumato.certified.binary import exp_minus_bounds, scaled_ceiling, scaled_floor
from sfumato.exact import positive_rational, probability
from sfumato.randomness.bernoulli import ExpRatio
from sfumato.randomness.geometric import SMALL_TABLES, Sampler, TableSizes, in_passes, make_sampler, sizes_for
from sfumato.randomness.margin import smallest_covering
from sfumato.randomness.source import Source, sample_size
from sfumato.randomness.uniform import Integers

_ONE = np.array([1])  # numpy is slow to read a Python integer


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """P[Z = z] = (1 - x) / (1 + x) · x^|z| on all integers, x = e^(-1/scale). Proof: proofs/discrete_laplace.md.

    >>> DiscreteLaplace(Fraction(10)).margin(Fraction(95, 100))
    30
    """

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive_rational(self.scale, "scale"))

    def draw(self, count: int, source: Source) -> Integers:
        """Draw `count` independent samples: int64 up to a scale of 2^48, else Python integers."""
        sampler = _sampler(self.scale, sizes_for(sample_size(count)))
        return in_passes(lambda size: _draw_block(sampler, size, source), count, sampler.block)

    def margin(self, confidence: Fraction) -> int:
        """Return the smallest t with P[|Z| <= t] >= confidence, exactly."""
        return _laplace_margin(self.scale, probability(confidence, "confidence"))

    def pmf(self, value: int, bits: int) -> tuple[int, int]:
        """Enclose P[Z = value] * 2**bits between integers."""
        low, high = exp_minus_bounds(abs(index(value)) / self.scale, bits + 2)
        zero_low, zero_high = ExpRatio(1 / self.scale, a=1, b=-1, c=1, d=1).bounds(bits + 2)
        return ((low * zero_low) >> (bits + 4), -((-high * zero_high) >> (bits + 4)))

    def upper_tail(self, least: int, bits: int) -> tuple[int, int]:
        """Enclose P[Z >= least] * 2**bits between integers; for least >= 1 it is x^least / (1 + x)."""
        if least <= 0:
            low, high = self.upper_tail(1 - index(least), bits)
            return ((1 << bits) - high, (1 << bits) - low)
        low, high = exp_minus_bounds(index(least) / self.scale, bits + 2)
        x_low, x_high = exp_minus_bounds(1 / self.scale, bits + 2)
        one = 1 << (bits + 2)
        return ((low << bits) // (one + x_high), -((-high << bits) // (one + x_low)))


@dataclass(frozen=True, slots=True)
class _Signs:
    """The law of 1 + sign(Z): minus, zero, plus."""

    scale: Fraction

    def cumulative(self, bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        # P[Z < 0] = x / (1 + x) and P[Z <= 0] = 1 / (1 + x)
        minus_low, minus_high = ExpRatio(1 / self.scale, a=0, b=1, c=1, d=1).bounds(bits)
        zero_low, zero_high = ExpRatio(1 / self.scale, a=1, b=0, c=1, d=1).bounds(bits)
        return ((minus_low, zero_low, 1 << bits), (minus_high, zero_high, 1 << bits))

    @property
    def tail(self) -> None:
        """There is none."""


def _draw_block(sampler: Sampler, count: int, source: Source) -> Integers:
    geometric, signs = sampler.draw(count, source)
    signed: Integers = (geometric + _ONE) * (signs[0] - _ONE)
    return signed


@lru_cache(maxsize=96)  # at most 896 KiB each up to a scale of 2^48, half of that up to 10^6
def _sampler(scale: Fraction, sizes: TableSizes = SMALL_TABLES) -> Sampler:
    return make_sampler(scale, (_Signs(scale),), sizes)


@remembered(4096)
def _laplace_margin(scale: Fraction, confidence: Fraction) -> int:
    guess = scale * Fraction(-log(max(float(1 - confidence), 5e-324)))  # x^(t+1) ~ 1 - confidence
    return smallest_covering(lambda reach: _covers(scale, reach, confidence), guess)


def _covers(scale: Fraction, reach: int, confidence: Fraction) -> bool:
    """Decide P[|Z| > reach] = 2 x^(reach + 1) / (1 + x) <= 1 - confidence."""
    bits = 64
    while True:
        low, high = (2 * bound for bound in DiscreteLaplace(scale).upper_tail(reach + 1, bits))
        if high <= scaled_floor(1 - confidence, bits):
            return True
        if low >= scaled_ceiling(1 - confidence, bits):
            return False
        bits *= 2  # ends: 2 x^(t+1) / (1 + x) is irrational (Lindemann)
