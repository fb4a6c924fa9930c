"""Cells of an ordered key that were measured in blocks of several sizes, too: the best weights of all that is known.

Blocks form trees, so generalised least squares takes one pass up and one pass down. Proof: proofs/hierarchies.md, (3)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.planning.hierarchies import Hierarchy
from sfumato.release.intervals.noise_law import Floats
from sfumato.release.noisy import NoisyGroup

Indices = npt.NDArray[np.int64]
Values = npt.NDArray[Any]
Entries = tuple[Indices, Indices, Floats]
"""Row, cell and weight of each part of weighted sums."""
JointMoments = dict[tuple[int, int], Floats]
"""Cumulants of two sums in each row, by how often each of the two counts."""
_MAX_CELLS_AT_ONCE = 2_000_000
"""Number of cells of sums that are projected at once."""
MAX_PROJECTED_CELLS = 20_000_000
"""Maximum number of cells that the variances of sums over several cells are computed with."""


@dataclass(frozen=True, slots=True)
class BlockTree:
    """Cells in a row, and noise of these variances and fourth cumulants at each level, the finest first."""

    cells: int
    sizes: tuple[int, ...]
    variances: tuple[float, ...]
    fourths: tuple[float, ...]

    def blocks(self, values: Values, level: int) -> Values:
        """Return the sums over the blocks of a level, along the last axis."""
        return np.asarray(np.add.reduceat(values, np.arange(0, self.cells, self.sizes[level]), axis=-1))

    def estimate(self, measured: Sequence[Values]) -> Values:
        """Return the best linear unbiased estimates of the cells from the measured numbers of all levels."""
        combined, sums = [measured[0]], list[Values]()
        for level in range(1, len(self.sizes)):
            below, above = self._known[level]
            total = self._joined(combined[-1], level)
            sums.append(total)
            share = above / self.variances[level]  # of the block's own number, beside the sum of what is in it
            combined.append(share * measured[level] + (1 - share) * total)
        found = combined[-1]
        for level in reversed(range(1, len(self.sizes))):
            below, _ = self._known[level]
            parent = self._parents(level)
            part = below / self._joined(below, level)[parent]
            found = combined[level - 1] + part * (found - sums[level - 1])[..., parent]
        return found

    def cell_variances(self) -> Floats:
        """Return the variance of each estimated cell."""
        found = self._variances_above(len(self.sizes) - 1)
        for level in reversed(range(1, len(self.sizes))):
            below, parent = self._known[level][0], self._parents(level)
            part = below / self._joined(below, level)[parent]
            found = below - part * below + part**2 * found[parent]
        return np.asarray(found, dtype=np.float64)

    def cell_fourths(self) -> Floats:
        """Return bounds of the fourth cumulants of estimated cells: no excess is above the largest of a level."""
        excess = max(fourth / variance**2 for fourth, variance in zip(self.fourths, self.variances, strict=True))
        return max(excess, 0.0) * self.cell_variances() ** 2

    def moments_of_sums(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return variance and fourth cumulant of weighted sums of estimated cells: one row of weights for each."""
        found = self.joint_moments(weights, weights)
        return found[1, 1], found[2, 2]

    def joint_moments(self, one: Floats, other: Floats) -> JointMoments:
        """Return the joint cumulants of two sums of estimated cells, of orders 2 and 4, by how often each sum counts.

        The number of a block has the weight Σ u / variance over its cells, where u solves the normal equations for the
        sum.
        """
        nothing = [np.zeros(-(-self.cells // size)) for size in self.sizes[1:]]
        solved = [self.estimate([weights * self.variances[0], *nothing]) for weights in (one, other)]
        found = {(order - times, times): np.zeros(len(one)) for order in (2, 4) for times in range(order + 1)}
        for level, moments in enumerate(zip(self.variances, self.fourths, strict=True)):
            first, second = (self.blocks(each, level) / moments[0] for each in solved)
            for (power, times), total in found.items():
                total += moments[power + times > 2] * (first**power * second**times).sum(axis=1)
        return found

    @property
    def _known(self) -> list[tuple[Floats, Floats]]:
        """Return for each level above the finest the variances of what is known of the level below, and of its own."""
        below = np.full(self.cells, self.variances[0])
        found = [(below, below)]
        for level in range(1, len(self.sizes)):
            above = 1 / (1 / self.variances[level] + 1 / self._joined(below, level))
            found.append((below, above))
            below = above
        return found

    def _variances_above(self, level: int) -> Floats:
        return self._known[level][1]

    def _joined(self, values: Values, level: int) -> Values:
        """Return the sums of the blocks of the level below over those of this one."""
        step = self.sizes[level] // self.sizes[level - 1]
        return np.asarray(np.add.reduceat(values, np.arange(0, values.shape[-1], step), axis=-1))

    def _parents(self, level: int) -> Indices:
        """Return the block that each block of the level below lies in."""
        count, step = -(-self.cells // self.sizes[level - 1]), self.sizes[level] // self.sizes[level - 1]
        return np.arange(count, dtype=np.int64) // step


@dataclass(frozen=True, slots=True, eq=False)
class BlockEstimates:
    """The estimates of all cells of a measurement, hidden ones among them as they were measured, and their moments."""

    tree: BlockTree
    row_of: Indices
    """Of each cell: which of several trees it belongs to; a hidden cell belongs to none, and has -1."""
    place_of: Indices
    values: Floats
    variances: Floats
    fourths: Floats

    @property
    def moments(self) -> tuple[Floats, Floats]:
        """The variance and the fourth cumulant of each cell."""
        return self.variances, self.fourths

    def moments_of_sums(
        self, rows: Indices, cells: Indices, weights: Floats, size: int
    ) -> tuple[Floats, Floats] | None:
        """Return variance and fourth cumulant of weighted sums, an entry per row and cell; None where they are many."""
        found = self.joint_moments((rows, cells, weights), (rows[:0], cells[:0], weights[:0]), size)
        return None if found is None else (found[2, 0], found[4, 0])

    def joint_moments(self, one: Entries, other: Entries, size: int) -> JointMoments | None:
        """Return the joint cumulants of two weighted sums in each row; None where they are many.

        Different trees have independent noise.
        """
        rows, cells, weights = (np.concatenate(parts) for parts in zip(one, other, strict=True))
        trees, places = self.row_of[cells], self.place_of[cells]
        pairs, numbers = np.unique(rows * (int(self.row_of.max()) + 2) + trees + 1, return_inverse=True)
        if (trees < 0).any() or len(pairs) * self.tree.cells > MAX_PROJECTED_CELLS:
            return None
        found = {(order - times, times): np.zeros(size) for order in (2, 4) for times in range(order + 1)}
        owner = np.zeros(len(pairs), dtype=np.int64)
        owner[numbers] = rows
        which = np.repeat([0, 1], [len(one[0]), len(other[0])])
        most = max(1, _MAX_CELLS_AT_ONCE // self.tree.cells)
        for first in range(0, len(pairs), most):
            here = (numbers >= first) & (numbers < first + most)
            spread = np.zeros((2, min(most, len(pairs) - first), self.tree.cells))
            np.add.at(spread, (which[here], numbers[here] - first, places[here]), weights[here])
            for powers, moments in self.tree.joint_moments(spread[0], spread[1]).items():
                np.add.at(found[powers], owner[first : first + spread.shape[1]], moments)
        return found


def block_estimates(
    hierarchy: Hierarchy,
    name: str,
    groups: Mapping[str, NoisyGroup],
    moments: Sequence[tuple[float, float]],
    sizes: Sequence[int],
) -> tuple[Values, BlockEstimates]:
    """Return whole numbers for the shown cells of one measurement of a hierarchy, and its estimates.

    `moments` are variance and fourth cumulant of each level, and `sizes` how many cells each key of the group has, the
    remainders among them. Running sums of whole numbers are the nearest to those of the estimates.
    """
    axis, counts = hierarchy.axis, hierarchy.counts
    tree = BlockTree(counts[axis], hierarchy.sizes, *(tuple(column) for column in zip(*moments, strict=True)))
    shown = tuple(slice(count) for count in counts)
    every = np.array(groups[hierarchy.label].column(name), dtype=np.longdouble).reshape(sizes)
    measured = [np.moveaxis(every[shown], axis, -1)]
    for label, size in hierarchy.levels:
        shape = [*counts[:axis], -(-counts[axis] // size), *counts[axis + 1 :]]
        numbers = np.array(groups[label].column(name), dtype=np.longdouble).reshape(shape)
        measured.append(np.moveaxis(numbers, axis, -1))
    found = tree.estimate(measured)
    running = np.rint(np.cumsum(found, axis=-1))
    whole = np.diff(running, axis=-1, prepend=np.zeros_like(running[..., :1]))
    rows, places = (np.full(sizes, -1, dtype=np.int64) for _ in range(2))
    trees = found.size // tree.cells
    numbered = np.arange(trees).reshape(found.shape[:-1])[..., None]
    rows[shown] = np.moveaxis(np.broadcast_to(numbered, found.shape), -1, axis)
    places[shown] = np.moveaxis(np.broadcast_to(np.arange(tree.cells), found.shape), -1, axis)
    values = every.astype(np.float64)
    values[shown] = np.moveaxis(found, -1, axis)
    variances, fourths = (np.full(sizes, moment) for moment in moments[0])
    variances[shown] = np.moveaxis(np.broadcast_to(tree.cell_variances(), found.shape), -1, axis)
    fourths[shown] = np.moveaxis(np.broadcast_to(tree.cell_fourths(), found.shape), -1, axis)
    estimates = BlockEstimates(tree, rows.ravel(), places.ravel(), values.ravel(), variances.ravel(), fourths.ravel())
    return np.moveaxis(whole, -1, axis).ravel(), estimates
