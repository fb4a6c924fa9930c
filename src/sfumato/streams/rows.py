"""Growing tables, and integers of any size as bytes of one width."""

from typing import Any

import numpy as np
import numpy.typing as npt


class GrowingRows:
    """A table to which rows are appended, contiguous in memory."""

    __slots__ = ("_count", "_table")

    def __init__(self, cells: int, kind: type[np.int64] | type[np.float64]) -> None:
        self._table: npt.NDArray[Any] = np.empty((0, cells), dtype=kind)
        self._count = 0

    @property
    def rows(self) -> npt.NDArray[Any]:
        """All rows so far."""
        return self._table[: self._count]

    def append(self, row: npt.NDArray[Any]) -> None:
        """Add a row."""
        if self._count == len(self._table):
            larger = np.empty((max(16, 2 * self._count), self._table.shape[1]), dtype=self._table.dtype)
            larger[: self._count] = self.rows
            self._table = larger
        self._table[self._count] = row
        self._count += 1


def pack_integers(values: npt.NDArray[Any], width: int) -> bytes:
    r"""Write integers, each in `width` bytes.

    >>> pack_integers(np.array([1, -1]), 2)
    b'\x01\x00\xff\xff'
    """
    if width == 8 and values.dtype == np.int64:
        return values.astype("<i8").tobytes()
    return b"".join(value.to_bytes(width, "little", signed=True) for value in map(int, values.reshape(-1).tolist()))


def unpack_integers(data: bytes, width: int) -> npt.NDArray[Any]:
    """Read Python integers of `width` bytes each."""
    count = len(data) // width
    integers = np.empty(count, dtype=object)
    integers[:] = [
        int.from_bytes(data[start : start + width], "little", signed=True) for start in range(0, len(data), width)
    ]
    return integers
