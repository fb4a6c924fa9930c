"""Compute with integers beyond 64 bits in arrays: value = l2·2^64 + l1·2^32 + l0, 0 <= l0, l1 < 2^32, l2 signed.

Exact while |value| < 2^100: then no product below passes 63 bits. Callers must prove that bound.
"""

import numpy as np
import numpy.typing as npt

from sfumato.streams.toeplitz import Integers

Limbs = npt.NDArray[np.int64]
"""An array whose first axis is l0, l1, l2."""

MAX_LIMBS_VALUE = 1 << 100
SHARE_BITS = 24
MAX_WEIGHT = 1 << 42
_LIMB_BITS = 32
_LIMB_MASK = (1 << _LIMB_BITS) - 1
_FACTOR_PART_BITS = 20
_SHARE_MASK = (1 << SHARE_BITS) - 1


def zeros(*shape: int) -> Limbs:
    """Return an array of zeros in this shape."""
    return np.zeros((3, *shape), dtype=np.int64)


def decay(values: Limbs, shares: npt.NDArray[np.int64]) -> Limbs:
    """Return ⌊value · share / 2^24⌋ for shares below 2^24: a shift of two's complement is a floor."""
    low = shares * values[0]
    middle = shares * values[1] + (low >> _LIMB_BITS)
    high = shares * values[2] + (middle >> _LIMB_BITS)
    low, middle, up = low & _LIMB_MASK, middle & _LIMB_MASK, _LIMB_BITS - SHARE_BITS
    return np.stack(
        [
            (low >> SHARE_BITS) | ((middle & _SHARE_MASK) << up),
            (middle >> SHARE_BITS) | ((high & _SHARE_MASK) << up),
            high >> SHARE_BITS,
        ]
    )


def add_products(values: Limbs, weights: npt.NDArray[np.int64], factors: npt.NDArray[np.int64]) -> Limbs:
    """Return value + weight · factor for 0 <= weight <= 2^42 and |factor| <= 2^40."""
    small = weights * (factors & ((1 << _FACTOR_PART_BITS) - 1))  # below 2^62
    large = weights * (factors >> _FACTOR_PART_BITS)  # times 2^20
    return _carry(
        values[0] + (small & _LIMB_MASK) + ((large & 0xFFF) << _FACTOR_PART_BITS),
        values[1] + (small >> _LIMB_BITS) + ((large >> 12) & _LIMB_MASK),
        values[2] + (large >> 44),
    )


def add_noise_to_limbs(values: Limbs, noise: Integers) -> Integers:
    """Return value + noise: int64 if every noisy value fits, else Python integers.

    The noise is in the limbs before anything is compared, so that the choice depends on noisy values alone.
    """
    if noise.dtype == object:
        exact: Integers = _join_limbs(values) + noise
        return exact
    noisy = _carry(
        values[0] + (noise & _LIMB_MASK), values[1] + ((noise >> _LIMB_BITS) & _LIMB_MASK), values[2] + (noise >> 63)
    )
    if (noisy[2] == -(noisy[1] >> (_LIMB_BITS - 1))).all():  # nothing but the sign is above 63 bits
        small: Integers = (noisy[1] << _LIMB_BITS) | noisy[0]
        return small
    return _join_limbs(noisy)


def sum_limbs(values: Limbs) -> Limbs:
    """Return the sums along the second axis, of at most 2^20 values."""
    sums = values.sum(axis=1)
    return _carry(sums[0], sums[1], sums[2])


def _carry(low: npt.NDArray[np.int64], middle: npt.NDArray[np.int64], high: npt.NDArray[np.int64]) -> Limbs:
    middle = middle + (low >> _LIMB_BITS)
    return np.stack([low & _LIMB_MASK, middle & _LIMB_MASK, high + (middle >> _LIMB_BITS)])


def _join_limbs(values: Limbs) -> Integers:
    low, middle, high = (limb.astype(object) for limb in values)
    joined: Integers = (high << (2 * _LIMB_BITS)) + (middle << _LIMB_BITS) + low
    return joined
