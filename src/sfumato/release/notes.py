"""What an answer says about itself: which cells noise chose, where no bar can be told, and why there is no group."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sfumato.accounting.loss import round_up
from sfumato.language.rel_nodes import noisy_tables
from sfumato.mechanisms.meetings import Meetings
from sfumato.planning.aggregates.cross_unit_count import CrossUnitCountColumn
from sfumato.planning.aggregates.distinct_count import DistinctCountColumn
from sfumato.planning.key_selection import size_words
from sfumato.planning.notes.bound_selection import chosen_note, price_of
from sfumato.planning.notes.distinct_counts import limits_note
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.planning.top_lists import is_a_list
from sfumato.release.aggregates.distinct_count import chosen_limits, mechanism_of
from sfumato.release.bounding.selection import ABOVE, has_tail_correction
from sfumato.release.intervals.confidence import EvaluatedAnswer, columns_without_interval
from sfumato.release.noisy import NoisyResult, integers

SELECTED = (
    "Cells were chosen by their noisy values (HAVING, or ORDER BY with LIMIT), among which high or low noise is "
    "over-represented. Intervals are wider for that: all of a column hold together at their level."
)

_FOUND = re.compile(
    r"Chosen privately:|Different values were counted by matching,|At most [\d,]+ people were found to share"
)
"""How notes begin that tell what noise found: levels, limits, the people of the fullest key."""


_CUT = "What caps and bounds cut off may change "
"""How a note begins that tells what was measured of losses: also whether there is one hangs on that noise."""


def drop_noise_dependent_notes(notes: Sequence[str]) -> tuple[str, ...]:
    """Return notes without what noise decided of them, for whoever compares what neighbours show.

    How many there are hangs on it, too: of two limits that are the same one note is told.
    """
    told = [note for note in notes if not note.startswith(_CUT)]
    return tuple(dict.fromkeys("found by noise" if _FOUND.match(note) else note for note in told))


def restrict_to_outcome(plan: Plan, noisy: NoisyResult) -> tuple[Plan, NoisyResult]:
    """Return what of a plan its outcome reads: of questions that were asked together, each tells about its own."""
    read: dict[str, set[str]] = {}
    for given in noisy_tables(plan.private.outcome):
        read.setdefault(given.table, set()).update(name for name, _ in given.columns)
    groups: list[GroupPlan] = []
    released = []
    for group, found in zip(plan.groups, noisy.groups, strict=True):
        label = group.group.label
        if group.is_bound_selection and any(one.selection_label == label for other in groups for one in other.measured):
            groups.append(group)  # choices come last
            released.append(found)
        if label not in read:
            continue
        derived = tuple(one for one in group.derived if one.name in read[group.group.label])
        used = {name for one in derived for name in one.measured} | {group.selecting_measurement}
        measured = tuple(one for one in group.measured if one.name in used)
        chosen = tuple(one for one in group.chosen if one.name in used)
        groups.append(replace(group, derived=derived, measured=measured, chosen=chosen))
        released.append(found)
    return replace(plan, groups=tuple(groups)), replace(noisy, groups=tuple(released))


def notes_of(plan: Plan, noisy: NoisyResult, answered: EvaluatedAnswer) -> tuple[str, ...]:
    """Return the notes that follow from what was released."""
    return tuple(_notes(plan, noisy, answered))


def _notes(plan: Plan, noisy: NoisyResult, answered: EvaluatedAnswer) -> Iterator[str]:
    for group, found in zip(plan.groups, noisy.groups, strict=True):
        if group.selection is not None and not found.keys:
            yield _no_group_note(group)
    yield from dict.fromkeys(_chosen(plan, noisy))
    yield from dict.fromkeys(_met(plan, noisy))
    yield from dict.fromkeys(_matched(plan, noisy))
    if answered.chosen and not is_a_list(plan):
        yield SELECTED
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(columns_without_interval(answered)))
    if names:
        yield (
            f"How far {names} may be from the truth is not known: it depends on noisy numbers in a way that no bar "
            "follows, so its interval has open sides. Ask for those numbers themselves."
        )
    if any(group.selection is not None for group in plan.groups) and answered.traced.computed:
        yield (
            "Groups were selected privately, and what is computed over groups holds for the released ones: "
            "the rows of the others are not in it."
        )


def _chosen(plan: Plan, noisy: NoisyResult) -> Iterator[str]:
    """Say which levels were chosen, what that cost, and what was added for people above."""
    pairs = zip(plan.groups, noisy.groups, strict=True)
    choices = {group.group.label: (group, found) for group, found in pairs if group.is_bound_selection}
    for group in plan.groups:
        for one in group.measured:
            if one.candidates is not None and one.selected is not None:
                choice, found = choices[one.selection_label]
                (above,) = found.numbers(ABOVE) if has_tail_correction(group, one, plan) else (None,)
                yield chosen_note(one, price_of(choice), above)


def _met(plan: Plan, noisy: NoisyResult) -> Iterator[str]:
    """Say which crowd was found, and what the noise is."""
    for group, found in zip(plan.groups, noisy.groups, strict=True):
        mechanisms = {one.name: one.mechanism for one in group.chosen}
        for one in group.derived:
            mechanism = mechanisms[one.chosen] if isinstance(one, CrossUnitCountColumn) and found.keys else None
            if isinstance(one, CrossUnitCountColumn) and isinstance(mechanism, Meetings):
                crowd = found.numbers(one.chosen)[0]
                yield (
                    f"At most {crowd:,} people were found to share what they meet by, with all the rows that one can "
                    f"have there: so the noise has a scale of {round_up(mechanism.noise(crowd).scale / one.times)}."
                )


def _matched(plan: Plan, noisy: NoisyResult) -> Iterator[str]:
    """Say how many values of one person count, and what a higher limit might add."""
    for group, found in zip(plan.groups, noisy.groups, strict=True):
        for one in group.derived:
            if isinstance(one, DistinctCountColumn) and found.keys:
                measured = {name: integers(values) for name, values in found.columns}
                chosen = sorted(set(chosen_limits(one, measured)))
                yield limits_note(one, chosen, mechanism_of(group, one))


def _no_group_note(group: GroupPlan) -> str:
    """Say from which size on there would be a group: a public number, whatever the data."""
    touched = group.group.contribution.groups
    ways = ["group by coarser keys (months instead of days, ranges instead of values)", "spend more epsilon"]
    if touched > 1:
        fewer = f"let each person count in fewer than {touched:,} groups: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
        ways.insert(0, f"{fewer}(max_groups_contributed = 1) …")
    return (
        "No group passed the private selection, so there is nothing to show. A group appears with probability 95 % "
        f"from {size_words(group)} on. To see groups, {', or '.join(ways)}."
    )
