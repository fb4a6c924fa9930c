"""Draw rows from a model: each candidate row appears in proportion to its weight, up to rounding."""

from collections.abc import Sequence

import numpy as np

from sfumato.synthesis.domain import Codes, Floats
from sfumato.synthesis.model import Fitted


def systematic(fitted: Fitted, count: int, luck: float) -> Codes:
    """Return which candidate row each of `count` rows is: candidates are sorted, one row at every (luck + i) / count.

    A candidate of weight w appears ⌊count·w⌋ or ⌈count·w⌉ times, so that every marginal of the rows is nearer to the
    model than independent draws would be.
    """
    ends = np.cumsum(fitted.weights)
    places = (luck + np.arange(count)) / max(count, 1) * ends[-1]
    return np.asarray(np.minimum(np.searchsorted(ends, places, side="right"), len(ends) - 1))


def shuffle_order(count: int, luck: Floats) -> Codes:
    """Return a random order of `count` rows."""
    return np.argsort(luck[:count], kind="stable")


def distance(first: Floats, second: Floats) -> float:
    """Return half the sum of the differences of two tables, each brought to a sum of 1."""
    return 0.5 * float(np.abs(first / first.sum() - second / second.sum()).sum())


def count_rows(rows: Sequence[Codes], sizes: Sequence[int], weights: Floats | None = None) -> Floats:
    """Return the table of some columns of rows, each counted once or by its weight."""
    shape = tuple(sizes)
    place = np.ravel_multi_index(tuple(rows), shape) if rows else np.zeros(0, dtype=np.int64)
    return np.bincount(place, weights, int(np.prod(shape))).astype(np.float64).reshape(shape)
