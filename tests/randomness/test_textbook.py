"""The textbook's sampler with x = 1/2^k: every bit string enumerated, every probability exact."""

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2_contingency
from tests.sources import HashSource

from sfumato.randomness.bernoulli import Coins as FastCoins
from sfumato.randomness.bernoulli import ExpRatio, Probability, Rational
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.textbook import Coins, coin, dyadic_coins, dyadic_pmf, laplace_by_coins

LENGTH = 16


class OutOfBits(Exception):  # noqa: N818
    """The string is used up: its mass is undecided."""


def enumerate_strings(halvings: int, length: int) -> tuple[Counter[int], Fraction]:
    """The exact mass of each outcome over all bit strings of `length`, and the mass that they leave undecided."""
    counts: Counter[int] = Counter()
    undecided = 0
    for bits in product((False, True), repeat=length):
        left = iter(bits)

        def fair(left: "object" = left) -> bool:
            bit = next(left, None)  # type: ignore[call-overload]
            if bit is None:
                raise OutOfBits
            return bool(bit)

        try:
            counts[laplace_by_coins(dyadic_coins(halvings, fair))] += 1
        except OutOfBits:
            undecided += 1
    return counts, Fraction(undecided, 1 << length)


@pytest.mark.parametrize("halvings", [1, 2])
def test_enumerated_bit_strings_give_the_exact_law_up_to_the_undecided_mass(halvings: int) -> None:
    counts, undecided = enumerate_strings(halvings, LENGTH)
    assert undecided < Fraction(1, 8)
    assert sum(counts.values()) + undecided * (1 << LENGTH) == 1 << LENGTH
    for value in range(-6, 7):
        mass = Fraction(counts[value], 1 << LENGTH)
        assert mass <= dyadic_pmf(value, halvings) <= mass + undecided


def test_at_one_half_the_probabilities_are_a_third_a_sixth_a_twelfth() -> None:
    assert [dyadic_pmf(value, 1) for value in (0, 1, -1, 2, -2)] == [
        Fraction(1, 3),
        Fraction(1, 6),
        Fraction(1, 6),
        Fraction(1, 12),
        Fraction(1, 12),
    ]


def words_that_say_yes(probability: Probability) -> tuple[int, int]:
    """Of all 2^16 words: how many say yes at once, and how many leave it open."""
    threshold = int(FastCoins.prepare((probability,)).thresholds[0, 0])
    low, high = probability.bounds(16)
    return (threshold, 0 if low == high else 1)


def test_the_fast_structure_at_one_half_gives_the_same_law_over_all_words() -> None:
    """N · (±1) · (1 + G) with x = 1/2: 2x/(1+x) = 2/3, and the digits of G are coins 1/3, 1/5, 1/17, …"""
    digits = [Rational(Fraction(1, (1 << (1 << place)) + 1)) for place in range(4)]  # x^(2^i) / (1 + x^(2^i))
    not_zero = words_that_say_yes(Rational(Fraction(2, 3)))
    one = 1 << 16
    assert abs(Fraction(one - not_zero[0], one) - dyadic_pmf(0, 1)) <= Fraction(not_zero[1], one)
    for value in range(1, 8):
        mass, open_mass = Fraction(not_zero[0], 2 * one), Fraction(not_zero[1], one)
        for place, digit in enumerate(digits):
            yes, left_open = words_that_say_yes(digit)
            mass *= Fraction(yes if (value - 1) >> place & 1 else one - yes - left_open, one)
            open_mass += Fraction(left_open, one)
        assert mass <= dyadic_pmf(value, 1) <= mass + open_mass + Fraction(1, one)  # P[G >= 16] = 2^-16


def test_the_fast_sampler_and_the_textbook_agree_with_error_rate_1e_6() -> None:
    scale = Fraction(2)
    source = HashSource("textbook")
    coins = Coins(
        success=coin(ExpRatio(1 / scale, a=1, b=-1, c=1, d=0), source),
        zero=coin(ExpRatio(1 / scale, a=1, b=-1, c=1, d=1), source),
        negative=coin(Rational(Fraction(1, 2)), source),
    )
    slow = np.clip([laplace_by_coins(coins) for _ in range(20_000)], -12, 12)
    fast = np.clip(DiscreteLaplace(scale).draw(20_000, HashSource("fast")), -12, 12)
    table = [[int((sample == value).sum()) for value in range(-12, 13)] for sample in (slow, fast)]
    assert chi2_contingency(table).pvalue > 1e-6
