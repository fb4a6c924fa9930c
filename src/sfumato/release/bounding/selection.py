"""Bound selection, released: add noise to contribution histograms and select the bound that seems to err least.

What the histogram says of people above the bound is added to counts and sums afterwards.

Theorem: bound and addition are computed from noisy numbers alone, and at every bound the noise on what is measured has
the same loss: so all of it together costs what the plan says.  Proof: proofs/chosen_caps.md
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, log, sqrt

import numpy as np
import numpy.typing as npt

from sfumato.engines.aggregates import GroupAggregates
from sfumato.planning.aggregates.average import AverageColumn
from sfumato.planning.bounding.bias import Place
from sfumato.planning.bounding.selection import at_bounds, histogram_of, laplace_noise_of, unit_of, widths_of
from sfumato.planning.marginal_budget_split import mean_variance
from sfumato.planning.plan import GroupPlan, Plan, PlannedMeasurement
from sfumato.query.functions import Aggregation
from sfumato.randomness.source import Source
from sfumato.release.bounding.tail_counts import estimate_tail_counts
from sfumato.release.intervals.noise_law import Floats
from sfumato.release.noisy import NoisyGroup

SELECTED_INDEX = "level"
"""The column of a selection that holds the index of the selected bound."""
ABOVE, BELOW = "above", "below"
"""The columns that hold how much people seem to have above the bound, and up to it."""
_EXPECTED_CELLS = 32
"""Expected number of cells where keys are selected."""
_LARGE_GROUPS = 32
"""Where rows select the keys, a bound is low enough to show groups that have one of this many parts of all rows."""
_AVERAGE_BIAS_DIVISOR = 32
"""Rows that are cut are taken to differ from the others by this part of the range, in an average."""
_CORRECTED_BIAS_SHARE, _SPREAD_BIAS_SHARE = 0.3, 1.0
"""This part of what lies above a bound is taken to be wrong still after it was estimated and added: to a single number,
and spread over the cells of a table, though it may belong to one of them."""
_MEAN_SHARE = 0.3
"""People above a bound weigh by the mean of what is likely, in this part, and by its median."""
_MAX_TAIL_CORRECTION_FACTOR = 16
"""A table's cells get at most this many times what was measured of them added."""


@dataclass(frozen=True, slots=True)
class SelectedBound:
    """The index of a bound, how much people seem to have above it, and up to it."""

    index: int
    above: int
    below: int


def select_bounds(plan: Plan, histograms: Mapping[str, GroupAggregates], source: Source) -> dict[str, NoisyGroup]:
    """Add noise to the histograms of a plan and select a bound by each; return only noisy values, by their labels."""
    return {
        group.group.label: _select_by_histogram(group, histograms[group.group.label], plan, source)
        for group in plan.groups
        if group.is_bound_selection
    }


def selected_indices(selected: Mapping[str, NoisyGroup]) -> dict[str, int]:
    """Return the index of each selected bound: a function of the noisy histogram, which is released."""
    return {label: found.numbers(SELECTED_INDEX)[0] for label, found in selected.items()}


def _select_by_histogram(group: GroupPlan, exact: GroupAggregates, plan: Plan, source: Source) -> NoisyGroup:
    """Return the noisy histogram, the index of the bound that it suggests, and what lies above that bound."""
    (one,) = group.measured
    amounts = () if one.candidates is None else one.candidates.thresholds
    totals = [int(total) for total in np.asarray(exact.columns[one.name])[0]]
    people = laplace_noise_of(one).release(histogram_of(totals, amounts), source)
    noisy = tuple(int(value) for value in people)
    taken = select_bound(noisy, one, plan)
    found = ((SELECTED_INDEX, (taken.index,)), (ABOVE, (taken.above,)), (BELOW, (taken.below,)))
    return NoisyGroup(((),), ((one.name, (noisy,)), *found))


def at_selected_bounds(plan: Plan, groups: Sequence[NoisyGroup]) -> Plan:
    """Return the plan at the bounds of a release: every measurement has the noise that it got."""
    pairs = zip(plan.groups, groups, strict=True)
    selected = {group.group.label: found for group, found in pairs if group.is_bound_selection}
    return at_bounds(plan, selected_indices(selected))


def select_bound(people: Sequence[int], one: PlannedMeasurement, plan: Plan) -> SelectedBound:
    """Return the bound that seems to err least: by its noise, and by what people have above it.

    A bound more costs each number its noise, and saves what the people above have between the bounds, spread over the
    cells. No bound is taken too far above the evidence. What they have above the bound that is taken is a function of
    the same noisy people. A single number gets nothing added from too far above; in tables it is limited, because their
    bound stays low whatever noise says of few people far above.
    """
    amounts = () if one.candidates is None else one.candidates.thresholds
    unit, widths = unit_of(amounts), np.array(widths_of(amounts), dtype=np.float64)
    thresholds, scale = np.array(amounts, dtype=np.float64), float(laplace_noise_of(one).scale / unit)
    counts = np.array([value / unit for value in people])
    found = estimate_tail_counts(counts, thresholds, scale)
    credible = np.arange(len(amounts)) <= found.credible
    missing = _above(widths * (_MEAN_SHARE * found.mean + (1 - _MEAN_SHARE) * found.median))
    noise, bias, tables = _noise(one, plan), 0.0, True
    per_unit = sum(noise.values())
    rows = float(counts @ thresholds)
    admitted = credible
    for group in plan.groups:
        if any((group.group.label, measurement.name) in noise for measurement in group.measured):
            admitted = admitted & _shows_groups(group, rows, thresholds)
        alone = np.where(admitted, thresholds * per_unit + missing, inf)
        cells = _shown_cells(group, rows, float(thresholds[np.argmin(alone)]))
        for measurement in group.measured:
            if (group.group.label, measurement.name) in noise:
                means = measurement.candidates is not None and measurement.candidates.only_averages
                bias += (1 / _AVERAGE_BIAS_DIVISOR if means else _bias_share(group, measurement, plan)) / cells
                tables = tables and bool(group.group.keys)
    place = int(np.argmin(np.where(admitted, thresholds * per_unit + missing * bias, inf)))
    believed = found.median if tables else found.median * credible
    above = round(float(_above(widths * believed)[place]))
    below = max(round(float((counts * np.minimum(thresholds, thresholds[place])).sum())), 1)
    return SelectedBound(place, min(above, _MAX_TAIL_CORRECTION_FACTOR * below) if tables else above, below)


