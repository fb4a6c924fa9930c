"""The shape of what is measured: all that decides its noise, with the literals of the text apart.

Two questions of one shape at one price have the same noise, so it is found once for both. Proof: proofs/planning.md, §6
"""

from dataclasses import replace

from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import InputNode
from sfumato.language.scalar import Scalar, literal
from sfumato.planning.measurements import Measurement, MeasurementSet
from sfumato.planning.plan import GroupPlan
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import CHOSEN, Aggregation
from sfumato.query.types import Type

_NO_ROWS = InputNode("", (), ())
_NO_UNIT = literal(None, Facts(Type.NULL, Kind.INTEGER))
_NO_ARGUMENTS: dict[Aggregation, Aggregate[Scalar]] = {function: Aggregate(function) for function in Aggregation}


def shape_of(need: MeasurementSet) -> MeasurementSet:
    """Return what decides the noise of public cells: not rows, keys or columns, and of literals what follows from them.

    Texts that differ in literals alone share it, where they move everything as far. Proof: proofs/planning.md, §6
    """
    group = replace(need.group, rows=_NO_ROWS, unit=_NO_UNIT, keys=(), asked=(), combinations=None)
    return replace(need, group=group, measurements=tuple(map(_bare, need.measurements)), derived=())


def _bare(one: Measurement) -> Measurement:
    """Return a measurement of which its function alone is known; choices, and what has a bound, stay as they are."""
    if one.bound is not None or one.quantity.function in CHOSEN:
        return one
    return replace(one, quantity=_NO_ARGUMENTS[one.quantity.function])


def for_question(plan: GroupPlan, need: MeasurementSet) -> GroupPlan:
    """Return the noise of a shape as that of a question that has it."""
    quantities = {measurement.name: measurement.quantity for measurement in need.measurements}
    measured = tuple(replace(measurement, quantity=quantities[measurement.name]) for measurement in plan.measured)
    return replace(plan, group=need.group, measured=measured, derived=need.derived)
