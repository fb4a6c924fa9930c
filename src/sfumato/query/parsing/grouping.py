"""GROUPING SETS, ROLLUP and CUBE: one question for each set of keys, and their rows in one table.

A key that a set lacks is NULL in its rows, and GROUPING tells such a NULL from others. The sets count the same rows, so
what is measured of one is used for all (planning/shared_marginals.py).
"""

from itertools import chain, combinations, product
from math import prod

from sqlglot import exp

from sfumato.query.parsing.aggregate import is_aggregate
from sfumato.query.parsing.reading import ParseContext

_SETS = (exp.GroupingSets, exp.Cube, exp.Rollup)
MAX_GROUPING_SETS = 16
"""Maximum number of grouping sets of one GROUP BY."""
_MAX_SHOWN_SETS = 1_000_000
"""A refusal tells numbers up to this one."""

GroupingKeys = tuple[exp.Expr, ...]
Meanings = dict[str, str]
"""Number or alias of an item of SELECT, and the text of that item."""


def expand_grouping_sets(node: exp.Select, reading: ParseContext) -> exp.Expr | None:
    """Return the UNION ALL that a SELECT with several sets of keys stands for; None where it has one."""
    group = node.args.get("group")
    if group is None or not any(isinstance(part, _SETS) for part in group.expressions):
        return None
    number = prod(_count_sets(part) for part in group.expressions)
    if number > MAX_GROUPING_SETS:  # counted before they are written out: a short text can stand for any number of them
        raise reading.place(group).too_large(
            f"these are {number if number <= _MAX_SHOWN_SETS else f'more than {_MAX_SHOWN_SETS:,}'} sets of keys.",
            f"At most {MAX_GROUPING_SETS} are answered at once, because each is measured.",
            "Name the sets that are needed with GROUPING SETS.",
        )
    sets = [tuple(chain.from_iterable(some)) for some in product(*(_sets(part) for part in group.expressions))]
    meanings = _meanings(node)
    every = {_meant_key(key, meanings) for key in chain.from_iterable(sets)}
    sides = [_select_one_set(node, keys, every, meanings) for keys in sets]
    whole: exp.Expr = sides[0]
    for side in sides[1:]:
        whole = exp.Union(this=whole, expression=side, distinct=False)
        whole.meta.update(node.meta)
    for part in ("with_", "limit", "offset"):
        if node.args.get(part) is not None:
            whole.set(part, node.args[part])
    if node.args.get("order") is not None:
        whole.set("order", _order_of_answer(node))
    return whole


def _meanings(node: exp.Select) -> Meanings:
    """Return the items that numbers and aliases refer to; columns come first, constants are left out."""
    meanings: Meanings = {}
    for number, item in enumerate(node.expressions, 1):
        shown = item.unalias()
        meanings[str(number)] = "" if isinstance(shown, exp.Literal) else _key_text(shown)
        alias = item.alias.lower() if isinstance(item, exp.Alias) else ""
        if alias and not any(column.name.lower() == alias for column in shown.find_all(exp.Column)):
            meanings.setdefault(alias, meanings[str(number)])
    return meanings


def _meant_key(key: exp.Expr, meanings: Meanings) -> str:
    """Return the text of a key, or of the item that its number or alias stands for."""
    plain = isinstance(key, exp.Column) and key.args.get("table") is None
    if plain or (isinstance(key, exp.Literal) and not key.is_string):
        return meanings.get(key.name.lower(), _key_text(key))
    return _key_text(key)


def _count_sets(part: exp.Expr) -> int:
    """Return how many sets `_sets` returns, without writing them out."""
    match part:
        case exp.GroupingSets():
            return sum(_count_sets(element) for element in part.expressions)
        case exp.Rollup():
            return len(part.expressions) + 1
        case exp.Cube():
            return 1 << len(part.expressions)
    return 1


