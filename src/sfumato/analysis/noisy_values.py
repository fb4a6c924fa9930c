"""A noisy value that people's rows are compared with: it is measured first, and is a constant of what comes after it.

Proof: proofs/noisy_values.md
"""

from dataclasses import replace
from fractions import Fraction

from sfumato.analysis.lineage import Analysed, UnitLineage
from sfumato.analysis.private_query import Group
from sfumato.errors import UnsupportedSql, position_prefix
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import (
    AggregateNode,
    FilterNode,
    InputNode,
    Item,
    JoinNode,
    LimitNode,
    ProjectNode,
    RelNode,
    SortNode,
)
from sfumato.language.scalar import column
from sfumato.query.relation import Join, JoinKind
from sfumato.query.types import Type

NOISY_VALUE_STEP = Fraction(1, 10**6)
"""The grid that a noisy average or ratio is rounded to before rows are compared with it."""
MAX_NOISY_VALUE_STEPS = 10**15
"""The largest noisy value in steps; one beyond is cut to it."""


def join_noisy_value(
    join: Join, left: Analysed, owned: UnitLineage, right: Analysed, groups: list[Group], number: int
) -> tuple[Analysed, ProjectNode] | None:
    """Return people's rows with a noisy row beside each, and what this row is computed by; None for any other join.

    The rows stay those of the left side, so that one person has as many of them, whatever the noisy value is.
    """
    if join.kind is not JoinKind.LEFT or join.condition is not None or not _is_one_row(right.flow, groups):
        return None
    label = f"measured first {number}"
    items, columns, scope = list[Item](), list[tuple[str, Facts]](), dict(left.scope)
    for index, (name, scalar) in enumerate(right.scope.items(), 1):
        if scalar.facts.kind not in {Kind.INTEGER, Kind.REAL}:
            raise UnsupportedSql(
                f"{position_prefix(join.at)}this compares people's rows with a noisy value that is no number.",
                "A value that is measured first is a number, a date or a time.",
                "Ask for it first, and write the answer into the second query.",
            )
        items.append(Item(f"v{index}", scalar))
        columns.append((f"v{index}", _on_grid(scalar.facts)))
        scope[name] = column(label, *columns[-1])
    flow = JoinNode(JoinKind.LEFT, left.flow, InputNode(label, tuple(columns), None), None)
    return replace(left, flow=flow, scope=scope, state=owned), ProjectNode(right.flow, label, tuple(items))


def _on_grid(facts: Facts) -> Facts:
    """Return what is known of a noisy value that rows are compared with; nothing of the data narrows it."""
    if facts.kind is Kind.REAL:
        facts = Facts(Type.DECIMAL, Kind.INTEGER, True, NOISY_VALUE_STEP)
    return replace(
        facts,
        nullable=True,
        low=-MAX_NOISY_VALUE_STEPS,
        high=MAX_NOISY_VALUE_STEPS,
        declared_low=False,
        declared_high=False,
    )


def _is_one_row(flow: RelNode, groups: list[Group]) -> bool:
    match flow:
        case InputNode(rows=None):
            return any(group.label == flow.table and not group.keys for group in groups)
        case AggregateNode(keys=keys):
            return not keys
        case LimitNode(source, count):
            return (count is not None and count <= 1) or _is_one_row(source, groups)
        case FilterNode(source) | SortNode(source) | ProjectNode(source):
            return _is_one_row(source, groups)
        case _:
            return False
