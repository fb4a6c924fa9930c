"""Read a column of true integers, or refuse it without repeating a value."""

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import BadParameter


def integer_column(values: object, least: int, greatest: int, meaning: str) -> npt.NDArray[np.int64]:
    """Read one-dimensional integers (or booleans) from `least` to `greatest`, both within int64.

    >>> integer_column([True, False], 0, 1, "bits").tolist()
    [1, 0]
    """
    array = array_or_none(values)
    if array is not None and array.ndim == 1:
        if array.size == 0:
            return np.zeros(0, dtype=np.int64)
        if array.dtype.kind in "biu" and least <= int(array.min()) and int(array.max()) <= greatest:
            return array.astype(np.int64)
    raise BadParameter(
        f"values is not one column of {meaning}.",
        f"Each of the {meaning} is an integer from {least} to {greatest}.",
        "Give a one-dimensional integer array.",
    )


def array_or_none(values: object) -> npt.NDArray[Any] | None:
    """Return values as an array, or None if they are none, as ragged lists."""
    try:
        return values if isinstance(values, np.ndarray) else np.array(values)
    except (ValueError, TypeError, OverflowError):
        return None
