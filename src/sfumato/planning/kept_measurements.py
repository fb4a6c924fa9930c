"""A plan over measurements that are kept: a question that asks for no more accuracy than they have is free.

Proof: proofs/measurement_identity.md, (5)
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from sfumato.mechanisms.key_rounds import KeyRounds
from sfumato.mechanisms.optimal_selection import OptimalSelection
from sfumato.mechanisms.renyi_selection import RenyiSelection
from sfumato.mechanisms.spelled_list import SpelledList
from sfumato.mechanisms.top_list import TopList
from sfumato.planning.accuracy_target import CONFIDENCE
from sfumato.planning.measurement_identity import MeasuredGroup, MeasurementIdentity
from sfumato.planning.notes.plan_notes import with_notes
from sfumato.planning.plan import GroupPlan, KeySelection, Plan, PlannedMeasurement, PlannedSelection

_SELECTIONS_WITHOUT_NUMBERS = (OptimalSelection, RenyiSelection, KeyRounds)
GroupSelection = KeySelection | None


def over_stored_measurements(
    asked: Plan,
    measured: MeasurementIdentity,
    kept: Plan,
    known: MeasurementIdentity,
    *,
    at_any_accuracy: bool = False,
) -> tuple[Plan, MeasurementIdentity] | None:
    """Return the plan with the noise of kept measurements, and where these are in it.

    None where the kept plan lacks a measurement that was asked for, or has more noise on it, unless
    `at_any_accuracy`.
    """
    if measured.cells != known.cells:
        return None
    groups: dict[int, GroupPlan] = {}
    places: dict[int, MeasuredGroup] = {}
    waiting = list(measured.groups)
    for at, group in enumerate(known.groups):
        for own in waiting:
            found = _over_group(asked.groups[own.place], own, kept.groups[group.place], group, at_any_accuracy)
            if found is not None:
                groups[own.place], columns = found
                places[at] = replace(own, columns=columns, quantities=group.quantities)
                waiting.remove(own)
                break
        else:
            return None
    ordered = tuple(groups[place] for place in sorted(groups))
    plan = with_notes(replace(asked, groups=ordered, loss=kept.loss, event=kept.event))
    where = tuple(places[at] for at in range(len(known.groups)))
    return plan, MeasurementIdentity(known.text, where, known.first_text, known.signatures)


def _over_group(
    plan: GroupPlan, own: MeasuredGroup, kept: GroupPlan, known: MeasuredGroup, at_any_accuracy: bool
) -> tuple[GroupPlan, tuple[str, ...]] | None:
    if own.cells != known.cells or not (at_any_accuracy or _shows_as_much(plan.selection, kept.selection)):
        return None
    if (plan.selecting_measurement is None) != (kept.selecting_measurement is None):
        return None
    kept_names = dict(zip(known.quantities, known.columns, strict=True))
    if len(kept_names) < len(known.quantities) or not set(own.quantities) <= set(kept_names):
        return None  # two measurements of one quantity are not told apart here
    names = {kept_names[quantity]: name for quantity, name in zip(own.quantities, own.columns, strict=True)}
    if kept.selecting_measurement is not None and names.get(kept.selecting_measurement) != plan.selecting_measurement:
        return None
    outputs: Mapping[str, PlannedMeasurement | PlannedSelection] = {output.name: output for output in kept.all_outputs}
    by_name = {name: outputs[other] for other, name in names.items()}
    measured = []
    for measurement in plan.measured:
        other = by_name[measurement.name]
        if not isinstance(other, PlannedMeasurement) or not (at_any_accuracy or _is_as_exact(measurement, other)):
            return None
        measured.append(replace(measurement, mechanism=other.mechanism))
    chosen = []
    for choice in plan.chosen:
        same = by_name[choice.name]
        if not isinstance(same, PlannedSelection) or type(same.mechanism) is not type(choice.mechanism):
            return None
        if not at_any_accuracy and not _is_as_sure(choice, same):
            return None
        chosen.append(replace(choice, mechanism=same.mechanism))
    found = replace(plan, selection=kept.selection, measured=tuple(measured), chosen=tuple(chosen))
    return found, tuple(names.get(name, "") for name in known.columns)


def _is_as_exact(asked: PlannedMeasurement, kept: PlannedMeasurement) -> bool:
    """Whether kept numbers have no more noise: the same law with the same scale or a smaller one, or less at 95 %."""
    if asked.mechanism == kept.mechanism:
        return True
    return kept.mechanism.margin(CONFIDENCE) <= asked.mechanism.margin(CONFIDENCE)


def _is_as_sure(asked: PlannedSelection, kept: PlannedSelection) -> bool:
    """Whether something was chosen in the same way, for the same price or more."""
    mechanism = kept.mechanism
    if type(mechanism) is not type(asked.mechanism):
        return False
    paid, wanted = _epsilon(kept), _epsilon(asked)
    if paid is None or wanted is None:
        return mechanism == asked.mechanism
    return paid >= wanted and replace(mechanism, epsilon=wanted) == asked.mechanism


def _epsilon(choice: PlannedSelection) -> Fraction | None:
    found = getattr(choice.mechanism, "epsilon", None)
    return found if isinstance(found, Fraction) else None


def _shows_as_much(asked: GroupSelection, kept: GroupSelection) -> bool:
    """Whether kept keys were selected so that groups of no more people are shown."""
    if asked == kept:
        return True
    if asked is None or kept is None:
        return False
    alike = isinstance(asked, _SELECTIONS_WITHOUT_NUMBERS) and isinstance(kept, _SELECTIONS_WITHOUT_NUMBERS)
    if type(asked) is not type(kept) and not alike:
        return False
    if isinstance(asked, TopList | SpelledList) or isinstance(kept, TopList | SpelledList):
        return False  # a list of other cells
    return kept.units_for(CONFIDENCE) <= asked.units_for(CONFIDENCE)
