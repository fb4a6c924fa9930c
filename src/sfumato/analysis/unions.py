"""The rows of two relations, one behind the other: every column on one grid, and each row its owner's.

Proof: proofs/lineage.md §9
"""

from dataclasses import replace

from sfumato.analysis.catalog import PublicData
from sfumato.analysis.joins import join_public_sides
from sfumato.analysis.lineage import OWNER, Analysed, UnitLineage, Visibility
from sfumato.errors import UnsafeJoin, position_prefix
from sfumato.language.facts import Facts, Kind, Outside, hull
from sfumato.language.numbers import on_one_grid
from sfumato.language.outside import outside_mark, outside_test
from sfumato.language.rel_nodes import Item, ProjectNode, UnionAllNode
from sfumato.language.scalar import Scalar, column, literal
from sfumato.query.relation import UnionAll
from sfumato.query.types import NUMBERS, Type

_FALSE = literal(False, Facts(Type.BOOLEAN, Kind.BOOLEAN, nullable=False))


def analyse_union_all(relation: UnionAll, left: Analysed, right: Analysed, public: PublicData) -> Analysed:
    """Return the rows of both sides: a person's add up."""
    owners = [side.state for side in (left, right) if isinstance(side.state, UnitLineage)]
    if len(owners) == 1 or not all(owned.shared_ids for owned in owners):
        raise UnsafeJoin(
            f"{position_prefix(relation.at)}these rows do not belong to the same people.",
            "In a UNION of people's rows, each row must belong to a known person.",
            "Ask each part separately, and combine the answers.",
        )
    sides = (left, right) if owners else join_public_sides(left, right, relation.at, public)
    projects = (relation.left, relation.right)
    columns = [
        [side.scope[project.label, item.name] for item in project.items]
        for side, project in zip(sides, projects, strict=True)
    ]
    pairs = [_in_one_form(first, second) for first, second in zip(*columns, strict=True)]
    names = [output.name for output in relation.columns]
    if owners:
        if any((first.facts.kind is Kind.UNIT) != (second.facts.kind is Kind.UNIT) for first, second in pairs):
            raise UnsafeJoin(
                f"{position_prefix(relation.at)}a column names people on one side only.",
                "After the UNION the column would name people in some rows and something else in others.",
                "Select the column that names people at the same place on both sides, or on neither.",
            )
        pairs.append((owners[0].unit, owners[1].unit))
        names.append(OWNER)
        marks = {name: tuple(map(outside_test, pair)) for name, pair in zip(names, pairs, strict=True)}
        marks = {name: tests for name, tests in marks.items() if any(tests)}
        names += [outside_mark(name) for name in marks]
        pairs += [(first or _FALSE, second or _FALSE) for first, second in marks.values()]
    shows = [
        ProjectNode(
            side.flow, relation.label, tuple(Item(name, pair[index]) for name, pair in zip(names, pairs, strict=True))
        )
        for index, side in enumerate(sides)
    ]
    flow = UnionAllNode(shows[0], shows[1], relation.label)
    facts = [hull(first.facts, second.facts) for first, second in pairs]
    scope = {
        (relation.label, name): column(relation.label, name, known) for name, known in zip(names, facts, strict=True)
    }
    if owners:
        for name in marks:
            scope.pop((relation.label, outside_mark(name)))
            leaf = scope[relation.label, name]
            scope[relation.label, name] = replace(leaf, facts=replace(leaf.facts, outside=Outside.MARKED))
        first, second = owners
        limits = [groups for groups in (first.groups, second.groups) if groups is not None]
        unit, rows = scope.pop((relation.label, OWNER)), first.rows + second.rows
        names_of = first.names + second.names
        return Analysed(flow, scope, UnitLineage(unit, True, rows, min(limits, default=None), frozenset(), names_of))
    released = any(side.state is Visibility.RELEASED for side in (left, right))
    state = Visibility.RELEASED if released else Visibility.PUBLIC
    return Analysed(flow, scope, state, origins={} if released else {relation.label: flow})


def _in_one_form(one: Scalar, other: Scalar) -> tuple[Scalar, Scalar]:
    """Return two columns as one column can hold them."""
    if one.facts.type not in NUMBERS:
        return one, other
    first, second = on_one_grid((one, other))
    return first, second
