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
            what = "rows per person" if one.bounds_rows else "amount per person in a sum"
            text = (
                f"The query selects the maximum {what} privately among {_listed(one)}, for "
                f"ε = {round_up(group.bound_selection_epsilon)} of the price. The margin depends on the selected bound."
            )
            yield Note(NoteRank.LACK, text)


def _listed(one: PlannedMeasurement) -> str:
    texts = [f"{float(bound):,.12g}" for bound in one.candidate_bounds]
    return ", ".join([*texts[:3], "…", texts[-1]] if len(texts) > 5 else texts)
