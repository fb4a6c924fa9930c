"""What the policy leaves to each question: how many rows of a person count, which bounds a number has, and totals."""

from collections.abc import Iterator

from sfumato.analysis.private_query import Group
from sfumato.language.rel_nodes import RANK, FilterNode, JoinNode, MaterializedNode, RelNode, ScanNode, nodes
from sfumato.language.scalar import Operator, Scalar, column, columns_read
from sfumato.query.relation import JoinKind


def chosen_rows(group: Group) -> bool:
    """Whether how many rows of a person count is left to the question, for a table that it reads."""
    return any(read.rows_chosen for read in _reads(group))


def chosen_groups(group: Group) -> bool:
    """Whether in how many groups a person counts is left to the question, for a table that it reads."""
    return any(read.groups_chosen for read in _reads(group))


def has_chosen_bounds(argument: Scalar, group: Group) -> bool:
    """Whether an argument is computed from a column whose bounds are left to the question."""
    free = {(read.label, name) for read in _reads(group) for name in read.chosen}
    return any(place in free for place in columns_read(argument))


def total_of(argument: Scalar, group: Group) -> int | None:
    """Return the most that one person adds to a sum of an argument, where it is a column with such a line.

    Where rows meet others, a person's rows may come several times, and nothing is known of that sum.
    """
    if argument.operator is Operator.CLIPPED:  # narrowed by a condition
        return total_of(argument.arguments[0], group)
    if argument.operator is not Operator.COLUMN or any(isinstance(node, JoinNode) for node in nodes(group.rows)):
        return None
    known = {(read.label, name): total for read in _reads(group) for name, total in read.totals}
    return next((known[place] for place in columns_read(argument) if place in known), None)


def rank_of(group: Group) -> Scalar | None:
    """Return the number of a row within its person, drawn when the copy was built, where each row has its own."""
    read = _lone(group.rows)
    if read is None:
        return None
    return next((column(read.label, name, facts) for name, _, facts in read.columns if name == RANK), None)


def _lone(flow: RelNode) -> ScanNode | None:
    """Return the table of which each row comes once at most, whatever is left out and beside it, if there is one."""
    match flow:
        case ScanNode():
            return flow
        case FilterNode(source):
            return _lone(source)
        case JoinNode(JoinKind.INNER | JoinKind.LEFT, left, MaterializedNode(most=1)):
            return _lone(left)
        case JoinNode(JoinKind.INNER, MaterializedNode(most=1), right):
            return _lone(right)
    return None


def is_plain(group: Group) -> bool:
    """Whether the rows are those of tables, met and kept by conditions, and the question cuts no person's rows."""
    limit = group.contribution
    whole = not limit.bound_rows and not (limit.bound_groups and group.keys)
    return whole and all(
        isinstance(node, ScanNode | FilterNode | MaterializedNode | JoinNode) for node in nodes(group.rows)
    )


def _reads(group: Group) -> Iterator[ScanNode]:
    return (node for node in nodes(group.rows) if isinstance(node, ScanNode))
