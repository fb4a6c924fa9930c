"""Notes on quantiles and modes: how people are weighted, what MIN and MAX are, how wide a bucket is."""

from collections.abc import Iterator

from sfumato.mechanisms.quantiles import Quantiles
from sfumato.planning.aggregates.quantile import ModeColumn, QuantileColumn
from sfumato.planning.notes.note import Note, NoteRank
from sfumato.planning.plan import GroupPlan, Plan


def ranking_notes(plan: Plan) -> Iterator[Note]:
    """Return the notes on the quantiles and modes of every group."""
    for group in plan.groups:
        yield from _notes(group)


def _notes(group: GroupPlan) -> Iterator[Note]:
    ranked = [output for output in group.derived if isinstance(output, QuantileColumn)]
    if not ranked and not any(isinstance(output, ModeColumn) for output in group.derived):
        return
    if group.group.contribution.rows > 1:
        weights = "Quantiles and modes weight people equally: all rows of one person together have weight 1."
        yield Note(NoteRank.MEANING, weights)
    over = {
        selection.name: selection.mechanism.passed_over
        for selection in group.chosen
        if isinstance(selection.mechanism, Quantiles)
    }
    for one in ranked:
        if one.level in (0, 1):
            name, side, bound = ("MIN", "below", "lower") if one.level == 0 else ("MAX", "above", "upper")
            extreme = (
                f"{name} over people is an extreme quantile: about {over[one.ranks]:,} people lie {side} it. Its "
                f"interval extends to the {bound} bound, so it includes the true {name} of values within bounds."
            )
            yield Note(NoteRank.MEANING, extreme)
    if any(not one.ends for one in ranked):
        yield Note(NoteRank.HINT, "APPROX_QUANTILE has no interval. Use QUANTILE_CONT to get one.")
    if any(one.spacing.buckets < one.spacing.high - one.spacing.low + 1 for one in ranked):
        yield Note(NoteRank.HINT, "Values far from 0 are exact to within 1/4096 of their size. Intervals include that.")
