"""Count the keys that one unit can change, and combine probabilities per key into a delta.

Proof: proofs/threshold.md, proofs/optimal_selection.md
"""

from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Neighbours
from sfumato.certified.binary import scaled_ceiling
from sfumato.mechanisms.columns import integer_column

PRECISION = 64
"""Significant bits of a stated delta: it is rounded by less than one part in 2^63."""


def touched_keys(groups_per_unit: int, neighbours: Neighbours) -> int:
    """Return how many keys differ between neighbours: a replaced unit leaves up to g keys and enters up to g others."""
    return 2 * groups_per_unit if neighbours is Neighbours.REPLACE else groups_per_unit


def chance_of_any(high: int, bits: int, times: int) -> Fraction:
    """Return 1 - (1 - p)^times rounded up, where p <= high / 2**bits, to `PRECISION` significant bits."""
    any_chance = (1 << bits) - _power_down((1 << bits) - high, times, bits)
    surplus = max(0, any_chance.bit_length() - PRECISION)
    return Fraction(-(-any_chance >> surplus) << surplus, 1 << bits)


@lru_cache(maxsize=512)
def share_of_delta(delta: Fraction, times: int) -> Fraction:
    """Return a p with 1 - (1 - p)^times <= delta: 1 - (1 - delta)^(1/times), rounded down.

    >>> share_of_delta(Fraction(3, 4), 2) <= Fraction(1, 2), float(share_of_delta(Fraction(3, 4), 2))
    (True, 0.5)
    """
    if times == 1:
        return delta
    bits = PRECISION + 16 + 2 * times.bit_length() + (delta.denominator // delta.numerator).bit_length()
    kept_chance = scaled_ceiling(1 - delta, bits)
    low, high = 0, 1 << bits  # `below` keeps at least 1 - delta, `above` does not
    while high - low > 1:
        middle = (low + high) // 2
        if _power_down((1 << bits) - middle, times, bits) >= kept_chance:
            low = middle
        else:
            high = middle
    return Fraction(low, 1 << bits)


def key_counts(values: object) -> npt.NDArray[np.int64]:
    """Read one true count per key."""
    return integer_column(values, 0, 2**62, "counts")


def _power_down(base: int, times: int, bits: int) -> int:
    """Return a lower bound of (base / 2**bits)^times · 2**bits, for base in [0, 2**bits]."""
    power = 1 << bits
    while times:
        if times & 1:
            power = power * base >> bits
        base = base * base >> bits
        times >>= 1
    return power
