"""Sixty-digit laws of the privacy loss, written from the definitions and sharing nothing with the accountant."""

from collections import defaultdict
from fractions import Fraction

from mpmath import mp, mpf

from sfumato.accounting.event import Event, GaussianNoise, LaplaceNoise, Pure, RandomizedResponse

mp.dps = 60
Law = dict[Fraction, mpf]
"""Probability of each value of the loss, which is an exact fraction."""


def real(value: Fraction | int) -> mpf:
    """Return a fraction at sixty digits."""
    return mpf(Fraction(value).numerator) / Fraction(value).denominator


def law(event: Event) -> Law:
    """Return the loss ln P/Q under P, by adding up the outcomes of P and of Q."""
    match event:
        case Pure(epsilon, _):
            return {epsilon: 1 / (1 + mp.exp(-real(epsilon))), -epsilon: 1 / (1 + mp.exp(real(epsilon)))}
        case RandomizedResponse(epsilon, categories, _):
            share = 1 / (mp.exp(real(epsilon)) + categories - 1)
            return {epsilon: mp.exp(real(epsilon)) * share, Fraction(0): (categories - 2) * share, -epsilon: share}
        case LaplaceNoise(steps, scale, _):
            return _laplace(steps, scale)
        case GaussianNoise(1, sigma_squared, _):
            return shifted_gaussian(1, sigma_squared)
        case _:
            raise ValueError(event)


def _laplace(steps: int, scale: Fraction) -> Law:
    x = mp.exp(-1 / real(scale))
    noise = (1 - x) / (1 + x)
    result: Law = defaultdict(mpf)
    for z in range(1, steps):  # noise z: |z - steps| - |z| whatever the tails hold
        result[Fraction(steps - 2 * z) / scale] += noise * x**z
    result[Fraction(steps) / scale] += 1 / (1 + x)  # z <= 0
    result[-Fraction(steps) / scale] += x**steps / (1 + x)  # z >= steps
    return result


def shifted_gaussian(shift: int, sigma_squared: Fraction) -> Law:
    """Return the loss of integer Gaussian noise in one cell that moves by `shift`."""
    reach = int(18 * mp.sqrt(real(sigma_squared))) + 45
    weights = {z: mp.exp(-(mpf(z) ** 2) / (2 * real(sigma_squared))) for z in range(-reach, reach + 1)}
    total = mp.fsum(weights.values())
    return {Fraction(shift * shift - 2 * shift * z) / (2 * sigma_squared): w / total for z, w in weights.items()}


def sum_of(laws: list[Law]) -> Law:
    """Return the law of the sum of independent losses."""
    result: Law = {Fraction(0): mpf(1)}
    for one in laws:
        longer: Law = defaultdict(mpf)
        for left, p in result.items():
            for right, q in one.items():
                longer[left + right] += p * q
        result = longer
    return result


def delta(losses: Law, epsilon: Fraction) -> mpf:
    """Return E (1 - e^(epsilon - L))+."""
    return mp.fsum(p * -mp.expm1(real(epsilon - loss)) for loss, p in losses.items() if loss > epsilon)


def gaussian_delta(mu_squared: Fraction, epsilon: float) -> mpf:
    """Return the exact curve of real Gaussian noise [BW18], at enough digits for its cancellation."""
    with mp.workdps(80):
        mu = mp.sqrt(real(mu_squared))
        e = mpf(epsilon)
        return mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)
