"""Margins of one table, made consistent: the best weights of all that was measured, and whole numbers that add up.

With independent noise the table falls apart into residuals, one for each set of axes: what a margin says beyond all
smaller ones. Every margin that holds a set of axes measures its residual, and the best estimate of it weighs them by
their precision. Proof: proofs/one_table.md
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.analysis.private_query import Absent
from sfumato.planning.derived_measurement import DerivedMeasurement
from sfumato.planning.plan import Plan
from sfumato.planning.shared_marginals import ContingencyTable, MarginalMeasurement, subsets
from sfumato.release.block_trees import BlockEstimates, block_estimates
from sfumato.release.intervals.noise_law import Floats, Integers, moments_of
from sfumato.release.large_marginals import LargeTable
from sfumato.release.noisy import NoisyGroup, NoisyResult

Indices = npt.NDArray[np.int64]
Wide = npt.NDArray[np.longdouble]
"""Sums of up to 2^63 steps keep their last digit."""
Axes = frozenset[int]
Name = tuple[str, str]

_CLEARLY = 2.5
"""A rest has to lie more than this many deviations above 0 to be taken for something."""
_NO_NOISE = 1e-150
"""Noise whose variance is smaller than floats can tell is 0; this much is divided by instead."""


@dataclass(frozen=True, slots=True)
class ConsistentMarginal:
    """One measurement of one group after all: a whole number for each shown cell, and what it is a weighted sum of."""

    values: Integers
    others: tuple[tuple[Name, Indices, Floats], ...]
    """Of each measurement of the common table: which of its cells, and with which weights, row after row."""
    rows: tuple[Indices, ...] | None = None
    """The shown cell of each entry of `others`; None where all shown cells have as many."""
    estimates: "MarginalEstimates | BlockEstimates | None" = None
    """Set where the table is large, or has blocks: then `others` is empty, and estimates stand for what was measured.
    """


@dataclass(frozen=True, slots=True, eq=False)
class MarginalEstimates:
    """The estimates of all cells of a marginal of a large table, and the law of their errors."""

    solved: LargeTable
    axes: tuple[int, ...]
    """In the order of the group's keys."""
    values: Floats
    """Cell after cell, the rests among them."""

    @property
    def moments(self) -> tuple[float, float]:
        """The variance and the fourth cumulant of each cell: they are the same for all."""
        axes = tuple(sorted(self.axes))
        return self.solved.variance(axes), self.solved.fourth(axes)


def shown_cells(group: NoisyGroup) -> list[int]:
    """Return where the cells are that an answer shows: the rest of a key is measured for the others' sake alone."""
    return [place for place, cell in enumerate(group.keys) if None not in cell and Absent.NULL not in cell]


def consistent(plan: Plan, noisy: NoisyResult, read: Set[str] | None = None) -> dict[Name, ConsistentMarginal]:
    """Return what was measured of common tables, by label and name; of large ones only the groups that are read."""
    measured = {
        (group.group.label, one.name): (one, found)
        for group, found in zip(plan.groups, noisy.groups, strict=True)
        for one in group.measured
    }
    made: dict[Name, ConsistentMarginal] = {}
    for table in plan.tables:
        moments = [moments_of(measured[margin.label, margin.name][0].mechanism) for margin in table.margins]
        variances = tuple(max(variance, _NO_NOISE) for variance, *_ in moments)
        groups = [measured[margin.label, margin.name][1] for margin in table.margins]
        if table.is_large:
            fourths = tuple(fourth + shared**2 for _, fourth, shared in moments)
            made |= _estimated(LargeTable(table, variances, fourths), groups, read)
        else:
            made |= _Solved(table, variances).margins(groups)
    for hierarchy in plan.hierarchies:
        if read is None or hierarchy.label in read:
            groups_of = {label: group for (label, _), (_, group) in measured.items()}
            keys = next(group.group.keys for group in plan.groups if group.group.label == hierarchy.label)
            sizes = [len(key.measured_values) for key in keys]
            for name in hierarchy.names:
                laws = [moments_of(measured[label, name][0].mechanism) for label in hierarchy.labels]
                each = [(max(variance, _NO_NOISE), fourth + shared**2) for variance, fourth, shared in laws]
                values, estimates = block_estimates(hierarchy, name, groups_of, each, sizes)
                made[hierarchy.label, name] = ConsistentMarginal(_narrow(_integers(values)), (), None, estimates)
    for one in plan.derived:
        made[one.label, one.name] = _derived(one, {name: group for name, (_, group) in measured.items()})
    for group, found in zip(plan.groups, noisy.groups, strict=True):
        label = group.group.label
        made |= {
            (label, one.name): _sum_of_steps(
                [(made.get((label, name)) or _own(label, name, found), sign) for name, sign in one.terms]
            )
            for one in group.sums
        }
    return made


