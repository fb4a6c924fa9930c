"""Exact aggregates get their noise here, and nothing exact goes further."""

from collections.abc import Mapping
from dataclasses import replace
from math import ceil

import numpy as np

from sfumato.engines.aggregates import Aggregates, GroupAggregates
from sfumato.mechanisms.answers import Answers, integer_answers
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.key_rounds import KeyRounds
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.max_norm import MaxNorm, MaxNormPart
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.mechanisms.renyi_selection import RenyiSelection
from sfumato.mechanisms.spelled_list import SpelledList
from sfumato.planning.bounding.selection import at_bounds
from sfumato.planning.plan import GroupPlan, Plan, PlannedMeasurement, PlannedSelection
from sfumato.randomness.discrete_gaussian import DiscreteGaussian
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.entropy import entropy_bits
from sfumato.randomness.source import Metered, Source
from sfumato.release.bounding.selection import at_selected_bounds, select_bounds, selected_indices
from sfumato.release.cell_selections import cell_choice
from sfumato.release.noisy import NoisyGroup, NoisyResult, NoisyValues

_METERED_CELLS = 32
"""Number of cells whose selections are drawn a second time, to tell how many bits they take."""


def publish(
    plan: Plan, aggregates: Aggregates, source: Source, selected: Mapping[str, NoisyGroup] | None = None
) -> NoisyResult:
    """Add noise to exact aggregates and select keys; return only noisy values.

    `selected` is what `select_bounds` returned; without it, all candidate bounds were measured, and it is called here.

    Theorem: the law of the outcome is that of the plan's event: levels that are chosen, then a selection of keys, then
    one mechanism per measurement on the vector of the selected cells.  Proof: proofs/intervals.md
    """
    if not selected:
        exact_groups = {group.group.label: exact for group, exact in zip(plan.groups, aggregates.groups, strict=True)}
        selected = select_bounds(plan, exact_groups, source)
    plan = at_bounds(plan, selected_indices(selected))
    groups = tuple(
        selected[group.group.label] if group.is_bound_selection else _publish_group(group, exact, source)
        for group, exact in zip(plan.groups, aggregates.groups, strict=True)
    )
    return NoisyResult(groups, _bits(plan, groups, source))


def _publish_group(plan: GroupPlan, exact: GroupAggregates, source: Source) -> NoisyGroup:
    if isinstance(plan.selection, SpelledList):
        exact, places, counts = _spelled(plan.selection, plan.selecting_measurement or "", exact, source)
    else:
        places, counts = _released(plan, exact, source)
    everywhere = plan.selection is None
    columns: list[tuple[str, NoisyValues]] = []
    shared: dict[str, Answers] = {}
    for measured in plan.measured:
        mechanism = measured.mechanism
        if measured.name == plan.selecting_measurement:
            columns.append((measured.name, counts))
            continue
        if isinstance(mechanism, MaxNormPart):
            if not shared:
                shared = _together(plan.joint_noise_measurements, exact, places, mechanism.joint, source)
            columns.append((measured.name, _values(shared[measured.name])))
            continue
        values: Answers = np.asarray(exact.columns[measured.name])
        values = values if everywhere else values[places]
        if measured.selected is not None and values.ndim > 1:  # all levels were measured
            values = values[:, measured.selected]
        noisy = mechanism.release(values, source)
        columns.append((measured.name, _values(noisy)))
    columns += [
        (selection.name, cell_choice(selection).release(exact.held[selection.name], places, source))
        for selection in plan.chosen
    ]
    keys = tuple(exact.keys) if everywhere else tuple(exact.keys[index] for index in places)
    return NoisyGroup(keys, tuple(columns))


def _spelled(
    selection: SpelledList, counted: str, exact: GroupAggregates, source: Source
) -> tuple[GroupAggregates, list[int], tuple[int, ...]]:
    """Return the cells with those that no person has and that were spelled, where the shown are, and their numbers."""
    texts = [str(key) for (key,) in exact.keys]
    shown = selection.release(texts, exact.columns[counted], source)
    known = {text: index for index, text in enumerate(texts)}
    unheard = [text for text, _ in shown if text not in known]
    known |= {text: len(texts) + more for more, text in enumerate(unheard)}
    columns = {
        name: np.concatenate([np.asarray(column), np.zeros((len(unheard), *np.shape(column)[1:]), dtype=np.int64)])
        for name, column in exact.columns.items()
    }
    whole = replace(exact, keys=(*exact.keys, *((text,) for text in unheard)), columns=columns)
    return whole, [known[text] for text, _ in shown], tuple(number for _, number in shown)


