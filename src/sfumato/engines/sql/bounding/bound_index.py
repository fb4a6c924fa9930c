"""At which bounds the rows of the copy count, by its hidden columns: where a question leaves no row of a person out.

Proof: proofs/chosen_caps.md, 5
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from sfumato.engines.sql.names import LEVEL, first_bound_column, last_bound_column, level_name, running_total_column
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import RelNode, ScanNode
from sfumato.language.scalar import Operator, Scalar, column
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.bounding.candidates import (
    MIN_SELECTABLE_CONTRIBUTION,
    ContributionBound,
    candidate_thresholds,
)
from sfumato.planning.plan import GroupPlan
from sfumato.query.functions import Aggregation
from sfumato.query.types import Type


@dataclass(frozen=True, slots=True)
class BoundIndexColumns:
    """Names of the columns that say where a row lies among the bounds of a cut."""

    first: str
    """The first bound at which the row counts."""
    last: str
    """The first bound at which all of its value counts; unused where rows count as a whole."""
    before: str
    """What its person has before it; unused where rows count as a whole, and a bound is chosen."""


@dataclass(frozen=True, slots=True)
class WithPlaces:
    """The rows of a group with columns that the copy holds beside them, by the names that they get."""

    rows: RelNode
    columns: Mapping[str, Scalar]


def places_of(plan: GroupPlan) -> dict[Quantity, tuple[ContributionBound, BoundIndexColumns]]:
    """Return what fills the bounds and totals of a group, once for all that is filled alike, and its columns."""
    filled = {
        measurement.bound.weight: measurement.bound for measurement in plan.measured if measurement.bound is not None
    }
    return {
        weight: (cut, BoundIndexColumns(f"first{at}", f"last{at}", f"before{at}"))
        for at, (weight, cut) in enumerate(filled.items())
    }


def stored_of(plan: GroupPlan) -> tuple[WithPlaces, list[tuple[ContributionBound, BoundIndexColumns]]]:
    """Return the rows with the places that the copy has, and what has to be filled by the rows themselves."""
    found, filled = WithPlaces(plan.group.rows, {}), []
    for cut, placed in places_of(plan).values():
        one = stored_bound_index(found.rows, cut, placed)
        if one is None:
            filled.append((cut, placed))
        else:
            found = WithPlaces(one.rows, {**found.columns, **one.columns})
    return found, filled


def stored_names(plan: GroupPlan) -> list[str] | None:
    """Return for all that a group measures the column of the copy with the first places of rows; None if one has none.

    The rows of the group are those of a table of the copy then, all of them.
    """
    found = []
    for measurement in plan.measured:
        placed = BoundIndexColumns("first", "last", "before")
        here = (
            None
            if measurement.candidates is None
            else stored_bound_index(plan.group.rows, measurement.candidates, placed)
        )
        if here is None or not isinstance(name := here.columns[placed.first].constant, tuple):
            return None
        found.append(str(name[1]))
    return found


def stored_bound_index(flow: RelNode, cut: ContributionBound, placed: BoundIndexColumns) -> WithPlaces | None:
    """Return rows with the places that the copy has for a cut; None where it has none, or rows were left out."""
    if (
        cut.bounds_groups
        or not isinstance(flow, ScanNode)
        or flow.max_rows_per_unit is None
        or cut.weight.where is not None
    ):
        return None
    found = dict(_hidden(flow, cut, placed))
    if not found:
        return None
    known = {name for name, _, _ in flow.columns}
    added = tuple((stored, stored, facts) for stored, facts in found.values() if stored not in known)
    rows = replace(flow, columns=(*flow.columns, *added))
    return WithPlaces(rows, {name: column(flow.label, stored, facts) for name, (stored, facts) in found.items()})


def _hidden(
    read: ScanNode, cut: ContributionBound, placed: BoundIndexColumns
) -> Iterator[tuple[str, tuple[str, Facts]]]:
    """Give the hidden columns of a cut, as the copy calls them; nothing unless its bounds are those of the copy."""
    most, arguments = read.max_rows_per_unit or 1, cut.weight.arguments
    if cut.bounds_rows:
        name = LEVEL if not arguments else _column(read, arguments[0], read.levelled, level_name)
        if (
            name is not None
            and read.rows_chosen
            and most >= MIN_SELECTABLE_CONTRIBUTION
            and cut.thresholds == candidate_thresholds(most)
        ):
            yield placed.first, (name, _whole(len(cut.thresholds)))
        return
    if cut.weight.function is not Aggregation.SUM:
        return
    (argument,) = arguments
    before = _column(read, argument, read.summed, running_total_column)
    reach = most * argument.facts.high
    if before is None or (cut.is_selected and cut.thresholds != candidate_thresholds(reach)):
        return
    yield placed.before, (before, _whole(reach))
    if cut.is_selected:
        for name, of in ((placed.first, first_bound_column), (placed.last, last_bound_column)):
            yield name, (str(_column(read, argument, read.summed, of)), _whole(len(cut.thresholds)))


def _column(read: ScanNode, argument: Scalar, beside: tuple[str, ...], name: Callable[[str], str]) -> str | None:
    """Return the hidden column beside the column that an argument is, if it is one that has it."""
    if argument.operator is not Operator.COLUMN or not isinstance(argument.constant, tuple):
        return None
    label, known = (str(part) for part in argument.constant)
    stored, facts = next(((stored, facts) for above, stored, facts in read.columns if above == known), ("", None))
    if facts is None or label != read.label or stored not in beside:
        return None
    # its step may be another one: only integers are stored
    return name(stored) if (facts.low, facts.high) == (argument.facts.low, argument.facts.high) else None


def _whole(high: int) -> Facts:
    return Facts(Type.INTEGER, Kind.INTEGER, low=0, high=high)
