"""Noisy numbers in the canonical order of their measurements, and back in the order of any plan that measures the same.

A ledger keeps the canonical order, so that another question about the same measurements can be computed from them.
"""

from collections.abc import Sequence
from typing import TypeVar

from sfumato.analysis.private_query import KeyValue
from sfumato.errors import MalformedEvent
from sfumato.mechanisms.spelled_list import SpelledList
from sfumato.planning.measurement_identity import MeasurementIdentity
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.release.noisy import NoisyGroup, NoisyResult, NoisyValues

CellKeys = tuple[tuple[KeyValue, ...], ...]
Picked = TypeVar("Picked", NoisyValues, CellKeys)


def in_measured_order(noisy: NoisyResult, identity: MeasurementIdentity) -> NoisyResult:
    """Return the noisy numbers of a plan in the canonical order of what it measures."""
    groups = []
    for measured in identity.groups:
        group = noisy.groups[measured.place]
        keys = _in_order(group.keys, measured.keys)
        columns = [(f"m{at}", group.column(name)) for at, name in enumerate(measured.columns, 1)]
        # where a bound is selected, the index of the selected one stands beside the measurement
        columns += [(name, values) for name, values in group.columns if name not in measured.columns]
        groups.append(NoisyGroup(keys, tuple(columns)))
    return NoisyResult(tuple(groups), noisy.bits)


def in_plan_order(noisy: NoisyResult, identity: MeasurementIdentity, plan: Plan) -> NoisyResult:
    """Return noisy numbers in canonical order as `publish` would return them for this plan, which measures the same."""
    names = [
        [name for name, _ in group.columns[: len(one.columns)]]
        for group, one in zip(noisy.groups, identity.groups, strict=False)
    ]
    if len(noisy.groups) != len(identity.groups) or names != [
        [f"m{at}" for at, _ in enumerate(group.columns, 1)] for group in identity.groups
    ]:
        raise MalformedEvent(
            "A stored answer does not fit its question.",
            "It holds other measurements than the question that it is stored for.",
            "Restore the ledger from a copy; nothing was released.",
        )
    placed: dict[int, NoisyGroup] = {}
    for measured, group in zip(identity.groups, noisy.groups, strict=True):
        back = {at: index for index, at in enumerate(measured.keys)}
        keys = _in_order(group.keys, tuple(back[at] for at in range(len(back))))
        own = len(measured.columns)
        values = {name: column for name, (_, column) in zip(measured.columns, group.columns[:own], strict=True)}
        columns = [(output.name, values[output.name]) for output in plan.groups[measured.place].all_outputs]
        order = _order(plan.groups[measured.place], keys)
        placed[measured.place] = NoisyGroup(
            _picked(keys, order),
            tuple((name, _picked(column, order)) for name, column in (*columns, *group.columns[own:])),
        )
    return NoisyResult(tuple(placed[index] for index in sorted(placed)), noisy.bits)


def _in_order(keys: CellKeys, places: tuple[int, ...]) -> CellKeys:
    """Return the keys of every cell in this order."""
    if places == tuple(range(len(places))):
        return keys
    return tuple(tuple(cell[at] for at in places) for cell in keys)


def _order(plan: GroupPlan, keys: CellKeys) -> list[int]:
    """Return the places of the cells in the order in which `publish` gives them."""
    places = list(range(len(keys)))
    if isinstance(plan.selection, SpelledList):
        return places  # one text is the only key, and the list has its own order
    if plan.selection is not None:
        return sorted(places, key=lambda place: keys[place])
    if not plan.group.public_keys:
        return places
    cells = plan.group.all_cells()
    if cells == keys:
        return places
    known = {cell: at for at, cell in enumerate(cells)}
    return sorted(places, key=lambda place: known.get(keys[place], place))


def _picked(values: Picked, order: Sequence[int]) -> Picked:
    if order == list(range(len(values))):
        return values
    return tuple(values[at] for at in order)  # type: ignore[return-value]
