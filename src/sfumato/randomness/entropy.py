"""How many bits of entropy noise has: the least that any sampler reads on average  [Knuth, Yao 1976].

A statement about effort, not about privacy: floats are fine here.
"""

from math import e, exp, expm1, factorial, log1p, log2, pi

from sfumato.randomness.discrete_gaussian import DiscreteGaussian
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.max_norm import MaxNormLaw

_MIN_SMOOTH_VARIANCE = 100
"""From this variance on the lattice changes no digit: the entropy is that of the normal law."""


def entropy_bits(law: DiscreteLaplace | DiscreteGaussian | MaxNormLaw) -> float:
    """Return the entropy of one draw, in bits.

    >>> from fractions import Fraction
    >>> round(entropy_bits(DiscreteLaplace(Fraction(1))), 9), round(entropy_bits(DiscreteLaplace(Fraction(100))), 9)
    (2.341284805, 9.086539208)
    """
    match law:
        case DiscreteLaplace(scale):
            epsilon = 1 / float(scale)
            x = exp(-epsilon)
            spread = -expm1(-epsilon)  # 1 - x, without losing digits where the scale is large
            return (log1p(x) - _log2_or_zero(spread)) * log2(e) + 2 * x * epsilon * log2(e) / (spread * (1 + x))
        case DiscreteGaussian(sigma_squared):
            return _gaussian_bits(float(sigma_squared))
        case MaxNormLaw(sides, rate):  # that of the real law, ln(d! ∏ 2s/rate) + d, where it has any
            widths = sum(log2(2 * side / float(rate)) for side in sides)
            return max(0.0, widths + log2(factorial(len(sides))) + len(sides) * log2(e))


def _gaussian_bits(variance: float) -> float:
    if variance >= _MIN_SMOOTH_VARIANCE:
        return log2(2 * pi * e * variance) / 2
    weights = [exp(-(index**2) / (2 * variance)) for index in range(-400, 401)]
    total = sum(weights)
    shares = [weight / total for weight in weights]
    return -sum(share * log2(share) for share in shares if share > 0)  # far out, a share may be too small for a float


def _log2_or_zero(value: float) -> float:
    return log2(value) / log2(e)
