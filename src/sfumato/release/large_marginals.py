"""Marginals of a table that is too large to be written out: residuals in closed form, one marginal at a time.

Proof: proofs/one_table.md, (8)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.planning.shared_marginals import ContingencyTable, subsets
from sfumato.release.intervals.noise_law import Floats

Wide = npt.NDArray[np.longdouble]
"""Sums of up to 2^63 steps keep their last digit."""
Indices = npt.NDArray[np.int64]
KeyIndices = tuple[int, ...]
"""A set of axes, in increasing order."""

_MIN_REST_DEVIATIONS = 2.5
"""A rest is shown as part of a total from this number of deviations above 0 on."""
MAX_PROJECTED_CELLS = 20_000_000
"""Maximum number of cells that the variances of sums over several cells are computed with."""


@dataclass(frozen=True)
class LargeTable:
    """The best estimates of marginals measured with noise of these variances and fourth cumulants."""

    table: ContingencyTable
    variances: tuple[float, ...]
    fourths: tuple[float, ...]

    @cached_property
    def residuals(self) -> Mapping[KeyIndices, tuple[float, tuple[tuple[int, float], ...]]]:
        """By axes: the variance τ of a residual's estimate, and the share that each marginal has in it."""
        precisions: dict[KeyIndices, list[tuple[int, float]]] = {}
        for index, (margin, variance) in enumerate(zip(self.table.margins, self.variances, strict=True)):
            for axes in subsets(margin.axes):
                each = precisions.setdefault(tuple(sorted(axes)), [])
                each.append((index, 1 / (variance * self.table.folded(margin, axes))))
        found = {}
        for ordered, parts in precisions.items():
            total = sum(one for _, one in parts)
            found[ordered] = (1 / total, tuple((place, one / total) for place, one in parts))
        return found

    def estimated_residuals(self, measured: Sequence[Wide]) -> dict[KeyIndices, Wide]:
        """Return the best estimate of every residual from marginals whose axes are in increasing order."""
        found: dict[KeyIndices, Wide] = {}
        for axes, (_, parts) in self.residuals.items():
            total: Any = 0
            for place, share in parts:
                own = sorted(self.table.margins[place].axes)
                beyond = tuple(at for at, axis in enumerate(own) if axis not in axes)
                total = total + share * (measured[place].sum(axis=beyond) if beyond else measured[place])
            found[axes] = _centred(np.asarray(total, dtype=np.longdouble))
        return found

    def estimate(self, axes: KeyIndices, residuals: Mapping[KeyIndices, Wide]) -> Wide:
        """Return the estimated marginal of some axes: its residuals, spread evenly."""
        sizes = self.table.sizes
        total = np.zeros([sizes[axis] for axis in axes], dtype=np.longdouble)
        for part in _subsets(axes):
            shape = [sizes[axis] if axis in part else 1 for axis in axes]
            total = total + residuals[part].reshape(shape) / prod(sizes[axis] for axis in axes if axis not in part)
        return total

    def variance(self, axes: KeyIndices) -> float:
        """Return the variance of a cell of the estimated marginal of some axes: it is the same for all its cells."""
        sizes = self.table.sizes
        return float(
            sum(
                self.residuals[part][0]
                * prod((sizes[axis] - 1) / sizes[axis] for axis in part)
                / prod(sizes[axis] for axis in axes if axis not in part) ** 2
                for part in _subsets(axes)
            )
        )

    def fourth(self, axes: KeyIndices) -> float:
        """Return the fourth cumulant of a cell of the estimated marginal of some axes."""
        total = 0.0
        for index, (margin, fourth) in enumerate(zip(self.table.margins, self.fourths, strict=True)):
            if fourth:
                total += fourth * self._fourth_powers(axes, index, tuple(sorted(set(axes) & set(margin.axes))))
        return total

    def _fourth_powers(self, axes: KeyIndices, place: int, common: KeyIndices) -> float:
        """Return the sum of the fourth powers of a marginal's weights: they depend on the axes that two cells share."""
        sizes, margin = self.table.sizes, self.table.margins[place]
        beyond = prod(sizes[axis] for axis in margin.axes if axis not in common)
        shares = {
            part: dict(self.residuals[part][1])[place] / prod(sizes[axis] for axis in axes if axis not in part)
            for part in _subsets(common)
        }
        total = 0.0
        for same in _subsets(common):
            weight = sum(
                share * prod((axis in same) - 1 / sizes[axis] for axis in part) for part, share in shares.items()
            )
            total += beyond * prod(sizes[axis] - 1 for axis in common if axis not in same) * weight**4
        return total

    def whole_numbers(self, measured: Sequence[Wide], margins: Sequence[int]) -> list[npt.NDArray[Any]]:
        """Return whole numbers for the shown cells of some marginals, keys in the order of their groups.

        A rest that may well be empty is left out, so that shown cells add up to shown totals; all marginals have the
        same total.
        """
        residuals = self.estimated_residuals(measured)
        pairs = zip(self.table.sizes, self.table.has_remainder, strict=True)
        sizes = tuple(
            size - (rest and size > 1 and not self._is_there(axis, residuals))
            for axis, (size, rest) in enumerate(pairs)
        )
        smaller = LargeTable(replace(self.table, sizes=sizes), self.variances, self.fourths)
        cut = [
            values[tuple(slice(sizes[axis]) for axis in sorted(margin.axes))]
            for values, margin in zip(measured, self.table.margins, strict=True)
        ]
        if sizes != self.table.sizes:
            residuals = smaller.estimated_residuals(cut)
        found = []
        for margin in map(self.table.margins.__getitem__, margins):
            axes = tuple(sorted(margin.axes))
            ordered = smaller.estimate(axes, residuals).transpose([axes.index(axis) for axis in margin.axes])
            shown = tuple(slice(self.table.sizes[axis] - self.table.has_remainder[axis]) for axis in margin.axes)
            found.append(_rounded(ordered)[shown].ravel())
        return found

    def _is_there(self, axis: int, residuals: Mapping[KeyIndices, Wide]) -> bool:
        """Whether the rest of an axis is clearly above 0."""
        estimate = float(self.estimate((axis,), residuals)[-1])
        return bool(estimate > _MIN_REST_DEVIATIONS * self.variance((axis,)) ** 0.5)

    def sum_variances(
        self, rows: Indices, cells: Sequence[tuple[KeyIndices, Indices]], weights: Floats, size: int
    ) -> Floats:
        """Return the variance of weighted sums of estimated cells: one entry per row and cell.

        `cells` has, entry after entry, its marginal's axes and the places along them; `size` is the number of rows.
        Each residual adds τ times the squared length of what the weights are in its space.
        """
        sizes, found = self.table.sizes, np.zeros(size)
        used = {part for axes, _ in cells for part in _subsets(axes)}
        for part in sorted(used):
            shape = [sizes[axis] for axis in part]
            spread = np.zeros((size, prod(shape)))
            for row, (axes, places), weight in zip(rows.tolist(), cells, weights.tolist(), strict=True):
                if set(part) <= set(axes):
                    own = tuple(int(places[axes.index(axis)]) for axis in part)
                    at = int(np.ravel_multi_index(own, shape)) if shape else 0
                    spread[row, at] += weight / prod(sizes[axis] for axis in axes if axis not in part)
            centred = _centred(spread.reshape(size, *shape), first=1)
            found += self.residuals[part][0] * (centred.reshape(size, -1) ** 2).sum(axis=1)
        return found

    def projected_cells(self, axes: Sequence[KeyIndices], rows: int) -> int:
        """Return how many cells `sum_variances` computes with for sums over cells of these marginals."""
        used = {part for axis in axes for part in _subsets(axis)}
        return rows * sum(prod(self.table.sizes[axis] for axis in part) for part in used)


def _subsets(axes: KeyIndices) -> list[KeyIndices]:
    return [part for size in range(len(axes) + 1) for part in combinations(axes, size)]


def _centred(table: npt.NDArray[Any], first: int = 0) -> npt.NDArray[Any]:
    """Return a table less its means along each axis from the first on."""
    return reduce(lambda part, axis: part - part.mean(axis=axis, keepdims=True), range(first, table.ndim), table)


def _rounded(table: Wide) -> npt.NDArray[Any]:
    """Return whole numbers whose sums along the order of the cells are the nearest whole numbers."""
    running = np.rint(np.cumsum(table.ravel()))
    whole = running.astype(np.int64) if float(np.abs(running).max(initial=0)) < 1 << 61 else running.astype(object)
    if whole.dtype == object:
        whole = np.array([int(one) for one in whole], dtype=object)
    return np.diff(whole, prepend=whole.dtype.type(0) if whole.dtype != object else 0).reshape(table.shape)
