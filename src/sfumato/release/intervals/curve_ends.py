"""Logarithms, powers and lists of results on ends instead of values, and where they have no result.

Proof: proofs/intervals.md, 6
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sfumato.language.scalar import MAX_EXP_ARGUMENT, ListedResults, LogarithmCurve, PowerCurve, Scalar
from sfumato.release.intervals.forms import Ends, Nulls
from sfumato.release.intervals.noise_law import Floats

_POWER_RELATIVE_ERROR = 1e-11
"""Bound of the relative error of a power of integers: proofs/curves.md."""


def _around(low: Floats, high: Floats, grain: Fraction) -> Ends:
    """Return the ends of a curve in steps of its grain: one step and a little outwards, as far as curves are off."""
    low, high = low / float(grain), high / float(grain)
    off = [1 + np.where(np.isfinite(end), np.abs(end), 0) * _POWER_RELATIVE_ERROR for end in (low, high)]
    return low - off[0], high + off[1]


def exponential(scalar: Scalar, ends: Sequence[Ends]) -> Ends:
    """Return the ends of EXP."""
    with np.errstate(over="ignore"):
        match scalar.constant:
            case PowerCurve(base, step, grain):
                slope = float(step) * (1.0 if base is None else float(np.log(float(base))))
                return _around(np.exp(ends[0][0] * slope), np.exp(ends[0][1] * slope), grain)
        return np.exp(ends[0][0]), np.exp(ends[0][1])


def logarithm(scalar: Scalar, ends: Sequence[Ends]) -> Ends:
    """Return the ends of LOG."""
    with np.errstate(divide="ignore"):
        match scalar.constant:
            case LogarithmCurve(base, step, grain, zero):
                per = 1.0 if base is None else float(np.log(float(base)))
                low, high = (np.log(np.maximum(end, 0) * float(step)) / per for end in ends[0])
                low, high = _around(low, high, grain)
                return (low, high) if zero is None else (np.where(ends[0][0] <= 0, float(zero), low), high)
        of = {0: np.log, 2: np.log2, 10: np.log10}[int(str(scalar.constant))]
        low, high = (of(np.maximum(end, 0)) for end in ends[0])
    return low, high


def lookup(scalar: Scalar, ends: Sequence[Ends]) -> Ends:
    """Every list of results rises, or falls, throughout."""
    match scalar.constant:
        case ListedResults(first, values):
            listed = np.array(values, dtype=float)
            at = [np.clip(end - first, 0, len(values) - 1) for end in ends[0]]
            one, other = listed[np.floor(at[0]).astype(int)], listed[np.ceil(at[1]).astype(int)]
            return np.minimum(one, other), np.maximum(one, other)
    raise AssertionError("LOOKUP comes with what is listed")


def below_zero(_: Scalar, ends: Sequence[Ends]) -> Nulls:
    """Where a root has no result."""
    return ends[0][0] < 0, ends[0][1] < 0


def no_logarithm(scalar: Scalar, ends: Sequence[Ends]) -> Nulls:
    """Where a logarithm has no result."""
    if isinstance(scalar.constant, LogarithmCurve) and scalar.constant.zero is not None:
        return below_zero(scalar, ends)
    return ends[0][0] <= 0, ends[0][1] <= 0


def before_the_first(scalar: Scalar, ends: Sequence[Ends]) -> Nulls:
    """Where nothing is listed."""
    first = scalar.constant.first if isinstance(scalar.constant, ListedResults) else 0
    return ends[0][0] < first, ends[0][1] < first


def too_large(scalar: Scalar, ends: Sequence[Ends]) -> Nulls:
    """Where a power of doubles has no result."""
    if isinstance(scalar.constant, PowerCurve):
        return np.zeros(len(ends[0][0]), dtype=bool), np.zeros(len(ends[0][0]), dtype=bool)
    return ends[0][1] >= MAX_EXP_ARGUMENT, ends[0][0] >= MAX_EXP_ARGUMENT
