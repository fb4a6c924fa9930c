"""Which columns a question uses: public rows that are computed once need no others."""

from collections.abc import Iterator

from sfumato.query.expression import Column, Expression, walk
from sfumato.query.relation import (
    Filter,
    GroupBy,
    Join,
    Limit,
    Project,
    Relation,
    Scan,
    Sort,
    Values,
    inputs,
)

Used = frozenset[tuple[str, str]]
"""Columns by label and name."""


def used_columns(relation: Relation) -> Used:
    """Return every column that an expression of the relation, or of one below it, mentions."""
    found: set[tuple[str, str]] = set()
    waiting = [relation]
    while waiting:
        node = waiting.pop()
        for expression in _expressions(node):
            found.update((part.of, part.name) for part, _ in walk(expression) if isinstance(part, Column))
        waiting.extend(inputs(node))
    return frozenset(found)


def _expressions(relation: Relation) -> Iterator[Expression]:
    match relation:
        case Scan() | Values() | Limit():
            return
        case Join(condition=condition):
            yield from () if condition is None else (condition,)
        case Filter(condition=condition):
            yield condition
        case GroupBy(keys=keys, measures=measures):
            yield from (key.expression for key in keys)
            yield from (part for measure in measures for part in measure.aggregate.parts)
        case Project(items=items):
            yield from (item.expression for item in items)
        case Sort(keys=keys):
            yield from (key.expression for key in keys)
