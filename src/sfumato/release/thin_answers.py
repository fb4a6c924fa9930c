"""Answers that show little: no group passed, or every value lies within its margin of error.

Both are functions of the noisy answer and of the plan, so saying it costs nothing.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from sfumato.planning.aggregates.distinct_count import different_values
from sfumato.planning.column_origins import origins, shown_unchanged
from sfumato.planning.nested_conditions import step_margin
from sfumato.planning.noise import variance_of
from sfumato.planning.notes.note import Note, NoteRank, texts_by_rank
from sfumato.planning.notes.plan_notes import NO_GROUP
from sfumato.planning.plan import Plan
from sfumato.planning.quote import margin_text
from sfumato.release.decode import Value

_MAX_DEVIATIONS = 5
"""By Chebyshev's inequality 4.5 standard deviations and a step hold 95 % of any noise."""

THIN = "No value of"
"""How the note about values within their margin begins."""


def note_texts(
    plan: Plan, names: Sequence[str], values: Sequence[Sequence[Value]], found: Sequence[Note]
) -> tuple[str, ...]:
    """Return the texts of these notes and of what `thin_notes` says, the most important first."""
    return texts_by_rank([*thin_notes(plan, names, values), *found])


def thin_notes(plan: Plan, names: Sequence[str], values: Sequence[Sequence[Value]]) -> Iterator[Note]:
    """Say which counts and sums cannot be told from 0, and what it would take."""
    own = plan.for_outcome()
    derived = {(group.group.label, output.name): output for group in own.groups for output in group.derived}
    measured = {
        (group.group.label, measurement.name): measurement for group in own.groups for measurement in group.measured
    }
    for name, column, origin in zip(names, values, origins(plan.private), strict=True):
        source = shown_unchanged(origin, derived)
        shown = None if source is None else derived[source]
        if source is None or shown is None or shown.plain is None:
            continue
        group = next(group for group in own.groups if group.group.label == source[0])
        parts = [measured.get((source[0], name)) for name in group.steps_of(shown.plain)]
        steps = [part for part in parts if part is not None and part.candidates is None]
        numbers = [value for value in column if isinstance(value, int | float)]
        if len(steps) < len(parts) or not numbers or any(plan.is_combined(source[0], step.name) for step in steps):
            continue
        largest = max(map(abs, numbers))
        beyond = Fraction(largest) / shown.step - 1
        if beyond > 0 and beyond**2 > _MAX_DEVIATIONS**2 * sum(variance_of(step.mechanism) for step in steps):
            continue  # no margin is that wide, so it need not be found
        margin = (step_margin(group, shown.plain) or 0) * shown.step
        most = different_values(steps[0].quantity)
        if most is not None and margin >= most:  # the interval says so: all that is possible
            continue
        if 0 < margin >= largest:
            yield _thin_note(name, float(margin), len(numbers))


def _thin_note(name: str, margin: float, numbers: int) -> Note:
    fewer = ", or ask for fewer or coarser groups" if numbers > 1 else ""
    text = (
        f"{THIN} `{name}` can be told from 0: the margin is ±{margin_text(margin)} at 95 %. "
        f"Twice the epsilon halves it{fewer}."
    )
    return Note(NoteRank.MEANING, text)


def warnings_of(notes: Sequence[str]) -> tuple[str, ...]:
    """Return the notes that a client is told beside the rows: of an answer that shows nothing, or only noise."""
    return tuple(note for note in notes if note.startswith((NO_GROUP, THIN)))
