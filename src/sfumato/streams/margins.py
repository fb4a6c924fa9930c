"""Compute margins of sums of integer Gaussian and integer Laplace noise, rounded up.

All inputs are public parameters, so floats are fine. Proof: proofs/stream_margins.md
"""

from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, factorial, inf, lgamma, log, nextafter, sqrt
from statistics import NormalDist

import numpy as np

from sfumato.exact import probability
from sfumato.randomness.discrete_laplace import DiscreteLaplace

_NORMAL_SIGMA_SQUARED = 1000
"""Variance of the integer noise from which its sums are normal within 2/σ²."""
_MAX_EXACT_LEVEL = 1 - 1e-12
_MAX_CONVOLVED_SCALE = 1 << 12


def gaussian_margin(variance: float, sigma_squared: Fraction, confidence: object) -> float:
    """Return t with P[|E| <= t] >= confidence for a weighted sum E of integer Gaussians of this `sigma_squared`."""
    level = probability(confidence, "confidence")
    if sigma_squared >= _NORMAL_SIGMA_SQUARED and level < _MAX_EXACT_LEVEL:
        quantile = NormalDist().inv_cdf((1 + float(level)) / 2)
        return _round_up(quantile * sqrt(variance) * (1 + 2 / float(sigma_squared)))
    return _round_up(sqrt(2 * variance * _log_ratio(2, 1 - level)))  # sub-Gaussian with its own variance [CKS20]


def laplace_margin(scale: Fraction, terms: int, confidence: object) -> float:
    """Return t with P[|Z_1 + … + Z_terms| <= t] >= confidence for integer Laplace noise of this scale."""
    level = probability(confidence, "confidence")
    if terms == 1:
        return float(DiscreteLaplace(scale).margin(level))
    return _laplace_margin(scale, terms, level)


@lru_cache(maxsize=4096)
def _laplace_margin(scale: Fraction, terms: int, level: Fraction) -> float:
    if scale <= _MAX_CONVOLVED_SCALE and level < _MAX_EXACT_LEVEL:
        return _convolved_margin(float(scale), terms, float(level))
    # each Z lies within 1 of a real Laplace: floors of exponentials are geometric
    low, high = 0.0, 1.0
    log_left = log((1 - level).numerator) - log((1 - level).denominator)
    while _log_tail(high, terms) > log_left:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _log_tail(middle, terms) > log_left else (low, middle)
    return _round_up(float(scale) * high + terms)


def _convolved_margin(scale: float, terms: int, level: float) -> float:
    """Convolve the law with itself by an FFT, whose rounding error is far below the tolerance of 1e-13."""
    base = exp(-1 / scale)
    reach = ceil(scale * (45 + 8 * terms)) + 2
    size = 1 << (2 * reach + 1).bit_length()
    places = np.minimum(np.arange(size), size - np.arange(size)).astype(np.float64)
    law = (1 - base) / (1 + base) * base**places
    summed = np.fft.irfft(np.fft.rfft(law) ** terms, size)
    beyond = 1 - (summed[0] + 2 * np.cumsum(summed[1 : size // 2]))
    return float(1 + int(np.argmax(beyond <= 1 - level - 1e-13)))


def _log_tail(reach: float, terms: int) -> float:
    """Return log P[|X_1 + … + X_terms| > reach] for real Laplace of scale 1: Bessel's polynomials, term by term."""
    total = 0.0
    for index in range(terms):
        power = terms - 1 - index
        weight = lgamma(terms + index) - lgamma(terms - index) - lgamma(index + 1) - index * log(2)
        weight += -lgamma(terms) - terms * log(2)
        inner = sum(reach**step / factorial(step) for step in range(power + 1))
        total += 2 * exp(weight + lgamma(power + 1)) * inner
    return log(total) - reach if total > 0 else -inf


def _log_ratio(top: int, bottom: Fraction) -> float:
    return log(top) - (log(bottom.numerator) - log(bottom.denominator))


def _round_up(value: float) -> float:
    return nextafter(value * (1 + 1e-12), inf)
