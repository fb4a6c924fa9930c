"""Integer Gaussian noise, exactly: P[Z = z] proportional to e^(-z² / 2σ²).

Below σ = 32 the size |Z| comes straight from a guide table. Above it a table chooses a strip of B = 2^m integers, fair
bits a place in it, and a coin that seldom fails corrects the strip's flat top. Proof: proofs/discrete_gaussian.md
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, isqrt
from operator import index
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from sfumato.caches import remembered
from sfumato.certified.binary import exp_minus_bounds, exp_minus_enclosure, scaled_ceiling, scaled_floor
from sfumato.exact import positive_rational, probability
from sfumato.randomness.bernoulli import Bernoulli, refine
from sfumato.randomness.gaussian_sums import normaliser, part_sum, terms_until, weights
from sfumato.randomness.geometric import MAX_INT64_SCALE, geometric_by_digits
from sfumato.randomness.guide import DrawTail, Guide, build_guide
from sfumato.randomness.margin import smallest_covering
from sfumato.randomness.source import Source, broken_source, read_exactly, sample_size
from sfumato.randomness.uniform import Integers, fair_signs, uniform_bits

_TABLE_SIGMA = 32  # below this σ the table holds every |z|
_TABLE_TAIL = 56  # the table ends where less than 2^-56 is left
_PASS_SAMPLES = 1 << 15
_SPARE_CANDIDATES = 1 << 14  # candidates: P[fewer than a quarter of this many are kept] < e^-16384
_PRECISION_DOUBLINGS = 8
_FILTER_ERROR = 2.0**-40  # what a float64 exp may be wrong by, with room: see proofs/discrete_gaussian.md


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """P[Z = z] = e^(-z² / 2σ²) / Σ_k e^(-k² / 2σ²) on all integers. Proof: proofs/discrete_gaussian.md.

    >>> DiscreteGaussian(Fraction(100)).margin(Fraction(95, 100))
    20
    """

    sigma_squared: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma_squared", positive_rational(self.sigma_squared, "sigma_squared"))

    def draw(self, count: int, source: Source) -> Integers:
        """Draw `count` independent samples: int64 up to σ = 2^48, else Python integers."""
        size = sample_size(count)
        sampler = _prepare_sampler(self.sigma_squared)
        passes = [
            _draw_pass(sampler, min(_PASS_SAMPLES, size - start), source)
            for start in range(0, max(size, 1), _PASS_SAMPLES)
        ]
        return passes[0] if len(passes) == 1 else np.concatenate(passes)

    def margin(self, confidence: Fraction) -> int:
        """Return the smallest t with P[|Z| <= t] >= confidence, exactly."""
        return _gaussian_margin(self.sigma_squared, probability(confidence, "confidence"))

    def pmf(self, value: int, bits: int) -> tuple[int, int]:
        """Enclose P[Z = value] * 2**bits between integers."""
        low, high = exp_minus_bounds(index(value) ** 2 / (2 * self.sigma_squared), bits + 4)
        total_low, total_high = normaliser(self.sigma_squared, bits + 4)
        return ((low << bits) // total_high, -((-high << bits) // total_low))

    def upper_tail(self, least: int, bits: int) -> tuple[int, int]:
        """Enclose P[Z >= least] * 2**bits between integers: half of what lies outside -least < z < least."""
        if least <= 0:
            low, high = self.upper_tail(1 - index(least), bits)
            return ((1 << bits) - high, (1 << bits) - low)
        low, high = part_sum(self.sigma_squared, index(least) - 1, bits + 4)
        total_low, total_high = normaliser(self.sigma_squared, bits + 4)
        beyond = max(0, total_low - high), max(0, total_high - low)
        return ((beyond[0] << bits) // (2 * total_high), -((-beyond[1] << bits) // (2 * total_low)))


@dataclass(frozen=True, slots=True)
class _Chance:
    """e^-exponent for a secret exponent (noise), which is never cached."""

    exponent: Fraction

    def bounds(self, bits: int) -> tuple[int, int]:
        return exp_minus_enclosure(self.exponent, bits)


@dataclass(frozen=True, slots=True)
class _Strips:
    """The law of the strip: P[J = j] proportional to m_j·e^(-(j·stride)² / 2σ²), j < cells; the last one is the rest.

    With `folded` the strips are single integers and m_j = 2 for j > 0, since |Z| = j is both signs; else m_j = 1.
    """

    sigma_squared: Fraction
    stride: int
    cells: int
    folded: bool

    def cumulative(self, bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        guard = 16 + 2 * self.cells.bit_length()
        terms = max(self.cells + 1, terms_until(self.sigma_squared, self.stride, bits + guard))
        enclosed = weights(self.sigma_squared, self.stride, terms, bits + guard)
        sums_low, sums_high = [enclosed[0][0]], [enclosed[0][1]]
        for low, high in enclosed[1:]:
            sums_low.append(sums_low[-1] + (low << self.folded))
            sums_high.append(sums_high[-1] + (high << self.folded))
        total_low, total_high = sums_low[-1], sums_high[-1] + 2  # the terms left out add less than one unit each side
        return (
            (*((bound << bits) // total_high for bound in sums_low[: self.cells]), 1 << bits),
            (*(min(-((-bound << bits) // total_low), 1 << bits) for bound in sums_high[: self.cells]), 1 << bits),
        )

    @property
    def tail(self) -> DrawTail:
        """J - cells given J >= cells: w[cells + i] = w[cells] · (q^(2·cells))^i · q^(i²), a geometric and a coin."""
        return self._draw_tail

    def _draw_tail(self, count: int, source: Source) -> npt.NDArray[np.int64]:
        step = Fraction(self.stride * self.stride) / (2 * self.sigma_squared)
        drawn = np.full(count, -1, dtype=np.int64)
        for _ in range(_SPARE_CANDIDATES):
            missing = np.flatnonzero(drawn < 0)
            if not missing.size:
                return drawn
            for row, further in zip(
                missing, geometric_by_digits(2 * self.cells * step, missing.size, source), strict=True
            ):
                if Bernoulli(_Chance(step * int(further) ** 2)).draw(1, source)[0]:
                    drawn[row] = further
        raise broken_source()


@dataclass(frozen=True, slots=True, eq=False)
class _Sampler:
    """What one σ needs, prepared once: it depends on public parameters only."""

    guide: Guide
    digits: int  # the stride is 2^digits
    step: Fraction  # stride² / 2σ²
    rate: float  # the same, for the filter
    wide: bool


@lru_cache(maxsize=256)
def _prepare_sampler(sigma_squared: Fraction) -> _Sampler:
    digits = 0
    if sigma_squared >= _TABLE_SIGMA**2:
        digits = (isqrt(int(sigma_squared)) // 16).bit_length() - 1  # the largest power of two up to σ/16
    stride = 1 << digits
    cells = terms_until(sigma_squared, stride, _TABLE_TAIL)
    guide = build_guide(_Strips(sigma_squared, stride, cells, folded=digits == 0))
    step = Fraction(stride * stride) / (2 * sigma_squared)
    return _Sampler(guide, digits, step, float(step) if digits else 0.0, sigma_squared > MAX_INT64_SCALE**2)


def _draw_pass(sampler: _Sampler, count: int, source: Source) -> Integers:
    if not sampler.digits:
        sizes = _draw_strips(sampler, count, source)
        return sizes * fair_signs(count, source)
    asked = count + count // 16 + 4
    kept = _draw_candidates(sampler, asked, source)
    while len(kept) < count:
        if asked > 4 * count + _SPARE_CANDIDATES:
            raise broken_source()
        more = count - len(kept) + 4
        asked += more
        kept = np.concatenate([kept, _draw_candidates(sampler, more, source)])
    return kept[:count]


def _draw_strips(sampler: _Sampler, count: int, source: Source) -> npt.NDArray[np.int64]:
    words = np.frombuffer(read_exactly(source, 2 * count), dtype="<u2")
    return sampler.guide.outcomes(words, source)


def _draw_candidates(sampler: _Sampler, count: int, source: Source) -> Integers:
    """Draw candidates ±(strip·B + place) and keep the accepted ones: how many does not depend on any data."""
    strips = _draw_strips(sampler, count, source)
    places = uniform_bits(sampler.digits + 1, count, source)
    negative, places = places & 1, places >> 1  # one fair bit more than the place needs is the sign
    accepted = _accept(sampler, strips, places, source)
    if sampler.wide:
        strips = strips.astype(object)
    elif strips.max() >= 1 << (62 - sampler.digits):
        raise broken_source()
    sizes = (strips << sampler.digits) + places
    accepted &= sizes >= negative  # zero has two signs: only one of them counts
    drawn: Integers = ((sizes ^ -negative) + negative)[accepted]  # two's complement: -size where negative is 1
    return drawn


def _accept(
    sampler: _Sampler, strips: npt.NDArray[np.int64], places: Integers, source: Source
) -> npt.NDArray[np.bool_]:
    """Toss a coin with P = e^-(step·(2·strip·ρ + ρ²)), ρ = place / B, per candidate.

    A float64 decides only where the distance to the drawn bits is far beyond its error; the rest is decided exactly.
    """
    # the bits are turned round, so that bits that are all alike are accepted and end
    words = ~np.frombuffer(read_exactly(source, 4 * len(strips)), dtype="<u4")
    unseen = max(sampler.digits - 60, 0)  # a float sees no more of a place than its first 60 bits
    share = (places >> unseen).astype(np.float64) * 0.5 ** (sampler.digits - unseen)
    estimate = np.exp(-sampler.rate * share * (2.0 * strips + share))
    drawn = words * 2.0**-32
    accepted = drawn + 2.0**-32 <= estimate - _FILTER_ERROR
    for row in (~accepted & (drawn < estimate + _FILTER_ERROR)).nonzero()[0]:
        part = Fraction(int(places[row]), 1 << sampler.digits)
        chance = _Chance(sampler.step * part * (2 * int(strips[row]) + part))
        accepted[row] = refine(chance, int(words[row]), 32, source)
    return accepted


@remembered(4096)
def _gaussian_margin(sigma_squared: Fraction, confidence: Fraction) -> int:
    quantile = NormalDist().inv_cdf(min((1 + float(confidence)) / 2, 1 - 2.0**-53))
    guess = Fraction(quantile) * isqrt(ceil(sigma_squared))
    return smallest_covering(lambda reach: _covers(sigma_squared, reach, confidence), guess)


def _covers(sigma_squared: Fraction, reach: int, confidence: Fraction) -> bool:
    """Decide P[|Z| <= reach] >= confidence by certified sums."""
    bits = 64 + ceil(1 / (1 - confidence)).bit_length()  # fewer could not tell it from 1
    for _ in range(_PRECISION_DOUBLINGS):
        low, high = part_sum(sigma_squared, reach, bits)
        total_low, total_high = normaliser(sigma_squared, bits)
        if low >= scaled_ceiling(confidence * total_high, 0):
            return True
        if high < scaled_floor(confidence * total_low, 0):
            return False
        bits *= 2
    return False  # equal to thousands of bits: the margin may come out one too large, never too small
