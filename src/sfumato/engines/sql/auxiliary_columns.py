"""Hidden columns of the copy, brought up through a flow to where a question uses the column that they stand beside."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import FilterNode, Item, JoinNode, ProjectNode, RelNode, ScanNode
from sfumato.language.scalar import Operator, Scalar, column
from sfumato.query.types import Type


def _within_a_person(read: ScanNode) -> Facts:
    return Facts(Type.INTEGER, Kind.INTEGER, low=1, high=read.max_rows_per_unit or 1)


@dataclass(frozen=True, slots=True)
class Hidden:
    """A kind of hidden column: what it is called beside a column, and beside which columns of a table it stands."""

    name: Callable[[str], str]
    beside: Callable[[ScanNode], tuple[str, ...]]
    facts: Callable[[ScanNode], Facts] = _within_a_person


def with_auxiliary_column(flow: RelNode, of: Scalar, hidden: Hidden) -> tuple[RelNode, Scalar] | None:
    """Return the flow with the hidden column beside a column of it, and that column; None where there is none."""
    if of.operator is not Operator.COLUMN or not isinstance(of.constant, tuple):
        return None
    label, name = (str(part) for part in of.constant)
    match flow:
        case ScanNode() if flow.label == label:
            return _read(flow, name, hidden)
        case FilterNode(source):
            found = with_auxiliary_column(source, of, hidden)
            return None if found is None else (replace(flow, source=found[0]), found[1])
        case JoinNode(_, left, right):
            if (found := with_auxiliary_column(left, of, hidden)) is not None:
                return replace(flow, left=found[0]), found[1]
            found = with_auxiliary_column(right, of, hidden)
            return None if found is None else (replace(flow, right=found[0]), found[1])
        case ProjectNode(source, own, items) if own == label:
            found = with_auxiliary_column(source, next(item.scalar for item in items if item.name == name), hidden)
            if found is None:
                return None
            item = Item(hidden.name(name), found[1])
            return replace(flow, source=found[0], items=(*items, item)), column(label, item.name, found[1].facts)
    return None


def keeps_all_rows(flow: RelNode) -> bool:
    """Whether these are all rows that the copy keeps of a person."""
    return isinstance(flow, ScanNode) or (isinstance(flow, ProjectNode) and keeps_all_rows(flow.source))


def rows_are_distinct(flow: RelNode) -> bool:
    """Whether each of these rows is one of the copy, and no two are the same one."""
    return isinstance(flow, ScanNode) or (isinstance(flow, ProjectNode | FilterNode) and rows_are_distinct(flow.source))


def _read(read: ScanNode, name: str, hidden: Hidden) -> tuple[ScanNode, Scalar] | None:
    stored = next(stored for known, stored, _ in read.columns if known == name)
    if stored not in hidden.beside(read):
        return None
    facts = hidden.facts(read)
    columns = (*read.columns, (hidden.name(name), hidden.name(stored), facts))
    return replace(read, columns=columns), column(read.label, hidden.name(name), facts)
