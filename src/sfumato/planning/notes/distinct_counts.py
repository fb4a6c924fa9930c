"""Notes on distinct counts by matching, before anything is read."""

from collections.abc import Iterator

from sfumato.mechanisms.matched_count import MatchedCount
from sfumato.planning.accuracy_target import CONFIDENCE
from sfumato.planning.aggregates.distinct_count import DistinctCountColumn
from sfumato.planning.notes.note import Note, NoteRank
from sfumato.planning.plan import Plan


def matching_notes(plan: Plan) -> Iterator[Note]:
    """Say for each column how many values of one person count, and the margin at the ends of that range."""
    for group in plan.groups:
        mechanisms = {selection.name: selection.mechanism for selection in group.chosen}
        for made in group.derived:
            mechanism = mechanisms.get(made.chosen) if isinstance(made, DistinctCountColumn) else None
            if isinstance(made, DistinctCountColumn) and isinstance(mechanism, MatchedCount):
                margins = (mechanism.noise(place).margin(CONFIDENCE) for place in (0, len(made.limits) - 1))
                one, every = (margin if made.values is None else min(margin, made.values) for margin in margins)
                meaning = (
                    f"Distinct values are counted with a privately selected limit of 1 to {made.limits[-1]:,} values "
                    f"per person. The margin is ±{one:,} at limit 1 and up to ±{every:,} at the highest."
                )
                yield Note(NoteRank.MEANING, meaning)
                hint = (
                    "Without noise, the distinct count is never above the true number. Name the column in `within` to "
                    "count all values of each person."
                )
                yield Note(NoteRank.HINT, hint)
