"""Conditions on public rows alone are met before these rows are joined with an answer: fewer have to be written out."""

from dataclasses import replace

from sfumato.query.catalog import Catalog
from sfumato.query.expression import Expression, conjunction, conjuncts, sources
from sfumato.query.filter_placement import visible_labels
from sfumato.query.private_rows import has_private_rows
from sfumato.query.relation import Filter, Join, JoinKind, MarkJoin, Relation, Scan, Values, inputs


def public_first(relation: Filter, catalog: Catalog) -> Relation:
    """Return the same rows; a condition that only looks at the public side of a join with an answer comes below it.

    It may: an inner join keeps a pair where both rows are there, an outer one keeps each row of its left side.
    """
    if not _reads_public(relation.source, catalog):
        return relation
    source, above = relation.source, []
    for part in conjuncts(relation.condition):
        placed = _push_below(source, part, frozenset(sources(part)), catalog)
        if placed is None:
            above.append(part)
        else:
            source = placed
    return replace(relation, source=source, condition=conjunction(tuple(above))) if above else source


def _push_below(relation: Relation, part: Expression, used: frozenset[str], catalog: Catalog) -> Relation | None:
    if not used or not isinstance(relation, Join | MarkJoin) or not (used <= visible_labels(relation)):
        return None
    sides = [("left", relation.left, relation.right)]
    if isinstance(relation, Join) and relation.kind is JoinKind.FULL:
        return None
    if isinstance(relation, Join) and relation.kind is JoinKind.INNER:
        sides.append(("right", relation.right, relation.left))
    for name, side, other in sides:
        if used <= visible_labels(side):
            if not _reads_people(side, catalog) and _is_answer(other, catalog):
                return replace(relation, **{name: Filter(side, part)})  # type: ignore[arg-type]
            placed = _push_below(side, part, used, catalog)
            return None if placed is None else replace(relation, **{name: placed})  # type: ignore[arg-type]
    return None


def _is_answer(relation: Relation, catalog: Catalog) -> bool:
    return _reads_people(relation, catalog) and not has_private_rows(relation, catalog)


def _reads_public(relation: Relation, catalog: Catalog) -> bool:
    waiting = [relation]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Values) or (isinstance(node, Scan) and catalog.tables[node.table].public):
            return True
        waiting.extend(inputs(node))
    return False


def _reads_people(relation: Relation, catalog: Catalog) -> bool:
    waiting = [relation]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Scan) and not catalog.tables[node.table].public:
            return True
        waiting.extend(inputs(node))
    return False
