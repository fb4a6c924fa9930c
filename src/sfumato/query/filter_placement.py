"""Where conditions stand: an inner join keeps those that mention both of its sides, a Filter above has the rest.

So `FROM a, b WHERE a.x = b.x`, `a JOIN b ON a.x = b.x` and the same with a condition moved into a subquery are one.
Moving is sound because expressions are total: a condition that is never true of a row removes it, early or late.
"""

from dataclasses import replace

from sfumato.query.expression import Expression, conjunction, conjuncts, sources
from sfumato.query.relation import (
    Filter,
    GroupBy,
    Join,
    JoinKind,
    Limit,
    MarkJoin,
    Project,
    Relation,
    Scan,
    Sort,
    UnionAll,
    Values,
    Window,
)


def filter_relation(relation: Relation, conditions: tuple[Expression, ...]) -> Relation:
    """Return the relation restricted by all conditions, each where it belongs."""
    above: list[Expression] = []
    parts = [part for condition in conditions for part in conjuncts(condition)]
    if not _has_join(relation):
        return Filter(relation, conjunction(tuple(parts))) if parts else relation
    offered = visible_labels(relation)
    for part in parts:
        used = frozenset(sources(part))
        placed = _place_in_join(relation, part, used) if used <= offered else None
        if placed is None:
            above.append(part)
        else:
            relation = placed
    return Filter(relation, conjunction(tuple(above))) if above else relation


def _place_in_join(relation: Relation, condition: Expression, used: frozenset[str]) -> Relation | None:
    """Return the relation with the condition in a join that needs it, or None if none does.

    The relation offers every label that is used: a subquery may look at the rows around it, and that comes above.
    """
    if isinstance(relation, MarkJoin):
        left = _place_in_join(relation.left, condition, used) if relation.label not in used else None
        return None if left is None else replace(relation, left=left)
    if not isinstance(relation, Join):
        return None
    if not used or relation.kind is JoinKind.FULL:
        return None  # either side may be absent there
    right = visible_labels(relation.right)
    if not used & right:
        left = _place_in_join(relation.left, condition, used)
        return None if left is None else replace(relation, left=left)
    if relation.kind is not JoinKind.INNER:
        return None  # a condition on rows that were kept for want of a partner comes after the join
    if used <= right:
        below = _place_in_join(relation.right, condition, used)
        return None if below is None else replace(relation, right=below)
    both = (condition,) if relation.condition is None else (relation.condition, condition)
    return replace(relation, condition=conjunction(both))


def _has_join(relation: Relation) -> bool:
    while isinstance(relation, MarkJoin):
        relation = relation.left
    return isinstance(relation, Join)


def visible_labels(relation: Relation) -> frozenset[str]:
    """Return the labels whose columns the relation offers."""
    labels: set[str] = set()
    waiting = [relation]
    while waiting:
        node = waiting.pop()
        match node:
            case Join(_, left, right):
                waiting += (left, right)
            case Filter(source) | Sort(source) | Limit(source):
                waiting.append(source)
            case Window(source, label) | MarkJoin(source, _, label):
                labels.add(label)
                waiting.append(source)
            case Scan() | Values() | GroupBy() | Project() | UnionAll():
                labels.add(node.label)
    return frozenset(labels)
