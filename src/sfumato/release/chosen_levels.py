"""Levels that an answer chooses: noisy people say which level errs least, and what is measured there gets its noise.

Theorem: the level is computed from noisy numbers alone, and at every level the noise on what is measured has the same
loss: so all of it together costs what the plan says.  Proof: proofs/chosen_caps.md
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, log, sqrt

import numpy as np

from sfumato.engines.aggregates import GroupAggregates
from sfumato.mechanisms.laplace import Laplace
from sfumato.planning.best_margins import mean_variance
from sfumato.planning.cut_off import CutOff
from sfumato.planning.levels import PEOPLE, histogram_of, unit_of
from sfumato.planning.missing import Missing, Place, missing
from sfumato.planning.plan import GroupPlan, Measured, Plan
from sfumato.query.functions import Aggregation
from sfumato.randomness.source import Source
from sfumato.release.noise_law import law_of, quantile_of_sum
from sfumato.release.noisy import Noisy, NoisyGroup

LEVEL = "level"
"""The column of a choice that holds the place of the level."""
_DOUBT, _FARTHER = 0.5, 1.0
"""How many deviations of noise are taken off before people count, and how many more where they lie farther above."""
_UNKNOWN = 32
"""So many cells are expected where keys are selected."""
_OF_MEANS = 32
"""Rows that are cut are taken to differ from the others by this part of the range, in an average."""


def choose_level(group: GroupPlan, exact: GroupAggregates, plan: Plan, source: Source) -> NoisyGroup:
    """Return the noisy people by what they have, and the place of the level that they suggest."""
    (one,) = group.measured
    amounts = () if one.levels is None else one.levels.amounts
    totals = [int(total) for total in np.asarray(exact.columns[one.name])[0]]
    people = _noise_of(one).release(histogram_of(totals, amounts), source)
    noisy = tuple(int(value) for value in people)
    return NoisyGroup(((),), ((one.name, (noisy,)), (LEVEL, (_best(noisy, one, plan),))))


def resolved(plan: Plan, groups: Sequence[NoisyGroup]) -> Plan:
    """Return the plan at the levels that were chosen: every measurement has the noise that it got."""
    pairs = zip(plan.groups, groups, strict=True)
    levels = {group.group.label: found.numbers(LEVEL)[0] for group, found in pairs if group.is_choice}
    return at_levels(plan, levels)


def at_levels(plan: Plan, levels: Mapping[str, int]) -> Plan:
    """Return the plan at these levels, by the labels of the choices."""
    if not levels:
        return plan
    return replace(plan, groups=tuple(_at_levels(group, levels) for group in plan.groups))


def _at_levels(group: GroupPlan, levels: Mapping[str, int]) -> GroupPlan:
    if group.is_choice:
        return group
    return replace(group, measured=tuple(_at_level(one, levels) for one in group.measured))


def _at_level(one: Measured, levels: Mapping[str, int]) -> Measured:
    if one.levels is None:
        return one
    level = levels[one.levels.choice]
    moved = one.levels.sensitivities[level]
    noise = _noise_of(one)
    # the same loss at every level: the noise is as many times larger as one person moves it farther
    scale = noise.scale * moved.l1 / noise.sensitivity
    return replace(one, sensitivity=moved, mechanism=Laplace(moved.l1, scale, moved.neighbours), level=level)


def _best(people: Sequence[int], one: Measured, plan: Plan) -> int:
    """Return the last level that is worth its noise, from below: enough people seem to have more than the one before.

    A level more costs each number its noise, and saves what the people above have between the levels, spread over the
    cells; so it is worth it where people times cells' shares exceed noise per unit.
    """
    unit = unit_of(() if one.levels is None else one.levels.amounts)
    noise, bias = _noise(one, plan), 0.0
    for group in plan.groups:
        cells = group.group.cells if group.group.public_keys else _UNKNOWN
        for each in group.measured:
            if (group.group.label, each.name) in noise:
                means = each.levels is not None and each.levels.means
                bias += 1 / (max(cells, 1) * (_OF_MEANS if means else 1))
    needed = sum(noise.values()) / bias if bias else 0.0
    deviation = _deviation(one) / unit
    above = np.concatenate([[0.0], np.cumsum([value / unit for value in people])])
    for level in range(1, len(people)):
        surely = max(
            above[level + wide] - above[level] - (_DOUBT + _FARTHER * log(wide)) * sqrt(wide) * deviation
            for wide in range(1, len(people) - level + 1)
        )
        if surely < needed:
            return level - 1
    return len(people) - 1


def _noise(one: Measured, plan: Plan) -> dict[Place, float]:
    """Return for all that is measured at a level its noise per unit of the level; of margins, after they agree."""
    found = {
        (group.group.label, each.name): _per_unit(each)
        for group in plan.groups
        for each in group.measured
        if not group.is_choice and _is_served(each, one)
    }
    for table in plan.tables:
        places = [(margin.label, margin.name) for margin in table.margins]
        if all(place in found for place in places):
            shares = [1 / found[place] for place in places]
            agreed = [sqrt(mean_variance(table, margin, shares)) for margin in table.margins]
            found |= dict(zip(places, agreed, strict=True))
    return found


def _is_served(each: Measured, one: Measured) -> bool:
    return each.levels is not None and one.levels is not None and each.levels.choice == one.levels.choice


def _per_unit(one: Measured) -> float:
    """Return the expected noise for each unit of the level, in units of what a row or a value adds."""
    return float(_noise_of(one).scale / one.sensitivity.linf)


def _deviation(one: Measured) -> float:
    return sqrt(law_of(_noise_of(one)).moments[0])


def _noise_of(one: Measured) -> Laplace:
    """Return the noise of what has levels, which is of this kind: the planner takes no other there."""
    if not isinstance(one.mechanism, Laplace):
        raise AssertionError("a level that is chosen has Laplace noise")
    return one.mechanism


def missing_with_levels(plan: Plan, noisy: Noisy, losses: CutOff | None, tail: Fraction) -> dict[Place, Missing]:
    """Return what may be missing of every measurement, also for want of what lies above the level; `plan` is resolved.

    Half of the tail is for what the policy's own caps cut off.  Proof: proofs/chosen_caps.md, 4
    """
    pairs = zip(plan.groups, noisy.groups, strict=True)
    choices = {group.group.label: (group, found) for group, found in pairs if group.is_choice}
    found = missing(plan, losses, tail / 2 if choices else tail)
    for group in plan.groups:
        for one in group.measured:
            if one.levels is None or one.level is None:
                continue
            place = group.group.label, one.name
            down, up = found[place]
            more = _beyond(one, *choices[one.levels.choice], tail / 2)
            low, high = _values(one)
            found[place] = (
                None if down is None else down + more * max(-low, 0),
                None if up is None else up + more * max(high, 0),
            )
    return found


def _beyond(one: Measured, group: GroupPlan, found: NoisyGroup, tail: Fraction) -> int:
    """Return what lies above the level of a measurement at most, but for this tail."""
    (choice,) = group.measured
    amounts, level = () if one.levels is None else one.levels.amounts, one.level or 0
    if level == len(amounts) - 1:
        return 0
    unit = unit_of(amounts)
    weights = np.array([max(amount - amounts[level], 0) / unit for amount in amounts])
    variance, fourth = law_of(_noise_of(choice)).moments
    reach = quantile_of_sum(
        np.array([(weights**2).sum() * variance]),
        np.array([(weights**4).sum() * fourth]),
        np.array([weights.max()]),
        min(float(2 * tail), 1.0),  # one side only
    )
    people = np.array([float(value) for value in found.numbers(PEOPLE)])
    return max(0, ceil(float((weights * people).sum() + reach[0])))


def _values(one: Measured) -> tuple[int, int]:
    """Return what each unit above the level can add."""
    if one.quantity.function is Aggregation.COUNT or (one.levels is not None and not one.levels.by_rows):
        return (0, 1)
    facts = one.quantity.arguments[0].facts
    return facts.low, facts.high
