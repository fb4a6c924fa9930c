"""The numbers that the copy gives the values of a declared key within each person, where a question groups by that key.

They follow the order in which cells are kept, so that keeping the first cells needs neither a hash nor, where no row
was left out before, a window.  Proof: proofs/lineage.md §6
"""

from dataclasses import dataclass, replace

from sfumato.analysis.private_query import Group
from sfumato.engines.sql.names import cell_name
from sfumato.language.facts import Facts, Kind
from sfumato.language.flow import Flow, Item, Keep, Pair, Read, Show
from sfumato.language.scalar import Operator, Scalar, column
from sfumato.query.types import Type


@dataclass(frozen=True, slots=True)
class NumberedCells:
    """The rows of a group with the number of each row's cell as one more column."""

    rows: Flow
    number: Scalar
    whole: bool
    """Whether they are all rows that the copy keeps of a person: then the number is the rank of the cell."""


def numbered_cells(group: Group) -> NumberedCells | None:
    """Return the rows with their cells' numbers; None unless the only key is a column that the copy numbers."""
    if len(group.keys) != 1 or not group.identity:
        return None
    found = _carried(group.rows, group.keys[0].scalar)
    if found is None:
        return None
    return NumberedCells(*found, whole=_whole(group.rows) and not group.contribution.bound_rows)


def _carried(flow: Flow, key: Scalar) -> tuple[Flow, Scalar] | None:
    """Return the flow with the number of a column's value, and that number."""
    if key.operator is not Operator.COLUMN or not isinstance(key.constant, tuple):
        return None
    label, name = (str(part) for part in key.constant)
    match flow:
        case Read() if flow.label == label:
            return _read(flow, name)
        case Keep(source):
            found = _carried(source, key)
            return None if found is None else (replace(flow, source=found[0]), found[1])
        case Pair(_, left, right):
            if (found := _carried(left, key)) is not None:
                return replace(flow, left=found[0]), found[1]
            found = _carried(right, key)
            return None if found is None else (replace(flow, right=found[0]), found[1])
        case Show(source, own, items) if own == label:
            found = _carried(source, next(item.scalar for item in items if item.name == name))
            if found is None:
                return None
            carried = Item(cell_name(name), found[1])
            return replace(flow, source=found[0], items=(*items, carried)), _number(label, name, found[1].facts)
    return None


def _read(read: Read, name: str) -> tuple[Read, Scalar] | None:
    stored = next(stored for known, stored, _ in read.columns if known == name)
    if stored not in read.numbered:
        return None
    facts = Facts(Type.INTEGER, Kind.INTEGER, low=1, high=read.most or 1)
    columns = (*read.columns, (cell_name(name), cell_name(stored), facts))
    return replace(read, columns=columns), _number(read.label, name, facts)


def _number(label: str, name: str, facts: Facts) -> Scalar:
    return column(label, cell_name(name), facts)


def _whole(flow: Flow) -> bool:
    return isinstance(flow, Read) or (isinstance(flow, Show) and _whole(flow.source))