def _bias_share(group: GroupPlan, one: PlannedMeasurement, plan: Plan) -> float:
    """Return the part of what lies above a bound that is wrong in the end, if a cell has its share of it."""
    if not has_tail_correction(group, one, plan):
        return 1.0
    return _SPREAD_BIAS_SHARE if group.group.keys else _CORRECTED_BIAS_SHARE


def _shows_groups(group: GroupPlan, rows: float, thresholds: Floats) -> npt.NDArray[np.bool_]:
    """Return at which bounds a group appears that has this part of all rows; the lowest bound is always possible."""
    passing = group.threshold_selection
    shown = np.full(len(thresholds), True)
    if not group.group.public_keys and passing is not None and passing.most > 1:
        shown[1:] = thresholds[1:] * passing.threshold / passing.most <= rows / _LARGE_GROUPS
    return shown


def _shown_cells(group: GroupPlan, rows: float, bound: float) -> float:
    """Return how many cells will be shown: they share the truncation losses.

    Where rows select the keys, these are the groups with enough rows at this bound, if their sizes fall as their ranks
    rise. They are the large groups: at a lower bound smaller ones appear too, and the large ones lack more.
    """
    passing = group.threshold_selection
    if group.group.public_keys:
        return float(max(group.group.cells, 1))
    if passing is None or passing.most == 1:
        return float(_EXPECTED_CELLS)
    most = max(rows * passing.most / (passing.threshold * bound), 1.0)
    return most / max(log(most), 1.0)


def _above(parts: Floats) -> Floats:
    """Return for each bound the sum of the parts that lie above it."""
    return np.asarray(np.cumsum(parts[::-1])[::-1] - parts)


def has_tail_correction(group: GroupPlan, one: PlannedMeasurement, plan: Plan) -> bool:
    """Whether a tail correction is estimated and added: to counts and sums of the units that are cut.

    Margins of one table are made to agree as they were measured.
    """
    if (
        one.candidates is None
        or one.candidates.only_averages
        or added_values(one) != (0, 1)
        or group.is_bound_selection
    ):
        return False
    return all(
        (margin.label, margin.name) != (group.group.label, one.name)
        for table in plan.tables
        for margin in table.margins
    )


def is_completed_apart(made: AverageColumn, measured: Sequence[PlannedMeasurement]) -> bool:
    """Whether the sum of an average is clipped, so that sum and count lose other rows, and each is completed alone."""
    return any(
        measurement.name == made.total and measurement.candidates is not None and not measurement.candidates.bounds_rows
        for measurement in measured
    )


def tail_corrections(plan: Plan, groups: Sequence[NoisyGroup]) -> dict[Place, tuple[int, ...]]:
    """Return what is added to each cell of what is completed, of a plan whose bounds are known.

    A cell gets the part of it that it has of what lies below the bound.
    """
    choices = {
        group.group.label: found for group, found in zip(plan.groups, groups, strict=True) if group.is_bound_selection
    }
    found: dict[Place, tuple[int, ...]] = {}
    for group, noisy in zip(plan.groups, groups, strict=True):
        for measurement in group.measured:
            if measurement.candidates is None or not has_tail_correction(group, measurement, plan):
                continue
            choice = choices[measurement.selection_label]
            (above,), (below,) = choice.numbers(ABOVE), choice.numbers(BELOW)
            values = noisy.numbers(measurement.name)
            shares = [min(max(value, 0), below) for value in values] if group.group.keys else [below] * len(values)
            found[group.group.label, measurement.name] = tuple(above * share // below for share in shares)
    return found


def _noise(one: PlannedMeasurement, plan: Plan) -> dict[Place, float]:
    """Return for all that is measured at a bound its noise per unit of the bound; of margins, after they agree."""
    found = {
        (group.group.label, measurement.name): _per_unit(measurement)
        for group in plan.groups
        for measurement in group.measured
        if not group.is_bound_selection and measurement.selection_label == one.selection_label
    }
    for table in plan.tables:
        places = [(margin.label, margin.name) for margin in table.margins]
        if all(index in found for index in places):
            shares = [1 / found[index] for index in places]
            agreed = [sqrt(mean_variance(table, margin, shares)) for margin in table.margins]
            found |= dict(zip(places, agreed, strict=True))
    return found


def _per_unit(one: PlannedMeasurement) -> float:
    """Return the expected noise for each unit of the bound, in units of what a row or a value adds."""
    if one.candidates is not None and one.candidates.bounds_groups:  # a person is 1 in each of that many groups
        return float(laplace_noise_of(one).scale / one.candidates.thresholds[-1])
    return float(laplace_noise_of(one).scale / one.sensitivity.linf)


def added_values(one: PlannedMeasurement) -> tuple[int, int]:
    """Return what each unit above the bound can add."""
    if one.quantity.function is Aggregation.COUNT or (one.candidates is not None and not one.candidates.bounds_rows):
        return (0, 1)
    facts = one.quantity.arguments[0].facts
    return facts.low, facts.high
