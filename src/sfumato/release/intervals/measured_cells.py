"""All noisy integers of an answer in one row, each with its law: what every error bar is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf

import numpy as np
import numpy.typing as npt

from sfumato.language.scalar import Operator, Scalar
from sfumato.mechanisms.answers import Answers
from sfumato.mechanisms.counted_keys import CountedKeys
from sfumato.mechanisms.max_norm import MaxNormPart
from sfumato.planning.aggregates.distinct_count import different_values
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.plan import Plan, PlannedMeasurement
from sfumato.query.functions import Aggregation
from sfumato.release.block_trees import BlockEstimates
from sfumato.release.bounding.selection import tail_corrections
from sfumato.release.intervals.noise_law import Floats, Law, law_of, moments_of
from sfumato.release.large_marginals import MAX_PROJECTED_CELLS
from sfumato.release.marginal_consistency import ConsistentMarginal, MarginalEstimates, consistent, shown_cells
from sfumato.release.noisy import NoisyResult, integers

_WIDEST = 10**75
_SURE = 100
"""Far from a threshold, having been released changes a tail by less than one part in this many."""
_FINE = 2
"""Up to this rate shared integer noise is near its real law: a radius of 1 is half a standard step of it."""
Flags = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredCells:
    """Every measurement of every cell, numbered; `starts` says where those of one measurement begin."""

    measured: tuple[PlannedMeasurement, ...]
    labels: tuple[str, ...]
    """The group of each of `measured`."""
    starts: Mapping[tuple[str, str], int]
    """By the label of the group and the name of the measurement; of a histogram, cell after cell."""
    kinds: Indices
    """Which of `measured` each number belongs to."""
    values: Floats
    variances: Floats
    fourths: Floats
    shared: Floats
    """How much the square of each number's noise moves with that of others of its draw (`moments_of`)."""
    draws: Indices
    """Numbers of the same draw share their noise; -1 is noise that nothing shares."""
    laws: tuple[Law | None, ...]
    """Of each of `measured`, where its noise is its own."""
    selections: tuple[CountedKeys | None, ...]
    """Of each of `measured`: what released its cells by their noisy values, if anything did."""
    shown: Mapping[str, Indices] = field(default_factory=dict)
    """Which cells of a group an answer shows, by its label; all of one that is not there."""
    consistent: Mapping[tuple[str, str], ConsistentMarginal] = field(default_factory=dict)
    """Measurements that are made consistent with others."""
    added: Mapping[tuple[str, str], Floats] = field(default_factory=dict)
    """What is added to the cells of a measurement because it lies above a level that was chosen."""
    trees: tuple[int, ...] = ()
    """Of each of `measured`: the same number for steps of one count or sum, of which a row moves one; -1 for others."""
    estimated: Flags = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """Which numbers are estimates of a large table, whose errors depend on each other; empty where none is."""
    _margins: dict[tuple[int, Fraction], int] = field(default_factory=dict)

    def additions(self, places: Indices) -> Floats:
        """Return what is added to each of these numbers."""
        found = np.zeros(len(self.kinds))
        for name, amounts in self.added.items():
            found[self.starts[name] : self.starts[name] + len(amounts)] = amounts
        return np.asarray(found[places])

    def measured_of(self, label: str) -> tuple[PlannedMeasurement, ...]:
        """Return what was measured of a group."""
        return tuple(one for one, group in zip(self.measured, self.labels, strict=True) if group == label)

    def places(self, label: str, name: str, rows: int) -> Indices:
        """Return the numbers of a measurement's shown cells, of which there are `rows`."""
        return self.starts[label, name] + self.shown.get(label, np.arange(rows))

    def entries(self, label: str, name: str, rows: int) -> tuple[Indices, Indices, Floats]:
        """Return what each shown value is a weighted sum of: row, number and weight of every part."""
        made = self.consistent.get((label, name))
        if made is None or made.estimates is not None:
            return np.arange(rows), self.places(label, name, rows), np.ones(rows)
        if not made.others:  # of no cells: conditions that exclude each other leave none
            return np.arange(0), np.arange(0), np.zeros(0)
        places = [self.starts[other] + at for other, at, _ in made.others]
        each = made.rows or [np.repeat(np.arange(rows), len(at) // max(rows, 1)) for _, at, _ in made.others]
        return np.concatenate(each), np.concatenate(places), np.concatenate([weights for *_, weights in made.others])

    def margins(self, kinds: Indices, tail: Fraction) -> Floats:
        """Return how far the noise of these kinds reaches, but for this tail: exact, from the integer law."""
        found = np.zeros(len(self.measured))
        for kind in np.unique(kinds).tolist():
            if (kind, tail) not in self._margins:
                self._margins[kind, tail] = self.measured[kind].mechanism.margin(1 - tail)
            found[kind] = self._margins[kind, tail]
        return np.asarray(found[kinds])

    def bars(self, places: Indices, tail: Fraction) -> tuple[Floats, Floats]:
        """Return where each of these true integers lies but for this tail, also where its own noise released it."""
        kinds, values = self.kinds[places], self.values[places]
        margins = self.margins(kinds, tail)
        low, high = values - margins, values + margins
        for kind, selection in enumerate(self.selections):
            if selection is None:
                continue
            here, least = kinds == kind, float(selection.threshold)
            sure = values > least + selection.overshoot(tail)
            low = np.where(here, np.where(sure, np.maximum(low, least), float(selection.fewest)), low)
        return low, high

    def near(self, places: Indices, tail: Fraction) -> Flags:
        """Return which integers are so near to the threshold that released them that their law is not the noise's."""
        kinds, values = self.kinds[places], self.values[places]
        found = np.zeros(len(places), dtype=bool)
        for kind, selection in enumerate(self.selections):
            if selection is not None:
                apart = 2 * float(selection.margin(1 - tail / _SURE))
                found |= (kinds == kind) & (values <= selection.threshold + apart)
        return found

    def fourth(self, rows: Indices, places: Indices, weights: Floats, size: int) -> Floats:
        """Return the fourth cumulant of the noise of weighted sums: one entry per row and number."""
        squares = weights**2
        found = np.bincount(rows, weights=squares**2 * self.fourths[places], minlength=size).astype(np.float64)
        row, parts = self.joined(rows, places, (squares,))
        return np.asarray(found + np.bincount(row, weights=parts[0] ** 2, minlength=size))

    def are_estimated(self, places: Indices) -> Flags:
        """Return which of these numbers are estimates of a large table."""
        return self.estimated[places] if len(self.estimated) else np.zeros(len(places), dtype=bool)

    def estimated_moments(self, rows: Indices, places: Indices, weights: Floats, size: int) -> tuple[Floats, Floats]:
        """Return variance and fourth cumulant of weighted sums of estimates: exact for one, bounds for many.

        Deviations and fourth roots of cumulants add up at most.  Proof: proofs/one_table.md, (8)
        """
        reach = [
            np.bincount(rows, weights=np.abs(weights) * moments ** (1 / root), minlength=size) ** root
            for moments, root in ((self.variances[places], 2), (np.maximum(self.fourths[places], 0), 4))
        ]
        variance = reach[0].astype(np.float64)
        several = np.bincount(rows, minlength=size) > 1
        names = [(label, one.name) for label, one in zip(self.labels, self.measured, strict=True)]
        kinds = self.kinds[places]
        of_table = {kind: self.consistent[names[kind]].estimates for kind in np.unique(kinds).tolist()}
        blocks = [(kind, one) for kind, one in of_table.items() if isinstance(one, BlockEstimates)]
        if blocks:
            (kind, one), *others = blocks
            cells = places - self.starts[names[kind]]
            known = None if others or len(of_table) > 1 else one.moments_of_sums(rows, cells, weights, size)
            return (variance, reach[1].astype(np.float64)) if known is None else known
        marginals = [one for one in of_table.values() if isinstance(one, MarginalEstimates)]
        solved = {id(one.solved): one.solved for one in marginals}
        entries = np.flatnonzero(several[rows])
        if len(solved) == 1 and len(entries):
            (table,) = solved.values()
            axes = [tuple(sorted(one.axes)) for one in marginals]
            if len(entries) + table.projected_cells(axes, int(several.sum())) <= MAX_PROJECTED_CELLS:
                numbers = np.cumsum(several) - 1
                listed = [self._cell_of(int(kinds[entry]), int(places[entry])) for entry in entries]
                exact = table.sum_variances(numbers[rows[entries]], listed, weights[entries], int(several.sum()))
                variance[several] = np.minimum(variance[several], exact)
        return variance, reach[1].astype(np.float64)

    def blocks_of(self, places: Indices) -> tuple[BlockEstimates, int] | None:
        """Return the estimates from blocks that all these numbers are of, and the number of the first; else None."""
        kinds = np.unique(self.kinds[places]).tolist()
        names = [(self.labels[kind], self.measured[kind].name) for kind in kinds]
        found = [self.consistent[name].estimates for name in names if name in self.consistent]
        if len(kinds) != 1 or not found or not isinstance(found[0], BlockEstimates):
            return None
        return found[0], self.starts[names[0]]

    def _cell_of(self, kind: int, place: int) -> tuple[tuple[int, ...], Indices]:
        """Return the axes of an estimate's marginal, in increasing order, and its places along them."""
        name = (self.labels[kind], self.measured[kind].name)
        estimates = self.consistent[name].estimates
        if not isinstance(estimates, MarginalEstimates):
            raise AssertionError("only estimates of a large table have axes")
        sizes = [estimates.solved.table.sizes[axis] for axis in estimates.axes]
        at = dict(zip(estimates.axes, np.unravel_index(place - self.starts[name], sizes) if sizes else (), strict=True))
        axes = tuple(sorted(estimates.axes))
        return axes, np.array([at[axis] for axis in axes], dtype=np.int64)

    def joined(self, rows: Indices, places: Indices, weights: Sequence[Floats]) -> tuple[Indices, list[Floats]]:
        """Return the row of every draw that sums share noise of, and there the sums of weights times what is shared."""
        here = self.draws[places] >= 0
        keys, inverse = np.unique(rows[here] * (len(self.draws) + 1) + self.draws[places[here]], return_inverse=True)
        shared = self.shared[places[here]]
        sums = (np.bincount(inverse, weights=one[here] * shared, minlength=len(keys)) for one in weights)
        return np.asarray(keys // (len(self.draws) + 1)), [one.astype(np.float64) for one in sums]

    def pair(self, kinds: Indices) -> tuple[float, float] | None:
        """Return the scales of two numbers that share their noise with each other and nothing else, else None."""
        one, other = (self.measured[kind].mechanism for kind in kinds.tolist())
        if not isinstance(one, MaxNormPart) or not isinstance(other, MaxNormPart) or len(one.joint.sides) != 2:
            return None
        deviations = [(one.joint.law.moments(part.place)[0]) ** 0.5 for part in (one, other)]
        return deviations[0] / 2, deviations[1] / 2  # the variance is four squared scales

    def coarse(self, kind: int) -> bool:
        """Whether noise that is shared is so small that integers tell its law, and no real law beside it does."""
        mechanism = self.measured[kind].mechanism
        return isinstance(mechanism, MaxNormPart) and mechanism.joint.law.rate > _FINE

    def reach(self, kind: int) -> tuple[float, float]:
        """Return what the true integer can be, whatever the data: a count is not below 0, nor a sum of such values.

        Of different values there are no more than public keys.
        """
        quantity = self.measured[kind].quantity
        if (values := different_values(quantity)) is not None:
            return 0.0, float(values)
        least, most = _span(quantity)
        return (0.0 if least >= 0 else -inf), (0.0 if most <= 0 else inf)

    def share(self, part: int, whole: int) -> tuple[float, float] | None:
        """Return what the ratio of two true integers can be, where the rows of one are rows of the other."""
        one, other = self.measured[part], self.measured[whole]
        counted = self.labels[part] == self.labels[whole] and other.quantity.function is Aggregation.COUNT
        if one.buckets is not None or not counted or not _inside(one.quantity, other.quantity):
            return None
        if not _cut_alike(one, other):
            return None
        least, most = _span(one.quantity)
        if not _inside(other.quantity, one.quantity):
            least, most = min(least, 0), max(most, 0)
        return float(least), float(most)


def measured_cells(
    plan: Plan, noisy: NoisyResult, agreed: Mapping[tuple[str, str], ConsistentMarginal] | None = None
) -> MeasuredCells:
    """Number the noisy integers of an answer; `agreed` is what was made consistent, where that is known."""
    measured: list[PlannedMeasurement] = []
    selections: list[CountedKeys | None] = []
    labels: list[str] = []
    starts: dict[tuple[str, str], int] = {}
    values: list[Floats] = []
    draws: list[Indices] = []
    sizes: list[int] = []
    for group, table in zip(plan.groups, noisy.groups, strict=True):
        before = sum(sizes)
        for one in group.measured:
            starts[group.group.label, one.name] = sum(sizes)
            measured.append(one)
            selections.append(group.threshold_selection if one.name == group.selecting_measurement else None)
            labels.append(group.group.label)
            values.append(_floats(integers(table.numbers(one.name))))
            sizes.append(len(values[-1]))
            alone = not isinstance(one.mechanism, MaxNormPart)
            draws.append(np.full(sizes[-1], -1) if alone else before + np.arange(sizes[-1]))
    each = np.array([moments_of(one.mechanism) for one in measured], dtype=np.float64).reshape(len(measured), 3)
    kinds = np.repeat(np.arange(len(measured), dtype=np.int64), np.array(sizes, dtype=np.int64))
    every = np.concatenate(values) if values else np.zeros(0)
    shown = {
        group.group.label: np.array(shown_cells(table), dtype=np.int64)
        for group, table in zip(plan.groups, noisy.groups, strict=True)
        if any(key.has_remainder for key in group.group.keys)
    }
    moments = (each[kinds, 0], each[kinds, 1], each[kinds, 2])
    made = consistent(plan, noisy) if agreed is None else agreed
    estimated, every_draw = _put_estimates(made, starts, every, moments), np.zeros(0, dtype=np.int64)
    if draws:
        every_draw = np.concatenate(draws).astype(np.int64)
    if len(estimated):
        every_draw[estimated] = -1
    return MeasuredCells(
        tuple(measured),
        tuple(labels),
        starts,
        kinds,
        every,
        *moments,
        every_draw,
        tuple(
            None if isinstance(one.mechanism, MaxNormPart) or _is_estimated(made, label, one) else law_of(one.mechanism)
            for label, one in zip(labels, measured, strict=True)
        ),
        tuple(selections),
        shown,
        made,
        {name: np.array(amounts, dtype=np.float64) for name, amounts in tail_corrections(plan, noisy.groups).items()},
        tuple(_tree(plan, label, one.name) for label, one in zip(labels, measured, strict=True)),
        estimated,
    )


def _put_estimates(
    made: Mapping[tuple[str, str], ConsistentMarginal],
    starts: Mapping[tuple[str, str], int],
    values: Floats,
    moments: tuple[Floats, Floats, Floats],
) -> Flags:
    """Put the estimates of large tables, with their moments, in the place of what was measured; say where."""
    found = np.zeros(len(values), dtype=bool)
    for name, one in made.items():
        if one.estimates is not None:
            here = slice(starts[name], starts[name] + len(one.estimates.values))
            values[here], found[here] = one.estimates.values, True
            for column, moment in zip(moments, (*one.estimates.moments, 0.0), strict=True):
                column[here] = moment
    return found if bool(found.any()) else np.zeros(0, dtype=bool)


def _is_estimated(made: Mapping[tuple[str, str], ConsistentMarginal], label: str, measured: PlannedMeasurement) -> bool:
    one = made.get((label, measured.name))
    return one is not None and one.estimates is not None


def _tree(plan: Plan, label: str, name: str) -> int:
    """Return the number of the largest sum of steps that a measurement is in; -1 where it is in none.

    No row moves two of the steps that are added up. One that is taken away counts some of the rows of another.
    """
    found, largest = -1, 0
    sums = [(group.group.label, () if one.signs else one.steps) for group in plan.groups for one in group.sums]
    for number, (own, steps) in enumerate(sums):
        if own == label and name in steps and len(steps) > largest:
            found, largest = number, len(steps)
    return found


def _floats(values: Answers) -> Floats:
    """Return integers as floats, none of them infinite."""
    if values.dtype != object:
        return values.astype(np.float64)
    return np.array([float(min(max(value, -_WIDEST), _WIDEST)) for value in values.tolist()], dtype=np.float64)


def _cut_alike(one: PlannedMeasurement, other: PlannedMeasurement) -> bool:
    """Whether the same rows count for both, with all that they add: a total, or a level of its own, cuts one alone."""
    if one.candidates is None or other.candidates is None:
        return one.bound is None and other.candidates is None
    by_rows = one.candidates.bounds_rows and other.candidates.bounds_rows
    return by_rows and one.selection_label == other.selection_label


def _span(quantity: Quantity) -> tuple[int, int]:
    """Return what one row can add to one integer of a measurement, NULL aside."""
    added = quantity.arguments[1:] if quantity.function is Aggregation.HISTOGRAM else quantity.arguments
    if quantity.function is Aggregation.COUNT or not added:
        return (1, 1)
    return added[0].facts.low, added[0].facts.high


def _inside(part: Quantity, whole: Quantity) -> bool:
    """Whether every row that counts for `part` surely counts for `whole`."""
    narrower = set(_conjuncts(whole.where)) <= set(_conjuncts(part.where))
    if _base(part.argument) == _base(whole.argument):
        return narrower and (part.distinct or not whole.distinct)
    always = whole.argument is None or not whole.argument.facts.nullable
    return narrower and always and not whole.distinct


def _base(argument: Scalar | None) -> Scalar | None:
    """Return a column without the constant that centres it: it is NULL where the column is."""
    shifted = argument is not None and argument.operator is Operator.SUBTRACT
    return (
        argument.arguments[0] if argument is not None and shifted and _is_constant(argument.arguments[1]) else argument
    )


def _is_constant(scalar: Scalar) -> bool:
    return scalar.operator is Operator.CONSTANT


def _conjuncts(condition: Scalar | None) -> list[Scalar]:
    if condition is None:
        return []
    if condition.operator is Operator.AND:
        return [part for argument in condition.arguments for part in _conjuncts(argument)]
    return [condition]
