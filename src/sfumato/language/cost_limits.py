"""Limit the characters of one person's rows that an engine reads, which decides the time of an answer.

A table's own texts are read once. Where rows are joined, one person's few rows become many
pairs, and each of them is read again: then characters are counted, from the text and the policy alone.

How much a flow makes an engine do, told from the text and from the sizes of public tables.

It is an estimate in rows and pairs of rows: joins by an equality are taken to be cheap, all others to look at every
pair. The engine's time limit stops work that this estimate misses.
"""

from collections.abc import Callable, Iterable

from sfumato.errors import FreeLimit, QueryTooLarge, position_prefix
from sfumato.language.determinism import refuse_engine_dependent
from sfumato.language.facts import Kind
from sfumato.language.rel_nodes import (
    AggregateNode,
    FilterNode,
    InputNode,
    JoinNode,
    LimitNode,
    MarkJoinNode,
    MaterializedNode,
    RelNode,
    ScanNode,
    UnionAllNode,
    children,
    nodes,
    outputs,
)
from sfumato.language.scalar import Operator, Scalar, columns_read, walk
from sfumato.query.expression import NOWHERE, Position
from sfumato.query.relation import JoinKind

MAX_CHARS_PER_UNIT = 10_000_000
"""Maximum number of characters of one unit that one step may read: below half a second for the slowest operator."""
MAX_DECLARED_CELLS = 1_000_000
"""Maximum number of cells of an answer whose keys a public table declares, where these are too many for other keys."""
_UNDECLARED_TEXT_CHARS = 1_000
"""Assumed length of an undeclared text of a public table."""
_FREE_OPERATORS = frozenset({Operator.COLUMN, Operator.CONSTANT})


def check_characters(
    flow: RelNode, rows: int, scalars: Iterable[Scalar], position: Position = NOWHERE, *, joined: bool = False
) -> None:
    """Refuse operators on texts over the joined rows of a private flow, of which one person has `rows`."""
    scalars = tuple(scalars)
    refuse_engine_dependent(scalars, position)
    total = rows * sum(map(_characters, scalars))
    if total > MAX_CHARS_PER_UNIT and (joined or any(isinstance(node, JoinNode) for node in nodes(flow))):
        raise QueryTooLarge(
            f"{position_prefix(position)}this looks at up to {total:,} characters of one person's joined rows.",
            f"More than {MAX_CHARS_PER_UNIT:,} would let one person's texts decide how long the answer takes.",
            "Cut the texts with LEFT before the join, or join on a column that is unique within a person.",
        )


def check_condition(flow: RelNode, rows: int, condition: Scalar) -> None:
    """Refuse a condition that reads too many characters of joined rows.

    Conditions on one table alone are tested before its rows are joined, so that its texts are read once.
    """
    parts = condition.arguments if condition.operator is Operator.AND else (condition,)
    tables = _tables_joined(flow)
    met = [part for part in parts if not any({label for label, _ in columns_read(part)} <= {table} for table in tables)]
    refuse_engine_dependent(parts)
    check_characters(flow, rows, met)


def _tables_joined(flow: RelNode) -> set[str]:
    """Return the labels of the tables that inner joins join: a condition on one of them is tested below the joins."""
    found, waiting = set[str](), [flow]
    while waiting:
        match waiting.pop():
            case ScanNode(label=label):
                found.add(label)
            case JoinNode(JoinKind.INNER, left, right):
                waiting += (left, right)
            case FilterNode(source) | MarkJoinNode(source):
                waiting.append(source)
            case _:
                pass
    return found


def _characters(scalar: Scalar) -> int:
    """Return how many characters the operators of a scalar read, for one row."""
    return sum(_chars_read(part) for part in walk(scalar) if part.operator not in _FREE_OPERATORS)


def _chars_read(part: Scalar) -> int:
    match part.operator:
        case Operator.LEFT:  # it reads no more than it returns
            return _longest(part)
        case Operator.CASE | Operator.COALESCE | Operator.IS_NULL:  # texts are carried, not read
            return 0
        case (
            Operator.EQUAL | Operator.DIFFERENT | Operator.DISTINCT_FROM
        ):  # no further than the shorter of the two goes on
            return sum(sorted(map(_longest, part.arguments))[:1]) * 2
        case _:
            return sum(map(_longest, part.arguments))


def _longest(scalar: Scalar) -> int:
    if scalar.facts.kind is not Kind.TEXT:
        return 0
    return _UNDECLARED_TEXT_CHARS if scalar.facts.max_chars is None else scalar.facts.max_chars


MAX_PUBLIC_WORK_ROWS = 100_000_000
"""Maximum number of rows and row pairs that a free query may read."""

Sizes = Callable[[ScanNode | InputNode | MaterializedNode], int]
"""Tells how many rows there are."""


