"""Uniform integers below any bound, without bias.

A word that would favour some integers is drawn again; `word % below` is never used. Proof: proofs/uniform.md
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.exact import integer
from sfumato.randomness.source import Source, broken_source, read_exactly

Integers = npt.NDArray[Any]
"""int64 where every possible value fits, else Python integers."""
_SPARE_WORDS = 1 << 17  # more than half of the words are kept; P[fewer than a quarter of this many] < e^-16384


@dataclass(frozen=True, slots=True)
class UniformInteger:
    """Each of 0, 1, …, below - 1 with the same probability. Proof: proofs/uniform.md."""

    below: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "below", integer(self.below, "below", 1))

    def draw(self, count: int, source: Source) -> Integers:
        """Draw `count` independent integers."""
        size = integer(count, "count", 0)
        bits = (self.below - 1).bit_length()
        if self.below == 1 << bits:
            return uniform_bits(bits, size, source)
        # the words of the middle are left out, so that bits that are all alike still end
        middle, surplus = self.below // 2, (1 << bits) - self.below
        drawn = uniform_bits(bits, 0, source)
        left = 4 * size + _SPARE_WORDS
        while left > 0:
            if len(drawn) >= size:
                return drawn[:size]
            # how many are drawn depends on what is missing only
            words = uniform_bits(bits, ((size - len(drawn)) << bits) // self.below + 8, source)
            left -= len(words)
            upper = words >= middle + surplus
            drawn = np.concatenate([drawn, np.where(upper, words - surplus, words)[upper | (words < middle)]])
        raise broken_source()


def uniform_bits(bits: int, count: int, source: Source) -> Integers:
    """Draw `count` integers of `bits` fair bits each."""
    if bits == 0:
        return np.zeros(count, dtype=np.int64)
    if bits <= 63:
        width = next(width for width in (1, 2, 4, 8) if 8 * width >= bits)
        words: Integers = np.frombuffer(read_exactly(source, width * count), dtype=f"<u{width}")
        kept: Integers = words >> words.dtype.type(8 * width - bits)
        return kept.astype(np.int64)
    width = -(-bits // 8)
    octets = read_exactly(source, width * count)
    wide = np.empty(count, dtype=object)
    for index in range(count):
        word = octets[width * index : width * (index + 1)]
        wide[index] = int.from_bytes(word, "big") >> (8 * width - bits)
    return wide


def fair_signs(count: int, source: Source) -> npt.NDArray[np.int64]:
    """Draw `count` independent fair signs, +1 or -1."""
    octets = np.frombuffer(read_exactly(source, -(-count // 8)), dtype=np.uint8)
    return 1 - 2 * np.unpackbits(octets, count=count).astype(np.int64)
