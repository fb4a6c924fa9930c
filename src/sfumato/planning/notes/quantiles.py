"""What answers that are chosen mean: how much a person counts, what MIN and MAX are, how wide a bucket is."""

from collections.abc import Iterator

from sfumato.mechanisms.quantiles import Quantiles
from sfumato.planning.aggregates.quantile import ModeColumn, QuantileColumn
from sfumato.planning.plan import GroupPlan, Plan

_WIDE = "Values far from 0 are told to within 1/4096 of their size; intervals include that."


def ranking_notes(plan: Plan) -> Iterator[str]:
    """Tell it once for the whole answer."""
    for group in plan.groups:
        yield from _notes(group)


def _notes(group: GroupPlan) -> Iterator[str]:
    ranked = [one for one in group.derived if isinstance(one, QuantileColumn)]
    if not ranked and not any(isinstance(one, ModeColumn) for one in group.derived):
        return
    if group.group.contribution.rows > 1:
        yield (
            "Quantiles and modes are of people: whoever has several rows in the question counts once in all, each row "
            "with an equal part."
        )
    over = {one.name: one.mechanism.passed_over for one in group.chosen if isinstance(one.mechanism, Quantiles)}
    for one in ranked:
        if one.level in (0, 1):
            side = "below" if one.level == 0 else "above"
            name = "MIN" if one.level == 0 else "MAX"
            yield (
                f"{name} over people is an extreme quantile: about {over[one.ranks]:,} people lie {side} it. Its "
                f"interval reaches to the {'lower' if one.level == 0 else 'upper'} bound, and so includes the true one."
            )
    if any(not one.ends for one in ranked):
        yield "APPROX_QUANTILE spends everything on the value and tells no interval; QUANTILE_CONT tells one."
    if any(one.spacing.buckets < one.spacing.high - one.spacing.low + 1 for one in ranked):
        yield _WIDE
