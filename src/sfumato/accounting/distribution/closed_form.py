"""The exact curve of real Gaussian noise, without the cancellation of its textbook form [BW18]."""

import math

from scipy import special

from sfumato.accounting.distribution.tilted_fft import ROUNDOFF

# scipy's erfcx and ndtr are taken to be this close, relatively: 128 units of roundoff
_SPECIAL_FUNCTION_ERROR = 2.0**-46


def gaussian_delta_bounds(mu_squared: float, epsilon: float) -> tuple[float, float]:
    """Return bounds on Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), for a float within u of mu^2.

    Both terms are e^(-a^2/2) times a Mills ratio, a = mu/2 - epsilon/mu, so that only the ratios are subtracted.
    Theorem and error terms: proofs/pld_composition.md
    """
    if mu_squared == 0:
        return 0.0, 0.0
    mu = math.sqrt(mu_squared)
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    scale = 0.5 * math.exp(-0.5 * near * near) if abs(near) < 38 else 0.0
    second = float(special.erfcx(far / math.sqrt(2))) * scale
    # near < 0 only if mu/2 > epsilon/mu: there Phi is at least one half and needs no Mills ratio
    first = float(special.erfcx(near / math.sqrt(2))) * scale if near > 0 else float(special.ndtr(-near))
    # a and the ratios' arguments carry a few roundings of mu and epsilon/mu; erfcx and Phi have log-slope <= 2 + |x|
    doubt = _SPECIAL_FUNCTION_ERROR + ROUNDOFF * (64 + 16 * (2 + abs(near)) * far + 16 * far)
    error = (first + second) * doubt + 1e-300
    return max(0.0, first - second - error), min(1.0, first - second + error)


def laplace_delta(loss: float, epsilon: float) -> tuple[float, float]:
    """Return bounds on (1 - e^((epsilon - loss)/2))+: one real Laplace release, for a float within u of its loss."""
    gap = loss - epsilon
    slack = 4 * ROUNDOFF * (loss + epsilon)
    upper = -math.expm1(-max(0.0, gap + slack) / 2) * (1 + 8 * ROUNDOFF)
    return max(0.0, -math.expm1(-max(0.0, gap - slack) / 2) * (1 - 8 * ROUNDOFF)), min(1.0, upper)


def integer_laplace_delta(steps: int, rate: float, epsilon: float) -> tuple[float, float]:
    """Return bounds on delta of one release of integer Laplace noise, for a float within u of its rate 1/scale.

    The set {J < n} has P - e^epsilon Q = (a + x b c)/(1 + x) with a = 1 - e^(epsilon - D rate), b = 1 - x^(n-1) and
    c = 1 - e^(epsilon - (D - n) rate); delta is the greatest, at n = ⌈(D - epsilon/rate)/2⌉, which a float misses by
    one at most. Proof: proofs/pld_integer_laplace.md
    """
    x = math.exp(-rate)
    slack = 16 * ROUNDOFF * (steps * rate + epsilon)
    near = math.ceil((steps - epsilon / rate) / 2)

    def height(n: int, shift: float) -> float:
        a = -math.expm1(epsilon - steps * rate - shift)
        c = -math.expm1(min(epsilon - (steps - n) * rate - shift, 700.0))
        return (a - x * math.expm1(-(n - 1) * rate) * c) / (1 + x)

    sets = [n for n in range(near - 1, near + 2) if 1 <= n <= steps] or [1]
    upper = max(height(n, slack) for n in sets) * (1 + 32 * ROUNDOFF)
    lower = max(height(n, -slack) for n in sets) * (1 - 32 * ROUNDOFF)
    return max(0.0, lower), min(1.0, max(0.0, upper))


def range_delta(loss: float, epsilon: float) -> tuple[float, float]:
    """Return bounds on (1 - e^((epsilon - loss)/2))+^2 / (1 - e^-loss): one bounded range.

    `loss` is a float within u of the range. Theorem: proofs/pld_composition.md, Lemma 4
    """
    gap, slack = loss - epsilon, 4 * ROUNDOFF * (loss + epsilon)
    whole = -math.expm1(-loss)
    upper = math.expm1(-max(0.0, gap + slack) / 2) ** 2 / whole * (1 + 32 * ROUNDOFF)
    return math.expm1(-max(0.0, gap - slack) / 2) ** 2 / whole * (1 - 32 * ROUNDOFF), min(1.0, upper + 1e-300)
