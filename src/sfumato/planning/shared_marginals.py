"""Groups that count the same rows by different keys are margins of one table. What one says is used for all.

Totals then agree with what they are totals of, and every bar is shorter. Proof: proofs/one_table.md
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from typing import Any

from sfumato.analysis.private_query import Group, Key
from sfumato.language.facts import Kind
from sfumato.language.rel_nodes import noisy_tables
from sfumato.language.scalar import Scalar, address, column
from sfumato.planning.aggregates.average import AverageColumn
from sfumato.planning.aggregates.count import CountColumn
from sfumato.planning.aggregates.recipe import Quantity
from sfumato.planning.aggregates.sum import SumColumn
from sfumato.planning.measurements import Measurement, MeasurementSet
from sfumato.query.functions import SUMMING, Aggregation
from sfumato.query.rebuilding import rebuild_fields

MAX_TABLE_CELLS = 50_000
"""Maximum number of cells of a common table that is estimated as a whole, so that all its marginals add up."""
MAX_WEIGHT_PAIRS = 4_000_000
"""Maximum number of pairs of a shown and a measured cell whose weights are written out."""
MAX_MEASURED_CELLS = 1_000_000
"""Maximum number of measured cells of all marginals of a larger table, which is never written out."""


@dataclass(frozen=True, slots=True)
class MarginalMeasurement:
    """One measurement of one group, and which axis of the common table each of its keys is."""

    label: str
    name: str
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ContingencyTable:
    """The table whose margins were measured: how many cells each of its axes has, and whether its last is the rest."""

    sizes: tuple[int, ...]
    has_remainder: tuple[bool, ...]
    margins: tuple[MarginalMeasurement, ...]

    @property
    def is_large(self) -> bool:
        """Whether its marginals are estimated in closed form, one by one (proofs/one_table.md, (8))."""
        measured = sum(prod(self.sizes[axis] for axis in margin.axes) for margin in self.margins)
        return prod(self.sizes) > MAX_TABLE_CELLS or measured**2 > MAX_WEIGHT_PAIRS

    def folded(self, margin: MarginalMeasurement, axes: frozenset[int]) -> int:
        """Return how many cells of a margin are summed up for one cell of the axes."""
        return prod(self.sizes[axis] for axis in margin.axes if axis not in axes)


def subsets(axes: Sequence[int]) -> list[frozenset[int]]:
    """Return every set of these axes: each has a residual."""
    return [frozenset(some) for size in range(len(axes) + 1) for some in combinations(axes, size)]


@dataclass(frozen=True, slots=True)
class Unlabelled:
    """A group by what it counts, without the labels of its question."""

    rows: object
    keys: tuple[Scalar, ...]
    quantities: tuple[Quantity, ...]


def with_remainder_cells(groups: Sequence[Group], *, large: bool = False) -> tuple[Group, ...]:
    """Return the groups, with the rest measured too wherever others count the same rows by other keys.

    `large` says that tables of more than `MAX_TABLE_CELLS` cells count, too.
    """
    found = list(groups)
    for places in _groups_of_same_rows(groups):
        whole = [_with_all_rows(groups[index]) for index in places]
        few = prod(_sizes([groups[index] for index in places]).values()) <= MAX_TABLE_CELLS
        if few or (large and sum(group.cells for group in whole) <= MAX_MEASURED_CELLS):
            for place, group in zip(places, whole, strict=True):
                found[place] = group
    return tuple(found)


def has_large_table(groups: Sequence[Group]) -> bool:
    """Whether groups count the same rows by keys whose common table is too large to be estimated as a whole."""
    for places in _groups_of_same_rows(groups):
        whole = [_with_all_rows(groups[index]) for index in places]
        measured = sum(group.cells for group in whole)
        cells = prod(_sizes([groups[index] for index in places]).values())
        if measured <= MAX_MEASURED_CELLS and (cells > MAX_TABLE_CELLS or measured**2 > MAX_WEIGHT_PAIRS):
            return True
    return False


def _groups_of_same_rows(groups: Sequence[Group]) -> list[list[int]]:
    """Return the places of groups that count the same rows by different keys, for each kind of rows."""
    if len(groups) < 2:
        return []
    alike: dict[object, list[int]] = {}
    for index, group in enumerate(groups):
        if adds_up_by_cells(group):
            alike.setdefault(unlabelled(group, ()).rows, []).append(index)
    return [places for places in alike.values() if len({unlabelled(groups[index], ()).keys for index in places}) > 1]


def _with_all_rows(group: Group) -> Group:
    """Return the group with its rests, which are cells that a person may be in, too."""
    return with_remainder(group, tuple(map(with_rest, group.keys)))


def with_remainder(group: Group, keys: tuple[Key, ...]) -> Group:
    """Return the group by keys of which some have a remainder: one more cell that a person may be in."""
    whole = replace(group, keys=keys)
    touched = min(group.contribution.rows, max(1, whole.cells))
    return replace(whole, contribution=replace(group.contribution, groups=touched))


def common_tables(needs: Sequence[MeasurementSet], *, large: bool = False) -> tuple[ContingencyTable, ...]:
    """Return the common table of each quantity that several groups measure by different keys.

    `large` says that tables count, too, that are too large to be estimated as a whole.
    """
    if len(needs) < 2:
        return ()
    described = {
        index: unlabelled(need.group, tuple(measurement.quantity for measurement in need.measurements))
        for index, need in enumerate(needs)
        if adds_up_by_cells(need.group)
    }
    found = []
    curved = {place: _curved(needs[place]) for place in described}
    for rows in dict.fromkeys(one.rows for one in described.values()):
        places = [place for place, one in described.items() if one.rows == rows]
        sizes = _sizes([needs[index].group for index in places])
        axes = {key: axis for axis, key in enumerate(sizes)}
        pairs = [pair for index in places for pair in zip(described[index].keys, needs[index].group.keys, strict=True)]
        rests = {scalar: key.has_remainder for scalar, key in pairs}
        for quantity in dict.fromkeys(q for index in places for q in described[index].quantities if _adds_up(q)):
            members = [
                (
                    index,
                    MarginalMeasurement(
                        needs[index].group.label, measurement.name, tuple(axes[key] for key in described[index].keys)
                    ),
                )
                for index in places
                for measurement, same in zip(needs[index].measurements, described[index].quantities, strict=True)
                if same == quantity
                and measurement.name not in curved[index]
                and _is_cut_alike(measurement, needs[index])
            ]
            if len({frozenset(margin.axes) for _, margin in members}) < 2:
                continue
            table = ContingencyTable(
                tuple(sizes.values()),
                tuple(rests[key] for key in sizes),
                tuple(margin for _, margin in members),
            )
            if not table.is_large:
                found.append(table)
            elif large and (allowed := _without_averages(table, needs)) is not None:
                found.append(allowed)
    return tuple(found)


def _without_averages(table: ContingencyTable, needs: Sequence[MeasurementSet]) -> ContingencyTable | None:
    """Return a large table without the parts of averages, or None where nothing is left to combine.

    The interval of an average needs the joint law of its two numbers, which those of a large table do not have.
    """
    averaged = {
        (need.group.label, name)
        for need in needs
        for output in need.derived
        if isinstance(output, AverageColumn)
        for name in output.measured
    }
    margins = tuple(margin for margin in table.margins if (margin.label, margin.name) not in averaged)
    smaller = replace(table, margins=margins)
    measured = sum(prod(table.sizes[axis] for axis in margin.axes) for margin in margins)
    worth = len({frozenset(margin.axes) for margin in margins}) > 1 and measured <= MAX_MEASURED_CELLS
    return smaller if worth and smaller.is_large else None


def adds_up_by_cells(group: Group) -> bool:
    """Whether each row is in exactly one cell or in the rest, nothing was cut by cells, and all that is asked adds up.

    Values that are distinct in each of two keys need not be distinct in the rest that holds both: DISTINCT has no rest.
    """
    free = not group.contribution.bound_rows and not group.contribution.bound_groups
    scalars = [key.scalar for key in group.keys]
    sums = all(asked.aggregate.function in SUMMING and not asked.aggregate.distinct for asked in group.asked)
    return group.public_keys and group.combinations is None and free and sums and len(set(scalars)) == len(scalars)


def _curved(need: MeasurementSet) -> set[str]:
    """Return the measurements from which a column follows that has no bar for a weighted sum in their place."""
    return {
        name
        for output in need.derived
        if not isinstance(output, CountColumn | SumColumn | AverageColumn)
        for name in output.measured
    }


def _is_cut_alike(one: Measurement, need: MeasurementSet) -> bool:
    """Whether the same rows of a person are cut off by whatever keys: not where what is read decides their order."""
    return one.candidates is None or one.candidates.rank is not None or need.group.contribution.rows == 1


def _adds_up(quantity: Quantity) -> bool:
    return quantity.function in {Aggregation.COUNT, Aggregation.SUM} and not quantity.distinct


def with_rest(key: Key) -> Key:
    """Return a key with a cell for the rows that are in none of the others, if there can be any."""
    facts, cells = key.scalar.facts, key.cells or ()
    whole = {Kind.BOOLEAN: 2, Kind.INTEGER: facts.span if facts.bounded else None}.get(facts.kind)
    return replace(key, has_remainder=facts.nullable or len(cells) != whole)


def _sizes(groups: Sequence[Group]) -> dict[Scalar, int]:
    """Return how many cells each key of any of the groups has, in the order in which they come."""
    found: dict[Scalar, int] = {}
    for group in groups:
        for key, scalar in zip(group.keys, unlabelled(group, ()).keys, strict=True):
            found.setdefault(
                scalar, len(key.measured_values) if key.has_remainder else len(with_rest(key).measured_values)
            )
    return found


def unlabelled(group: Group, quantities: tuple[Quantity, ...]) -> Unlabelled:
    """Return what a group counts without the labels of its question: equal ones count the same rows.

    A noisy value that rows are compared with keeps its label: another one leaves other rows.
    """
    names = {given.label: given.label for given in noisy_tables(group.rows)}
    rename = _renaming(names)
    rows = (rename(group.rows), rename(group.unit), group.identity, group.contribution.rows)
    return Unlabelled(rows, tuple(rename(key.scalar) for key in group.keys), tuple(map(rename, quantities)))


def _renaming(names: dict[str, str]) -> Callable[[Any], Any]:
    """Return what gives labels the numbers in which they come: equal flows of two questions are equal then."""

    def rename(thing: Any) -> Any:
        if isinstance(thing, Scalar) and (at := address(thing)) is not None:
            return column(names.setdefault(at.label, str(len(names))), at.name, thing.facts)
        return rebuild_fields(thing, rename_part)

    def rename_part(name: str, part: Any) -> Any:
        return names.setdefault(part, str(len(names))) if name == "label" else rename(part)

    return rename
