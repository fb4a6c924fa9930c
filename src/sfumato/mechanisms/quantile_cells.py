"""One level and its ends in very many cells at once: the choices of `Quantiles.release`, in arrays of several cells.

From the same random words it chooses what one cell after another would choose. Floats decide where they are clear of
every seam, by the bound of proofs/selection.md; a cell in which they are not is left to `Quantiles.release`, which gets
the same words again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato.mechanisms.quantile_ends import EndsOf, first_distances
from sfumato.randomness.selection import (
    FLOAT_SLACK,
    FLOAT_SUM_SLACK,
    draw_words,
    float_weights,
    floats_fit,
    scaled_far,
)
from sfumato.randomness.source import Source, read_exactly

WORDS_PER_CELL = 6
"""A word for the stretch, two for the place in it, one for the distance, two for which of equal distances."""
_PORTION_VALUES = 1 << 15
"""This many values are processed together: their arrays stay in the processor's cache."""
_MAX_INT64_TERM = 1 << 60
_ROUNDING_TERMS = 16
"""More operations than follow a sum, each of which rounds once."""

Array = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
ReleaseCell = Callable[[Array, Array, Source], Array]
"""The release of one cell by its nonempty buckets and their weights."""


@dataclass(frozen=True, slots=True)
class SingleLevel:
    """What is chosen in each cell: a bucket at a rate, then the distance of its ends at another."""

    ends: EndsOf
    rate: Fraction
    ends_rate: Fraction


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class CellValues:
    """The values of several cells: buckets and weights, cell by cell, and where each cell begins and ends."""

    places: Array
    weights: Array
    edges: Array

    def part(self, first: int, last: int) -> "CellValues":
        """Return some of the cells."""
        start, end = self.edges[first], self.edges[last]
        return CellValues(self.places[start:end], self.weights[start:end], self.edges[first : last + 1] - start)


def release_single_level(one: SingleLevel, values: CellValues, release: ReleaseCell, source: Source) -> Array:
    """Return for each cell the lower end, the answer and the upper end; `release` is that of one cell."""
    count = len(values.edges) - 1
    drawn = read_exactly(source, 8 * WORDS_PER_CELL * count)
    words = draw_words(drawn).reshape(count, WORDS_PER_CELL)
    found = np.zeros((count, 3), dtype=np.int64)
    certain = np.zeros(count, dtype=np.bool_)
    for first, last in _portions(values.edges):
        found[first:last], certain[first:last] = _chosen(one, values.part(first, last), words[first:last])
    for cell in np.flatnonzero(~certain).tolist():
        start, end = values.edges[cell : cell + 2]
        own = drawn[8 * WORDS_PER_CELL * cell : 8 * WORDS_PER_CELL * (cell + 1)]
        found[cell] = release(values.places[start:end], values.weights[start:end], _Again(own, source))[0]
    return found


class _Again:
    """A source whose first bytes were drawn before."""

    def __init__(self, drawn: bytes, source: Source) -> None:
        self._drawn, self._source, self.name = drawn, source, source.name

    def read(self, count: int) -> bytes:
        taken, self._drawn = self._drawn[:count], self._drawn[count:]
        return taken if len(taken) == count else taken + read_exactly(self._source, count - len(taken))


def _portions(edges: Array) -> Iterator[tuple[int, int]]:
    """Give cells in portions of a few values; a cell of many is one."""
    first, count = 0, len(edges) - 1
    while first < count:
        fitting = int(np.searchsorted(edges, edges[first] + _PORTION_VALUES, side="right")) - 1
        last = min(max(first + 1, fitting), first + _PORTION_VALUES, count)
        yield first, last
        first = last


