"""Lower-triangular Toeplitz matrices with integer coefficients: the square root of summation, and its inverse.

A is the lower triangle of ones. Its square root has the coefficients f_j = C(2j, j) / 4^j [FHU23]; here they are
rounded to integers once, and everything else (sensitivity, noise, decoding, variances) is computed from those integers.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[Any]
"""int64 where the numbers fit, otherwise Python integers."""

_FIXED_POINT_BITS = 128
_DIRECT_COEFFICIENTS = 64
"""Number of coefficients of an inverse that are computed one by one; the rest by Newton's iteration."""


def square_root(count: int, scale: int) -> npt.NDArray[np.int64]:
    """Return round(scale · f_j) for j < count: integers that never rise.

    >>> square_root(6, 2**20).tolist()
    [1048576, 524288, 393216, 327680, 286720, 258048]
    """
    return _square_root(1 << max(count - 1, 0).bit_length(), scale)[:count]


@lru_cache(maxsize=8)
def _square_root(count: int, scale: int) -> npt.NDArray[np.int64]:
    value, half = 1 << _FIXED_POINT_BITS, 1 << (_FIXED_POINT_BITS - 1)
    rounded = []
    for index in range(1, count + 1):
        rounded.append((scale * value + half) >> _FIXED_POINT_BITS)
        value = value * (2 * index - 1) // (2 * index)  # f_j = f_(j-1) (2j - 1) / 2j
    coefficients = np.array(rounded, dtype=np.int64)
    coefficients.flags.writeable = False
    return coefficients


def worst_shift(coefficients: Integers, participations: int, separation: int) -> Integers:
    """Return Σ_{i < participations, i·separation <= t} c_(t - i·separation) for each t: the largest change by one unit.

    The coefficients do not rise, so the earliest, densest pattern is the worst [KL24]. Proof: proofs/gaussian_stream.md
    """
    if participations == 1:
        return coefficients
    count = len(coefficients)
    rows = -(-count // separation)
    padded = np.zeros(rows * separation, dtype=coefficients.dtype)
    padded[:count] = coefficients
    sums: Integers = np.cumsum(padded.reshape(rows, separation), axis=0, dtype=coefficients.dtype)
    shifted = sums.copy()
    if participations < rows:
        shifted[participations:] -= sums[:-participations]
    flat: Integers = shifted.reshape(-1)[:count]
    return flat


def squared_length(values: Integers) -> int:
    """Return the sum of squares, exactly."""
    return sum(value * value for value in map(int, values.tolist()))


def decoding_of_sums(coefficients: npt.NDArray[Any]) -> Floats:
    """Return the coefficients of 1 / ((1 - x) C(x)): the effect of one unit of noise on the sums decoded later.

    Floats are fine: the inputs are public, and only errors are computed.

    >>> decoding_of_sums(np.array([2, 1, 1]))
    array([0.5  , 0.25 , 0.125])
    """
    first = float(coefficients[0])
    series = np.diff(np.asarray(coefficients, dtype=np.float64), prepend=0.0) / first
    count = len(series)
    inverse = np.zeros(min(count, _DIRECT_COEFFICIENTS))
    inverse[0] = 1.0
    for index in range(1, len(inverse)):
        inverse[index] = -(series[1 : index + 1] @ inverse[index - 1 :: -1])
    while len(inverse) < count:
        inverse = _double_inverse(series, inverse, min(2 * len(inverse), count))
    return inverse / first


def _double_inverse(series: Floats, inverse: Floats, count: int) -> Floats:
    """Extend an inverse of `series` to `count` coefficients by Newton's iteration with FFTs."""
    size = 1 << (2 * count - 1).bit_length()
    known = np.fft.rfft(inverse, size)
    error = np.fft.irfft(known * np.fft.rfft(series[:count], size), size)[:count]
    error[: len(inverse)] = 0.0
    correction = np.fft.irfft(known * np.fft.rfft(error, size), size)[:count]
    longer: Floats = -correction
    longer[: len(inverse)] = inverse
    return longer
