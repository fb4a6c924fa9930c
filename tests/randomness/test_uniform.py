"""Uniform integers: every word is kept or left out by a public rule that favours nobody."""

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from tests.sources import HashSource, ScriptedSource

from sfumato.errors import BadParameter, EntropyFailed
from sfumato.randomness.source import Metered
from sfumato.randomness.uniform import UniformInteger, fair_signs, uniform_bits


@pytest.mark.parametrize("below", [3, 5, 6, 7, 100, 129, 200, 255])
def test_of_all_words_equally_many_give_each_integer(below: int) -> None:
    """All 256 bytes once: each integer comes from equally many of them, whatever their place."""
    bits = (below - 1).bit_length()
    size = 256 * below >> bits  # so many words are kept
    asked = (size << bits) // below + 8
    octets = bytes(range(256)) + bytes(asked)
    drawn = UniformInteger(below).draw(size, ScriptedSource(octets))
    counts = Counter(drawn.tolist())
    assert set(counts) == set(range(below))
    assert set(counts.values()) == {1 << (8 - bits)}


@pytest.mark.parametrize("bits", [1, 3, 8, 9, 16, 31, 33, 63, 64, 65, 130])
def test_bits_are_the_leading_ones_of_each_word(bits: int) -> None:
    words = uniform_bits(bits, 300, HashSource(bits))
    assert words.dtype == (np.int64 if bits <= 63 else object)
    assert 0 <= min(words) <= max(words) < 1 << bits
    ones = [sum(int(word) >> place & 1 for word in words) for place in range(bits)]
    assert min(ones) > 90  # of 300: one chance in 10^11 that a fair bit is below; the source is fixed
    assert max(ones) < 210


@pytest.mark.parametrize("below", [(1 << 62) + 1, (1 << 63) - 1, (1 << 63) + 1, (1 << 64) - 1, (1 << 70) + 1, 10**40])
def test_integers_near_and_beyond_a_machine_word_are_in_range_and_reach_both_ends(below: int) -> None:
    drawn = UniformInteger(below).draw(400, HashSource(below)).tolist()
    assert all(0 <= value < below for value in drawn)
    assert min(drawn) < below // 20
    assert max(drawn) > below - below // 20
    assert UniformInteger(below).draw(1, ScriptedSource(b"", after=b"\x00")).tolist() == [0]
    assert UniformInteger(below).draw(1, ScriptedSource(b"", after=b"\xff")).tolist() == [below - 1]


def test_a_word_of_the_middle_is_left_out_and_the_next_one_taken() -> None:
    # three of four words: 0 -> 0, 1 is left out, 2 -> 1, 3 -> 2
    octets = bytes([0b01_000000, 0b10_000000, 0b01_000000, 0b11_000000, 0b00_000000]) + bytes(20)
    assert UniformInteger(3).draw(3, ScriptedSource(octets)).tolist() == [1, 2, 0]


def test_three_words_give_each_pair_of_thirds_the_same_probability() -> None:
    """Enumerate all words of two bits for the first five places; the first two kept are a uniform pair."""
    pairs: Counter[tuple[int, ...]] = Counter()
    for words in product(range(4), repeat=5):
        if sum(word != 1 for word in words) >= 2:
            octets = bytes(word << 6 for word in words) + bytes(30)
            pairs[tuple(UniformInteger(3).draw(2, ScriptedSource(octets)).tolist())] += 1
    assert len(pairs) == 9
    assert len(set(pairs.values())) == 1


def test_a_source_of_left_out_words_alone_is_refused() -> None:
    for count in (1, 1000, 100_000):
        with pytest.raises(EntropyFailed):
            UniformInteger(3).draw(count, ScriptedSource(b"", after=b"\x40"))


def test_the_number_of_bytes_does_not_depend_on_the_words_kept() -> None:
    used = set()
    for octet in (b"\x00", b"\xff", b"\x00\xff"):
        metered = Metered(ScriptedSource(b"", after=octet))
        UniformInteger(100).draw(50, metered)
        used.add(metered.bits)
    assert len(used) == 1


def test_signs_are_the_bits_in_order() -> None:
    assert fair_signs(10, ScriptedSource(b"\x0f\x80")).tolist() == [1, 1, 1, 1, -1, -1, -1, -1, -1, 1]
    assert fair_signs(0, ScriptedSource(b"")).shape == (0,)


@pytest.mark.parametrize("below", [0, -1, 1.5, True, "3", None, Fraction(1, 2)])
def test_a_bound_that_is_none_is_refused(below: object) -> None:
    with pytest.raises(BadParameter):
        UniformInteger(below)  # type: ignore[arg-type]
