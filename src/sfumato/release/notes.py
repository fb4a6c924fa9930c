"""Notes that depend on the noisy result: selected bounds, cells chosen by noise, columns without an interval."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from sfumato.accounting.loss import round_up
from sfumato.language.outside import read_outside
from sfumato.mechanisms.bounded_flow import BOUND_EPSILON_SHARE
from sfumato.mechanisms.matched_count import MatchedCount
from sfumato.mechanisms.meetings import Meetings
from sfumato.planning.accuracy_target import CONFIDENCE
from sfumato.planning.aggregates.bounded_flow import BoundedFlowColumn
from sfumato.planning.aggregates.cross_unit_count import CrossUnitCountColumn
from sfumato.planning.aggregates.distinct_count import DistinctCountColumn
from sfumato.planning.notes.note import Note, NoteRank, few_at_a_time
from sfumato.planning.notes.truncation import TRUNCATION_BIAS
from sfumato.planning.outside_cells import IN_NO_GROUP, outside_note
from sfumato.planning.plan import GroupPlan, Plan, PlannedMeasurement
from sfumato.query.functions import Aggregation
from sfumato.release.aggregates.bounded_flow import flow_mechanism_of, selected_bounds
from sfumato.release.aggregates.distinct_count import chosen_limits, mechanism_of
from sfumato.release.bounding.selection import ABOVE, has_tail_correction
from sfumato.release.intervals.confidence import EvaluatedAnswer, columns_without_interval
from sfumato.release.noisy import NoisyGroup, NoisyResult, integers
from sfumato.release.stages import COMPARED_VALUE
from sfumato.release.thin_answers import THIN

SELECTED = (
    "Cells were chosen by their noisy values (HAVING, or ORDER BY with LIMIT), so extreme noise is over-represented. "
    "Intervals are widened for that: all intervals of a column hold together at their level."
)

_SELECTED_BOUND = "Bound selected privately:"
_MAX_NAMES = 2
_DISTINCT_LIMIT = "Distinct values were counted with a limit of"
_KEY_FREQUENCY = "By a private estimate, at most"
_NOISE_DEPENDENT = (_SELECTED_BOUND, _DISTINCT_LIMIT, _KEY_FREQUENCY, IN_NO_GROUP, COMPARED_VALUE)
"""How notes begin whose numbers depend on noise."""

ReleasedGroups = Sequence[tuple[GroupPlan, NoisyGroup]]
"""The groups that an outcome reads, each with its noisy result."""


def drop_noise_dependent_notes(notes: Sequence[str]) -> tuple[str, ...]:
    """Return notes without what noise decided, so that the notes of neighbouring databases can be compared.

    Their number depends on noise, too: two equal limits give one note. Whether bias is stated depends on the noisy
    truncation losses, and whether values lie within their margin on the values.
    """
    fixed = [note for note in notes if not note.startswith((TRUNCATION_BIAS, THIN))]
    return tuple(dict.fromkeys("found by noise" if note.startswith(_NOISE_DEPENDENT) else note for note in fixed))


def answer_notes(plan: Plan, noisy: NoisyResult, answered: EvaluatedAnswer) -> list[Note]:
    """Return the notes that the plan carries, and those that follow from what was released."""
    noisy_groups = {group.group.label: found for group, found in zip(plan.groups, noisy.groups, strict=True)}
    own = plan.for_outcome()
    released = [(group, noisy_groups[group.group.label]) for group in own.groups]
    empty = {None, *(group.group.label for group, found in released if group.selection is not None and not found.keys)}
    return [*(note for note in plan.notes if note.if_empty in empty), *_result_notes(own, released, answered)]


def _result_notes(plan: Plan, released: ReleasedGroups, answered: EvaluatedAnswer) -> Iterator[Note]:
    yield from _selected_bounds(plan, released, _columns_by_measurement(answered))
    yield from _cross_unit_counts(released)
    yield from _distinct_counts(released)
    yield from _flow_bounds(released)
    yield from _outside(released)
    if answered.chosen_by_noise:
        yield Note(NoteRank.MEANING, SELECTED)
    unknown = list(dict.fromkeys(columns_without_interval(answered)))
    for names in few_at_a_time([f"`{name}`" for name in unknown]):
        text = f"No interval is available for {names}: the error cannot be bounded from the noisy values used."
        yield Note(NoteRank.MEANING, f"{text} Query those values directly.")
    if any(group.selection is not None for group, _ in released) and answered.traced.computed:
        text = "Groups were selected privately. Results computed over groups exclude the groups that were not released."
        yield Note(NoteRank.LACK, text)


def _columns_by_measurement(answered: EvaluatedAnswer) -> dict[tuple[str, str], list[str]]:
    """Return the names of the columns that are one aggregate, by the groups and names of what it is computed from."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, scalar in zip(answered.plan.private.names, answered.traced.items, strict=True):
        if (matched := answered.aggregate(scalar)) is not None:
            group, column = matched
            for measured in column.measured:
                found.setdefault((group.group.label, measured), []).append(name)
    return found