def _together(
    together: tuple[PlannedMeasurement, ...], exact: GroupAggregates, places: list[int], joint: MaxNorm, source: Source
) -> dict[str, Answers]:
    """Return the noisy values of what shares its noise, by name."""
    columns: list[Answers] = [np.asarray(exact.columns[one.name])[places] for one in together]
    noisy = joint.release(np.stack([integer_answers(column) for column in columns], axis=1), source)
    return {one.name: noisy[:, index] for index, one in enumerate(together)}


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
    if isinstance(plan.selection, OptimalSelection | RenyiSelection | KeyRounds):
        kept = plan.selection.release(exact.units, source)  # of rounds the first one: `add_later_rounds` reads again
        return sorted((int(place) for place in kept), key=lambda place: exact.keys[place]), ()
    if isinstance(plan.selection, SpelledList):
        raise AssertionError("texts are spelled, not selected by their places")
    values: Answers = np.asarray(exact.columns[plan.selecting_measurement or ""])
    if values.ndim > 1:  # all levels were measured
        (level,) = (
            measurement.selected for measurement in plan.measured if measurement.name == plan.selecting_measurement
        )
        values = values[:, level]
    selected = plan.selection.release(values, source)
    found = dict(zip(map(int, selected.places), map(int, selected.counts), strict=True))
    places = sorted(found, key=lambda place: exact.keys[place])
    return places, tuple(found[index] for index in places)


def _bits(plan: Plan, groups: tuple[NoisyGroup, ...], source: Source) -> int:
    """Return how many bits noise of this shape took in a second draw, which is never shown.

    The bits of the noise itself are not told: a sample far out takes more of them, so their number says something
    of the noise; and a selection of keys takes some for each key that the data holds.
    """
    metered, bits = Metered(source), 0
    for group, noisy in zip(plan.groups, groups, strict=True):
        for measured in group.measured:
            mechanism, numbers = measured.mechanism, len(noisy.numbers(measured.name))
            if not isinstance(mechanism, MaxNormPart):
                mechanism.release(np.zeros(numbers, dtype=np.int64), metered)
            elif mechanism.place == 0:
                mechanism.joint.release(
                    np.zeros((numbers, len(group.joint_noise_measurements)), dtype=np.int64), metered
                )
        for selection in group.chosen:
            bits += _selection_bits(selection, len(noisy.keys), source)
    return bits + metered.bits


def _selection_bits(selection: PlannedSelection, cells: int, source: Source) -> int:
    """Return the bits of a selection in `cells` empty cells, from a few of them: all cells take alike."""
    metered, tried = Metered(source), min(cells, _METERED_CELLS)
    cell_choice(selection).release(None, range(tried), metered)
    return -(-metered.bits * cells // max(tried, 1))


def needed_bits(plan: Plan, noisy: NoisyResult) -> int:
    """Return how many bits of entropy noise of this shape has, beside the `bits` that were read for it."""
    needed = 0.0
    for group, released in zip(at_selected_bounds(plan, noisy.groups).groups, noisy.groups, strict=True):
        for measured in group.measured:
            needed += len(released.numbers(measured.name)) * entropy_of(measured.mechanism)
        chosen = ((cell_choice(selection), released.numbers(selection.name)) for selection in group.chosen)
        needed += sum(choice.entropy(numbers, len(released.keys)) for choice, numbers in chosen)
    return ceil(needed)


def entropy_of(noise: Laplace | Gaussian | MaxNormPart) -> float:
    """Return how many bits of entropy one noisy number has; of noise that is shared, its part of it."""
    match noise:
        case MaxNormPart(joint, _):
            return entropy_bits(joint.law) / len(joint.sides)
        case Laplace():
            return entropy_bits(DiscreteLaplace(noise.scale))
        case Gaussian():
            return entropy_bits(DiscreteGaussian(noise.sigma_squared))
