"""Rows that are marked: whether some row of another relation meets a condition with them. No row becomes two.

Proof: proofs/lineage.md §9
"""

from dataclasses import replace

from sfumato.analysis.catalog import PublicData
from sfumato.analysis.joins import check_exact, check_marks, join_public_sides, materialize_public, public_sides
from sfumato.analysis.keys import MAX_GROUP_CELLS, computation
from sfumato.analysis.lineage import Analysed, UnitLineage, Visibility
from sfumato.analysis.possible_cells import Computation
from sfumato.analysis.private_query import Cell
from sfumato.analysis.used import Used
from sfumato.analysis.windows import under_label
from sfumato.errors import UnsafeJoin, UnsupportedSql, position_prefix
from sfumato.language.facts import Facts, Kind
from sfumato.language.lower_logic import all_true
from sfumato.language.lowering import lower
from sfumato.language.outside import bare
from sfumato.language.rel_nodes import FOUND, FOUND_FACTS, MarkJoinNode, MaterializedNode
from sfumato.language.scalar import Operator, Scalar, column
from sfumato.query.relation import MarkJoin
from sfumato.query.types import Type


def analyse_mark_join(relation: MarkJoin, left: Analysed, right: Analysed, used: Used, public: PublicData) -> Analysed:
    """Return the left rows with one more column: whether they meet a right one."""
    columns = {(relation.label, FOUND): column(relation.label, FOUND, FOUND_FACTS)}
    if isinstance(left.state, UnitLineage) and isinstance(right.state, UnitLineage):
        return _by_own_rows(relation, (left, left.state), (right, right.state))
    if isinstance(right.state, UnitLineage):
        raise UnsafeJoin(
            f"{position_prefix(relation.at)}this looks for a row among the rows of people.",
            "Whether there is one depends on single people, and would be used without noise.",
            "Ask for the values that enough people have first, and write them into a list.",
        )
    if isinstance(left.state, UnitLineage):
        if right.state is Visibility.RELEASED:
            raise UnsupportedSql(
                f"{position_prefix(relation.at)}this compares people's rows with an aggregate of people's rows.",
                "The aggregate would be used without noise.",
                "Ask for the aggregate first, and write the answer into the second query as numbers.",
            )
        return _of_people(relation, left, left.state, right, used, public)
    released = any(side.state is Visibility.RELEASED for side in (left, right))
    state = Visibility.RELEASED if released else Visibility.PUBLIC
    left, right = join_public_sides(left, right, relation.at, public)
    left = under_label(left, relation.label, used)
    flow = MarkJoinNode(left.flow, right.flow, relation.label, _condition(relation, left, right))
    origins = {relation.label: flow} if state is Visibility.PUBLIC else {}
    return Analysed(flow, {**left.scope, **columns}, state, origins=origins)


def _by_own_rows(
    relation: MarkJoin, first: tuple[Analysed, UnitLineage], second: tuple[Analysed, UnitLineage]
) -> Analysed:
    """Mark a person's rows by others of the same person: that the owners are equal is implied, and cannot be left out.

    The text says so by their names, or by a key that leads to the person: the parser refuses anything else.
    """
    (left, owned), (right, theirs) = first, second
    same = Scalar(Operator.EQUAL, (owned.unit, theirs.unit), Facts(Type.BOOLEAN, Kind.BOOLEAN, nullable=False))
    written = conjuncts_of(_condition(relation, left, right))
    turned = replace(same, arguments=(theirs.unit, owned.unit))
    is_stated = bool({same, turned} & {replace(part, facts=same.facts) for part in written})
    if not (owned.shared_ids and theirs.shared_ids):
        raise UnsafeJoin(
            f"{position_prefix(relation.at)}this looks for a row among the rows of other people.",
            "Whether there is one depends on single people, and would be used without noise.",
            f"Compare the person too: {owned.names[-1]} = {theirs.names[0]}.",
        )
    parts = written if is_stated else (same, *written)
    condition = parts[0] if len(parts) == 1 else all_true(parts)
    flow = MarkJoinNode(left.flow, right.flow, relation.label, condition)
    check_marks(relation, (left, owned.rows), (right, theirs.rows), flow)
    mark = column(relation.label, FOUND, FOUND_FACTS)
    return replace(left, flow=flow, scope={**left.scope, (relation.label, FOUND): mark})


def conjuncts_of(condition: Scalar) -> tuple[Scalar, ...]:
    """Return the parts of a condition that all have to be true."""
    if condition.operator is Operator.AND:
        return tuple(part for argument in condition.arguments for part in conjuncts_of(argument))
    return (condition,)


def _of_people(
    relation: MarkJoin, left: Analysed, owned: UnitLineage, right: Analysed, used: Used, public: PublicData
) -> Analysed:
    """Mark a person's rows by public ones: each row stays one row, of the same person."""
    check_exact(right.flow, relation.at)
    keys = public_sides(_condition(relation, left, right), right) if relation.condition is not None else []
    right = materialize_public(right, tuple(dict.fromkeys(keys)), used, public)
    condition = None if relation.condition is None else _condition(relation, left, right)
    most = right.flow.most if isinstance(right.flow, MaterializedNode) else 1
    flow = MarkJoinNode(left.flow, right.flow, relation.label, condition)
    check_marks(relation, (left, owned.rows), (right, most), flow)
    mark = column(relation.label, FOUND, FOUND_FACTS)
    known = _among(condition, right, public)
    marks = left.marks if known is None else {**left.marks, (relation.label, FOUND): known}
    return replace(left, flow=flow, scope={**left.scope, (relation.label, FOUND): mark}, marks=marks)


def _among(
    condition: Scalar | None, right: Analysed, public: PublicData
) -> tuple[Computation, tuple[Cell, ...]] | None:
    """Return the scalar that is compared with public values, and these values, for a single equality."""
    if condition is None or condition.operator is not Operator.EQUAL:
        return None
    for side in public_sides(condition, right):
        other = next(argument for argument in condition.arguments if argument is not side)
        values = public.distinct(right.flow, side, MAX_GROUP_CELLS)
        return None if values is None else (computation(bare(other)), values)
    return None


def _condition(relation: MarkJoin, left: Analysed, right: Analysed) -> Scalar:
    if relation.condition is None:
        return Scalar(Operator.CONSTANT, (), FOUND_FACTS, True)
    return lower(relation.condition, {**left.scope, **right.scope})
