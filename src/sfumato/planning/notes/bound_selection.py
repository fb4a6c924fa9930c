"""Notes on bounds that a query selects privately."""

from collections.abc import Iterator

from sfumato.accounting.loss import round_up
from sfumato.planning.notes.note import Note, NoteRank
from sfumato.planning.plan import Plan, PlannedMeasurement


def selection_notes(plan: Plan) -> Iterator[Note]:
    """Say what will be selected, among which candidates, and what that costs."""
    for group in plan.groups:
        if group.is_bound_selection:
            (one,) = group.measured
            users = [other for each in plan.groups for other in each.measured]
            groups = any(other.bounds_groups and other.selection_label == group.group.label for other in users)
            what = (
                "amount per person in a sum" if not one.bounds_rows else f"{'groups' if groups else 'rows'} per person"
            )
            text = (
                f"The query selects the maximum {what} privately among {_listed(one)}, for "
                f"ε = {round_up(group.bound_selection_epsilon)} of the price. The margin depends on the selected bound."
            )
            yield Note(NoteRank.LACK, text)


def _listed(one: PlannedMeasurement) -> str:
    texts = [f"{float(bound):,.12g}" for bound in one.candidate_bounds]
    return ", ".join([*texts[:3], "…", texts[-1]] if len(texts) > 5 else texts)