def _integers(values: Wide) -> npt.NDArray[Any]:
    return np.array([int(value) for value in values], dtype=object)


def _estimated(
    solved: LargeTable, groups: Sequence[NoisyGroup], read: Set[str] | None = None
) -> dict[Name, ConsistentMarginal]:
    """Return the marginals of a large table that are read, all of them for None."""
    table, measured = solved.table, list[Wide]()
    places = [place for place, margin in enumerate(table.margins) if read is None or margin.label in read]
    if not places:
        return {}
    for margin, group in zip(table.margins, groups, strict=True):
        values = np.array(group.column(margin.name), dtype=np.longdouble)
        shaped = values.reshape([table.sizes[axis] for axis in margin.axes])
        measured.append(shaped.transpose(sorted(range(len(margin.axes)), key=lambda at: margin.axes[at])))
    residuals, found = solved.estimated_residuals(measured), {}
    for place, shown in zip(places, solved.whole_numbers(measured, places), strict=True):
        margin = table.margins[place]
        axes = tuple(sorted(margin.axes))
        ordered = solved.estimate(axes, residuals).transpose([axes.index(axis) for axis in margin.axes])
        estimates = MarginalEstimates(solved, margin.axes, ordered.ravel().astype(np.float64))
        found[margin.label, margin.name] = ConsistentMarginal(_narrow(shown), (), None, estimates)
    return found


def _own(label: str, name: str, found: NoisyGroup) -> ConsistentMarginal:
    """Return a measurement as it was measured, in every shown cell."""
    shown = np.array(shown_cells(found), dtype=np.int64)
    values = np.array(found.numbers(name), dtype=object)[shown]
    return ConsistentMarginal(values, (((label, name), shown, np.ones(len(shown))),))