def _sets(part: exp.Expr) -> list[GroupingKeys]:
    """Return the sets of keys that one part of GROUP BY stands for."""
    match part:
        case exp.GroupingSets():
            return [some for element in part.expressions for some in _sets(element)]
        case exp.Rollup():
            steps = [_set_keys(element) for element in part.expressions]
            return [tuple(chain.from_iterable(steps[:size])) for size in range(len(steps), -1, -1)]
        case exp.Cube():
            steps = [_set_keys(element) for element in part.expressions]
            sizes = range(len(steps), -1, -1)
            return [tuple(chain.from_iterable(some)) for size in sizes for some in combinations(steps, size)]
    return [_set_keys(part)]


def _set_keys(part: exp.Expr) -> GroupingKeys:
    """Return the keys of one set: (a, b), (a), a or ()."""
    match part:
        case exp.Tuple():
            return tuple(part.expressions)
        case exp.Paren():
            return (part.this,)
    return (part,)


def _select_one_set(node: exp.Select, keys: GroupingKeys, every: set[str], meanings: Meanings) -> exp.Select:
    """Return the question of one set of keys."""
    lacking = every - {_meant_key(key, meanings) for key in keys}
    side = exp.Select(**{part: _copy_value(value) for part, value in node.args.items() if part in _COPIED_PARTS})
    side.meta.update(node.meta)
    side.set("expressions", [_without(item.copy(), lacking, meanings, named=True) for item in node.expressions])
    if node.args.get("having") is not None:
        side.set("having", _without(node.args["having"].copy(), lacking, meanings))
    if keys:
        side.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    elif side.args.get("having") is None:  # the empty set is one group of everything, also without an aggregate
        side.set("having", exp.Having(this=exp.Boolean(this=True)))
    return side


_COPIED_PARTS = ("from_", "joins", "where", "windows")


def _copy_value(value: object) -> object:
    if isinstance(value, exp.Expr):
        return value.copy()
    return [_copy_value(item) for item in value] if isinstance(value, list) else value


def _without(node: exp.Expr, lacking: set[str], meanings: Meanings, *, named: bool = False) -> exp.Expr:
    """Return an expression in which the keys that a set lacks are NULL, and GROUPING is known."""
    if _is_grouping(node):
        bits = "".join("1" if _meant_key(part, meanings) in lacking else "0" for part in node.expressions)
        known = exp.Literal.number(int(bits or "0", 2))
        return exp.Alias(this=known, alias=exp.to_identifier("grouping")) if named else known
    if _key_text(node) in lacking:
        null = exp.Null()
        null.meta.update(node.meta)
        name = node.name if isinstance(node, exp.Column) else ""
        return exp.Alias(this=null, alias=exp.to_identifier(name)) if named and name else null
    if isinstance(node, exp.Anonymous | exp.Filter) and _is_aggregate(node):
        return node  # an aggregate is over rows, in which the keys have their values
    for part in list(node.iter_expressions()):
        changed = _without(part, lacking, meanings)
        if changed is not part:
            part.replace(changed)
    return node


def _is_grouping(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in {"grouping", "grouping_id"}


def _is_aggregate(node: exp.Expr) -> bool:
    inner = node.this if isinstance(node, exp.Filter) else node
    return isinstance(inner, exp.Anonymous) and is_aggregate(str(inner.this).lower())


def _order_of_answer(node: exp.Select) -> exp.Expr:
    """Return the order in terms of the answer's columns: a UNION knows no others."""
    order: exp.Expr = node.args["order"].copy()
    places: dict[str, int] = {}
    for ordinal, item in enumerate(node.expressions, 1):
        shown = item.this if isinstance(item, exp.Alias) else item
        places.setdefault(_key_text(shown), ordinal)
    for ordered in order.expressions:
        index = places.get(_key_text(ordered.this))
        if index is not None and not isinstance(ordered.this, exp.Literal):
            number = exp.Literal.number(index)
            number.meta.update(ordered.this.meta)
            ordered.set("this", number)
    return order


def _key_text(node: exp.Expr) -> str:
    return node.sql(dialect="postgres", normalize=True, comments=False)
