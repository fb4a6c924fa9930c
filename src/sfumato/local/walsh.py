"""The fast Walsh–Hadamard transform, on integers."""

import numpy as np
import numpy.typing as npt

from sfumato.local.reading import Integers


def parities(numbers: Integers) -> npt.NDArray[np.bool_]:
    """Return whether each integer has an odd number of ones."""
    folded = numbers
    for shift in (32, 16, 8, 4, 2, 1):
        folded = folded ^ (folded >> shift)
    return (folded & 1).astype(np.bool_)


def transform(table: Integers) -> Integers:
    """Return Σ_r (-1)^popcount(r & v) · table[…, r] for each v along the last axis, a power of two long.

    >>> transform(np.array([[3, 1, 0, 2]])).tolist()
    [[6, 0, 2, 4]]
    """
    width = table.shape[-1]
    done, half = table.astype(np.int64), 1
    while half < width:
        pairs = done.reshape(*table.shape[:-1], width // (2 * half), 2, half)
        first, second = pairs[..., 0, :], pairs[..., 1, :]
        done = np.stack([first + second, first - second], axis=-2).reshape(table.shape)
        half *= 2
    return done
