"""Coins: every comparison that sixteen bits leave open is decided by more bits, and decided right."""

import pickle
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, product
from time import process_time
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mp
from tests.sources import HashSource, ScriptedSource, SourceDied

from sfumato.errors import BadParameter, EntropyFailed
from sfumato.randomness.bernoulli import Bernoulli, ExpRatio, Probability, Rational, exp_minus, logistic, refine

COINS: list[tuple[Fraction | Probability, Any]] = [
    (exp_minus(Fraction(1)), lambda: mpmath.exp(-1)),
    (exp_minus(Fraction(1, 1000)), lambda: mpmath.exp(-mpmath.mpf(1) / 1000)),
    (exp_minus(Fraction(30)), lambda: mpmath.exp(-30)),
    (logistic(Fraction(1, 10)), lambda: 1 / (1 + mpmath.exp(mpmath.mpf(1) / 10))),
    (ExpRatio(Fraction(1), a=1, b=-1, c=1, d=1), lambda: mpmath.tanh(mpmath.mpf(1) / 2)),
    (Fraction(1, 3), lambda: mpmath.mpf(1) / 3),
    (Fraction(999_999, 1_000_000), lambda: mpmath.mpf(999_999) / 1_000_000),
]
LEVELS = (16, 80, 160, 320)  # how many bits are known when a comparison is made


