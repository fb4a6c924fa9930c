"""A public table first: FROM departments LEFT JOIN visits … GROUP BY departments.name.

A department without visits is one row with NULLs in the columns of visits. Where every aggregate passes over
such a row, it says the same as the inner join, in which all public keys appear as well, with a noisy 0.
"""

from collections.abc import Sequence
from dataclasses import replace

from sfumato.query.catalog import Catalog
from sfumato.query.expression import Call, Column, Expression, conjuncts, sources
from sfumato.query.filter_placement import visible_labels
from sfumato.query.functions import Function
from sfumato.query.private_rows import unit_columns
from sfumato.query.relation import Filter, Join, JoinKind, Measure, Relation

_COMPARISONS = frozenset(
    {Function.EQUAL, Function.DIFFERENT, Function.LESS, Function.AT_MOST, Function.IN, Function.LIKE, Function.ILIKE}
)
"""Never true of a NULL on either side."""
_STRICT = frozenset(
    {Function.ADD, Function.SUBTRACT, Function.MULTIPLY, Function.DIVIDE, Function.NEGATE, Function.ABS, Function.LOWER}
    | {Function.UPPER, Function.LENGTH, Function.ROUND, Function.FLOOR, Function.CEIL}
)
"""NULL where an argument is NULL."""


def dimension_first(rows: Relation, measures: Sequence[Measure], catalog: Catalog) -> Relation:
    """Return the rows of a group, where they begin with a public table, as the inner join that says the same."""
    match rows:
        case Filter(source, condition) if isinstance(source, Join):
            join = source
            parts = conjuncts(condition)
        case Join():
            join, parts = rows, ()
        case _:
            return rows
    private = visible_labels(join.right)
    if (
        join.kind is not JoinKind.LEFT
        or unit_columns(join.left, catalog) is not None
        or unit_columns(join.right, catalog) is None
        or not measures
        or not all(any(_is_null(part, private) for part in measure.aggregate.arguments) for measure in measures)
        or not all(_rejects(part, private) for part in parts)
    ):
        return rows
    inner = replace(join, kind=JoinKind.INNER)
    return replace(rows, source=inner) if isinstance(rows, Filter) else inner


def _is_null(expression: Expression, private: frozenset[str]) -> bool:
    """Whether an expression is NULL in a row that met no private row."""
    if isinstance(expression, Column):
        return expression.of in private
    if not isinstance(expression, Call) or expression.function not in _STRICT:
        return False
    return any(_is_null(part, private) for part in expression.arguments)


def _rejects(condition: Expression, private: frozenset[str]) -> bool:
    """Whether a condition is about public columns alone, or is not true of a row that met no private row."""
    if not sources(condition) & private:
        return True
    if not isinstance(condition, Call) or condition.function not in _COMPARISONS:
        return False
    tested = condition.arguments[:1] if condition.function is Function.IN else condition.arguments
    return any(_is_null(part, private) for part in tested)
