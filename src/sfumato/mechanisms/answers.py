"""Read true answers as integers of any shape, and add noise without overflow."""

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import BadParameter

Answers = npt.NDArray[Any]
"""int64 where the numbers fit, otherwise Python integers."""


def integer_answers(values: object) -> Answers:
    """Read integers of any shape; anything else is refused without repeating a value.

    >>> integer_answers([[1, 2], [3, 2**70]]).dtype
    dtype('O')
    """
    array = _as_array(values)
    if array is not None and array.dtype.kind in "iu":
        return array.astype(object if array.dtype == np.uint64 else np.int64)
    if array is not None and array.size == 0:
        return np.zeros(array.shape, dtype=np.int64)
    if array is not None and array.dtype == object and all(type(number) is int for number in array.flat):
        return array
    raise BadParameter(
        "The values are not integers of one shape.",
        "Noise is added on a public grid of integers; floats, booleans and ragged lists have no place on it.",
        "Clip and quantise first (sfumato.sensitivity.clipping), then pass an integer array.",
    )


def add_noise(values: Answers, noise: Answers) -> Answers:
    """Return values + noise: int64 if every noisy value fits, else Python integers.

    The type depends on the noisy values only, so it reveals nothing beyond them.
    """
    shape, values, noise = values.shape, values.ravel(), noise.ravel()  # a single number is a column of one
    if values.dtype != object and noise.dtype != object:
        total: Answers = values + noise
        wrapped = ((values ^ total) & (noise ^ total)) < 0  # both summands have the other sign than their sum
        if not wrapped.any():
            return total.reshape(shape)
    wide: Answers = values.astype(object) + noise.astype(object)
    if wide.size and wide.min() >= -(1 << 63) and wide.max() < 1 << 63:
        wide = wide.astype(np.int64)
    return wide.reshape(shape)


def _as_array(values: object) -> Answers | None:
    if isinstance(values, np.ndarray):
        return values
    try:
        array = np.array(values)
        # NumPy makes floats of integers beyond 2^63; whether a list is accepted must not depend on their size
        return array if array.dtype.kind in "iuO" else np.array(values, dtype=object)
    except (ValueError, TypeError, OverflowError):
        return None