def check_work(flow: RelNode, sizes: Sizes) -> None:
    """Refuse a public query whose estimated work, in rows and row pairs, exceeds the limit."""
    _, work = _rows_and_work(flow, sizes)
    if work > MAX_PUBLIC_WORK_ROWS:
        raise FreeLimit(
            f"This question looks at about {_rounded_work(work)} free rows or pairs of rows.",
            f"Rows of public tables and of VALUES are free, so their number is limited to {MAX_PUBLIC_WORK_ROWS:,}.",
            "Join by an equality, or use shorter lists and fewer tables.",
        )


def _rounded_work(work: int) -> str:
    return f"{work:,}" if work < 10**15 else f"10^{len(str(work)) - 1}"


def _rows_and_work(flow: RelNode, sizes: Sizes) -> tuple[int, int]:
    """Return how many rows a flow may have and how many rows and pairs it looks at."""
    leaves, conditions = _inner_joins(flow)
    if len(leaves) > 1:
        return _joined_work(leaves, conditions, sizes)
    match flow:
        case ScanNode() | InputNode() | MaterializedNode():
            rows = sizes(flow)
            return rows, rows
        case JoinNode(kind, left, right, condition):
            (first, before), (second, behind) = _rows_and_work(left, sizes), _rows_and_work(right, sizes)
            met = max(first, second) if _by_equality(condition, left, right) else first * second
            outer_rows = {JoinKind.LEFT: first, JoinKind.FULL: first + second}.get(kind, 0)
            return max(met, outer_rows), before + behind + met
        case UnionAllNode(left, right):
            (first, before), (second, behind) = _rows_and_work(left, sizes), _rows_and_work(right, sizes)
            return first + second, before + behind
        case MarkJoinNode(left, right, _, condition):
            (first, before), (second, behind) = _rows_and_work(left, sizes), _rows_and_work(right, sizes)
            looked = max(first, second) if _by_equality(condition, left, right) else first * second
            return first, before + behind + looked
        case _:
            (source,) = children(flow)
            rows, work = _rows_and_work(source, sizes)
            if isinstance(flow, AggregateNode) and not flow.keys:
                rows = 1
            if isinstance(flow, LimitNode) and flow.count is not None:
                rows = min(rows, flow.count)
            return rows, work


def _inner_joins(flow: RelNode) -> tuple[list[RelNode], list[Scalar]]:
    """Return what a tree of inner joins and filters joins, and all its conditions: engines choose the order."""
    leaves, conditions, waiting = list[RelNode](), list[Scalar](), [flow]
    while waiting:
        match waiting.pop():
            case JoinNode(JoinKind.INNER, left, right, condition):
                conditions += () if condition is None else (condition,)
                waiting += (right, left)
            case FilterNode(source, condition):
                conditions.append(condition)
                waiting.append(source)
            case leaf:
                leaves.append(leaf)
    parts = [
        part
        for conjunction in conditions
        for part in (conjunction.arguments if conjunction.operator is Operator.AND else (conjunction,))
    ]
    return leaves, parts


def _joined_work(leaves: list[RelNode], conditions: list[Scalar], sizes: Sizes) -> tuple[int, int]:
    """Return the same of joined leaves: each is looked up by an equality with those before, as long as one can be."""
    waiting = [(leaf, *_rows_and_work(leaf, sizes)) for leaf in leaves]
    work = sum(read for _, _, read in waiting)
    first, rows, _ = waiting.pop(0)
    known = {(label, name) for label, name, _ in outputs(first)}
    while waiting:
        near = [candidate for candidate in waiting if any(_equates(part, known, candidate[0]) for part in conditions)]
        chosen = min(near or waiting, key=lambda candidate: candidate[1])
        waiting.remove(chosen)
        rows = max(rows, chosen[1]) if near else rows * chosen[1]
        work += rows
        known |= {(label, name) for label, name, _ in outputs(chosen[0])}
    return rows, work


def _equates(part: Scalar, known: set[tuple[str, str]], leaf: RelNode) -> bool:
    """Whether a condition is an equality of something known with something of a leaf."""
    if part.operator is not Operator.EQUAL:
        return False
    new = {(label, name) for label, name, _ in outputs(leaf)}
    one, other = (columns_read(side) for side in part.arguments)
    return bool(one and other) and ((one <= known and other <= new) or (one <= new and other <= known))


def _by_equality(condition: Scalar | None, left: RelNode, right: RelNode) -> bool:
    """Whether all pairs meet an equality of something on the left with something on the right."""
    if condition is None:
        return False
    first, second = ({(label, name) for label, name, _ in outputs(side)} for side in (left, right))
    parts = condition.arguments if condition.operator is Operator.AND else (condition,)
    for part in parts:
        if part.operator is Operator.EQUAL:
            one, other = (columns_read(side) for side in part.arguments)
            if one and other and ((one <= first and other <= second) or (one <= second and other <= first)):
                return True
    return False
