"""Exact aggregates get their noise here, and nothing exact goes further."""

from math import ceil, log2

import numpy as np

from sfumato.engines.aggregates import Aggregates, GroupAggregates, HeldBuckets
from sfumato.mechanisms.answers import Answers
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.mechanisms.quantiles import Quantiles
from sfumato.planning.plan import Chosen, GroupPlan, Plan
from sfumato.randomness.discrete_gaussian import DiscreteGaussian
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.entropy import entropy_bits
from sfumato.randomness.source import Metered, Source
from sfumato.release.chosen_levels import LEVEL, at_levels, choose_level, resolved
from sfumato.release.noisy import Noisy, NoisyGroup, NoisyValues


def publish(plan: Plan, aggregates: Aggregates, source: Source) -> Noisy:
    """Return the released keys and the noisy measurements of every group.

    Theorem: the law of the outcome is that of the plan's event: levels that are chosen, then a selection of keys, then
    one mechanism per measurement on the vector of the selected cells.  Proof: proofs/intervals.md
    """
    pairs = list(zip(plan.groups, aggregates.groups, strict=True))
    choices = {group.group.label: choose_level(group, exact, plan, source) for group, exact in pairs if group.is_choice}
    plan = at_levels(plan, {label: found.numbers(LEVEL)[0] for label, found in choices.items()})
    groups = tuple(
        choices[group.group.label] if group.is_choice else _publish_group(group, exact, source)
        for group, exact in zip(plan.groups, aggregates.groups, strict=True)
    )
    return Noisy(groups, _bits(plan, groups, source))


def _publish_group(plan: GroupPlan, exact: GroupAggregates, source: Source) -> NoisyGroup:
    places, counts = _released(plan, exact, source)
    columns: list[tuple[str, NoisyValues]] = []
    for measured in plan.measured:
        if measured.name == plan.counted:
            columns.append((measured.name, counts))
            continue
        values: Answers = np.asarray(exact.columns[measured.name])[places]
        values = values if measured.level is None else values[:, measured.level]
        noisy = measured.mechanism.release(values, source)
        columns.append((measured.name, _values(noisy)))
    columns += [(one.name, _chosen(one, exact.held[one.name], places, source)) for one in plan.chosen]
    return NoisyGroup(tuple(exact.keys[place] for place in places), tuple(columns))


def _chosen(one: Chosen, held: HeldBuckets, places: list[int], source: Source) -> NoisyValues:
    """Return what was chosen in every cell: three buckets per level, or the commonest one."""
    return tuple(_choose(one, *held.of(place), source) for place in places)


def _choose(one: Chosen, buckets: Answers, weights: Answers, source: Source) -> tuple[int, ...]:
    if isinstance(one.mechanism, Quantiles):
        return tuple(int(place) for place in one.mechanism.release(buckets, weights, source).ravel())
    scores = np.zeros(one.quantity.arguments[0].facts.span, dtype=np.int64)
    scores[buckets] = weights
    return (one.mechanism.release(scores, source),)


def _values(noisy: Answers) -> NoisyValues:
    """Return what was released as integers: one per cell, or a histogram per cell."""
    if noisy.ndim == 1:
        return tuple(noisy.tolist())
    return tuple(tuple(int(value) for value in row) for row in noisy)


def _released(plan: GroupPlan, exact: GroupAggregates, source: Source) -> tuple[list[int], tuple[int, ...]]:
    """Return where the cells to be shown are: all, if their keys are public, else those selected, by their keys.

    Where a noisy number of people selects them, these numbers are returned with them.
    """
    if plan.selection is None:
        return list(range(len(exact.keys))), ()
    # the engine's order, and how many cells lay between two, are secret: the keys' own order is not
    if isinstance(plan.selection, OptimalSelection):
        kept = plan.selection.release(exact.units, source)
        return sorted((int(place) for place in kept), key=lambda place: exact.keys[place]), ()
    selected = plan.selection.release(exact.columns[plan.counted or ""], source)
    found = dict(zip(map(int, selected.places), map(int, selected.counts), strict=True))
    places = sorted(found, key=lambda place: exact.keys[place])
    return places, tuple(found[place] for place in places)


def _bits(plan: Plan, groups: tuple[NoisyGroup, ...], source: Source) -> int:
    """Return how many bits noise of this shape took in a second draw, which nobody sees.

    The bits of the noise itself are not told: a sample far out takes more of them, so their number says something
    of the noise; and a selection of keys takes some for each key that the data holds.
    """
    metered = Metered(source)
    for group, noisy in zip(plan.groups, groups, strict=True):
        for measured in group.measured:
            measured.mechanism.release(np.zeros(len(noisy.numbers(measured.name)), dtype=np.int64), metered)
        nothing = np.zeros(0, dtype=np.int64)
        for one in group.chosen:
            for _ in noisy.keys:
                _choose(one, nothing, nothing, metered)
    return metered.bits


def needed_bits(plan: Plan, noisy: Noisy) -> int:
    """Return how many bits of entropy noise of this shape has, beside the `bits` that were read for it."""
    needed = 0.0
    for group, released in zip(resolved(plan, noisy.groups).groups, noisy.groups, strict=True):
        for measured in group.measured:
            noise = measured.mechanism
            law = DiscreteLaplace(noise.scale) if isinstance(noise, Laplace) else DiscreteGaussian(noise.sigma_squared)
            needed += len(released.numbers(measured.name)) * entropy_bits(law)
        needed += sum(
            log2(one.quantity.arguments[0].facts.span) * len(released.numbers(one.name)) for one in group.chosen
        )  # a choice has no more than that
    return ceil(needed)
