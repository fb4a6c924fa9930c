"""Enclosures contain the exact number, and normal tails too."""

import random
from decimal import Decimal
from fractions import Fraction
from math import inf

import pytest
from tests.accounting.oracle import gaussian_delta as oracle_delta
from tests.accounting.oracle import mp, real

from sfumato.accounting.normal import gaussian_delta, upper_tail
from sfumato.certified.enclosure import Enclosure, enclose, float_above, lower, pi, refine, upper


def contains(enclosure: Enclosure, truth: mp.mpf) -> bool:
    return bool(mp.mpf(str(enclosure.low)) <= truth <= mp.mpf(str(enclosure.high)))


def test_sums_products_and_quotients_contain_the_exact_fraction() -> None:
    source = random.Random(1)
    for _ in range(500):
        a, b = (Fraction(source.randint(-(10**9), 10**9), source.randint(1, 10**9)) for _ in range(2))
        x, y = enclose(a, 12), enclose(b, 12)
        for found, exact in ((x + y, a + b), (x - y, a - b), (x * y, a * b), (x / y, a / b if b else None)):
            assert exact is None or Fraction(found.low) <= exact <= Fraction(found.high)


def test_functions_contain_the_value_at_60_digits() -> None:
    source = random.Random(2)
    with mp.workdps(120):
        for _ in range(200):
            exact = Fraction(source.randint(1, 10**12), 10 ** source.randint(1, 15))
            for digits in (15, 40, 80):
                x = enclose(exact, digits)
                assert contains(x.exp(), mp.exp(real(exact)))
                assert contains((-x).exp(), mp.exp(-real(exact)))
                assert contains(x.ln(), mp.log(real(exact)))
                assert contains(x.sqrt(), mp.sqrt(real(exact)))


def test_what_is_not_known_is_infinite_and_never_an_exception() -> None:
    nothing = enclose(1, 20) / (enclose(1, 20) - 1)
    assert (nothing.low, nothing.high) == (Decimal("-Infinity"), Decimal("Infinity"))
    assert (nothing - nothing).high == Decimal("Infinity")
    assert (nothing * 0).high >= 0
    assert upper(enclose(10**30, 20).exp()) == inf
    assert (-enclose(10**30, 20)).exp().low == 0
    assert enclose(0, 20).ln().low == Decimal("-Infinity")
    assert upper(nothing) == inf
    assert lower(nothing) == -inf


def test_tiny_and_huge_numbers_round_outwards_and_stay_short() -> None:
    tiny = (-enclose(10**7, 20)).exp()
    assert upper(tiny) == Fraction(1, 10**1000)
    assert upper(-tiny) == 0
    assert lower(tiny) == 0
    third = refine(lambda digits: enclose(Fraction(1, 3), digits))
    assert Fraction(lower(third)) < Fraction(1, 3) < Fraction(upper(third))


def test_floats_round_to_the_side_that_is_asked() -> None:
    source = random.Random(3)
    for _ in range(500):
        exact = Fraction(source.randint(-(10**20), 10**20), source.randint(1, 10**20))
        assert -Fraction(float_above(-exact)) <= exact <= Fraction(float_above(exact))
    assert float_above(Fraction(10) ** 400) == inf
    assert float_above(-(Fraction(10) ** 400)) > -inf
    assert float_above(Fraction(1, 10**400)) > 0


@pytest.mark.parametrize(
    "point", ["-38", "-6.5", "-0.3", "0", "1e-30", "0.01", "1", "2.5", "5.999", "6", "6.1", "9", "40"]
)
def test_the_normal_tail_is_contained_and_narrow(point: str) -> None:
    exact = Fraction(point)
    with mp.workdps(1000):
        truth = mp.erfc(real(exact) / mp.sqrt(2)) / 2
        for digits in (40, 80):
            found = upper_tail(enclose(exact, digits))
            assert contains(found, truth)
            assert mp.mpf(str(found.high)) - mp.mpf(str(found.low)) <= truth * mp.mpf(10) ** (8 - digits)
            assert contains(pi(digits), mp.pi)


def test_the_delta_of_gaussian_noise_is_contained_also_where_it_cancels() -> None:
    source = random.Random(4)
    with mp.workdps(700):
        for _ in range(60):
            epsilon = Fraction(source.randint(1, 10**6), 10 ** source.randint(3, 12))
            ratio = Fraction(source.randint(1, 10**6), 10 ** source.randint(3, 8))
            found = refine(lambda digits, e=epsilon, r=ratio: gaussian_delta(e, r, digits))  # type: ignore[misc]
            truth = oracle_delta(real(epsilon), mp.sqrt(real(ratio)))
            assert contains(found, truth) or truth < mp.mpf(10) ** -600
