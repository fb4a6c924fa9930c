"""The notes that a plan carries: what is known about its answer before data is read."""

from collections.abc import Iterator
from dataclasses import replace

from sfumato.language.scalar import Operator
from sfumato.planning.aggregates.others import conjuncts_of
from sfumato.planning.bounding.total_bounds import total_notes
from sfumato.planning.key_selection import size_words
from sfumato.planning.notes.first_measurements import first_notes
from sfumato.planning.notes.note import Note, NoteRank
from sfumato.planning.notes.quantiles import ranking_notes
from sfumato.planning.notes.truncation import bounding_notes
from sfumato.planning.outside_cells import outside_notes
from sfumato.planning.plan import GroupPlan, Plan

NO_GROUP = "No group passed the private selection"
"""How the note about an empty answer begins."""


def with_notes(plan: Plan) -> Plan:
    """Return the plan with the notes on its outcome; they enter no fingerprint and are not stored."""
    return replace(plan, notes=(*first_notes(plan), *_notes(plan.for_outcome())))


def _notes(plan: Plan) -> Iterator[Note]:
    for text in plan.private.notes:
        yield Note(NoteRank.MEANING, text)
    yield from bounding_notes(plan)
    yield from ranking_notes(plan)
    yield from total_notes(plan)
    yield from outside_notes(plan)
    for group in plan.groups:
        if group.vector:
            text = _vector_text(group)
            yield Note(NoteRank.HINT, text)
    for hierarchy in plan.hierarchies:
        if any(group.group.label == hierarchy.label for group in plan.groups):
            sizes = ", ".join(str(size) for size in hierarchy.sizes[1:])
            yield Note(
                NoteRank.HINT, f"Blocks of {sizes} cells are measured, too: sums over many cells have less noise."
            )
    for group in plan.groups:
        if group.selection is not None:
            yield _no_group_note(group)


def _vector_text(group: GroupPlan) -> str:
    """Say why several measurements cost as one."""
    first = {one.steps[0] for one in group.sums}
    conditions = [conjuncts_of(one.quantity.where) for one in group.measured if one.name in first]
    if any(parts and parts[-1].operator is Operator.IS_NULL for parts in conditions):
        return (
            "Rows without a value are counted by themselves. No row is in this count and in the average, so both cost "
            "as one."
        )
    if group.sums:
        return (
            f"Conditions contain each other, so {len(group.vector)} steps between them are measured and added up. "
            "Together the steps cost as one."
        )
    return f"{len(group.vector)} measurements have conditions that exclude each other. Together they cost as one."


def _no_group_note(group: GroupPlan) -> Note:
    """Say from which size on a group would appear: a public number, whatever the data."""
    ways = ["use coarser keys", "spend twice the epsilon (about half that size)"]
    if (touched := group.group.contribution.groups) > 1:
        fewer = f"allow each person fewer than {touched:,} groups"
        ways.insert(0, f"{fewer} (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 1) …)")
    text = (
        f"{NO_GROUP}: a group appears with probability 95 % from {size_words(group)} on. "
        f"To see groups, {', or '.join(ways)}."
    )
    return Note(NoteRank.MEANING, text, group.group.label)
