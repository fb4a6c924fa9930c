"""Which columns a question uses: public rows that are computed once need no others."""

from sfumato.query.expression import Column, walk
from sfumato.query.relation import Relation, expressions, inputs

Used = frozenset[tuple[str, str]]
"""Columns by label and name."""


def find_used_columns(relation: Relation) -> Used:
    """Return every column that an expression of the relation, or of one below it, mentions."""
    used: set[tuple[str, str]] = set()
    waiting = [relation]
    while waiting:
        node = waiting.pop()
        for expression in expressions(node):
            used.update((part.of, part.name) for part, _ in walk(expression) if isinstance(part, Column))
        waiting.extend(inputs(node))
    return frozenset(used)
