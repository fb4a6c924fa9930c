"""The textbook's sampler with x = 1/2^k: every bit string enumerated, every probability exact."""

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2_contingency
from tests.sources import HashSource

from sfumato.randomness.bernoulli import ExpRatio, Rational
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.guide import build_guide
from sfumato.randomness.textbook import Coin, LaplaceCoins, coin, laplace_by_coins

LENGTH = 16


def dyadic_coins(halvings: int, fair: Coin) -> LaplaceCoins:
    """Return the three coins for x = 2^-halvings, made of fair coins only.

    1 - x fails when `halvings` fair coins all fail. (1 - x) / (1 + x) = (2^k - 1) / (2^k + 1) is an integer drawn
    below 2^k + 1 by k + 1 fair coins, again when it is too large, and compared with 2^k - 1.
    """

    def success() -> bool:
        return _draw_word(halvings, fair) != 0

    def zero() -> bool:
        while (word := _draw_word(halvings + 1, fair)) > 1 << halvings:
            pass
        return word < (1 << halvings) - 1

    return LaplaceCoins(success, zero, fair)


def _draw_word(bits: int, fair: Coin) -> int:
    word = 0
    for _ in range(bits):
        word = 2 * word + fair()
    return word


def dyadic_pmf(value: int, halvings: int) -> Fraction:
    """Return P[Z = value] for x = 2^-halvings, exactly."""
    ratio = Fraction(1, 1 << halvings)
    return (1 - ratio) / (1 + ratio) * ratio ** abs(value)


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


@dataclass(frozen=True, slots=True)
class Dyadic:
    """A law by its exact cumulative distribution: what the guide makes of it is counted over all words."""

    distribution: tuple[Fraction, ...]

    @property
    def tail(self) -> None:
        return None

    def cumulative(self, bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (
            tuple(int(part * (1 << bits)) for part in self.distribution),
            tuple(-int(-part * (1 << bits) // 1) for part in self.distribution),
        )


def decided_words(law: Dyadic) -> tuple[list[Fraction], Fraction]:
    """Of all 2^16 words: the share that gives each outcome at once, and the share that is left open."""
    cells = build_guide(law).cells
    shares = [Fraction(int((cells == outcome).sum()), 1 << 16) for outcome in range(len(law.distribution))]
    return shares, Fraction(int((cells < 0).sum()), 1 << 16)


def test_the_fast_structure_at_one_half_gives_the_same_law_over_all_words() -> None:
    """S · (1 + G) with x = 1/2: the signs are 1/3 each, two digits of G go by 8 : 4 : 2 : 1, and T has ratio 1/16."""
    signs, open_sign = decided_words(Dyadic((Fraction(1, 3), Fraction(2, 3), Fraction(1))))
    group, open_group = decided_words(Dyadic((Fraction(8, 15), Fraction(12, 15), Fraction(14, 15), Fraction(1))))
    rest, open_rest = decided_words(Dyadic((Fraction(15, 16), Fraction(255, 256), Fraction(1))))
    undecided = open_sign + open_group + open_rest
    assert undecided < Fraction(1, 1000)
    assert signs[1] <= dyadic_pmf(0, 1) <= signs[1] + open_sign
    for value in range(1, 9):
        mass = group[(value - 1) % 4] * rest[(value - 1) // 4]
        for signed, share in ((value, signs[2]), (-value, signs[0])):
            assert share * mass <= dyadic_pmf(signed, 1) <= share * mass + undecided


def test_the_fast_sampler_and_the_textbook_agree_with_error_rate_1e_6() -> None:
    scale = Fraction(2)
    source = HashSource("textbook")
    coins = LaplaceCoins(
        success=coin(ExpRatio(1 / scale, a=1, b=-1, c=1, d=0), source),
        zero=coin(ExpRatio(1 / scale, a=1, b=-1, c=1, d=1), source),
        negative=coin(Rational(Fraction(1, 2)), source),
    )
    slow = np.clip([laplace_by_coins(coins) for _ in range(20_000)], -12, 12)
    fast = np.clip(DiscreteLaplace(scale).draw(20_000, HashSource("fast")), -12, 12)
    table = [[int((sample == value).sum()) for value in range(-12, 13)] for sample in (slow, fast)]
    assert chi2_contingency(table).pvalue > 1e-6
