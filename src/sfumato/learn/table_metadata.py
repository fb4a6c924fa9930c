"""Public metadata of a table before a fit: columns, bounds, classes, neighbour relation and rows per unit."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Neighbours, as_neighbours
from sfumato.errors import BadParameter, quote_value
from sfumato.exact import decimal_rational, integer

Floats = npt.NDArray[np.float64]
MAX_MODEL_COLUMNS = 1000
MAX_CLASSES = 1000
_MAX_RANGE_WIDTH, _MIN_RANGE_WIDTH = 1e150, 1e-150


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """The public part of a table: from parameters or from the policy, never from the data."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    """Bounds of the columns; of the target too, as the last one, where it is a number."""
    classes: tuple[Any, ...]
    """The possible values of the target, where it is a class; else empty."""
    numeric_target: bool
    neighbours: Neighbours
    rows_per_person: int
    """The most rows of one person."""

    @property
    def width(self) -> int:
        """How many columns there are, without the target."""
        return len(self.low) - self.numeric_target

    @property
    def middle(self) -> Floats:
        """The middle of each column's bounds."""
        return np.array(self.low) / 2 + np.array(self.high) / 2

    @property
    def half(self) -> Floats:
        """Half the width of each column's bounds."""
        return np.array(self.high) / 2 - np.array(self.low) / 2


def inverse(half: Floats) -> Floats:
    """Return one over each number; 0 over 0 is 0: a column that can only be one value has no weight."""
    return np.asarray(np.where(half > 0, 1 / np.maximum(half, _MIN_RANGE_WIDTH), 0.0))


def read_bounds(bounds: object, width: int, name: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Read (low, high): two numbers for all columns, or two lists with one number per column."""
    if bounds is None:
        raise BadParameter(
            f"{name} is missing.",
            "Bounds read from the data would reveal its extremes, so they must come from public knowledge.",
            f"Give {name}=(low, high): two numbers, or two lists with one number per column.",
        )
    if not isinstance(bounds, Sequence | np.ndarray) or isinstance(bounds, str) or len(bounds) != 2:
        raise _bad_bounds(name, width)
    low, high = (_read_ends(side, width, name) for side in bounds)
    sized = all(
        isfinite(a) and isfinite(b) and max(abs(a), abs(b)) <= _MAX_RANGE_WIDTH for a, b in zip(low, high, strict=True)
    )
    if not sized or not all(b - a >= _MIN_RANGE_WIDTH for a, b in zip(low, high, strict=True)):
        raise _bad_bounds(name, width)
    return low, high


def _read_ends(side: object, width: int, name: str) -> tuple[float, ...]:
    if isinstance(side, Sequence | np.ndarray) and not isinstance(side, str) and np.ndim(side) == 1:
        ends = tuple(_read_end(value, name) for value in side)
    else:
        ends = (_read_end(side, name),) * width
    if len(ends) != width:
        raise _bad_bounds(name, width)
    return ends


def _read_end(value: object, name: str) -> float:
    try:
        return float(decimal_rational(value.item() if isinstance(value, np.generic) else value, name))
    except OverflowError:
        raise _bad_bounds(name, 1) from None


def _bad_bounds(name: str, width: int) -> BadParameter:
    return BadParameter(
        f"{name} is not (low, high).",
        "Every column needs a finite low below a finite high, in sizes whose squares are numbers.",
        f"Give two numbers, or two lists of {width} numbers." if width > 1 else "Give two numbers.",
    )


def read_classes(classes: object) -> tuple[Any, ...]:
    """Read the classes: at least one, each once, of a kind that can be compared and stored."""
    if classes is None:
        raise BadParameter(
            "classes is missing.",
            "Which classes occur in the data is not public, so all possible classes must be listed.",
            "Give classes=[0, 1], say.",
        )
    if isinstance(classes, str) or not isinstance(classes, Sequence | np.ndarray) or np.ndim(np.asarray(classes)) != 1:
        raise BadParameter("classes is not a list.", "It names every class once.", "Give classes=[0, 1], say.")
    values = tuple(value.item() if isinstance(value, np.generic) else value for value in classes)
    known = all(
        isinstance(value, bool | int | str) or (isinstance(value, float) and isfinite(value)) for value in values
    )
    if not known or len(set(values)) != len(values) or not 1 <= len(values) <= MAX_CLASSES:
        raise BadParameter(
            "classes are not different numbers, texts or truth values.",
            f"Each class is named once, and there are at most {MAX_CLASSES}.",
            "Give classes=[0, 1], say.",
        )
    return values


def read_neighbours(neighbours: object) -> Neighbours:
    """Read the neighbour relation."""
    return as_neighbours(neighbours)


def read_people(rows_per_person: object) -> int:
    """Read how many rows of one person count."""
    rows = integer(rows_per_person, "rows_per_person", 1)
    if rows <= 1 << 20:
        return rows
    raise BadParameter(
        f"rows_per_person = {quote_value(rows)} is more than 2^20.",
        "Sums are exact in 64 bits.",
        "Give a smaller number.",
    )


def read_loss(epsilon: object, delta: object) -> tuple[Fraction, Fraction]:
    """Read the price. All noise here is Gaussian, which has no guarantee without a delta."""
    price, failure = decimal_rational(epsilon, "epsilon"), decimal_rational(delta, "delta")
    if not 0 < price <= 100:
        raise BadParameter(
            f"epsilon = {quote_value(epsilon)} is not between 0 and 100.",
            "It is the most that the whole fit may cost.",
            "Give epsilon='1', say.",
        )
    if not 0 < failure < 1:
        raise BadParameter(
            f"delta = {quote_value(delta)} is not between 0 and 1.",
            "The noise of every model is Gaussian, and has no guarantee at delta = 0.",
            "Give delta='1e-6', say: well below one over the number of people.",
        )
    return price, failure