def _sum_of_steps(steps: Sequence[tuple[ConsistentMarginal, int]]) -> ConsistentMarginal:
    """Return a count or sum from its steps, in every shown cell.  Proof: proofs/disjoint_conditions.md, 4"""
    size = len(steps[0][0].values)
    signed = ([sign * int(value) for value in one.values] for one, sign in steps)
    values = np.array([sum(numbers) for numbers in zip(*signed, strict=True)], object)
    entries: dict[Name, list[tuple[Indices, Indices, Floats]]] = {}
    for one, sign in steps:
        rows = one.rows or [np.repeat(np.arange(size), len(cells) // max(size, 1)) for _, cells, _ in one.others]
        for (name, cells, weights), own in zip(one.others, rows, strict=True):
            entries.setdefault(name, []).append((own, cells, sign * weights))
    merged = {name: _once(parts) for name, parts in entries.items()}  # what one step adds another may take away
    others = tuple((name, cells, weights) for name, (_, cells, weights) in merged.items())
    return ConsistentMarginal(_narrow(values.reshape(size)), others, tuple(own for own, _, _ in merged.values()))


def _once(parts: Sequence[tuple[Indices, Indices, Floats]]) -> tuple[Indices, Indices, Floats]:
    """Return every pair of a row and a cell once, with the sum of its weights, where that is not 0."""
    rows, cells, weights = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
    if (rows[1:] > rows[:-1]).all():  # one cell in each row: all pairs are different, and in their order
        there = weights != 0
        return (rows, cells, weights) if there.all() else (rows[there], cells[there], weights[there])
    pairs, places = np.unique(np.stack([rows, cells]), axis=1, return_inverse=True)
    sums = np.bincount(places.ravel(), weights=weights, minlength=pairs.shape[1])
    there = sums != 0
    return pairs[0][there], pairs[1][there], sums[there]


def _derived(one: DerivedMeasurement, groups: Mapping[Name, NoisyGroup]) -> ConsistentMarginal:
    """Return a weighted sum of kept cells: exact where all weights are whole, else the nearest whole number."""
    own = groups[one.label, one.name]
    # floats are fractions of a power of two: whole multiples of the smallest of them are added
    ratios = {weight: weight.as_integer_ratio() for part in one.parts for weight in part.weights}
    finest = max((unit for _, unit in ratios.values()), default=1)
    whole = {weight: times * (finest // unit) for weight, (times, unit) in ratios.items()}
    sums = [0] * len(shown_cells(own))
    for part in one.parts:
        numbers = groups[part.label, part.name].numbers(part.name)
        for row, cell, weight in zip(part.rows, part.cells, part.weights, strict=True):
            sums[row] += whole[weight] * int(numbers[cell])
    others = tuple(
        ((part.label, part.name), np.array(part.cells, dtype=np.int64), np.array(part.weights, dtype=np.float64))
        for part in one.parts
    )
    rows = tuple(np.array(part.rows, dtype=np.int64) for part in one.parts)
    return ConsistentMarginal(_narrow(np.array([_nearest(total, finest) for total in sums], object)), others, rows)


def _nearest(total: int, unit: int) -> int:
    """Return the whole number that is nearest to total / unit, the even one of two."""
    whole, rest = divmod(total, unit)
    return whole + (2 * rest > unit or (2 * rest == unit and whole % 2 == 1))


@dataclass(frozen=True)
class _Solved:
    """The best weights for margins measured with these variances."""

    table: ContingencyTable
    variances: tuple[float, ...]

    def margins(self, groups: Sequence[NoisyGroup]) -> dict[Name, ConsistentMarginal]:
        """Return every margin: whole numbers from one whole table, and weights for its bars."""
        margins = self.table.margins
        names = [(margin.label, margin.name) for margin in margins]
        given = [
            np.array(group.column(margin.name), dtype=np.longdouble).reshape(self._shape(margin))
            for group, margin in zip(groups, margins, strict=True)
        ]
        whole = self._whole(given)
        found = {}
        for margin, group in zip(margins, groups, strict=True):
            shown = shown_cells(group)
            values = _ordered(whole, margin)[tuple(slice(size) for size in self._shown(margin))].ravel()
            weights = [self._weights(margin, other)[shown].ravel() for other in margins]
            others = tuple(
                (name, np.tile(np.arange(self._cells(other)), len(shown)), part)
                for name, other, part in zip(names, margins, weights, strict=True)
            )
            found[margin.label, margin.name] = ConsistentMarginal(_narrow(values), others)
        return found

    def _whole(self, given: Sequence[Wide]) -> npt.NDArray[Any]:
        """Return the estimated table in whole numbers; a rest that may well be nothing is left out of it.

        So the cells that are shown add up to the totals that are shown. Bars do not rest on that. Where a key has no
        cell that could be shown, its rest is everything.
        """
        sizes = tuple(
            size - (rest and size > 1 and not self._is_there(axis, given))
            for axis, (size, rest) in enumerate(zip(self.table.sizes, self.table.has_remainder, strict=True))
        )
        smaller = _Solved(replace(self.table, sizes=sizes), self.variances)
        cut = [
            values[tuple(slice(sizes[axis]) for axis in margin.axes)]
            for values, margin in zip(given, self.table.margins, strict=True)
        ]
        return _rounded(smaller._table(cut))

    def _is_there(self, axis: int, given: Sequence[Wide]) -> bool:
        """Whether the rest of an axis is clearly above 0."""
        weights = [self._weights(MarginalMeasurement("", "", (axis,)), other)[-1] for other in self.table.margins]
        estimate = sum(float((part * values.ravel()).sum()) for part, values in zip(weights, given, strict=True))
        variance = sum(float((part**2).sum()) * one for part, one in zip(weights, self.variances, strict=True))
        return bool(estimate > _CLEARLY * variance**0.5)

    def _shape(self, margin: MarginalMeasurement) -> list[int]:
        return [self.table.sizes[axis] for axis in margin.axes]

    def _shown(self, margin: MarginalMeasurement) -> list[int]:
        """Return how many cells of each key of a margin are shown."""
        return [self.table.sizes[axis] - self.table.has_remainder[axis] for axis in margin.axes]

    def _cells(self, margin: MarginalMeasurement) -> int:
        return prod(self.table.sizes[axis] for axis in margin.axes)

    @cached_property
    def _precisions(self) -> Mapping[Axes, tuple[float, ...]]:
        """Return for each set of axes the share that each margin has in its residual."""
        found = {}
        for axes in self._residuals:
            exact = [
                1 / (variance * self.table.folded(margin, axes)) if axes <= set(margin.axes) else 0.0
                for margin, variance in zip(self.table.margins, self.variances, strict=True)
            ]
            found[axes] = tuple(one / sum(exact) for one in exact)
        return found

    @cached_property
    def _residuals(self) -> list[Axes]:
        every = (subset for margin in self.table.margins for subset in subsets(margin.axes))
        return list(dict.fromkeys(every))

    def _table(self, given: Sequence[Wide]) -> Wide:
        """Return the best estimate of the common table: its residuals, spread out."""
        sizes = self.table.sizes
        total = np.zeros(sizes, dtype=np.longdouble)
        for axes in self._residuals:
            residual = np.zeros([size if axis in axes else 1 for axis, size in enumerate(sizes)], dtype=np.longdouble)
            for values, margin, share in zip(given, self.table.margins, self._precisions[axes], strict=True):
                if share:
                    residual = residual + share * _centred(_placed(values, margin, sizes), axes)
            total = total + residual / prod(size for axis, size in enumerate(sizes) if axis not in axes)
        return total

    def _weights(self, margin: MarginalMeasurement, other: MarginalMeasurement) -> Floats:
        """Return the weight of each cell of another margin in each cell of this one.

        It depends on which common keys the two cells agree in: the sum over residuals of share / folded times the
        product over the residual's axes of (1 if they agree else 0) - 1/size.
        """
        place, common = self.table.margins.index(other), [axis for axis in margin.axes if axis in other.axes]
        agreeing = np.zeros((self._cells(margin), self._cells(other)), dtype=np.int64)
        for bit, axis in enumerate(common):
            one, two = self._along(margin, axis), self._along(other, axis)
            agreeing |= (one[:, None] == two[None, :]).astype(np.int64) << bit
        by_pattern = np.zeros(1 << len(common))
        for pattern in range(1 << len(common)):
            for axes in subsets(common):
                share = self._precisions[axes][place] / self.table.folded(margin, axes)
                agree = ((pattern >> bit & 1, axis) for bit, axis in enumerate(common) if axis in axes)
                by_pattern[pattern] += share * prod(same - 1 / self.table.sizes[axis] for same, axis in agree)
        return np.asarray(by_pattern[agreeing])

    def _along(self, margin: MarginalMeasurement, axis: int) -> Indices:
        """Return the place on an axis of each cell of a margin."""
        return np.asarray(np.indices(self._shape(margin))[margin.axes.index(axis)].ravel(), dtype=np.int64)


def _placed(values: Wide, margin: MarginalMeasurement, sizes: Sequence[int]) -> Wide:
    """Return a margin as a table with all axes, of which those that it lacks have one place."""
    order = sorted(range(len(margin.axes)), key=lambda at: margin.axes[at])
    shape = [size if axis in margin.axes else 1 for axis, size in enumerate(sizes)]
    return values.transpose(order).reshape(shape)


def _centred(table: Wide, axes: Axes) -> Wide:
    """Return the residual of these axes: summed over all others, and centred along each of them."""
    beyond = tuple(axis for axis in range(table.ndim) if axis not in axes)
    summed = table.sum(axis=beyond, keepdims=True) if beyond else table
    return reduce(lambda part, axis: part - part.mean(axis=axis, keepdims=True), sorted(axes), summed)


def _rounded(table: Wide) -> npt.NDArray[Any]:
    """Return whole numbers whose sums along the order of the cells are the nearest whole numbers."""
    running = np.rint(np.cumsum(table.ravel())).astype(object)
    steps = [int(one) - int(before) for one, before in zip(running, [0, *running[:-1]], strict=True)]
    return np.array(steps, dtype=object).reshape(table.shape)


def _ordered(whole: npt.NDArray[Any], margin: MarginalMeasurement) -> npt.NDArray[Any]:
    """Return a margin of the whole table, its keys in the order of their group."""
    beyond = tuple(axis for axis in range(whole.ndim) if axis not in margin.axes)
    summed = np.asarray(whole.sum(axis=beyond) if beyond else whole)
    return summed.transpose([sorted(margin.axes).index(axis) for axis in margin.axes])


def _narrow(values: npt.NDArray[Any]) -> Integers:
    """Return int64 if the integers surely fit, else Python integers."""
    return values.astype(np.int64) if max(map(abs, values.tolist()), default=0) < 1 << 61 else values