def _selected_bounds(
    plan: Plan, released: ReleasedGroups, columns: Mapping[tuple[str, str], Sequence[str]]
) -> Iterator[Note]:
    """Say which bounds were selected, what that cost, and what was added for people above them.

    Several say which columns they are of, by at most two names.
    """
    selections = {group.group.label: (group, found) for group, found in released if group.is_bound_selection}
    for group in plan.groups:
        for measurement in group.measured:
            if measurement.candidates is not None and measurement.selected is not None:
                selection, found = selections[measurement.selection_label]
                (above,) = found.numbers(ABOVE) if has_tail_correction(group, measurement, plan) else (None,)
                names = columns.get((group.group.label, measurement.name), ()) if len(selections) > 1 else ()
                yield _selected_bound(measurement, selection, above, names)


def _selected_bound(one: PlannedMeasurement, selection: GroupPlan, above: int | None, names: Sequence[str]) -> Note:
    """Say which bound was selected; `above` is the tail correction in grid steps, `names` those of columns."""
    bound = one.candidate_bounds[one.selected or 0]
    unit = "group" if one.bounds_groups else "row"
    what = f"{unit}{'s' * (bound != 1)} per person" if one.bounds_rows else "per person in a sum"
    price = f"(ε = {round_up(selection.bound_selection_epsilon)} of the price)"
    of = f" for {' and '.join(f'`{name}`' for name in names)}" if 0 < len(names) <= _MAX_NAMES else ""
    selected = f"{_SELECTED_BOUND} {_number(bound)} {what}{of} {price}."
    if above is None:
        beyond = f"{unit.capitalize()}s" if one.bounds_rows else "Amounts"
        return Note(NoteRank.LACK, f"{selected} {beyond} beyond it are dropped; intervals(bias=True) covers them.")
    added = f"The answer adds an estimate of {_number(above * one.bound_step)} for what lies beyond"
    return Note(NoteRank.LACK, f"{selected} {added}; only intervals(bias=True) covers that.")


def _cross_unit_counts(released: ReleasedGroups) -> Iterator[Note]:
    """Say which key frequency was found, and the scale of the noise."""
    for group, found in released:
        mechanisms = {selection.name: selection.mechanism for selection in group.chosen}
        for output in group.derived:
            mechanism = mechanisms[output.chosen] if isinstance(output, CrossUnitCountColumn) and found.keys else None
            if isinstance(output, CrossUnitCountColumn) and isinstance(mechanism, Meetings):
                frequency = found.numbers(output.chosen)[0]
                scale = round_up(mechanism.noise(frequency).scale / output.times)
                text = f"{_KEY_FREQUENCY} {frequency:,} people share a join key. The noise therefore has scale {scale}."
                yield Note(NoteRank.MEANING, text)


