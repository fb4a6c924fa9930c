"""What a count of different values means that was made by matching: how many values of a person count."""

from collections.abc import Iterator, Sequence

from sfumato.mechanisms.matched_count import MatchedCount
from sfumato.planning.accuracy_target import CONFIDENCE
from sfumato.planning.aggregates.distinct_count import DistinctCountColumn
from sfumato.planning.plan import Plan

_NEVER_MORE = "Without its noise it is never above the true number"


def matching_notes(plan: Plan) -> Iterator[str]:
    """Tell it once for each column, before anything is read."""
    for group in plan.groups:
        mechanisms = {one.name: one.mechanism for one in group.chosen}
        for made in group.derived:
            mechanism = mechanisms.get(made.chosen) if isinstance(made, DistinctCountColumn) else None
            if isinstance(made, DistinctCountColumn) and isinstance(mechanism, MatchedCount):
                one, all_of_them = (mechanism.noise(place).margin(CONFIDENCE) for place in (0, len(made.limits) - 1))
                yield (
                    "Different values are counted by matching: each value needs one person who has it, and of each "
                    f"person at most 1, 2, 4, … or {made.limits[-1]:,} values count, whichever is enough; that is "
                    f"chosen privately. The margin is ±{one:,} where 1 is enough, up to ±{all_of_them:,}. "
                    f"{_NEVER_MORE}. A column that is named in `within` counts all values of a person."
                )


def limits_note(made: DistinctCountColumn, chosen: Sequence[int], mechanism: MatchedCount) -> str:
    """Say which limits were chosen, and about what was left out."""
    least, most = chosen[0], chosen[-1]
    values = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    counted = f"Different values were counted by matching, with at most {values} of each person, chosen privately."
    if least == made.limits[-1]:
        return f"{counted} Nobody can have more, so nothing was left out."
    added = mechanism.missed * most
    return (
        f"{counted} {_NEVER_MORE}; it lacks values whose owners have more of them than that, all of them together. The "
        "interval reaches as far up as that may be; "
        f"counting twice as many values of each person would add fewer than {added:,}, with 95 %."
    )
