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
    Mark,
    Project,
    Relation,
    Scan,
    Sort,
    Stack,
    Values,
    Window,
)


def filtered(relation: Relation, conditions: tuple[Expression, ...]) -> Relation:
    """Return the relation restricted by all conditions, each where it belongs."""
    above: list[Expression] = []
    for condition in conditions:
        for part in conjuncts(condition):
            placed = _place(relation, part, frozenset(sources(part)))
            if placed is None:
                above.append(part)
            else:
                relation = placed
    return Filter(relation, conjunction(tuple(above))) if above else relation


def _place(relation: Relation, condition: Expression, used: frozenset[str]) -> Relation | None:
    """Return the relation with the condition in a join that needs it, or None if none does."""
    if not used or not used <= labels(relation):  # a subquery may look at the rows around it: that comes above
        return None
    if isinstance(relation, Mark):
        left = _place(relation.left, condition, used)
        return None if left is None else replace(relation, left=left)
    if not isinstance(relation, Join):
        return None
    right = labels(relation.right)
    if relation.kind is JoinKind.FULL:
        return None  # either side may be absent there
    if not used & right:
        left = _place(relation.left, condition, used)
        return None if left is None else replace(relation, left=left)
    if relation.kind is not JoinKind.INNER:
        return None  # a condition on rows that were kept for want of a partner comes after the join
    if used <= right:
        below = _place(relation.right, condition, used)
        return None if below is None else replace(relation, right=below)
    both = (condition,) if relation.condition is None else (relation.condition, condition)
    return replace(relation, condition=conjunction(both))


def labels(relation: Relation) -> frozenset[str]:
    """Return the labels whose columns the relation offers."""
    match relation:
        case Join(_, left, right):
            return labels(left) | labels(right)
        case Filter(source) | Sort(source) | Limit(source):
            return labels(source)
        case Window(source, label) | Mark(source, _, label):
            return labels(source) | {label}
        case Scan() | Values() | GroupBy() | Project() | Stack():
            return frozenset({relation.label})
