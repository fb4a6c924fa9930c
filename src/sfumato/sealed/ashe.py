"""Encrypt additively: sums of ciphertexts are ciphertexts of sums, and pads cancel over a whole cell.

The j-th row of cell t, with plaintext m, is stored as  c = m + F(t, j) - F(t, j - 1)  mod p. The sum over a cell of n
rows is the sum of plaintexts + F(t, n) - F(t, 0): two pads per cell for every n.  Proof: proofs/sealed.md
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from sfumato.errors import BadParameter, quote_value
from sfumato.exact import integer
from sfumato.sealed.keys import KEY_BYTES

PRIMES = tuple((1 << bits) - 1 for bits in (61, 89, 107, 127))
"""Mersenne primes, smallest first."""
_NARROW = PRIMES[0]
_NARROW_BITS = np.uint64(61)
_SECOND_BLOCK_MASK = 1 << 63
"""Marks the second cipher block of a pad, so that no input of the cipher repeats."""

Cells = npt.NDArray[np.uint64]
Residues = npt.NDArray[Any]
"""uint64 for the smallest prime, otherwise Python integers; each below the prime."""


@dataclass(frozen=True, slots=True, repr=False)
class Ashe:
    """Additive encryption modulo a prime, under one key for one batch.

    Theorem: under a fresh key the ciphertexts of any plaintexts are indistinguishable from uniform residues, and the
    sum of all of a cell decrypts to the sum of its plaintexts.  Proof: proofs/sealed.md

    >>> ashe = Ashe(bytes(32), 2**61 - 1)
    >>> ashe.decrypt(sum(ashe.encrypt([5, 0, 7], cell=3)), cell=3, rows=3)
    12
    """

    key: bytes = field(repr=False)
    prime: int

    def __post_init__(self) -> None:
        if not isinstance(self.key, bytes) or len(self.key) != KEY_BYTES:
            raise BadParameter("The key is not 32 bytes.", "The cipher is AES-256.", "Derive one: Key.derive(…).")
        if self.prime not in PRIMES:
            raise BadParameter(
                f"prime = {quote_value(self.prime)} is not one of the four supported primes.",
                "Pads are reduced by folding, which needs a Mersenne prime.",
                "Take 2^61-1, 2^89-1, 2^107-1 or 2^127-1.",
            )

    def encrypt(self, values: Iterable[int], cell: int) -> tuple[int, ...]:
        """Return the ciphertexts of rows 1 … n of one cell. Encrypt each cell once per key: a pad is for one value."""
        if not isinstance(values, Iterable):
            raise BadParameter("There are no values.", "A cell has a list of them.", "Give the values of its rows.")
        plaintexts = [integer(value, "value", 0) for value in values]
        if any(value >= self.prime for value in plaintexts):
            raise BadParameter(
                "A value is not below the prime.", "It would come back as another.", "Take a larger one."
            )
        cells = np.full(len(plaintexts), _read_cell(cell), dtype=np.uint64)
        pads = self.row_pads(cells, np.arange(1, len(plaintexts) + 1, dtype=np.uint64))
        return tuple((value + int(pad)) % self.prime for value, pad in zip(plaintexts, pads, strict=True))

    def decrypt(self, total: int, cell: int, rows: int) -> int:
        """Return the sum of a cell's plaintexts mod p, from any integer congruent to the sum of its ciphertexts."""
        count = integer(rows, "rows", 0)
        if count >= 1 << 63:
            raise BadParameter(
                f"rows = {quote_value(count)} is more than any cell has.",
                "Rows are numbered in 64 bits.",
                "Give a number below 2^63.",
            )
        return (integer(total, "total", None) - self.cell_pad(_read_cell(cell), count)) % self.prime

    def cell_pad(self, cell: int, rows: int) -> int:
        """Return the sum of the pads of a whole cell: F(t, n) - F(t, 0)."""
        last, first = self._pads(np.array([cell, cell], dtype=np.uint64), np.array([rows, 0], dtype=np.uint64))
        return (int(last) - int(first)) % self.prime

    def cell_pads(self, cells: Cells, rows: Cells) -> Residues:
        """Return the sums of the pads of many cells."""
        return self._subtract_pads(self._pads(cells, rows), self._pads(cells, np.zeros_like(cells)))

    def row_pads(self, cells: Cells, row_numbers: Cells) -> Residues:
        """Return F(t, j) - F(t, j - 1) mod p for many rows."""
        return self._subtract_pads(self._pads(cells, row_numbers), self._pads(cells, row_numbers - np.uint64(1)))

    def _subtract_pads(self, after: Residues, before: Residues) -> Residues:
        if self.prime == _NARROW:
            difference: Residues = after + np.uint64(_NARROW) - before
            return np.where(difference >= _NARROW, difference - np.uint64(_NARROW), difference)
        wide: Residues = (after - before) % self.prime
        return wide

    def _pads(self, cells: Cells, row_numbers: Cells) -> Residues:
        """Return F(t, j): one block of the cipher mod 2^61 - 1, or two mod a larger prime against bias."""
        first = self._cipher_blocks(cells, row_numbers)
        if self.prime == _NARROW:
            return _fold_mod_prime(first[:, 0], first[:, 1])
        second = self._cipher_blocks(cells | np.uint64(_SECOND_BLOCK_MASK), row_numbers)
        blocks = np.concatenate([first, second], axis=1).astype(">u8").tobytes()
        pads = np.empty(len(cells), dtype=object)
        pads[:] = [
            int.from_bytes(blocks[start : start + 32], "big") % self.prime for start in range(0, len(blocks), 32)
        ]
        return pads

    def _cipher_blocks(self, cells: Cells, row_numbers: Cells) -> npt.NDArray[np.uint64]:
        inputs = np.stack([cells, row_numbers], axis=1).astype(">u8")
        encryptor = Cipher(algorithms.AES256(self.key), modes.ECB()).encryptor()  # noqa: S305  (a PRF on inputs that never repeat)
        outputs = np.frombuffer(encryptor.update(inputs.tobytes()), dtype=">u8").reshape(-1, 2)
        return outputs.astype(np.uint64)


def _fold_mod_prime(high: Cells, low: Cells) -> Residues:
    """Return (high · 2^64 + low) mod 2^61 - 1: 2^61 is 1, so 2^64 is 8."""
    mask = np.uint64(_NARROW)
    eight = ((high & np.uint64((1 << 58) - 1)) << np.uint64(3)) + (high >> np.uint64(58))  # 8 · high, folded
    total = (eight & mask) + (eight >> _NARROW_BITS) + (low & mask) + (low >> _NARROW_BITS)
    total = (total & mask) + (total >> _NARROW_BITS)
    folded: Residues = np.where(total >= mask, total - mask, total)
    return folded


def _read_cell(cell: object) -> int:
    number = integer(cell, "cell", 0)
    if number < _SECOND_BLOCK_MASK:
        return number
    raise BadParameter("cell is not below 2^63.", "Its top bit marks second blocks.", "Number the cells from 0.")
