"""Synthetic data from a seed, so that attacks are reproducible.

Production code imports nothing from here: repeatable noise can be subtracted.
"""

import hashlib

import numpy as np
import numpy.typing as npt

from sfumato.randomness.source import Source, read_exactly
from sfumato.randomness.uniform import UniformInteger

Mask = npt.NDArray[np.bool_]
"""Which rows: one truth value for each of them."""

_BLOCK_BYTES = 1 << 12


class Seeded:
    """A stream that everyone can repeat: SHAKE-256 of a seed, read front to back.

    >>> Seeded(1).read(4) == Seeded(1).read(4) != Seeded(2).read(4)
    True
    """

    __slots__ = ("_block", "_buffer", "_next", "_seed")
    name = "lab-seeded"

    def __init__(self, seed: object) -> None:
        self._seed = repr(seed).encode()
        self._block = 0
        self._buffer = b""
        self._next = 0

    def read(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        while len(self._buffer) - self._next < count:
            fresh = hashlib.shake_256(self._seed + b"/%d" % self._block).digest(max(_BLOCK_BYTES, count))
            self._buffer, self._next = self._buffer[self._next :] + fresh, 0
            self._block += 1
        start, self._next = self._next, self._next + count
        return self._buffer[start : self._next]


def coins(count: int, source: Source) -> Mask:
    """Toss fair coins: a secret bit for each person, or a random half of the rows."""
    octets = np.frombuffer(read_exactly(source, -(-count // 8)), dtype=np.uint8)
    return np.unpackbits(octets, count=count).astype(np.bool_)


def subsets(questions: int, rows: int, source: Source) -> Mask:
    """Draw random subsets of the rows, one question in each line."""
    return coins(questions * rows, source).reshape(questions, rows)


def one_in(below: int, count: int, source: Source) -> Mask:
    """Choose each of `count` rows with probability 1 / below."""
    chosen: Mask = UniformInteger(below).draw(count, source) == 0
    return chosen


def single(row: int, rows: int) -> Mask:
    """Return the set that holds this row only."""
    mask = np.zeros(rows, dtype=np.bool_)
    mask[row] = True
    return mask
