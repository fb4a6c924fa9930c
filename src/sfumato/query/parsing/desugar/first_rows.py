"""DISTINCT ON (k) … ORDER BY k, o is the first row of each k: QUALIFY ROW_NUMBER() OVER (… k ORDER BY o) = 1."""

from sqlglot import exp


def first_of_each(node: exp.Select) -> exp.Select | None:
    """Return the same question by a window; None where there is no DISTINCT ON, or its order does not begin with it."""
    distinct, order = node.args.get("distinct"), node.args.get("order")
    on = distinct.args.get("on") if distinct is not None else None
    if on is None or order is None or node.args.get("qualify") is not None:
        return None
    keys = on.expressions if isinstance(on, exp.Tuple) else [on.unnest()]
    first, rest = order.expressions[: len(keys)], order.expressions[len(keys) :]
    if {ordered.this.sql() for ordered in first} != {key.sql() for key in keys}:
        return None
    window = exp.Window(
        this=exp.Anonymous(this="row_number", expressions=[]),
        partition_by=[key.copy() for key in keys],
        order=exp.Order(expressions=[ordered.copy() for ordered in rest or first]),
        over="OVER",
    )
    select = node.copy()
    select.set("distinct", None)
    condition = exp.EQ(this=window, expression=exp.Literal.number(1))
    for part in (window, window.this, condition, condition.expression):
        part.meta.update(first=on.meta.get("first", 0), last=on.meta.get("last", 0))
    select.set("qualify", exp.Qualify(this=condition))
    return select
