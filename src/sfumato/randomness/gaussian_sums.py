"""Enclose sums of the integer Gaussian's weights e^(-z² / 2σ²): normaliser and partial sums.

Below σ = 64 the terms are added one by one. Above it two classical identities replace millions of terms: Poisson's
summation for the whole sum and Euler–Maclaurin at half-integers for a part of it, each with its remainder bounded.
Proof: proofs/gaussian_sums.md
"""

from fractions import Fraction
from functools import cache
from math import ceil, comb, factorial, floor, isqrt

from sfumato.caches import remembered
from sfumato.certified.binary import (
    Between,
    exp_minus_bounds,
    pi_bounds,
    product,
    scaled_ceiling,
    scaled_floor,
    square_root_bounds,
)

_MIN_EXPANSION_VARIANCE = 64 * 64  # σ² from which Euler–Maclaurin is used


def weights(sigma_squared: Fraction, stride: int, count: int, bits: int) -> list[Between]:
    """Enclose e^(-(j·stride)² / 2σ²) * 2**bits for j = 0 … count - 1."""
    one = 1 << bits
    first = exp_minus_bounds(Fraction(stride * stride) / (2 * sigma_squared), bits)
    squared = product(first, first, bits)
    current, ratio = (one, one), first  # w[j+1] = w[j] · q^(2j+1)
    enclosed = []
    for _ in range(count):
        enclosed.append(current)
        current = product(current, ratio, bits)
        ratio = product(ratio, squared, bits)
    return enclosed


def terms_until(sigma_squared: Fraction, stride: int, bits: int) -> int:
    """Return a J with Σ_{j >= J} e^(-(j·stride)² / 2σ²) <= 2^-bits."""
    step = Fraction(stride * stride) / (2 * sigma_squared)
    # (J + i)² >= J² + i, so the tail is below e^(-step·J²) · Σ e^(-step·i) <= e^(-step·J²) (1 + 1/step); log2 e > 1.44
    needed = bits + (ceil(1 / step) + 2).bit_length()
    return isqrt(ceil(needed * 100 / (144 * step))) + 1


@remembered(1024)
def normaliser(sigma_squared: Fraction, bits: int) -> Between:
    """Enclose Σ_z e^(-z² / 2σ²) * 2**bits over all integers z."""
    if sigma_squared >= 1 and bits < 24 * sigma_squared:
        # Poisson: σ√(2π) (1 + 2 Σ_k e^(-2π²σ²k²)), where the sum over k adds less than 2^-bits in all
        guard = bits + 8 + ceil(sigma_squared).bit_length()
        low, high = pi_bounds(guard)
        doubled = 2 * sigma_squared
        low, high = square_root_bounds(
            low * doubled.numerator // doubled.denominator, high * doubled.numerator // doubled.denominator + 1, guard
        )
        return (low >> (guard - bits), (high >> (guard - bits)) + 2)
    return central_sum(sigma_squared, None, bits)


def central_sum(sigma_squared: Fraction, reach: int | None, bits: int) -> Between:
    """Enclose Σ_{|z| <= reach} e^(-z² / 2σ²) * 2**bits; the whole sum when `reach` is None. Term by term."""
    enough = terms_until(sigma_squared, 1, bits)
    count = enough if reach is None else min(enough, reach + 1)
    guard = 8 + 2 * count.bit_length()
    enclosed = weights(sigma_squared, 1, count, bits + guard)
    low = 2 * sum(weight[0] for weight in enclosed) - enclosed[0][0]
    high = 2 * sum(weight[1] for weight in enclosed) - enclosed[0][1]
    left_out = 0 if reach is not None and count == reach + 1 else 2
    return (low >> guard, -(-high >> guard) + left_out)


def part_sum(sigma_squared: Fraction, reach: int, bits: int) -> Between:
    """Enclose Σ_{|z| <= reach} e^(-z² / 2σ²) * 2**bits, to within a few units."""
    # the expansion is asymptotic: it has a limited number of bits
    if sigma_squared < _MIN_EXPANSION_VARIANCE or 2 * bits > sigma_squared:
        return central_sum(sigma_squared, reach, bits)
    end = Fraction(2 * reach + 1, 2)
    low, high = _integral(end, sigma_squared, bits)
    order = _enough_terms(sigma_squared, bits)
    correction_low, correction_high = _corrections(end, sigma_squared, order, bits)
    rest = _remainder(sigma_squared, order, bits)
    return (low + correction_low - rest, high + correction_high + rest)


