"""Hierarchies: one ordered key measured in blocks of several sizes, so that sums over many cells have little noise.

Each level is a group of the same rows by a coarser key. Proof: proofs/hierarchies.md
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sfumato.accounting.event import Neighbours
from sfumato.analysis.private_query import Group, Key
from sfumato.language.facts import Facts, Kind
from sfumato.language.scalar import Factor, Operator, Scalar, Sides, literal
from sfumato.planning.measurements import MeasurementSet, needs_of
from sfumato.planning.range_strategies import LevelShares
from sfumato.planning.shared_marginals import adds_up_by_cells
from sfumato.query.types import Type

MAX_LISTED_CELLS = 512
"""Maximum number of cells of a key with gaps: the cells of each block are written out in the statement."""
_TRUTH = Facts(Type.BOOLEAN, Kind.BOOLEAN)


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Measurements of one group whose cells are also measured in blocks along one key, finest level first.

    `counts` is how many cells each key of the group has that are no remainder.
    """

    label: str
    names: tuple[str, ...]
    axis: int
    counts: tuple[int, ...]
    levels: tuple[tuple[str, int], ...]
    """The label of the group of each coarser level, and how many cells one of its blocks has."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The groups of all levels."""
        return (self.label, *(label for label, _ in self.levels))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The cells of one block of each level."""
        return (1, *(size for _, size in self.levels))


def ordered_axis(group: Group, key: str) -> int | None:
    """Return the place of a key whose cells can be measured in blocks; None where they cannot.

    Blocks hold the rows of their cells and no others, so every row that is cut off is cut off in both.
    """
    axis = next((place for place, own in enumerate(group.keys) if own.name == key), None)
    if axis is None or not adds_up_by_cells(group):
        return None
    cells = group.keys[axis].cells or ()
    if group.keys[axis].scalar.facts.kind is not Kind.INTEGER or len(cells) < 2 or list(cells) != sorted(set(cells)):
        return None
    return axis if _has_no_gaps(cells) or len(cells) <= MAX_LISTED_CELLS else None


def with_levels(
    needs: Sequence[MeasurementSet],
    place: int,
    group: Group,
    axis: int,
    names: Sequence[str],
    shares: LevelShares,
    neighbours: Neighbours,
) -> tuple[tuple[MeasurementSet, ...], Hierarchy]:
    """Return the needs with some measurements of one group measured at all levels, for the same part of the price.

    `group` has the keys without remainders. The sensitivity of each level is derived as that of any group.
    """
    need, parts = needs[place], shares.parts
    levels = []
    for size, part in zip(shares.sizes[1:], parts[1:], strict=True):
        found = needs_of(_in_blocks(group, axis, size), neighbours, fixed=False)
        importances = {one.name: one.importance for one in need.measurements}
        own = tuple(
            replace(one, importance=importances[one.name] * part ** (shares.power + 1))
            for one in found.measurements
            if one.name in names
        )
        levels.append(
            replace(found, measurements=own, derived=(), vector=tuple(one for one in need.vector if one in names))
        )
    finest = replace(
        need,
        measurements=tuple(
            replace(one, importance=one.importance * parts[0] ** (shares.power + 1)) if one.name in names else one
            for one in need.measurements
        ),
    )
    every = (*needs[:place], finest, *needs[place + 1 :], *levels)
    counts = tuple(len(key.cells or ()) for key in group.keys)
    placed = tuple((level.group.label, size) for level, size in zip(levels, shares.sizes[1:], strict=True))
    return every, Hierarchy(need.group.label, tuple(names), axis, counts, placed)


def _in_blocks(group: Group, axis: int, size: int) -> Group:
    """Return the group by blocks of `size` cells of one key: a person is in no more blocks than cells."""
    key = group.keys[axis]
    cells = tuple(int(cell) for cell in key.cells or ())
    blocks = -(-len(cells) // size)
    coarser = Key(f"{key.name} in blocks", _block(key.scalar, cells, size), tuple(range(blocks)))
    whole = replace(
        group,
        label=f"{group.label} in blocks of {size}",
        keys=(*group.keys[:axis], coarser, *group.keys[axis + 1 :]),
    )
    touched = min(group.contribution.groups, max(1, whole.cells))
    return replace(whole, contribution=replace(group.contribution, groups=touched))


def _block(scalar: Scalar, cells: Sequence[int], size: int) -> Scalar:
    """Return the number of the block that a value is in: NULL for what is no cell."""
    facts = Facts(Type.INTEGER, Kind.INTEGER, low=0, high=(len(cells) - 1) // size)
    low, high = cells[0], cells[-1]
    if not _has_no_gaps(cells):
        parts: list[Scalar] = []
        for block in range(facts.high + 1):
            own = (_value(cell, scalar.facts) for cell in cells[block * size : (block + 1) * size])
            parts += [Scalar(Operator.IN, (scalar, *own), _TRUTH), literal(block, _exactly(block, facts))]
        return Scalar(Operator.CASE, (*parts, literal(None, facts)), facts)
    inside = scalar
    if (scalar.facts.low, scalar.facts.high) != (low, high):
        inside = Scalar(Operator.WITHIN, (scalar,), replace(scalar.facts, low=low, high=high), Sides(low, high))
    offset = replace(scalar.facts, type=Type.INTEGER, step=Fraction(1), low=0, high=high - low)
    shifted = Scalar(Operator.SUBTRACT, (inside, _value(low, scalar.facts)), offset)
    return Scalar(Operator.TRUNCATED, (shifted,), facts, Factor(1, size))


def _has_no_gaps(cells: Sequence[object]) -> bool:
    """Whether every integer between the first cell and the last one is a cell."""
    first, last = cells[0], cells[-1]
    return isinstance(first, int) and isinstance(last, int) and last - first == len(cells) - 1


def _value(cell: int, facts: Facts) -> Scalar:
    return literal(cell, _exactly(cell, facts))


def _exactly(value: int, facts: Facts) -> Facts:
    return replace(facts, nullable=False, low=value, high=value)
