"""(a, b) IN ((1, 2), (3, 4)) is written out: a = 1 AND b = 2 OR a = 3 AND b = 4."""

from functools import reduce

from sqlglot import exp

from sfumato.query.position import SourceSpan


def by_columns(node: exp.Expr, place: SourceSpan) -> exp.Expr:
    """Return the comparisons of single columns that a list of rows stands for."""
    left, rows = node.this.unnest().expressions, [row.unnest() for row in node.expressions]
    if any(not isinstance(row, exp.Tuple) or len(row.expressions) != len(left) for row in rows):
        raise place.bad("the rows have different lengths.", "Each has a value for each column.", "Complete them.")
    nodes = [
        reduce(_both, [_equal(first, second, node) for first, second in zip(left, row.expressions, strict=True)])
        for row in rows
    ]
    return reduce(_either_holds, nodes)


def _equal(first: exp.Expr, second: exp.Expr, node: exp.Expr) -> exp.Expr:
    made = exp.EQ(this=first.copy(), expression=second.copy())
    made.meta.update(node.meta)
    return made


def _both(first: exp.Expr, second: exp.Expr) -> exp.Expr:
    return exp.And(this=first, expression=second)


def _either_holds(first: exp.Expr, second: exp.Expr) -> exp.Expr:
    return exp.Or(this=first, expression=second)
