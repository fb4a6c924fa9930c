"""Which of several ways to measure what caps and bounds cut off is taken, from a noisy look at where much was lost.

Theorem: it is computed from released numbers alone, and every way costs the same.  Proof: proofs/truncation.md, 2
"""

from collections.abc import Mapping
from fractions import Fraction
from math import log

from sfumato.mechanisms.laplace import Laplace
from sfumato.planning.bounding.truncation import (
    BOTH,
    NUMBERS,
    ONLY_ROWS,
    ROWS,
    TruncationBlock,
    blocks,
    noise_laws,
    parts_of,
)
from sfumato.planning.plan import Plan
from sfumato.policy.policy import Policy

_MIN_PILOT_SIGNAL_SCALES = Fraction(3, 2)
"""People count as seen in a pilot as far as they are more than this many times the scale of its noise."""
_NOISE_REACH_SCALES = 4
"""How many times its scale noise is taken to reach, about, when what to measure is chosen."""
_OF_ONE, _OF_SEVERAL = Fraction(1, 2), Fraction(1, 10)
"""Where a number is weighed alone, this part of those who lost much of any is taken to have lost much of it: of a
table's only number, and of one of several, for some of which hardly anybody did. Where each has its own people, one
with bounds far above what people have is bounded by few of them."""


def select_strategies(policy: Policy, plan: Plan, looked: Mapping[str, Mapping[str, int]]) -> frozenset[str]:
    """Return the labels of the groups to measure, given the noisy numbers of every look, by its label.

    Of each table the way is taken by which bounds will rest on the fewest people, in the geometric mean: those who seem
    to have lost much of what a block measures, and about as many as its noise hides.
    """
    pairs = list(zip(blocks(policy), plan.groups, strict=True))
    taken: set[str] = set()
    for table in dict.fromkeys(one.table for one, _ in pairs):
        here = [(one, group) for one, group in pairs if one.table == table]
        seen: dict[str, float] = {}
        for one, group in here:
            if one.strategy is None:
                noisy = looked[group.group.label]
                clearly = {name: float(_MIN_PILOT_SIGNAL_SCALES * law.scale) for name, law in noise_laws(group).items()}
                seen = {name: max(noisy[name] - least, 0.0) for name, least in clearly.items()}
        ways: dict[int, float] = {}
        numbers = {each.column for one, _ in here for each in one.tailed} - {ROWS}
        part = _OF_ONE if len(numbers) == 1 else _OF_SEVERAL
        for one, group in here:
            if one.strategy is not None:
                ways[one.strategy] = ways.get(one.strategy, 0.0) + _people(one, seen, noise_laws(group), part)
        best = min(ways, key=lambda way: ways[way])
        taken |= {group.group.label for one, group in here if one.strategy == best}
    return frozenset(taken)


def _people(block: TruncationBlock, seen: Mapping[str, float], laws: Mapping[str, Laplace], part: Fraction) -> float:
    """Return on how many people the bounds of a block's statistics may rest, as the sum of the logarithms.

    Everyone counted may have every row beyond bounds. Of a number alone, `part` of those lost much who did of any.
    """
    columns = [one.column for one in block.tailed]
    rows, numbers = ROWS in columns, any(column != ROWS for column in columns)
    found = [name for name, here in ((ONLY_ROWS, rows), (NUMBERS, numbers), (BOTH, rows or numbers)) if here]
    there = sum(seen.get(name, 0.0) for name in found) * float(part if numbers and len(columns) == 1 else 1)
    hidden = there + float(_NOISE_REACH_SCALES * laws["h0"].scale) if block.tailed else 0.0
    people = [hidden for _ in block.tailed]
    for index, (one, _) in enumerate(parts_of(block)):
        if not one.tail:
            people.append(hidden + float(_NOISE_REACH_SCALES * laws[f"s{index}"].scale) / one.max_contribution)
    return sum(log(number) for number in people)
