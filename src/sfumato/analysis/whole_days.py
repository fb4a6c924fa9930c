"""Which columns of an answer are dates, though SQL computes them as timestamps: DATE_TRUNC of a date."""

from collections.abc import Iterator, Mapping

from sfumato.query.expression import Call, Column, Expression
from sfumato.query.functions import Function
from sfumato.query.relation import GroupBy, Project, Relation, inputs
from sfumato.query.types import Type

_ColumnExpressions = Mapping[tuple[str, str], Expression]


def whole_days(answer: Project) -> frozenset[int]:
    """Return the places of the columns that begin a month, a week or another span of whole days."""
    known = {(label, name): expression for label, name, expression in _computed_columns(answer.source)}
    return frozenset(index for index, item in enumerate(answer.items) if _is_day(item.expression, known))


def _is_day(expression: Expression, known: _ColumnExpressions) -> bool:
    while isinstance(expression, Column) and (expression.of, expression.name) in known:
        expression = known[expression.of, expression.name]
    return (
        isinstance(expression, Call)
        and expression.function is Function.DATE_TRUNC
        and expression.arguments[1].type is Type.DATE
    )


def _computed_columns(relation: Relation) -> Iterator[tuple[str, str, Expression]]:
    """Give the keys and columns that relations compute, by label and name."""
    waiting = [relation]
    while waiting:
        node = waiting.pop()
        if isinstance(node, GroupBy):
            yield from ((node.label, key.name, key.expression) for key in node.keys)
        elif isinstance(node, Project):
            yield from ((node.label, item.name, item.expression) for item in node.items)
        waiting.extend(reversed(inputs(node)))