def _chosen(one: SingleLevel, values: CellValues, words: npt.NDArray[np.uint64]) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return what is chosen in each cell, and whether it is certain."""
    points = _points(values, one.ends.buckets)
    none = np.zeros((len(words), 3), dtype=np.int64), np.zeros(len(words), dtype=np.bool_)
    ends, totals = one.ends, points.before[points.last]
    largest = ends.level.denominator * (int(totals.max()) + 2 * ends.weight) + max(ends.wanted)
    keys = len(words) * (ends.buckets + 1)
    if max(largest, keys) >= _MAX_INT64_TERM or not all(map(floats_fit, (one.rate, one.ends_rate))):
        return none
    answers, sure = _places(one, points, words[:, 0], words[:, 1])
    far, as_sure = _distances(one, values, points, answers, words[:, 3], words[:, 4])
    last = ends.buckets - 1
    return np.column_stack((np.maximum(0, answers - far), answers, np.minimum(last, answers + far))), sure & as_sure


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class _Points:
    """Where the rank of a cell stands still: before its first value, and after each of them.

    `before` is the weight up to there. `starts` and `ends` are the stretch without values that begins there, maybe
    empty: it ends at the next value, or at the end of the range.
    """

    before: Array
    starts: Array
    ends: Array
    first: Array
    last: Array
    sizes: Array


def _points(values: CellValues, buckets: int) -> _Points:
    count, sizes = len(values.edges) - 1, np.diff(values.edges)
    first, last = values.edges[:-1] + np.arange(count), values.edges[1:] + np.arange(count)
    before, starts = np.zeros((2, len(values.places) + count), dtype=np.int64)
    ends = np.full(len(starts), buckets, dtype=np.int64)
    after = np.arange(len(values.places)) + np.repeat(np.arange(1, count + 1), sizes)
    weight = np.cumsum(values.weights)
    before[after] = weight - np.repeat(np.concatenate(([0], weight))[values.edges[:-1]], sizes)
    starts[after] = values.places + 1
    ends[after - 1] = values.places
    return _Points(before, starts, ends, first, last, sizes + 1)


def _places(
    one: SingleLevel, points: _Points, words: npt.NDArray[np.uint64], later: npt.NDArray[np.uint64]
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return the bucket that is chosen in each cell, and whether it is certain.

    Left of the wanted rank a value has the score of the point after it, right of it that of the point before it, and
    the value that holds the rank has score 0. So each point has up to three stretches: the value before it, the stretch
    without values, the value after it.
    """
    p, q = one.ends.level.numerator, one.ends.level.denominator
    off = q * points.before - np.repeat(p * points.before[points.last], points.sizes)
    weights = float_weights(np.abs(off), one.rate)
    value_before, value_after = off <= 0, off >= 0
    holds = np.zeros(len(off), dtype=np.bool_)
    holds[:-1] = (off[:-1] < 0) & (off[1:] > 0)
    value_before[points.first] = value_after[points.last] = holds[points.last] = False
    empty = points.ends - points.starts
    until = np.cumsum(weights * (empty + value_before + value_after) + holds)
    start = np.concatenate(([0.0], until))
    low, whole = start[points.first], until[points.last] - start[points.first]
    target = low + words * 2.0**-64 * whole
    at = np.clip(np.searchsorted(until, target, side="right"), points.first, points.last)
    # the seams of the three stretches of that point, and in which of them the target lies
    seams = np.empty((4, len(at)))
    seams[0] = start[at]
    seams[1] = seams[0] + weights[at] * value_before[at]
    seams[2] = seams[1] + weights[at] * empty[at]
    seams[3] = seams[2] + weights[at] * value_after[at] + holds[at]
    stretch = (target >= seams[1]).astype(np.int64) + (target >= seams[2])
    cells = np.arange(len(at))
    slack = FLOAT_SLACK * whole + (len(off) + _ROUNDING_TERMS) * FLOAT_SUM_SLACK * until[-1]
    certain = (seams[stretch, cells] + slack <= target) & (target <= seams[stretch + 1, cells] - slack)
    length = np.where(stretch == 1, np.maximum(empty[at], 1), 1)
    offset, sure = scaled_far(later, length.astype(np.uint64))
    begin = np.where(stretch == 0, points.starts[at] - 1, np.where(stretch == 1, points.starts[at], points.ends[at]))
    return np.clip(begin + offset, 0, one.ends.buckets - 1), certain & sure


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class _Ranks:
    """`HeldValues` of several cells, a row each, as `EndsOf.misses` asks for them."""

    values: CellValues
    points: _Points
    buckets: int

    @property
    def total(self) -> Array:
        totals: Array = self.points.before[self.points.last][:, None]
        return totals

    def below(self, places: Array) -> Array:
        """Return the weight before each of these buckets, in the cell of its row."""
        cells, width = np.arange(len(places))[:, None], self.buckets + 1
        keys = np.repeat(np.arange(len(places)) * width, self.points.sizes - 1) + self.values.places
        found: Array = self.points.before[np.searchsorted(keys, cells * width + np.clip(places, 0, width - 1)) + cells]
        return found


def _distances(
    one: SingleLevel,
    values: CellValues,
    points: _Points,
    answers: Array,
    words: npt.NDArray[np.uint64],
    later: npt.NDArray[np.uint64],
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return the distance that is chosen for each answer, and whether it is certain."""
    ends = one.ends
    known = ends.distance_counts(answers)
    most, cells = int(known.max()), np.arange(len(answers))
    misses = ends.misses(_Ranks(values, points, ends.buckets), answers, most)
    beyond = np.arange(most) >= known[:, None]
    misses = np.where(beyond, np.iinfo(np.int64).max, misses)
    order = np.argsort(misses, axis=1, kind="stable")
    misses = np.take_along_axis(misses, order, axis=1)
    weights = np.where(beyond, 0.0, float_weights(misses - misses[:, :1], one.ends_rate))  # those beyond are last
    until = np.cumsum(weights, axis=1)
    whole = until[:, -1]
    target = words * 2.0**-64 * whole
    at = np.minimum((until <= target[:, None]).sum(axis=1), known - 1)
    alike = (misses == misses[cells, at][:, None]) & ~beyond
    first, times = np.argmax(alike, axis=1), alike.sum(axis=1)
    low = np.where(first > 0, until[cells, first - 1], 0.0)
    slack = (FLOAT_SLACK + (most + _ROUNDING_TERMS) * FLOAT_SUM_SLACK) * whole
    certain = (low + slack <= target) & (target <= until[cells, first + times - 1] - slack)
    offset, sure = scaled_far(later, times.astype(np.uint64))
    far = np.array(first_distances(most), dtype=np.int64)
    return far[order[cells, np.minimum(first + offset, most - 1)]], certain & sure