def script(known: int, bits: int) -> bytes:
    """The bytes that make U start with `known`: a little-endian word, then big-endian ones."""
    text = f"{known:0{bits}b}"
    octets = int(text[:16], 2).to_bytes(2, "little")
    for start, end in pairwise(LEVELS):
        if end <= bits:
            octets += int(text[start:end], 2).to_bytes((end - start) // 8, "big")
    return octets


@pytest.mark.parametrize("bits", LEVELS)
@pytest.mark.parametrize(("probability", "oracle"), COINS, ids=[repr(coin[0]) for coin in COINS])
def test_a_word_on_the_threshold_is_refined_and_its_neighbours_are_not(
    probability: Fraction | Probability, oracle: Any, bits: int
) -> None:
    with mp.workdps(200):
        threshold = int(mpmath.floor(mpmath.ldexp(oracle(), bits)))
    coin = Bernoulli(probability)
    octets = script(threshold, bits)
    with pytest.raises(SourceDied):  # these bits do not decide, and there are no more
        coin.draw(1, ScriptedSource(octets))
    if threshold:
        assert coin.draw(1, ScriptedSource(script(threshold - 1, bits), after=b"\xff")).tolist() == [True]
    if threshold + 1 < 1 << bits:
        assert coin.draw(1, ScriptedSource(script(threshold + 1, bits), after=b"\x00")).tolist() == [False]
    assert coin.draw(1, ScriptedSource(octets, after=b"\x00")).tolist() == [True]
    assert coin.draw(1, ScriptedSource(octets, after=b"\xff")).tolist() == [False]


def test_among_many_words_only_those_on_the_threshold_draw_more() -> None:
    threshold = exp_minus(Fraction(1)).bounds(16)[0]
    words = np.array([0, threshold - 1, threshold, threshold + 1, threshold, 65535], dtype="<u2").tobytes()
    source = ScriptedSource(words + bytes(8) + b"\xff" * 8)
    assert Bernoulli(exp_minus(Fraction(1))).draw(6, source).tolist() == [True, True, True, False, False, False]
    assert source.given == 12 + 16


def test_dyadic_coins_are_right_on_all_words_and_need_no_more_bits() -> None:
    words = np.arange(1 << 16, dtype="<u2").tobytes()
    for numerator in (0, 1, 5, 8):
        source = ScriptedSource(words)
        assert int(Bernoulli(Fraction(numerator, 8)).draw(1 << 16, source).sum()) == numerator << 13
        assert source.given == 1 << 17


def test_refine_agrees_with_every_bit_string_up_to_the_undecided_one() -> None:
    """Enumerate all 2^12 beginnings of U: each goes to the side of p where it lies, p itself stays open."""
    for probability in (Fraction(1, 3), Fraction(5, 7), Fraction(1, 2), Fraction(0), Fraction(1)):
        for bits in product("01", repeat=12):
            known = int("".join(bits), 2)
            if Fraction(known + 1, 1 << 12) <= probability:
                assert refine(Rational(probability), known, 12, ScriptedSource(b"")) is True
            elif Fraction(known, 1 << 12) >= probability:
                assert refine(Rational(probability), known, 12, ScriptedSource(b"")) is False
            else:
                with pytest.raises(SourceDied):
                    refine(Rational(probability), known, 12, ScriptedSource(b""))


@dataclass
class Wide:
    """A lawful enclosure of p that is never the tightest, nor hashable."""

    value: Fraction

    def bounds(self, bits: int) -> tuple[int, int]:
        scaled = self.value * (1 << bits)
        return (int(scaled) - 1, int(scaled)) if scaled.denominator == 1 else (int(scaled), int(scaled) + 1)


@pytest.mark.parametrize("numerator", [0, 1, 4096, 8192])
def test_a_loose_enclosure_changes_no_outcome(numerator: int) -> None:
    words = np.arange(1 << 16, dtype="<u2").tobytes()
    drawn = Bernoulli(Wide(Fraction(numerator, 8192))).draw(1 << 16, ScriptedSource(words, after=b"\x80\x01"))
    assert drawn.tolist() == [word < numerator * 8 for word in range(1 << 16)]


@pytest.mark.parametrize("octet", [b"\x00", b"\xff"], ids=["zeros", "ones"])
@pytest.mark.parametrize("exponent", ["0", "1e-300", "1e-30", "1/10", "1", "700", "20000", "40000", "1e9", "1e30"])
def test_bits_that_are_all_alike_end_at_once(exponent: str, octet: bytes) -> None:
    begun = process_time()
    try:
        drawn = Bernoulli(exp_minus(Fraction(exponent))).draw(1, ScriptedSource(b"", after=octet))
        assert drawn.tolist() == [octet == b"\x00" or exponent == "0"]
    except EntropyFailed:
        assert octet == b"\x00"
        assert Fraction(exponent) > 16384  # P[true] < e^-16384: not chance, a broken source
    assert process_time() - begun < 2


@pytest.mark.parametrize(
    "bad",
    [Fraction(-1, 2), Fraction(3, 2), 2, 0.5, float("nan"), float("inf"), True, "half", None, "nan", Decimal("inf")],
)
def test_what_is_no_probability_is_refused(bad: Any) -> None:
    with pytest.raises(BadParameter):
        Bernoulli(bad)


@pytest.mark.parametrize("bad", [Fraction(-1), -1, 0.5, float("nan"), True, "one"])
def test_what_is_no_exponent_is_refused(bad: Any) -> None:
    with pytest.raises(BadParameter):
        exp_minus(bad)


def test_a_ratio_outside_the_unit_interval_is_refused() -> None:
    for a, b, c, d in ((2, 0, 1, 0), (0, 1, 1, -1), (-1, 1, 1, 0), (0, 0, 0, 1)):
        with pytest.raises(BadParameter):
            ExpRatio(Fraction(1), a, b, c, d)


def test_coins_are_frozen_hashable_and_picklable() -> None:
    for coin in (Bernoulli(Fraction(1, 3)), Bernoulli(exp_minus(Fraction(1)))):
        assert pickle.loads(pickle.dumps(coin)) == coin
        assert hash(pickle.loads(pickle.dumps(coin))) == hash(coin)
        with pytest.raises(AttributeError):
            coin.probability = Fraction(1, 2)  # type: ignore[misc]


def test_draw_returns_booleans_and_none_for_zero() -> None:
    drawn = Bernoulli(Fraction(1, 3)).draw(0, ScriptedSource(b""))
    assert drawn.shape == (0,)
    assert drawn.dtype == np.bool_
    assert Bernoulli("1/3").draw(7, HashSource(0)).shape == (7,)  # type: ignore[arg-type]
    with pytest.raises(BadParameter):
        Bernoulli(Fraction(1, 3)).draw(-1, HashSource(0))
