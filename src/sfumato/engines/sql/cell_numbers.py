"""The numbers that the copy gives the values of a declared key within each person, where a question groups by that key.

They follow the order in which cells are kept, so that keeping the first cells needs neither a hash nor, where no row
was left out before, a window.  Proof: proofs/lineage.md §6
"""

from dataclasses import dataclass

from sfumato.analysis.private_query import Group
from sfumato.engines.sql.carrying import Hidden, carried, nothing_left_out
from sfumato.engines.sql.names import cell_name
from sfumato.language.flow import Flow
from sfumato.language.scalar import Scalar

_NUMBERS = Hidden(cell_name, lambda read: read.numbered)


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
    found = carried(group.rows, group.keys[0].scalar, _NUMBERS)
    if found is None:
        return None
    return NumberedCells(*found, whole=nothing_left_out(group.rows) and not group.contribution.bound_rows)
