"""What an answer says about itself: which cells noise chose, where no bar can be told, and why there is no group."""

from collections.abc import Iterator

from sfumato.planning.choosing_notes import chosen_note, price_of
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.planning.within import CONFIDENCE
from sfumato.release.intervals import Answered, open_columns
from sfumato.release.noisy import Noisy

SELECTED = (
    "Cells were chosen by their noisy values (HAVING, or ORDER BY with LIMIT): each interval holds for its cell, but "
    "among chosen cells high or low noise is over-represented."
)


def notes_of(plan: Plan, noisy: Noisy, answered: Answered) -> tuple[str, ...]:
    """Return the notes that follow from what was released."""
    return tuple(_notes(plan, noisy, answered))


def _notes(plan: Plan, noisy: Noisy, answered: Answered) -> Iterator[str]:
    for group, found in zip(plan.groups, noisy.groups, strict=True):
        if group.selection is not None and not found.keys:
            yield _nobody(group)
    yield from dict.fromkeys(_chosen(plan))
    if answered.chosen:
        yield SELECTED
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(open_columns(answered)))
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


def _chosen(plan: Plan) -> Iterator[str]:
    """Say which levels were chosen, and what that cost."""
    prices = {group.group.label: price_of(group) for group in plan.groups if group.is_choice}
    for one in (one for group in plan.groups for one in group.measured):
        if one.levels is not None and one.level is not None:
            yield chosen_note(one, prices[one.levels.choice])


def _nobody(group: GroupPlan) -> str:
    """Say from which size on there would be a group: a public number, whatever the data."""
    if group.selection is None:
        return ""
    needed = group.selection.units_for(CONFIDENCE)
    touched = group.group.contribution.groups
    ways = ["group by coarser keys (months instead of days, ranges instead of values)", "spend more epsilon"]
    if touched > 1:
        fewer = f"let each person count in fewer than {touched:,} groups: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
        ways.insert(0, f"{fewer}(max_groups_contributed = 1) …")
    return (
        "No group passed the private selection, so there is nothing to show. A group appears with probability 95 % "
        f"from {needed:,} people on. To see groups, {', or '.join(ways)}."
    )
