"""Hash functions: lines modulo the prime 2^61 - 1, and tables keyed by a secret or public text.

Privacy does not depend on them; error bars require that values collide no more often than by chance.
"""

from functools import lru_cache
from hashlib import shake_256

import numpy as np
import numpy.typing as npt

from sfumato.local.reading import Integers

PRIME = (1 << 61) - 1
_LOW_HALF_MASK = (1 << 31) - 1
_NIBBLES_PER_VALUE = 16


def line(slope: Integers, shift: Integers, values: Integers) -> Integers:
    """Return (slope · value + shift) mod 2^61 - 1, for all three below it: two different values, two independent sums.

    >>> line(np.array([PRIME - 1]), np.array([5]), np.array([2**61 - 3])).tolist()
    [7]
    """
    upper = _shift_31_bits(_multiply_mod_prime(slope, values >> 31))
    return _fold_mod_prime(_fold_mod_prime(upper + _multiply_mod_prime(slope, values & _LOW_HALF_MASK)) + shift)


def _multiply_mod_prime(slope: Integers, small: Integers) -> Integers:
    """Return slope · small mod 2^61 - 1 for small < 2^31."""
    return _fold_mod_prime(_fold_mod_prime((slope & _LOW_HALF_MASK) * small) + _shift_31_bits((slope >> 31) * small))


def _shift_31_bits(numbers: Integers) -> Integers:
    """Return numbers below 2^61 times 2^31, modulo 2^61 - 1: the low 30 bits move up, the others come round."""
    return _fold_mod_prime(((numbers & ((1 << 30) - 1)) << 31) + (numbers >> 30))


def _fold_mod_prime(numbers: Integers) -> Integers:
    """Return numbers below 2^63 modulo 2^61 - 1."""
    once = (numbers & PRIME) + (numbers >> 61)
    return np.where(once >= PRIME, once - PRIME, once)


def bucket(places: Integers, buckets: int) -> Integers:
    """Return ⌊place · buckets / (2^61 - 1)⌋ for places below 2^61 - 1 and at most 2^31 buckets."""
    low = (places & _LOW_HALF_MASK) * buckets
    middle = (places >> 31) * buckets + (low >> 31)
    quotient, rest = middle >> 30, ((middle & ((1 << 30) - 1)) << 31) | (low & _LOW_HALF_MASK)
    # place · buckets = quotient · 2^61 + rest = quotient · (2^61 - 1) + (quotient + rest)
    return quotient + (quotient + rest >= PRIME)


@lru_cache(maxsize=8)
def hash_tables(key: bytes, hashes: int) -> npt.NDArray[np.uint32]:
    """Return a table of 16 × 16 words for each hash, drawn from the key by SHAKE-256."""
    drawn = shake_256(b"sfumato.local/" + key).digest(4 * hashes * _NIBBLES_PER_VALUE * 16)
    return np.frombuffer(drawn, dtype="<u4").reshape(hashes, _NIBBLES_PER_VALUE, 16)


def places(key: bytes, hashes: int, width: int, rows: Integers, items: Integers) -> Integers:
    """Return where each item falls among `width` places in the hash of its row.

    Simple tabulation: over the draw of the tables any three items are independent, in every row.
    """
    words, hashes_xor = hash_tables(key, hashes), np.zeros(np.broadcast(rows, items).shape, dtype=np.uint32)
    for nibble in range(_NIBBLES_PER_VALUE):
        hashes_xor = hashes_xor ^ words[rows, nibble, (items >> (4 * nibble)) & 15]
    return (hashes_xor.astype(np.int64) * width) >> 32
