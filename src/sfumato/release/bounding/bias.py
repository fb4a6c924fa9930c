"""Bars that also cover what caps and bounds cut off: for counts, sums, averages, and weighted sums and ratios of them.

Theorem: such a bar holds the untruncated truth at its level, if the tails of the losses are regular; a side of which
nothing is known is open.  Proof: proofs/truncation.md
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from math import ceil, floor, inf, isfinite

import numpy as np

from sfumato.language.facts import Kind
from sfumato.planning.aggregates.bounded_flow import BoundedFlowColumn
from sfumato.planning.aggregates.distinct_count import DistinctCountColumn, different_values
from sfumato.planning.bounding.bias import (
    BIAS_FAILURE_SHARE,
    NO_BIAS,
    BiasBounds,
    Place,
    bias_tail,
    can_be_biased,
    truncation_bias,
)
from sfumato.planning.bounding.selection import PEOPLE, laplace_noise_of, unit_of
from sfumato.planning.bounding.truncation import TruncationBounds, TruncationLosses
from sfumato.planning.bounding.truncation_estimates import TruncationEstimates
from sfumato.planning.notes.truncation import drops_rows
from sfumato.planning.plan import GroupPlan, Plan, PlannedMeasurement
from sfumato.release.bounding.selection import ABOVE, added_values
from sfumato.release.decode import EngineValue
from sfumato.release.intervals.confidence import Bar, EvaluatedAnswer, confidence_intervals
from sfumato.release.intervals.form_algebra import quotient_ends
from sfumato.release.intervals.forms import Affine, Ends, Exact, Number, Opaque, Ratio, Truth
from sfumato.release.intervals.noise_law import Floats, law_of, quantile_of_sum
from sfumato.release.intervals.unforeseen import or_open
from sfumato.release.noisy import NoisyGroup, NoisyResult

MeasurementBias = Mapping[Place, BiasBounds]
"""What may be missing of each measurement, by the label of its group and its name."""


def bias_with_selection(
    plan: Plan, noisy: NoisyResult, losses: TruncationBounds | None, tail: Fraction
) -> dict[Place, BiasBounds]:
    """Return the bias of every measurement, with what lies above selected bounds; `plan` is `at_selected_bounds`.

    Half of the tail is for what the policy's own caps cut off, the other half for all choices.
    Proof: proofs/chosen_caps.md, 4
    """
    return _with_selection(plan, noisy, losses, tail, estimated=False)


def estimated_bias(
    plan: Plan, noisy: NoisyResult, losses: TruncationBounds | None, tail: Fraction, *, margins: bool
) -> dict[Place, BiasBounds]:
    """Return the same as estimates, which guarantee nothing; with `margins`, larger by how far noise reaches."""
    found = None if losses is None else TruncationEstimates(losses, margins)
    return _with_selection(plan, noisy, found, tail, estimated=not margins)


def _with_selection(
    plan: Plan, noisy: NoisyResult, losses: TruncationLosses | None, tail: Fraction, *, estimated: bool
) -> dict[Place, BiasBounds]:
    pairs = zip(plan.groups, noisy.groups, strict=True)
    choices = {group.group.label: (group, found) for group, found in pairs if group.is_bound_selection}
    found = truncation_bias(plan, losses, tail / 2 if choices else tail)
    for group in plan.groups:
        for measurement in group.measured:
            if measurement.candidates is None or measurement.selected is None:
                continue
            place = group.group.label, measurement.name
            selection, selected = choices[measurement.selection_label]
            (amount,) = (
                selected.numbers(ABOVE)
                if estimated
                else (_above_selected(measurement, selection, selected, tail / 2 / len(choices)),)
            )
            above = BiasBounds(0, amount)
            low, high = added_values(measurement)
            found[place] = found[place].plus(above.times(min(low, 0))).plus(above.times(max(high, 0)))
    return found


def _above_selected(one: PlannedMeasurement, group: GroupPlan, found: NoisyGroup, tail: Fraction) -> int:
    """Return an upper bound of what lies above the selected bound of a measurement, but for this tail."""
    (choice,) = group.measured
    amounts, index = () if one.candidates is None else one.candidates.thresholds, one.selected or 0
    if index == len(amounts) - 1:
        return 0
    unit = unit_of(amounts)
    weights = np.array([max(amount - amounts[index], 0) / unit for amount in amounts])
    variance, fourth = law_of(laplace_noise_of(choice)).moments
    reach = quantile_of_sum(
        np.array([(weights**2).sum() * variance]),
        np.array([(weights**4).sum() * fourth]),
        np.array([weights.max()]),
        min(float(2 * tail), 1.0),  # one side only
    )
    people = np.array([float(value) for value in found.numbers(PEOPLE)])
    return max(0, ceil(float((weights * people).sum() + reach[0])))


def intervals_with_bias(
    answered: EvaluatedAnswer, level: Fraction, missing: Callable[[Fraction], MeasurementBias]
) -> list[list[Bar | None] | None]:
    """Return the bars of every column as `confidence_intervals` does, each wider by what may be missing: none is inside
    the plain one.

    A tail correction is inside both.
    """
    cut = missing(bias_tail(level))
    found: list[list[Bar | None] | None] = []
    for index, (form, plain) in enumerate(zip(answered.forms, confidence_intervals(answered, level), strict=True)):
        if form is None or plain is None or isinstance(form, Truth | Opaque):
            found.append(None)
            continue
        matched = answered.aggregate(answered.traced.items[index])
        if matched is not None and isinstance(matched[1], DistinctCountColumn):  # fewer rows hold fewer values
            found.append([bar and (bar[0], matched[1].values) for bar in plain] if drops_rows(matched[0]) else plain)
            continue
        if matched is not None and isinstance(matched[1], BoundedFlowColumn):  # what lies beyond is unknown
            found.append([bar and (bar[0], None) for bar in plain])
            continue
        whole = answered.interval_facts(index).kind is Kind.INTEGER
        find = partial(_wider, form, plain, answered.tail(level), cut, whole)
        found.append(or_open(find, partial(_open, plain)))
    return found


def _wider(
    form: Number, plain: Sequence[Bar | None], tail: Fraction, cut: MeasurementBias, whole: bool
) -> list[Bar | None]:
    # where nothing can be cut off, which policy and question decide alone, the noise has the whole tail
    tail = tail * (1 - BIAS_FAILURE_SHARE) if _can_lack(form, cut) else tail
    low, high = _ends(form, tail, cut, len(plain))
    wider = zip(_rounded(low, floor, whole), _rounded(high, ceil, whole), strict=True)
    return [_hull(bar, ends) for bar, ends in zip(plain, wider, strict=True)]


def _open(plain: Sequence[Bar | None]) -> list[Bar | None]:
    return [None if bar is None else (None, None) for bar in plain]


def _rounded(ends: Floats, rounding: Callable[[float], int], whole: bool) -> list[EngineValue]:
    """Return ends as an engine keeps them; one that is infinite, or of a NULL, is None."""
    return [(rounding(end) if whole else end) if isfinite(end) else None for end in ends.tolist()]


def _hull(one: Bar | None, other: Bar) -> Bar | None:
    """Return the least interval around two; a side that is open in one is open. NULL has none."""
    return None if one is None else (_outer(one[0], other[0], min), _outer(one[1], other[1], max))


def _outer(one: EngineValue, other: EngineValue, choose: Callable[[float, float], float]) -> EngineValue:
    return choose(one, other) if isinstance(one, int | float) and isinstance(other, int | float) else None


def bias_beyond(
    answered: EvaluatedAnswer, place: int, level: Fraction, cut: MeasurementBias
) -> tuple[Floats, Floats] | None:
    """Return how far below and above its bar each value of a column may lie; None where no bound of it is known.

    What was added to a value lies inside its bar already.
    """
    form = answered.forms[place]
    if isinstance(form, Exact):
        return np.zeros(len(form.values)), np.zeros(len(form.values))
    if isinstance(form, Affine):
        (down, up), addition = _widths(form, cut), form.addition
        return np.maximum(down + np.minimum(addition, 0), 0), np.maximum(up - np.maximum(addition, 0), 0)
    if not isinstance(form, Ratio):
        return None
    tail, rows = answered.tail(level), len(answered.columns[place])
    if not _can_lack(form, cut):
        return np.zeros(rows), np.zeros(rows)
    whole = dict.fromkeys(cut, NO_BIAS)
    (low, high), (lower, higher) = _ends(form, tail, whole, rows), _ends(form, tail, cut, rows)
    with np.errstate(invalid="ignore"):  # both are infinite where nothing is known even of the noise
        return np.nan_to_num(low - lower, nan=inf, posinf=inf), np.nan_to_num(higher - high, nan=inf, posinf=inf)


def column_bias(answered: EvaluatedAnswer, place: int, cut: MeasurementBias) -> tuple[float, float] | None:
    """Return how much a weighted sum may have too much and lack at most, over all rows; None for anything else."""
    form = answered.forms[place]
    if not isinstance(form, Affine) or not len(form.constant):
        return None
    (down, up), addition = _widths(form, cut), form.addition
    return float(np.maximum(down + addition, 0).max()), float(np.maximum(up - addition, 0).max())


def _ends(form: Number, tail: Fraction, cut: MeasurementBias, rows: int) -> Ends:
    match form:
        case Exact(values):
            return values, values
        case Affine():
            return _sum_ends(form, tail, cut)
        case Ratio(over, under) if bool((under.reach[0] >= 0).all()):
            # two statements about noise, so half of its tail for each; the truncation losses are one statement for all
            over_ends, (low, high) = _sum_ends(over, tail / 2, cut), _sum_ends(under, tail / 2, cut)
            return quotient_ends(over_ends, (np.where(low > 0, low, 0.0), np.maximum(high, 0)))
    return np.full(rows, -inf), np.full(rows, inf)


def _can_lack(form: Number, cut: MeasurementBias) -> bool:
    """Whether contribution bounds may have cut something off."""
    sums = [form] if isinstance(form, Affine) else [form.over, form.under] if isinstance(form, Ratio) else []
    return any(
        can_be_biased(total.cells.measured[kind], cut[total.cells.labels[kind], total.cells.measured[kind].name])
        for total in sums
        for kind in np.unique(total.cells.kinds[total.places]).tolist()
    )


def _sum_ends(form: Affine, tail: Fraction, cut: MeasurementBias) -> Ends:
    (low, high), (down, up) = form.measured_bar(tail), _widths(form, cut)
    kinds = np.unique(form.cells.kinds[form.places]).tolist()
    if any(different_values(form.cells.measured[kind].quantity) is None for kind in kinds):
        return low - down, high + up
    least, most = form.reach  # also without caps and bounds there are no more values than public ones
    return np.clip(low - down, least, most), np.clip(high + up, least, most)


def _widths(form: Affine, cut: MeasurementBias) -> tuple[Floats, Floats]:
    """Return what each sum may have too much, and what it may lack.

    An amount missing of a measurement is missing in one cell or another, so its largest weight bounds it. A row that
    is missing in a count or sum is missing in one of its steps, and one that is there by mistake is there in one, so
    that the largest weights of all steps bound them; it may be missing in one and there in another.
    """
    cells, size = form.cells, len(form.constant)
    kinds = np.unique(cells.kinds[form.places]).tolist()
    trees = dict.fromkeys((cells.trees[kind], kind if cells.trees[kind] < 0 else -1) for kind in kinds)
    down, up = np.zeros(size), np.zeros(size)
    for tree, alone in trees:
        parts = [_kind_widths(form, kind, cut) for kind in kinds if kind == alone or 0 <= tree == cells.trees[kind]]
        too_much, lacking, too_little, beyond = (np.max(column, axis=0) for column in zip(*parts, strict=True))
        down += too_much + lacking
        up += too_little + beyond
    return down, up


def _kind_widths(form: Affine, kind: int, cut: MeasurementBias) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the same of one measurement: too much of what is added, too little of what is taken away; and reversed."""
    cells, size = form.cells, len(form.constant)
    here = cells.kinds[form.places] == kind
    positive, negative = np.zeros(size), np.zeros(size)
    np.maximum.at(positive, form.rows[here], np.maximum(form.weights[here], 0))
    np.maximum.at(negative, form.rows[here], np.maximum(-form.weights[here], 0))
    bounds = cut[cells.labels[kind], cells.measured[kind].name]
    excess, lack = float(bounds.excess), float(bounds.lack)
    with np.errstate(invalid="ignore", over="ignore"):
        products = (positive * excess, negative * lack, positive * lack, negative * excess)
    first, second, third, fourth = (np.nan_to_num(product, nan=0.0, posinf=inf) for product in products)
    return first, second, third, fourth
