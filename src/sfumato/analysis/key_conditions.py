"""Conditions on several keys together, said again of the groups: combinations that they exclude are not shown."""

from sfumato.query.expression import Call, Column, Expression, children, conjunction, conjuncts, rebuild, walk
from sfumato.query.functions import Function
from sfumato.query.relation import Filter, GroupBy, Join, JoinKind, Project, Relation


def condition_on_keys(relation: GroupBy) -> Expression | None:
    """Return what WHERE says of several keys by OR, in terms of the groups; None where it says no such thing.

    Every row of a group fulfils it, so a group that does not has no rows, whatever the data. A condition on one key
    leaves fewer values of that key; only an OR of conditions on several leaves combinations of them.
    Proof: proofs/lineage.md (§7)
    """
    keys = {key.expression: Column(relation.label, key.name, key.expression.type) for key in relation.keys}
    names = {shown: key for shown, key in keys.items() if isinstance(shown, Column)}
    found, waiting = list[Expression](), [(relation.source, names)]
    while waiting:
        source, known = waiting.pop()
        conditions, below = _read(source, known)
        found += [of_keys for part in conditions if (of_keys := _said_of_keys(part, known)) is not None]
        waiting += below
    return conjunction(tuple(found)) if found else None


_Names = dict[Column, Column]
"""Columns of a relation by which groups are formed, each with the key that shows it."""


def _read(source: Relation, known: _Names) -> tuple[tuple[Expression, ...], list[tuple[Relation, _Names]]]:
    """Return what all rows of a relation fulfil, and the relations below whose rows they are."""
    match source:
        case Filter(below, condition):
            return conjuncts(condition), [(below, known)]
        case Join(JoinKind.INNER, left, right, condition):
            return () if condition is None else conjuncts(condition), [(left, known), (right, known)]
        case Project(below, label, items):
            shown = {item.expression: known.get(Column(label, item.name, item.expression.type)) for item in items}
            names = {
                expression: key
                for expression, key in shown.items()
                if key is not None and isinstance(expression, Column)
            }
            return (), [(below, names)]
    return (), []


def _said_of_keys(part: Expression, known: _Names) -> Expression | None:
    if not isinstance(part, Call) or part.function is not Function.OR:
        return None
    used = {node for node, _ in walk(part) if isinstance(node, Column)}
    return _in_terms_of(part, known) if len(used) > 1 and used <= known.keys() else None


def _in_terms_of(expression: Expression, known: _Names) -> Expression:
    if isinstance(expression, Column):
        return known[expression]
    return rebuild(expression, tuple(_in_terms_of(child, known) for child in children(expression)))