def _outside(released: ReleasedGroups) -> Iterator[Note]:
    """Say how many rows lie outside the bounds of a key: a noisy cell that was measured beside the groups."""
    for group, found in released:
        for index, key in enumerate(group.group.keys):
            if key.has_remainder and read_outside(key.scalar):
                rows = _outside_rows(group, found, index)
                yield Note(NoteRank.LACK, outside_note(group.group, key, rows))


def _outside_rows(group: GroupPlan, found: NoisyGroup, place: int) -> str:
    """Return about how many rows are in the remainder of a key, where rows were counted."""
    named = [(measurement.name, measurement.quantity) for measurement in group.measured] + [
        (total.name, total.quantity) for total in group.sums
    ]
    counts = (name for name, one in named if one.function is Aggregation.COUNT and not one.parts)
    name = next(counts, None)
    cells = [at for at, cell in enumerate(found.keys) if cell[place] is None]
    if name is None or not cells:
        return "rows"
    steps = dict(group.terms_of(name))
    parts = len(cells) * len(steps)
    mechanisms = [measurement.mechanism for measurement in group.measured if measurement.name in steps]
    margin = (
        max(mechanism.margin(1 - (1 - CONFIDENCE) / parts) for mechanism in mechanisms) * parts
    )  # a union bound over all
    rows = sum(sign * found.numbers(step)[at] for step, sign in steps.items() for at in cells)
    return f"about {max(0, rows):,} rows (±{margin:,})"


def _distinct_counts(released: ReleasedGroups) -> Iterator[Note]:
    """Say how many values of one person count, and what a higher limit might add."""
    for group, found in released:
        for output in group.derived:
            if isinstance(output, DistinctCountColumn) and found.keys:
                measured = {name: integers(values) for name, values in found.columns}
                limits = sorted(set(chosen_limits(output, measured)))
                yield _distinct_count(output, limits, mechanism_of(group, output))


def _distinct_count(column: DistinctCountColumn, limits: Sequence[int], mechanism: MatchedCount) -> Note:
    """Say which limits were selected, and about what they leave out."""
    least, most = limits[0], limits[-1]
    values = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    counted = f"{_DISTINCT_LIMIT} {values} per person, selected privately."
    if least == column.limits[-1]:
        return Note(NoteRank.MEANING, f"{counted} A person cannot have more, so no value was left out.")
    added = "Without noise the count is never above the true number"
    places = [index for index, limit in enumerate(column.limits[:-1]) if limit in limits]
    missed = max(mechanism.gain_of_next(index, CONFIDENCE) for index in places)
    if column.values is None or missed < column.values:
        added = f"{added}, and the next limit would add at most {missed:,} with probability 95 %"
    return Note(NoteRank.MEANING, f"{counted} {added}; the interval covers all missing values.")


def _flow_bounds(released: ReleasedGroups) -> Iterator[Note]:
    """Say how much of one person counts where rows have two owners, and what that cost."""
    for group, found in released:
        for output in group.derived:
            if isinstance(output, BoundedFlowColumn) and found.keys:
                measured = {name: integers(values) for name, values in found.columns}
                bounds = sorted(set(selected_bounds(output, measured)))
                least, most = (_number(bound * output.step) for bound in (bounds[0], bounds[-1]))
                share = least if least == most else f"{least} to {most}"
                price = round_up(flow_mechanism_of(group, output).epsilon * BOUND_EPSILON_SHARE)
                what = f"row{'s' * (share != '1')} per person" if output.counts_rows else "per person in a sum"
                text = (
                    f"{_SELECTED_BOUND} {share} {what} (ε = {price} of the price). Each row counts for both of its "
                    "owners. What lies beyond the bound is not in the total; intervals(bias=True) covers it."
                )
                yield Note(NoteRank.LACK, text)


def _number(amount: Fraction) -> str:
    return f"{float(amount):,.12g}"
