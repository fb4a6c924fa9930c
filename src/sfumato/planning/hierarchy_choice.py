"""Whether a question is answered from blocks of an ordered key: where its sums then err less for the same price.

A function of text, policy and price. Proof: proofs/hierarchies.md, (4) and (5)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import exp, log

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.private_query import Group
from sfumato.language.rel_nodes import ProjectNode
from sfumato.planning.aggregates.count import CountColumn
from sfumato.planning.aggregates.sum import SumColumn
from sfumato.planning.hierarchies import Hierarchy, ordered_axis, with_levels
from sfumato.planning.measurements import MeasurementSet
from sfumato.planning.noise import fraction_of_fresh_budget, variance_of
from sfumato.planning.ordered_sums import SumUse, ordered_sums
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.planning.range_strategies import (
    MAX_DEVIATION_RATIO,
    OrderedSum,
    SumKind,
    level_shares,
    variance_ratios,
)

_MAX_ERROR_RATIO = 0.9
"""Blocks are measured where the mean variance becomes smaller by at least this factor."""
_MAX_VARIANCE_RATIO = float(MAX_DEVIATION_RATIO) ** 2 + 1e-6


@dataclass(frozen=True, slots=True)
class BlockedNeeds:
    """All that is measured with some groups in blocks, and what is asked of each measurement that is."""

    needs: tuple[MeasurementSet, ...]
    hierarchies: tuple[Hierarchy, ...]
    sums: Mapping[str, tuple[OrderedSum, ...]] = field(hash=False)
    """By the label of a group: the sums that are shown of its cells."""


def blocked_needs(
    needs: tuple[MeasurementSet, ...],
    groups: Sequence[Group],
    outcomes: Sequence[ProjectNode],
    neighbours: Neighbours,
) -> Iterator[BlockedNeeds]:
    """Give the needs with ordered keys in blocks, split for Gaussian and for Laplace noise; nothing without such keys.

    `groups` are those of the needs, with their keys as the text has them.
    """
    uses = ordered_sums(outcomes)
    for power in (1, 2):
        found, made, sums = needs, list[Hierarchy](), dict[str, tuple[OrderedSum, ...]]()
        for place, group in enumerate(groups):
            asked = _asked(needs[place], group, uses)
            if asked is None:
                continue
            axis, names, own = asked
            shares = level_shares(len(group.keys[axis].cells or ()), own, power)
            if shares is not None:
                found, hierarchy = with_levels(found, place, group, axis, names, shares, neighbours)
                made.append(hierarchy)
                sums[group.label] = own
        if made:
            yield BlockedNeeds(found, tuple(made), sums)


def _asked(
    need: MeasurementSet, group: Group, uses: frozenset[SumUse]
) -> tuple[int, tuple[str, ...], tuple[OrderedSum, ...]] | None:
    """Return the ordered key of a group, what is measured in blocks of it, and for which sums; None for nothing."""
    if need.keys is not None or need.top is not None or need.sums or need.together or need.selecting is not None:
        return None
    by_name: dict[str, set[SumUse]] = {}
    mixed: set[str] = set()
    for made in need.derived:
        own = {use for use in uses if use.source == (group.label, made.name)}
        for name in made.measured:
            by_name.setdefault(name, set()).update(own)
            if not isinstance(made, CountColumn | SumColumn):
                mixed.add(name)  # the interval of an average needs the joint law of its two numbers
    simple = {one.name for one in need.measurements if one.bound is None and one.side is not None} - mixed
    along = {name: {use.key for use in by_name.get(name, ()) if use.key} for name in simple}
    names = tuple(one.name for one in need.measurements if along.get(one.name))
    keys = {key for name in names for key in along[name]}
    axis = ordered_axis(group, keys.pop()) if len(keys) == 1 else None
    if axis is None:
        return None
    sums = {use.used for name in names for use in by_name[name]}
    if len(sums) > 1:
        sums -= {OrderedSum(SumKind.TOTAL)}  # a total has less noise than any other sum
    return axis, names, tuple(sorted(sums, key=lambda one: (one.kind, one.width)))


def best_blocks(
    plans: Sequence[tuple[Plan, Mapping[str, tuple[OrderedSum, ...]]]], apart: Plan, cap: PrivacyLoss
) -> int | None:
    """Return which plan with blocks errs least for what it is charged; None where none errs clearly less than `apart`.

    No column may have a deviation that is clearly larger than apart.
    """
    before = fraction_of_fresh_budget((apart.groups, apart.loss), cap)
    found: list[tuple[float, int]] = []
    for place, (plan, sums) in enumerate(plans):
        ratios = _ratios(plan, sums, apart)
        if ratios is None or max(ratios) > _MAX_VARIANCE_RATIO:
            continue
        used = fraction_of_fresh_budget((plan.groups, plan.loss), cap)
        mean = exp(sum(map(log, ratios)) / len(ratios))
        found.append((mean * float(used / before if before else Fraction(1)), place))
    best = min(found, default=(1.0, 0))
    return best[1] if best[0] < _MAX_ERROR_RATIO else None


def _ratios(plan: Plan, sums: Mapping[str, tuple[OrderedSum, ...]], apart: Plan) -> list[float] | None:
    """Return how many times the variance of each column is that apart; None where the two are not comparable."""
    own = {(group.group.label, one.name): one for group in plan.groups for one in group.measured}
    blocked = {(one.label, name): one for one in plan.hierarchies for name in one.names}
    found: list[float] = []
    for group in apart.groups:
        if group.selection is not None or not _same_names(group, plan):
            return None
        for one in group.measured:
            name, before = (group.group.label, one.name), float(variance_of(one.mechanism))
            hierarchy = blocked.get(name)
            if hierarchy is None:
                found.append(float(variance_of(own[name].mechanism)) / before)
                continue
            laws = [own[label, one.name].mechanism for label in hierarchy.labels]
            precisions = [before / float(variance_of(law)) for law in laws]
            cells = hierarchy.counts[hierarchy.axis]
            if OrderedSum(SumKind.CELLS) in sums[group.group.label] and 1 / precisions[0] > _MAX_VARIANCE_RATIO:
                return None  # anything may be computed from single cells: no sum of them may be clearly worse
            found += variance_ratios(cells, hierarchy.sizes, sums[group.group.label], precisions)
    return found


def _same_names(group: GroupPlan, plan: Plan) -> bool:
    other = next((one for one in plan.groups if one.group.label == group.group.label), None)
    return other is not None and {one.name for one in other.measured} == {one.name for one in group.measured}
