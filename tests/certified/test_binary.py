"""Integers around a real number: the number lies between them, and they are near each other."""

import random
from fractions import Fraction

import mpmath
import pytest

from sfumato.certified.binary import exp_fraction, exp_minus_bounds, exp_rounded, pi_bounds, power, powers, product
from sfumato.certified.enclosure import pi

BITS = 200


@pytest.mark.parametrize("seed", range(20))
def test_products_and_powers_contain_the_exact_ones(seed: int) -> None:
    made = random.Random(seed)
    first, second = (Fraction(made.randint(1, 10**6), made.randint(10**6, 10**7)) for _ in range(2))
    exponent = made.randint(1, 40)
    ends = [(int(one * 2**BITS), int(one * 2**BITS) + 1) for one in (first, second)]
    found = [
        (product(ends[0], ends[1], BITS), first * second),
        (power(ends[0], exponent, BITS), first**exponent),
        *zip(powers(ends[0], exponent, BITS), (first**k for k in range(exponent + 1)), strict=True),
    ]
    for (low, high), exact in found:
        assert low <= exact * 2**BITS <= high <= low + 4 * exponent


@pytest.mark.parametrize("exponent", [Fraction(1, 10**9), Fraction(1, 3), Fraction(7), Fraction(2001, 20)])
def test_the_exponential_is_rounded_as_its_exact_value_is(exponent: Fraction) -> None:
    with mpmath.workdps(120):
        truth = mpmath.exp(mpmath.mpf(exponent.numerator) / exponent.denominator)
        assert exp_rounded(1000, exponent) == int(mpmath.nint(1000 * truth))
        assert exp_rounded(10**60, -exponent) == int(mpmath.nint(mpmath.mpf(10) ** 60 / truth))
        near = exp_fraction(exponent)
        assert abs(mpmath.mpf(near.numerator) / near.denominator / truth - 1) < mpmath.mpf(2) ** -128
        low, high = exp_minus_bounds(exponent, BITS)
        assert low <= mpmath.mpf(2) ** BITS / truth <= high <= low + 1


def test_both_forms_know_one_pi() -> None:
    for digits in (15, 40, 160, 640):
        low, high = (Fraction(end, 1 << 4 * digits) for end in pi_bounds(4 * digits))
        found = pi(digits)
        assert Fraction(found.low) <= high
        assert low <= Fraction(found.high)
        assert Fraction(found.high) - Fraction(found.low) <= Fraction(10) ** (1 - digits)
