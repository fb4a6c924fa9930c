"""`x = ANY (…)` is `x IN …` and `x <> ALL (…)` is `x NOT IN …`, also of NULLs: they are one measurement."""

from dataclasses import dataclass

from sqlglot import exp

_ANY = frozenset({"any", "some"})


@dataclass(frozen=True, slots=True)
class Quantifier:
    """The right side of a comparison with ANY (…) or ALL (…): a subquery, or an array."""

    every: bool
    operand: exp.Expr


def quantifier(node: exp.Expr) -> Quantifier | None:
    """Return the quantifier on the right side of a comparison; None where a plain value stands there."""
    right = node.expression
    if isinstance(right, exp.Any | exp.All):
        return Quantifier(isinstance(right, exp.All), _inner(right.this))
    if isinstance(right, exp.Anonymous) and len(right.expressions) == 1:
        name = str(right.this).lower()
        if name in _ANY or name == "all":
            return Quantifier(name == "all", _inner(right.expressions[0]))
    return None


def write_memberships(tree: exp.Expr) -> None:
    """Write every `= ANY` of a tree as IN, and every `<> ALL` as NOT IN."""
    for node in list(tree.find_all(exp.EQ, exp.NEQ)):
        found = quantifier(node)
        if found is None or found.every is not isinstance(node, exp.NEQ):
            continue
        operand = found.operand
        listed = "query" if isinstance(operand, exp.Subquery | exp.Query) else "unnest"
        members = operand if listed == "query" else exp.Unnest(expressions=[operand])
        contained: exp.Expr = exp.In(this=node.this, **{listed: members})
        made = exp.Not(this=contained) if found.every else contained
        for part in (made, contained, members):
            part.meta.update({key: value for key, value in node.meta.items() if key not in part.meta})
        node.replace(made)


def _inner(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node
