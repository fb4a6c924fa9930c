"""The Toeplitz hash: bit for bit its definition, linear, and as long as the lemma allows."""

from fractions import Fraction
from itertools import product
from math import log2

import numpy as np
import pytest
from tests.sources import HashSource

from sfumato.errors import BadParameter
from sfumato.randomness.extractor import Toeplitz, extractable


def by_definition(hashing: Toeplitz, data: bytes, seed: bytes) -> bytes:
    bits, key = (np.unpackbits(np.frombuffer(text, dtype=np.uint8)).tolist() for text in (data, seed))
    last = hashing.inputs - 1
    return bytes(
        np.packbits(
            [sum(key[i + last - j] * bits[j] for j in range(hashing.inputs)) % 2 for i in range(hashing.outputs)]
        )
    )


@pytest.mark.parametrize(("inputs", "outputs"), [(8, 8), (8, 32), (64, 16), (128, 128), (264, 136)])
def test_it_is_what_its_definition_says(inputs: int, outputs: int) -> None:
    hashing, source = Toeplitz(inputs, outputs), HashSource((inputs, outputs))
    for _ in range(3):
        data, seed = source.read(inputs // 8), source.read(hashing.seed_bytes)
        assert hashing.extract(data, seed) == by_definition(hashing, data, seed)


def test_different_inputs_collide_for_one_seed_in_so_many() -> None:
    """Two inputs of 8 bits hashed to 8: over all 2^15 used seed bits exactly one in 2^8 makes them collide."""
    hashing = Toeplitz(8, 8)
    together = bytes([0x95 ^ 0xAA])  # linear: they collide where their XOR is hashed to zero
    collisions = sum(hashing.extract(together, bytes(seed)) == b"\0" for seed in product(range(256), range(0, 256, 2)))
    assert collisions == 2**15 // 2**8


@pytest.mark.parametrize(
    ("bits", "gamma", "security", "expected"),
    [(65_536, Fraction(1, 10), 64, 56_392), (1024, Fraction(0), 64, 896), (100, Fraction(1, 2), 64, 0), (0, 0, 1, 0)],
)
def test_how_much_can_be_had(bits: int, gamma: Fraction, security: int, expected: int) -> None:
    assert extractable(bits, gamma, security) == expected
    exact = bits * log2(2 / (1 + gamma)) - 2 * security + 2
    assert max(0, exact - 8) <= expected + 1e-6
    assert expected <= max(0, exact) + 1e-6


def test_the_length_is_rounded_down_exactly_where_floats_cannot_tell() -> None:
    # (4/3)^n is 2^k times something; the floor of n · log2(4/3) by integers
    for bits in range(1, 400, 7):
        entropy = max(k for k in range(bits + 1) if 2**k * 3**bits <= 4**bits)
        assert extractable(bits, Fraction(1, 2), 1) == entropy // 8 * 8


@pytest.mark.parametrize(("inputs", "outputs"), [(0, 8), (8, 0), (9, 8), (8, 12), (8.0, 8), (1 << 30, 8)])
def test_lengths_are_whole_bytes(inputs: int, outputs: int) -> None:
    with pytest.raises(BadParameter):
        Toeplitz(inputs, outputs)


@pytest.mark.parametrize(("data", "seed"), [(b"", b"12"), (b"1", b"1"), (b"12", b"12"), (b"1", b"123")])
def test_data_and_seed_have_their_lengths(data: bytes, seed: bytes) -> None:
    with pytest.raises(BadParameter):
        Toeplitz(8, 8).extract(data, seed)


def test_a_bias_of_one_gives_nothing() -> None:
    with pytest.raises(BadParameter):
        extractable(1024, 1, 64)
