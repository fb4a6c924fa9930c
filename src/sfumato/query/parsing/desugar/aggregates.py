"""Calls that others are made of are written out in the tree, before anything is read: they mean what those mean."""

from collections.abc import Callable

from sqlglot import exp

RewriteCall = Callable[[list[exp.Expr], exp.Expr | None], exp.Expr | None]
"""Returns the tree that a call stands for, given its arguments and what follows FILTER; None where it has no FILTER."""


def write_out(tree: exp.Expr) -> None:
    """Write out every such call of a tree; an argument that holds another one stays as it is, and is refused later.

    So an argument that is written twice cannot double again and again.
    """
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        for part in list(node.iter_expressions()):
            rewritten = _write_out(part)
            if rewritten is None:
                waiting.append(part)
                continue
            _move_place(part, rewritten)
            if isinstance(node, exp.Select) and part.arg_key == "expressions":
                name = str(_call_and_filter(part)[0].this).lower()
                rewritten = _at_place_of(part, exp.Alias(this=rewritten, alias=exp.to_identifier(name)))
            part.replace(rewritten)
            if isinstance(rewritten, exp.If):
                waiting.append(rewritten)


def _write_out(node: exp.Expr) -> exp.Expr | None:
    call, condition = _call_and_filter(node)
    if not isinstance(call, exp.Anonymous) or isinstance(call.this, exp.Expr) or isinstance(node.parent, exp.Window):
        return None
    name, arguments = str(call.this).lower(), call.expressions
    if name not in _REWRITINGS or any(isinstance(argument, exp.Star | exp.Distinct) for argument in arguments):
        return None
    count, written = _REWRITINGS[name]
    return written(arguments, condition) if len(arguments) == count else None


def _call_and_filter(node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    return (node.this, node.expression) if isinstance(node, exp.Filter) else (node, None)


def _move_place(node: exp.Expr, rewritten: exp.Expr) -> None:
    """Give what was written out the place of what it stands for; its arguments keep theirs."""
    for part in rewritten.walk(prune=lambda part: "last" in part.meta):
        if "last" not in part.meta:
            _at_place_of(node, part)


def _at_place_of(node: exp.Expr, rewritten: exp.Expr) -> exp.Expr:
    rewritten.meta.update(node.meta)
    return rewritten


def _aggregate_call(name: str, argument: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    call = exp.Anonymous(this=name, expressions=[argument.copy()])
    return call if condition is None else exp.Filter(this=call, expression=condition.copy())


def _write_count_distinct(arguments: list[exp.Expr], condition: exp.Expr | None) -> exp.Expr:
    """APPROX_COUNT_DISTINCT(x): COUNT(DISTINCT x)."""
    return _aggregate_call("count", exp.Distinct(expressions=[arguments[0].copy()]), condition)


def _standard_error(arguments: list[exp.Expr], condition: exp.Expr | None) -> exp.Expr:
    """SEM(x): STDDEV_POP(x) / SQRT(COUNT(x))."""
    root = exp.Anonymous(this="sqrt", expressions=[_aggregate_call("count", arguments[0], condition)])
    return exp.Paren(this=exp.Div(this=_aggregate_call("stddev_pop", arguments[0], condition), expression=root))


def _weighted_average(arguments: list[exp.Expr], condition: exp.Expr | None) -> exp.Expr:
    """WEIGHTED_AVG(x, w): SUM(x * w) over the sum of the weights of rows that have an x."""
    value, weight = arguments
    product = exp.Mul(this=exp.Paren(this=value.copy()), expression=exp.Paren(this=weight.copy()))
    is_present = exp.Not(this=exp.Paren(this=exp.Is(this=exp.Paren(this=value.copy()), expression=exp.Null())))
    counted = exp.Case(ifs=[exp.If(this=is_present, true=weight.copy())])
    total = _aggregate_call("sum", counted, condition)
    over = exp.Mul(this=exp.Literal.number("1.0"), expression=_aggregate_call("sum", product, condition))
    return exp.Paren(this=exp.Div(this=over, expression=total))  # a decimal also where both are integers


def _geometric(arguments: list[exp.Expr], condition: exp.Expr | None) -> exp.Expr:
    """GEOMEAN(x): EXP(AVG(LN(x)))."""
    logarithm = exp.Anonymous(this="ln", expressions=[arguments[0].copy()])
    return exp.Anonymous(this="exp", expressions=[_aggregate_call("avg", logarithm, condition)])


def _safe_quotient(arguments: list[exp.Expr], condition: exp.Expr | None) -> exp.Expr | None:
    """SAFE_DIVIDE(a, b): 1.0 * a / NULLIF(b, 0), a decimal also where both are integers."""
    above, below = (exp.Paren(this=argument.copy()) for argument in arguments)
    over = exp.Mul(this=exp.Literal.number("1.0"), expression=above)
    under = exp.Anonymous(this="nullif", expressions=[below, exp.Literal.number("0")])
    return None if condition is not None else exp.Paren(this=exp.Div(this=over, expression=under))


def _write_iif(arguments: list[exp.Expr], condition: exp.Expr | None) -> exp.Expr | None:
    """IIF(p, a, b): CASE WHEN p THEN a ELSE b END."""
    first, then, other = arguments
    return None if condition is not None else exp.If(this=first, true=then, false=other)


_REWRITINGS: dict[str, tuple[int, RewriteCall]] = {
    "approx_count_distinct": (1, _write_count_distinct),
    "sem": (1, _standard_error),
    **dict.fromkeys(("weighted_avg", "wavg"), (2, _weighted_average)),
    **dict.fromkeys(("geomean", "geometric_mean"), (1, _geometric)),
    "iif": (3, _write_iif),
    "safe_divide": (2, _safe_quotient),
}
"""Names, how many arguments each has, and what it becomes."""

ARGUMENT_COUNTS = {name: f"{count} arguments" if count > 1 else "argument" for name, (count, _) in _REWRITINGS.items()}
"""Every name that is written out, and how many arguments it takes."""
