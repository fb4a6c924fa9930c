"""Integers beyond 64 bits in arrays: value = l2·2^64 + l1·2^32 + l0 with 0 <= l0, l1 < 2^32 and a signed l2.

Exact while |value| < 2^100: then no product below passes 63 bits. Whoever uses it proves that first.
"""

import numpy as np
import numpy.typing as npt

from sfumato.streams.toeplitz import Integers

Limbs = npt.NDArray[np.int64]
"""An array whose first axis is l0, l1, l2."""

FARTHEST = 1 << 100
MOST_SHARE_BITS = 24
MOST_WEIGHT = 1 << 42
_BITS = 32
_MASK = (1 << _BITS) - 1
_PART = 20
_SHARE_MASK = (1 << MOST_SHARE_BITS) - 1


def zeros(*shape: int) -> Limbs:
    """Return so many zeros."""
    return np.zeros((3, *shape), dtype=np.int64)


def decayed(values: Limbs, shares: npt.NDArray[np.int64]) -> Limbs:
    """Return ⌊value · share / 2^24⌋ for shares below 2^24: a shift of two's complement is a floor."""
    low = shares * values[0]
    middle = shares * values[1] + (low >> _BITS)
    high = shares * values[2] + (middle >> _BITS)
    low, middle, up = low & _MASK, middle & _MASK, _BITS - MOST_SHARE_BITS
    return np.stack(
        [
            (low >> MOST_SHARE_BITS) | ((middle & _SHARE_MASK) << up),
            (middle >> MOST_SHARE_BITS) | ((high & _SHARE_MASK) << up),
            high >> MOST_SHARE_BITS,
        ]
    )


def with_products(values: Limbs, weights: npt.NDArray[np.int64], factors: npt.NDArray[np.int64]) -> Limbs:
    """Return value + weight · factor for 0 <= weight <= 2^42 and |factor| <= 2^40."""
    small = weights * (factors & ((1 << _PART) - 1))  # below 2^62
    large = weights * (factors >> _PART)  # times 2^20
    return _carried(
        values[0] + (small & _MASK) + ((large & 0xFFF) << _PART),
        values[1] + (small >> _BITS) + ((large >> 12) & _MASK),
        values[2] + (large >> 44),
    )


def with_noise(values: Limbs, noise: Integers) -> Integers:
    """Return value + noise: int64 if every noisy value fits, else Python integers.

    The noise is in the limbs before anything is compared, so that the choice depends on noisy values alone.
    """
    if noise.dtype == object:
        exact: Integers = _joined(values) + noise
        return exact
    noisy = _carried(values[0] + (noise & _MASK), values[1] + ((noise >> _BITS) & _MASK), values[2] + (noise >> 63))
    if (noisy[2] == -(noisy[1] >> (_BITS - 1))).all():  # nothing but the sign is above 63 bits
        small: Integers = (noisy[1] << _BITS) | noisy[0]
        return small
    return _joined(noisy)


def added(values: Limbs) -> Limbs:
    """Return the sums along the second axis, of at most 2^20 values."""
    sums = values.sum(axis=1)
    return _carried(sums[0], sums[1], sums[2])


def _carried(low: npt.NDArray[np.int64], middle: npt.NDArray[np.int64], high: npt.NDArray[np.int64]) -> Limbs:
    middle = middle + (low >> _BITS)
    return np.stack([low & _MASK, middle & _MASK, high + (middle >> _BITS)])


def _joined(values: Limbs) -> Integers:
    low, middle, high = (limb.astype(object) for limb in values)
    joined: Integers = (high << (2 * _BITS)) + (middle << _BITS) + low
    return joined
