"""Rows that are marked: whether some row of another relation meets a condition with them. No row becomes two.

Proof: proofs/lineage.md §9
"""

from dataclasses import replace

from sfumato.analysis.catalog import Public
from sfumato.analysis.joins import check_exact, check_pairs, kept, public_sides, together
from sfumato.analysis.lineage import Analysed, Owned, Visibility
from sfumato.analysis.used import Used
from sfumato.analysis.windows import under_label
from sfumato.errors import UnsafeJoin, UnsupportedSql, at
from sfumato.language.characters import check_characters
from sfumato.language.flow import FOUND, FOUND_FACTS, Kept, Marked
from sfumato.language.lowering import lower
from sfumato.language.scalar import Operator, Scalar, column
from sfumato.query.relation import Mark


def marked(relation: Mark, left: Analysed, right: Analysed, used: Used, public: Public) -> Analysed:
    """Return the left rows with one more column: whether they meet a right one."""
    found = {(relation.label, FOUND): column(relation.label, FOUND, FOUND_FACTS)}
    if isinstance(right.state, Owned):
        raise UnsafeJoin(
            f"{at(relation.at)}this looks for a row among the rows of people.",
            "Whether there is one depends on single people, and would be used without noise.",
            "Ask for the values that enough people have first, and write them into a list.",
        )
    if isinstance(left.state, Owned):
        if right.state is Visibility.RELEASED:
            raise UnsupportedSql(
                f"{at(relation.at)}this compares people's rows with an aggregate of people's rows.",
                "The aggregate would be used without noise.",
                "Ask for the aggregate first, and write the answer into the second query as numbers.",
            )
        return _of_people(relation, left, left.state, right, used, public)
    released = any(side.state is Visibility.RELEASED for side in (left, right))
    state = Visibility.RELEASED if released else Visibility.PUBLIC
    left, right = together(left, right, relation.at, public)
    left = under_label(left, relation.label, used)
    flow = Marked(left.flow, right.flow, relation.label, _condition(relation, left, right))
    origins = {relation.label: flow} if state is Visibility.PUBLIC else {}
    return Analysed(flow, {**left.scope, **found}, state, origins=origins)


def _of_people(relation: Mark, left: Analysed, owned: Owned, right: Analysed, used: Used, public: Public) -> Analysed:
    """Mark a person's rows by public ones: each row stays one row, of the same person."""
    check_exact(right.flow, relation.at)
    keys = public_sides(_condition(relation, left, right), left, right) if relation.condition is not None else []
    right = kept(right, tuple(dict.fromkeys(keys)), used, public)
    condition = None if relation.condition is None else _condition(relation, left, right)
    most = right.flow.most if isinstance(right.flow, Kept) else 1
    check_pairs(owned.rows * most, owned.rows, relation.at)
    flow = Marked(left.flow, right.flow, relation.label, condition)
    tests = () if condition is None else (condition,)
    check_characters(flow, owned.rows * most, tests, relation.at)
    found = column(relation.label, FOUND, FOUND_FACTS)
    return replace(left, flow=flow, scope={**left.scope, (relation.label, FOUND): found})


def _condition(relation: Mark, left: Analysed, right: Analysed) -> Scalar:
    if relation.condition is None:
        return Scalar(Operator.CONSTANT, (), FOUND_FACTS, True)
    return lower(relation.condition, {**left.scope, **right.scope})
