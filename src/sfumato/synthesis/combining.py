"""Noisy marginals of one table become one consistent estimate with exact margins, in closed form.

A table over columns B splits into components, one for each A ⊆ B: sum over B∖A, then remove the mean along every axis.
Components of one noisy table are uncorrelated, those of different tables independent; so the best estimate of each
is a weighted mean of the tables that hold it. Theorem: this is the generalised least squares estimate of all marginals
jointly. Proof: proofs/marginals.md §3
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import prod, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.synthesis.design import Axes
from sfumato.synthesis.domain import Floats

Counts = npt.NDArray[Any]
"""A table of integers, with or without noise."""


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """Estimate of one component, and the noise of each cell before the means were removed."""

    values: Floats
    variance: float


@dataclass(frozen=True, slots=True, eq=False)
class JointEstimate:
    """The combined unbiased estimate of all measured marginal components.

    `sizes` has the number of cells of every column, `parts` the components by their columns.
    """

    sizes: tuple[int, ...]
    parts: Mapping[Axes, Component]

    @property
    def total(self) -> float:
        """The estimated number of rows."""
        return float(self.parts[()].values)

    def knows(self, axes: Axes) -> bool:
        """Whether the marginal of these columns, in rising order, lies inside a measured one."""
        return axes in self.parts

    def table(self, axes: Axes, factors: Mapping[Axes, float] | None = None) -> Floats:
        """Return the estimated marginal of these columns; `factors` shrink some components."""
        found = np.zeros([self.sizes[axis] for axis in axes])
        for part in subsets(axes):
            factor = 1.0 if factors is None else factors.get(part, 1.0)
            if factor:
                found += self.spread(part, axes, factor * self.parts[part].values)
        return found

    def spread(self, part: Axes, axes: Axes, values: Floats) -> Floats:
        """Return a component as a table over more columns: evenly along those that it does not have."""
        others = prod(self.sizes[axis] for axis in axes if axis not in part)
        return values.reshape([self.sizes[axis] if axis in part else 1 for axis in axes]) / others

    def deviation(self, axes: Axes) -> float:
        """Return the standard deviation of each cell of an estimated marginal: all cells have the same."""
        variance = 0.0
        for part in subsets(axes):
            shape = prod((self.sizes[axis] - 1) / self.sizes[axis] for axis in part)
            others = prod(self.sizes[axis] for axis in axes if axis not in part)
            variance += self.parts[part].variance * shape / others**2
        return sqrt(variance)

    def deviation_of(self, axes: Axes, weights: Floats) -> float:
        """Return the standard deviation of Σ weight·cell over an estimated marginal."""
        variance = 0.0
        for part in subsets(axes):
            others = prod(self.sizes[axis] for axis in axes if axis not in part)
            along = component(weights, axes, part)
            variance += self.parts[part].variance * float((along * along).sum()) / others**2
        return sqrt(variance)


class ComponentSums:
    """What tables say of each component so far: a further table changes only the components of its own columns."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self._sums: dict[Axes, Floats] = {}
        self._precisions: dict[Axes, float] = {}

    def add(self, axes: Axes, variance: Fraction, table: Counts) -> None:
        """Add a noisy table of integers."""
        for part in subsets(axes):
            others = prod(self.sizes[axis] for axis in axes if axis not in part)
            precision = 1.0 / (float(variance) * others)
            self._sums[part] = self._sums.get(part, 0.0) + precision * component(table, axes, part)
            self._precisions[part] = self._precisions.get(part, 0.0) + precision

    def estimate(self) -> JointEstimate:
        """Return the best unbiased estimate of all components."""
        parts = {
            part: Component(self._sums[part] / precision, 1.0 / precision)
            for part, precision in self._precisions.items()
        }
        return JointEstimate(self.sizes, parts)


def combine(
    sizes: Sequence[int], marginals: Sequence[Axes], sigma_squared: Sequence[Fraction], tables: Sequence[Counts]
) -> JointEstimate:
    """Return the best unbiased estimate of all components from noisy integer tables, one for each marginal."""
    sums = ComponentSums(sizes)
    for axes, variance, table in zip(marginals, sigma_squared, tables, strict=True):
        sums.add(axes, variance, table)
    return sums.estimate()


def subsets(axes: Axes) -> list[Axes]:
    """Return all parts of some columns, the empty one first."""
    return [part for size in range(len(axes) + 1) for part in combinations(axes, size)]


def component(table: Counts, axes: Axes, part: Axes) -> Floats:
    """Return the component of `part` in a table over `axes`: sum over the others, remove the mean along each axis."""
    gone = tuple(index for index, axis in enumerate(axes) if axis not in part)
    values = np.asarray(table.sum(axis=gone), dtype=np.float64)
    for index in range(values.ndim):
        values = values - values.mean(axis=index, keepdims=True)
    return values


def shrinkage_factors(combined: JointEstimate) -> dict[Axes, float]:
    """Return by how much each component of two or more columns is shrunk towards 0 for the model [Efron, Morris 1973].

    A component of noise alone has the squared length f·V on average, f its degrees of freedom.
    """
    factors = {}
    for part, known in combined.parts.items():
        if len(part) > 1:
            length = float((known.values**2).sum())
            noise = known.variance * prod(combined.sizes[axis] - 1 for axis in part)
            factors[part] = max(0.0, 1.0 - noise / length) if length > 0 else 0.0
    return factors


def onto_counts(table: Floats, total: float) -> Floats:
    """Return the nearest table without negative cells whose sum is `total`: Euclidean, by sorting [Held et al. 1974].

    >>> onto_counts(np.array([3.0, -1.0, 2.0]), 4.0).tolist()
    [2.5, 0.0, 1.5]
    """
    if total <= 0:
        return np.zeros_like(table)
    falling = np.sort(table, axis=None)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, falling.size + 1)
    # the first cell is kept, also where it is so large that a float has no digit left for the total
    kept = np.flatnonzero(falling > excess)
    last = int(kept[-1]) if len(kept) else 0
    nearest: Floats = np.maximum(table - excess[last], 0.0)
    return nearest
