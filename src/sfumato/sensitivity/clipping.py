"""Clip values to public bounds and round them to integers on a public grid, before they are summed.

Floating-point rounding decides nothing here: a float is read as an exact binary rational, then clipped, divided by the
step and rounded half to even. NaN, infinities and None are absent: they are not clipped to a
bound, they do not count. Messages never repeat a value. Proof: proofs/sensitivity.md §8, §9.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, isfinite, isqrt
from numbers import Integral, Rational
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import BadParameter
from sfumato.exact import integer
from sfumato.sensitivity.grid import Grid

Integers = npt.NDArray[Any]
"""int64 where the public bounds fit, otherwise Python integers in an object array."""
Mask = npt.NDArray[np.bool_]

_MAX_INT64_TERM = 2**62  # twice this is still an int64
_MAX_DECIMAL_EXPONENT = 12_000  # `exact.rational` reads no larger power of ten
_MAX_EXACT_FLOAT = 2**53  # every integer up to here is a float64


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Quantised:
    """Integers on a grid and whether each was present; an absent one is 0, so that sums pass over it."""

    integers: Integers
    present: Mask

    def __repr__(self) -> str:
        return f"Quantised({len(self.integers)} values)"  # the values are secret


def to_grid(values: object, grid: Grid) -> Quantised:
    """Clip each value to [low, high], divide by the step, round half to even; NaN, ±infinity and None are absent.

    >>> to_grid([0.25, 7, None, float("inf")], Grid(0, 5, Fraction(1, 10))).integers.tolist()
    [2, 50, 0, 0]
    """
    array = _as_column(values)
    if array.dtype.kind == "b":
        array = array.astype(np.int64)
    if array.dtype.kind in "iu":
        return Quantised(_integers_to_grid(array, grid), np.ones(len(array), dtype=np.bool_))
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        return _floats_to_grid(array.astype(np.float64), grid)
    return _objects_to_grid(array.tolist(), grid)


def clip_l2(vectors: object, bound_squared: int) -> Integers:
    """Shrink each row into the L2 ball whose radius squared is `bound_squared`, rounding towards 0.

    Theorem: the result's rows have squared L2 norm at most `bound_squared`, and rows already inside are untouched.
    Proof: proofs/sensitivity.md §9

    >>> clip_l2([[3, -4], [1, 1]], 4).tolist()
    [[1, -1], [1, 1]]
    """
    radius_squared = integer(bound_squared, "bound_squared", 1)
    table = _as_integers(vectors)
    rows = []
    for row in table.tolist():
        length_squared = sum(int(entry) ** 2 for entry in row)
        if length_squared > radius_squared:
            # floor(e·√(B/N)) = isqrt(floor(e²·B/N)): integers all the way
            sizes = [isqrt(int(entry) ** 2 * radius_squared // length_squared) for entry in row]
            row = [size if entry > 0 else -size for size, entry in zip(sizes, row, strict=True)]
        rows.append(row)
    return np.array(rows, dtype=table.dtype).reshape(table.shape)


def _as_column(values: object) -> npt.NDArray[Any]:
    if isinstance(values, np.ndarray):
        array = values
    else:
        try:
            array = np.empty(len(values), dtype=object)  # type: ignore[arg-type]
            array[:] = values
        except (TypeError, ValueError):
            raise _bad_column() from None
    if array.ndim != 1 or array.dtype.kind not in "biufO":
        raise _bad_column()
    return array


def _bad_column() -> BadParameter:
    return BadParameter(
        "values is not one column of numbers.",
        "Only integers, Fractions, Decimals, floats and None can be brought to a grid.",
        "Give a one-dimensional array or a list of numbers.",
    )


def _integers_to_grid(array: npt.NDArray[Any], grid: Grid) -> Integers:
    low, high = floor(grid.low), ceil(grid.high)
    times, over = grid.step.denominator, grid.step.numerator
    if max(abs(low), abs(high), 1) * times >= _MAX_INT64_TERM or over >= _MAX_INT64_TERM:
        return _as_array(_clip_ratios(((value, 1) for value in array.tolist()), grid), grid)
    scaled = _clip(array, low, high).astype(np.int64) * times  # rounding is monotone: clip roughly, then finely
    quotient, rest = np.divmod(scaled, over)
    up = (2 * rest > over) | ((2 * rest == over) & (quotient % 2 == 1))
    return _clip(quotient + up, grid.least, grid.greatest)


def _floats_to_grid(array: npt.NDArray[np.float64], grid: Grid) -> Quantised:
    present = np.isfinite(array)
    finite = np.where(present, array, 0.0)
    times, over = grid.step.denominator, grid.step.numerator
    if max(abs(grid.least), abs(grid.greatest)) >= 2**50 or times > _MAX_EXACT_FLOAT or over > _MAX_EXACT_FLOAT:
        return _objects_to_grid(array.tolist(), grid)
    low, high = _around(grid.low, -np.inf), _around(grid.high, np.inf)
    # Two roundings of 2^-53 each: the quotient is within 2^-51 of itself. Where it is not that near to a tie, rounding
    # it is rounding the exact rational; the others are decided by integers. (Underflow errs by less than 2^-1000.)
    quotient = np.clip(finite, low, high) * float(times) / float(over)
    rounded = np.rint(quotient)
    unclear = np.abs(np.abs(quotient - rounded) - 0.5) <= np.abs(quotient) * 2.0**-50 + 2.0**-1000
    integers = rounded.astype(np.int64)
    integers[unclear] = _clip_ratios((value.as_integer_ratio() for value in finite[unclear].tolist()), grid)
    clipped = _clip(integers, grid.least, grid.greatest)
    return Quantised(np.where(present, clipped, 0), present)


def _around(value: Fraction, towards: float) -> float:
    """Return a float on the far side of `value`: bounds here only keep the quotient small."""
    return float(np.nextafter(float(value), towards))


def _objects_to_grid(values: list[object], grid: Grid) -> Quantised:
    ratios = [_ratio(value) for value in values]
    present = np.array([ratio is not None for ratio in ratios], dtype=np.bool_)
    integers = _as_array([0] * len(ratios), grid)
    integers[present] = _clip_ratios((ratio for ratio in ratios if ratio is not None), grid)
    return Quantised(integers, present)


def _ratio(value: object) -> tuple[int, int] | None:
    """Return a value as numerator and denominator; None when it is absent."""
    if value is None:
        return None
    if isinstance(value, Integral):
        return int(value), 1
    if isinstance(value, Rational):
        return int(value.numerator), int(value.denominator)
    if isinstance(value, Decimal):
        return _decimal_ratio(value) if value.is_finite() else None
    if isinstance(value, float | np.floating):
        return value.as_integer_ratio() if isfinite(value) else None
    raise _bad_column()


def _decimal_ratio(value: Decimal) -> tuple[int, int]:
    # 1e999999999 must not fill the memory: beyond every bound that can be written it is as good as the bound
    if value and value.adjusted() > _MAX_DECIMAL_EXPONENT:
        return (-1 if value < 0 else 1) * 10**_MAX_DECIMAL_EXPONENT, 1
    return value.as_integer_ratio() if value.adjusted() > -_MAX_DECIMAL_EXPONENT else (0, 1)


def _round_half_even(numerator: int, denominator: int) -> int:
    """Round a ratio half to even."""
    quotient, rest = divmod(numerator, denominator)
    return quotient + (2 * rest > denominator or (2 * rest == denominator and quotient % 2 == 1))


def _clip_ratios(ratios: Iterable[tuple[int, int]], grid: Grid) -> list[int]:
    """Bring exact ratios to the grid, by integers."""
    least, greatest, times, over = grid.least, grid.greatest, grid.step.denominator, grid.step.numerator
    return [min(max(_round_half_even(top * times, bottom * over), least), greatest) for top, bottom in ratios]


def _as_array(numbers: list[int], grid: Grid) -> Integers:
    fits = max(abs(grid.least), abs(grid.greatest)) < _MAX_INT64_TERM
    return np.array(numbers, dtype=np.int64 if fits else object)


def _clip(array: npt.NDArray[Any], low: int, high: int) -> Integers:
    """Clip integers of any width; bounds that the width cannot hold are handled by Python's integers."""
    if array.dtype.kind in "iu":
        held = np.iinfo(array.dtype)
        # A bound beyond the width is never reached; one on the wrong side of it moves everything.
        if low <= held.max and high >= held.min:
            clipped: Integers = np.clip(array, max(low, int(held.min)), min(high, int(held.max)))
            return clipped
        dtype = np.int64 if -_MAX_INT64_TERM < low <= high < _MAX_INT64_TERM else object
        return np.full(array.shape, low if low > held.max else high, dtype=dtype)
    return np.array([min(max(number, low), high) for number in array.tolist()], dtype=object).reshape(array.shape)


def _as_integers(values: object) -> npt.NDArray[Any]:
    try:
        array = values if isinstance(values, np.ndarray) else np.array(values, dtype=object)
    except ValueError:
        raise _bad_integers() from None
    if array.ndim != 2 or array.dtype.kind not in "iuO":
        raise _bad_integers()
    if array.dtype.kind == "O" and not all(
        isinstance(entry, Integral) and not isinstance(entry, bool) for entry in array.flat
    ):
        raise _bad_integers()
    return array


def _bad_integers() -> BadParameter:
    return BadParameter(
        "The contributions are not a table of integers.",
        "They are clipped as integers on the grid.",
        "Call to_grid first; give an integer array, one row per unit.",
    )
