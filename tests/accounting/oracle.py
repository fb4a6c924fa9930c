"""Losses straight from their definitions, at 60 digits: sums over outcomes, integrals over densities."""

from fractions import Fraction

import mpmath

mp = mpmath.MPContext()  # a context of our own: no other test's precision reaches it, nor ours another test
mp.dps = 60
Pair = tuple[list[mpmath.mpf], list[mpmath.mpf]]


def real(value: Fraction | int | str) -> mpmath.mpf:
    fraction = Fraction(value)
    return mp.mpf(fraction.numerator) / fraction.denominator


def divergence(first: list[mpmath.mpf], second: list[mpmath.mpf], order: Fraction) -> mpmath.mpf:
    """The Rényi divergence of two lists of probabilities, the larger of both directions."""
    alpha = real(order)
    return max(
        mp.log(mp.fsum(p**alpha * q ** (1 - alpha) for p, q in zip(*pair, strict=True))) / (alpha - 1)
        for pair in ((first, second), (second, first))
    )


def integer_laplace(shift: int, scale: Fraction, reach: int) -> Pair:
    x = mp.exp(-1 / real(scale))
    norm = (1 - x) / (1 + x)
    outcomes = range(-reach, reach + shift + 1)
    return [norm * x ** abs(z) for z in outcomes], [norm * x ** abs(z - shift) for z in outcomes]


def integer_gaussian(shift: int, variance: Fraction, reach: int) -> Pair:
    def weight(z: int) -> mpmath.mpf:
        return mp.exp(-mp.mpf(z * z) / (2 * real(variance)))

    norm = mp.fsum(weight(z) for z in range(-reach, reach + 1))
    outcomes = range(-reach, reach + shift + 1)
    return [weight(z) / norm for z in outcomes], [weight(z - shift) / norm for z in outcomes]


def response(epsilon: Fraction, categories: int) -> Pair:
    odds = mp.exp(real(epsilon))
    kept, other = odds / (odds + categories - 1), 1 / (odds + categories - 1)
    rest = [other] * (categories - 2)
    return [kept, other, *rest], [other, kept, *rest]


def real_laplace_loss(bound: Fraction, order: Fraction) -> mpmath.mpf:
    e, alpha = real(bound), real(order)

    def integrand(z: mpmath.mpf) -> mpmath.mpf:
        return mp.exp(-alpha * abs(z) - (1 - alpha) * abs(z - e)) / 2

    return mp.log(mp.quad(integrand, [-mp.inf, 0, e, mp.inf])) / (alpha - 1)


def sampled(rate: Fraction, pair: Pair) -> Pair:
    q = real(rate)
    moved, still = pair
    return [(1 - q) * b + q * a for a, b in zip(moved, still, strict=True)], still


def sampled_real_gaussian_loss(rate: Fraction, variance: Fraction, order: Fraction) -> mpmath.mpf:
    q, v, alpha = real(rate), real(variance), real(order)

    def integrand(z: mpmath.mpf) -> mpmath.mpf:
        density = mp.exp(-z * z / (2 * v)) / mp.sqrt(2 * mp.pi * v)
        return density * ((1 - q) + q * mp.exp((2 * z - 1) / (2 * v))) ** alpha

    sigma = mp.sqrt(v)
    points = [alpha + sigma * step for step in range(-40, 41, 4)]
    middle = [sigma * step for step in range(-40, 0, 4)]
    return mp.log(mp.quad(integrand, sorted([*middle, *points, mp.mpf(0)]))) / (alpha - 1)


def gaussian_delta(epsilon: mpmath.mpf, mu: mpmath.mpf) -> mpmath.mpf:
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def optimal_delta(epsilons: list[Fraction], target: Fraction) -> mpmath.mpf:
    """The sum over all subsets [MV16], by brute force."""
    masses: dict[Fraction, mpmath.mpf] = {Fraction(0): mp.mpf(1)}
    for epsilon in epsilons:
        plus = 1 / (1 + mp.exp(-real(epsilon)))
        spread: dict[Fraction, mpmath.mpf] = {}
        for loss, mass in masses.items():
            spread[loss + epsilon] = spread.get(loss + epsilon, mp.mpf(0)) + mass * plus
            spread[loss - epsilon] = spread.get(loss - epsilon, mp.mpf(0)) + mass * (1 - plus)
        masses = spread
    return mp.fsum(mass * (1 - mp.exp(real(target - loss))) for loss, mass in masses.items() if loss > target)


def holds_above(bound: float | Fraction, truth: mpmath.mpf, excess: float) -> bool:
    """Whether a bound lies at or above the truth and exceeds it by at most a share."""
    value = real(bound) if isinstance(bound, Fraction) else mp.mpf(bound)
    return bool(truth <= value <= truth * (1 + mp.mpf(excess)) + mp.mpf(10) ** -320)
