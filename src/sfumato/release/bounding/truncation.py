"""What caps and bounds cut off gets its noise: first a look at where much was lost, then what is measured there.

Theorem: which groups are measured is computed from noisy numbers alone, and for every choice they cost the same: so all
of it together is `budget.truncation`-DP.  Proof: proofs/truncation.md
"""

from dataclasses import replace

from sfumato.engines.aggregates import Aggregates
from sfumato.planning.bounding.truncation import TruncationBounds, blocks, truncation_bounds
from sfumato.planning.bounding.truncation_strategies import select_strategies
from sfumato.planning.plan import Plan
from sfumato.policy.policy import Policy
from sfumato.randomness.source import Source
from sfumato.release.noisy import NoisyGroup, NoisyResult
from sfumato.release.publish import publish

_UNMEASURED = NoisyGroup((), ())


def release_truncation(policy: Policy, plan: Plan, aggregates: Aggregates, source: Source) -> NoisyResult:
    """Return the noisy numbers of all looks and of what they say to measure; other groups stay empty."""
    looks = frozenset(
        group.group.label for block, group in zip(blocks(policy), plan.groups, strict=True) if block.strategy is None
    )
    first = _published(plan, aggregates, looks, source)
    then = _published(plan, aggregates, select_strategies(policy, plan, _numbers(plan, first)), source)
    pairs = zip(first.groups, then.groups, strict=True)
    return NoisyResult(tuple(one if one.columns else other for one, other in pairs), first.bits + then.bits)


def truncation_bounds_of(policy: Policy, plan: Plan, noisy: NoisyResult) -> TruncationBounds:
    """Return what follows from what was published."""
    return truncation_bounds(policy, plan, _numbers(plan, noisy))


def has_published(plan: Plan, noisy: NoisyResult) -> bool:
    """Whether numbers were published by a plan: of each group all of its coordinates, or none."""
    pairs = zip(plan.groups, noisy.groups, strict=True)
    return all(
        {name for name, _ in found.columns} in (set(), {measurement.name for measurement in group.measured})
        for group, found in pairs
    )


def _published(plan: Plan, aggregates: Aggregates, labels: frozenset[str], source: Source) -> NoisyResult:
    """Return the plan's groups, of which those with these labels have their noise and the others are empty."""
    pairs = zip(plan.groups, aggregates.groups, strict=True)
    here = [(group, exact) for group, exact in pairs if group.group.label in labels]
    part = replace(plan, groups=tuple(group for group, _ in here))
    found = publish(part, replace(aggregates, groups=tuple(exact for _, exact in here)), source)
    noisy = iter(found.groups)
    groups = (next(noisy) if group.group.label in labels else _UNMEASURED for group in plan.groups)
    return NoisyResult(tuple(groups), found.bits)


def _numbers(plan: Plan, noisy: NoisyResult) -> dict[str, dict[str, int]]:
    return {
        group.group.label: {name: int(found.numbers(name)[0]) for name, _ in found.columns}
        for group, found in zip(plan.groups, noisy.groups, strict=True)
        if found.columns
    }