def _integral(end: Fraction, sigma_squared: Fraction, bits: int) -> Between:
    """Enclose ∫_{-end}^{end} e^(-u² / 2σ²) du * 2**bits by its alternating power series."""
    ratio = end * end / (2 * sigma_squared)
    # the largest term is below e^ratio <= 2^(1.5·ratio): up to 1.5·ratio leading bits cancel
    guard = bits + 32 + ceil(3 * ratio / 2) + ceil(end).bit_length()
    step_low, step_high = scaled_floor(ratio, guard), scaled_ceiling(ratio, guard)
    term_low = term_high = 1 << guard  # encloses ratio^n / n!
    low = high = 0
    order = 0
    while term_high > 1 or order < ratio:
        divided_low, divided_high = term_low // (2 * order + 1), -(-term_high // (2 * order + 1))
        low, high = (
            (low + divided_low, high + divided_high) if order % 2 == 0 else (low - divided_high, high - divided_low)
        )
        order += 1
        term_low = ((term_low * step_low) >> guard) // order
        term_high = -(((-term_high * step_high) >> guard) // order)
    slack = 4  # the series left out is alternating and falling: below its first term
    scale = 2 * end
    low = (low - slack) * scale.numerator // scale.denominator
    high = -(-(high + slack) * scale.numerator // scale.denominator)
    return (low >> (guard - bits), -(-high >> (guard - bits)))


def _corrections(end: Fraction, sigma_squared: Fraction, order: int, bits: int) -> Between:
    """Enclose Σ_k 2·B_2k(½)/(2k)!·f^(2k-1)(end) * 2**bits for k = 1 … order: what the integral leaves out."""
    total = Fraction(0)
    for k in range(1, order + 1):
        total += 2 * _bernoulli_at_half(2 * k) / factorial(2 * k) * _derivative_factor(2 * k - 1, end, sigma_squared)
    guard = bits + 16 + ceil(abs(total)).bit_length()
    low, high = exp_minus_bounds(end * end / (2 * sigma_squared), guard)
    ends = (total * low, total * high)
    return (scaled_floor(min(ends), 0) >> (guard - bits), -(-scaled_ceiling(max(ends), 0) >> (guard - bits)))


def _derivative_factor(order: int, at: Fraction, sigma_squared: Fraction) -> Fraction:
    """Return f^(order)(at) / f(at) for f = e^(-u²/2σ²): Hermite's recurrence h_{n+1} = -(u·h_n + n·h_{n-1}) / σ²."""
    previous, current = Fraction(0), Fraction(1)
    for n in range(order):
        previous, current = current, -(at * current + n * previous) / sigma_squared
    return current


def _enough_terms(sigma_squared: Fraction, bits: int) -> int:
    """Return the smallest order whose remainder is at most 2^-bits; for bits <= σ²/2 there is one."""
    whole = 39 * floor(sigma_squared)
    order = 1
    while whole**order < (16 * ceil(sigma_squared) * (2 * order) ** order) << bits:
        order += 1
    return order


def _remainder(sigma_squared: Fraction, order: int, bits: int) -> int:
    """Bound what Euler–Maclaurin leaves out after `order` = p terms, * 2**bits.

    |R| <= 4.01/(2π)^(2p) ∫|f^(2p)| and, by Cramér's bound on Hermite functions, ∫|f^(2p)| is at most
    1.09·2√π·√((2p)!)·σ^(1-2p); so |R| < 16·√((2p)!)·σ·(2πσ)^(-2p), where √((2p)!) <= (2p)^p and (2π)² > 39.
    """
    bound = 16 * Fraction(2 * order) ** order / (39 * sigma_squared) ** order * ceil(sigma_squared)
    return scaled_ceiling(bound, bits) + 1


@cache  # each needs all before it; a cache that forgets them would take exponential time
def _bernoulli(order: int) -> Fraction:
    if order == 0:
        return Fraction(1)
    if order == 1:
        return Fraction(-1, 2)
    if order % 2:
        return Fraction(0)
    return -sum((comb(order + 1, k) * _bernoulli(k) for k in range(order)), Fraction(0)) / (order + 1)


def _bernoulli_at_half(order: int) -> Fraction:
    return (Fraction(2, 1 << order) - 1) * _bernoulli(order)  # B_n(1/2) = (2^(1-n) - 1) B_n
