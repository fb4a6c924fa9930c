"""Write the query to ask instead of a refused one, for the remedy to show.

Each function returns the text of a question, or None where it knows none. They work on copies of the tree.
"""

from collections.abc import Iterator

from sqlglot import exp

from sfumato.query.catalog import Catalog, Table
from sfumato.query.functions import AGGREGATE_NAMES
from sfumato.query.names import Name, lookup

_CHOSEN, _MEMBER, _MATCHES, _PERSON, _TOTAL = "chosen", "member", "found", "per_person", "total"
_ABOVE_GROUPS = ("joins", "having", "qualify", "order", "limit", "offset", "distinct", "with_")
_MARK = "rewritten"


def join_query(node: exp.Expr, catalog: Catalog) -> str | None:
    """Return `x IN (SELECT …)` or EXISTS as a join with its distinct values; after NOT, what has no partner is kept."""
    root, copy = _copy_tree(node)
    scope, condition, negated = _conjunct(copy)
    parts = _membership(copy, scope, catalog) if scope is not None else None
    if scope is None or parts is None or any(join.meta.get("comma") for join in scope.args.get("joins") or []):
        return None
    outer, inner, member = parts
    listed: list[exp.Expr] = [exp.alias_(member, _MEMBER)]
    if negated:
        listed.append(exp.alias_(_count_rows(), _MATCHES))
    inner.set("expressions", listed)
    inner.set("distinct", None)
    inner.set("group", exp.Group(expressions=[member.copy()]))
    source = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(_CHOSEN)))
    on = exp.EQ(this=outer, expression=exp.column(_MEMBER, _CHOSEN))
    absent = exp.Is(this=exp.column(_MATCHES, _CHOSEN), expression=exp.Null()) if negated else None
    conditions = [absent if part is condition else part for part in _conjuncts(scope.args["where"].this)]
    if negated and isinstance(copy, exp.In) and not _is_unit(outer, _tables_of_from(scope, catalog)):
        present = exp.Is(this=outer.copy(), expression=exp.Not(this=exp.Null()))
        conditions.append(present)  # NULL is not outside of a list either
    scope.set("where", _where_clause(conditions))
    scope.append("joins", exp.Join(this=source, on=on, side="LEFT" if negated else None))
    return _sql_text(root)


def list_query(node: exp.Expr) -> str | None:
    """Return the question whose answer is the list that `x IN (SELECT …)` reads."""
    inner = _subquery(node)
    if not isinstance(inner, exp.Select) or len(inner.expressions) != 1 or inner.args.get("group"):
        return None
    item = inner.expressions[0].unalias()
    if not isinstance(item, exp.Column) or inner.args.get("limit"):
        return None
    inner = inner.copy()
    inner.set("distinct", None)
    inner.append("expressions", _count_rows())
    inner.set("group", exp.Group(expressions=[item.copy()]))
    return _sql_text(inner)


def first_rows_query(node: exp.Expr) -> str | None:
    """Return the question whose answer is the value that a subquery stands for."""
    inner = _subquery(node)
    return _sql_text(inner) if isinstance(inner, exp.Select) else None


def first_rows_by_key_query(node: exp.Expr, catalog: Catalog) -> str | None:
    """Return the question whose answer has the value of a subquery for each key that leads to the row around it."""
    inner = _subquery(node)
    if not isinstance(inner, exp.Select) or inner.args.get("group") is not None:
        return None
    inner = inner.copy()
    pair = _take_correlation(inner, catalog)
    if pair is None:
        return None
    inner.set("expressions", [pair[1].copy(), *inner.expressions])
    inner.set("group", exp.Group(expressions=[pair[1].copy()]))
    return _sql_text(inner)


def group_query(node: exp.Expr, catalog: Catalog) -> str | None:
    """Return the closest query to a window: the same aggregate by GROUP BY, or the groups without the window."""
    root, copy = _copy_tree(node)
    scope = copy.find_ancestor(exp.Select)
    if scope is not None and isinstance(copy.this, exp.Identifier):  # WINDOW w AS (…): the window that uses it is meant
        copy = next((window for window in scope.find_all(exp.Window) if window.args.get("alias") == copy.this), copy)
    if scope is None or isinstance(copy.this, exp.Identifier):
        return None
    named = [window for window in scope.args.get("windows") or [] if window.this == copy.args.get("alias")]
    keys = [key.copy() for window in (copy, *named) for key in window.args.get("partition_by") or []]
    if scope.args.get("group") is not None:
        return _without(copy, scope, root)
    people = [column for column in map(_unit_of, _tables_of_from(scope, catalog).values()) if column is not None]
    if any(isinstance(key, exp.Column) and _same(key, unit) for key in keys for unit in people):
        return _per_person(copy, scope, keys)
    if _function(copy) not in AGGREGATE_NAMES:
        return _per_person(copy, scope, [exp.column(people[0])]) if len(people) == 1 else None
    plain = exp.Select(expressions=[*keys, copy.this.copy()])
    for part in ("from_", "joins", "where"):
        plain.set(part, scope.args.get(part))
    if keys:
        plain.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    return _sql_text(plain)


def first_union_part(node: exp.Expr, _: Catalog) -> str | None:
    """Return the first part of a UNION, to be asked alone."""
    first = node.this
    while isinstance(first, exp.Union | exp.Subquery):
        first = first.this
    return _sql_text(first) if isinstance(first, exp.Select) else None


def count_truths(node: exp.Expr, negated: bool) -> str | None:
    """Return BOOL_OR(p) as the number of rows where p is true, and BOOL_AND(p) as that of rows where it is false."""
    root, copy = _copy_tree(node)
    if len(copy.expressions) != 1:
        return None
    condition: exp.Expr = copy.expressions[0].copy()
    if negated:
        condition = exp.Not(this=exp.Paren(this=condition))
    whole = copy.parent if isinstance(copy.parent, exp.Filter) else copy
    if whole is not copy and whole.expression is not None:
        condition = exp.And(this=whole.expression.this.copy(), expression=exp.Paren(this=condition))
    replaced = whole.replace(exp.Filter(this=_count_rows(), expression=exp.Where(this=condition)))
    return _sql_text(replaced if whole is root else root)


def key_query(node: exp.Expr) -> str | None:
    """Return ANY_VALUE(x) or STRING_AGG(x, …) as one more key, with the number of rows of each group."""
    root, copy = _copy_tree(node)
    scope = copy.find_ancestor(exp.Select)
    if scope is None or not copy.expressions or isinstance(copy.parent, exp.Filter):
        return None
    key = copy.expressions[0].copy()
    if isinstance(key, exp.Distinct):
        key = key.expressions[0]
    copy.replace(key.copy())
    group = scope.args.get("group")
    scope.set("group", exp.Group(expressions=[*(group.expressions if group is not None else []), key]))
    if not any(str(call.this).lower() in AGGREGATE_NAMES for call in scope.find_all(exp.Anonymous)):
        scope.append("expressions", _count_rows())
    return _sql_text(root)


def clipped_totals_query(call: exp.Expr, ends: tuple[exp.Expr, exp.Expr], catalog: Catalog) -> str | None:
    """Return SUM(x) or COUNT(x) with bounds of a person's total in a group: each person is added up, then clipped."""
    root, copy = _copy_tree(call)
    scope, name = copy.find_ancestor(exp.Select), str(call.this).lower()
    (unit,) = units if scope is not None and len(units := _units_of_from(scope, catalog)) == 1 else (None,)
    if scope is None or scope is not root or unit is None or name not in ("sum", "count"):
        return None
    keys = [key.copy() for key in (scope.args["group"].expressions if scope.args.get("group") is not None else [])]
    others = [item.unalias() for item in scope.expressions if not _is_item(item, copy)]
    plain = all(isinstance(key, exp.Column) for key in keys) and all(other in keys for other in others)
    if not plain or len(others) == len(scope.expressions) or any(scope.args.get(part) for part in _ABOVE_GROUPS):
        return None
    inner = scope.copy()
    total = exp.Anonymous(this=name.upper(), expressions=[call.expressions[0].copy()])
    inner.set("expressions", [exp.column(unit), *(key.copy() for key in keys), exp.alias_(total, _TOTAL)])
    inner.set("group", exp.Group(expressions=[exp.column(unit), *(key.copy() for key in keys)]))
    least = exp.Anonymous(this="GREATEST", expressions=[exp.column(_TOTAL), ends[0].copy()])
    clipped = exp.Anonymous(this="LEAST", expressions=[least, ends[1].copy()])
    copy.replace(exp.Anonymous(this="SUM", expressions=[clipped]))
    scope.set("where", None)
    scope.set("from_", exp.From(this=exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(_PERSON)))))
    return _sql_text(root)


def quantiles_query(call: exp.Expr, parts: int) -> str | None:
    """Return APPROX_QUANTILES(x, n) as one quantile for each place between its ends."""
    root, copy = _copy_tree(call)
    scope = copy.find_ancestor(exp.Select)
    if scope is None or not any(_is_item(item, copy) for item in scope.expressions):
        return None
    found: list[exp.Expr] = []
    for item in scope.expressions:
        if not _is_item(item, copy):
            found.append(item)
            continue
        for index in range(1, parts):
            level = exp.Literal.number(f"{index / parts:.6f}".rstrip("0"))
            found.append(exp.Anonymous(this="QUANTILE_CONT", expressions=[call.expressions[0].copy(), level]))
    scope.set("expressions", found)
    return _sql_text(root)


def renamed_query(call: exp.Expr, name: str) -> str | None:
    """Return the question with another function in place of a call."""
    root, copy = _copy_tree(call)
    copy.set("this", name)
    return _sql_text(root)


def _is_item(item: exp.Expr, call: exp.Expr) -> bool:
    return item.unalias() is call


def _units_of_from(scope: exp.Select, catalog: Catalog) -> list[str]:
    units = [_unit_of(table) for table in _tables_of_from(scope, catalog).values()]
    return [unit for unit in units if unit is not None]


def in_one_person(node: exp.Expr, catalog: Catalog) -> bool:
    """Whether a call stands in a SELECT that groups by a column that names people."""
    scope = node.find_ancestor(exp.Select)
    group = scope.args.get("group") if scope is not None else None
    if scope is None or group is None:
        return False
    tables = _tables_of_from(scope, catalog)
    chosen = [scope.expressions[int(key.name) - 1] if _is_ordinal(key, scope) else key for key in group.expressions]
    return any(isinstance(key.unalias(), exp.Column) and _is_unit(key.unalias(), tables) for key in chosen)


def _is_ordinal(key: exp.Expr, scope: exp.Select) -> bool:
    return isinstance(key, exp.Literal) and key.name.isdigit() and 1 <= int(key.name[:9]) <= len(scope.expressions)


def names_people(node: exp.Expr, catalog: Catalog) -> bool:
    """Whether the first argument of a call is a column that names people."""
    scope, key = node.find_ancestor(exp.Select), node.expressions[0] if node.expressions else None
    if isinstance(key, exp.Distinct):
        key = key.expressions[0]
    return scope is not None and isinstance(key, exp.Column) and _is_unit(key, _tables_of_from(scope, catalog))


def _sql_text(tree: exp.Expr) -> str:
    return tree.sql(dialect="postgres")


def _copy_tree(node: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    """Return a copy of the whole tree and the place of the node in it."""
    node.meta[_MARK] = True
    root = node.root().copy()
    del node.meta[_MARK]
    return root, next(part for part in root.walk() if part.meta.get(_MARK))


def _count_rows() -> exp.Expr:
    return exp.Anonymous(this="COUNT", expressions=[exp.Star()])


def _conjunct(node: exp.Expr) -> tuple[exp.Select | None, exp.Expr, bool]:
    """Return the SELECT whose WHERE needs this condition, the condition with its NOTs, and whether they negate it."""
    part, negated = node, False
    while isinstance(part.parent, exp.Paren | exp.Not):
        negated ^= isinstance(part.parent, exp.Not)
        part = part.parent
    above = part.parent
    while isinstance(above, exp.And | exp.Paren):
        above = above.parent
    scope = above.parent if isinstance(above, exp.Where) else None
    return (scope if isinstance(scope, exp.Select) else None), part, negated


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(condition, exp.And):
        yield from _conjuncts(condition.this)
        yield from _conjuncts(condition.expression)
    elif isinstance(condition, exp.Paren) and isinstance(condition.unnest(), exp.And):
        yield from _conjuncts(condition.unnest())
    else:
        yield condition


def _where_clause(conditions: list[exp.Expr | None]) -> exp.Where | None:
    present = [condition for condition in conditions if condition is not None]
    if not present:
        return None
    whole = present[0]
    for part in present[1:]:
        whole = exp.And(this=whole, expression=part)
    return exp.Where(this=whole)


def _subquery(node: exp.Expr) -> exp.Expr | None:
    inner = node.args.get("query") if isinstance(node, exp.In) else node if isinstance(node, exp.Select) else node.this
    return inner.unnest() if isinstance(inner, exp.Subquery) else inner


def _membership(
    node: exp.Expr, scope: exp.Select, catalog: Catalog
) -> tuple[exp.Column, exp.Select, exp.Column] | None:
    """Return the outer expression, the subquery and the column of it that are compared."""
    inner = _subquery(node)
    if not isinstance(inner, exp.Select) or any(inner.args.get(part) for part in ("limit", "offset", "with_")):
        return None
    pair = _take_correlation(inner, catalog) if isinstance(node, exp.Exists) else _listed_columns(node, inner)
    if pair is None or not _may_join(*pair, inner, scope, catalog):
        return None
    group = inner.args.get("group")
    if group is not None and [_sql_text(key) for key in group.expressions] != [_sql_text(pair[1])]:
        return None
    return pair[0], inner, pair[1]


def _listed_columns(node: exp.Expr, inner: exp.Select) -> tuple[exp.Column, exp.Column] | None:
    items = [item.unalias() for item in inner.expressions]
    if len(items) == 1 and isinstance(items[0], exp.Column) and isinstance(node.this, exp.Column):
        return node.this, items[0]
    return None


def _take_correlation(inner: exp.Select, catalog: Catalog) -> tuple[exp.Column, exp.Column] | None:
    """Return the one equality of EXISTS that leads outside, taken out of its WHERE."""
    where = inner.args.get("where")
    own = _tables_of_from(inner, catalog)
    parts = list(_conjuncts(where.this)) if where is not None else []
    leading = [
        part for part in parts if not all(_is_private_column(column, own) for column in part.find_all(exp.Column))
    ]
    if len(leading) != 1 or not isinstance(leading[0], exp.EQ):
        return None
    sides = [leading[0].this, leading[0].expression]
    inside = [side for side in sides if isinstance(side, exp.Column) and _is_private_column(side, own)]
    outside = [side for side in sides if isinstance(side, exp.Column) and not _is_private_column(side, own)]
    if len(inside) != 1 or len(outside) != 1:
        return None
    inner.set("where", _where_clause([part for part in parts if part is not leading[0]]))
    return outside[0], inside[0]


def _may_join(outer: exp.Column, member: exp.Column, inner: exp.Select, scope: exp.Select, catalog: Catalog) -> bool:
    """Whether the join is answered: public rows, or rows that belong to the person of the row they meet."""
    own, around = _tables_of_from(inner, catalog), _tables_of_from(scope, catalog)
    if not own or None in own.values():
        return False
    if all(table is not None and table.public for table in own.values()):
        return True
    return _is_unit(member, own) and _is_unit(outer, around)


def _tables_of_from(select: exp.Select, catalog: Catalog) -> dict[str, Table | None]:
    """Return the tables of FROM by their names there; None for one that is not a table of the policy."""
    origin = select.args.get("from_")
    sources = [origin.this] if origin is not None else []
    sources += [join.this for join in select.args.get("joins") or []]
    tables: dict[str, Table | None] = {}
    for source in sources:
        name = Name(source.name, quoted=True) if isinstance(source, exp.Table) else None
        tables[source.alias_or_name.lower()] = lookup(name, catalog.tables) if name is not None else None
    return tables


def _is_private_column(column: exp.Column, tables: dict[str, Table | None]) -> bool:
    if column.table:
        return column.table.lower() in tables
    name = Name(column.name, quoted=True)
    return any(table is not None and lookup(name, table.columns) is not None for table in tables.values())


def _is_unit(column: exp.Column, tables: dict[str, Table | None]) -> bool:
    mine = [tables.get(column.table.lower())] if column.table else list(tables.values())
    return any((unit := _unit_of(table)) is not None and _same(column, unit) for table in mine)


def _unit_of(table: Table | None) -> str | None:
    return None if table is None else table.unit


def _same(column: exp.Column, name: str) -> bool:
    return Name(column.name, quoted=True).matches(name)


def _function(window: exp.Expr) -> str:
    called = window.this.this if isinstance(window.this, exp.Filter) else window.this
    return str(called.this).lower() if isinstance(called, exp.Anonymous) else ""


def _without(node: exp.Expr, scope: exp.Select, root: exp.Expr) -> str | None:
    """Return a grouped question without the column of the window, in the order that the window has."""
    remaining = [item for item in scope.expressions if all(part is not node for part in item.walk())]
    order = node.args.get("order")
    if not remaining or len(remaining) == len(scope.expressions):
        return None
    scope.set("expressions", remaining)
    if order is not None and scope.args.get("order") is None:
        scope.set("order", order.copy())
    return _sql_text(root)


def _per_person(node: exp.Expr, scope: exp.Select, keys: list[exp.Expr]) -> str:
    """Return a question about one number of each person: an aggregate of theirs, or how many rows they have."""
    counts = _function(node) == "count" or _function(node) not in AGGREGATE_NAMES
    inner = exp.Select(expressions=[*keys, exp.alias_(_count_rows() if counts else node.this.copy(), "n")])
    for part in ("from_", "joins", "where"):
        inner.set(part, scope.args.get(part))
    inner.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    source = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(_PERSON)))
    number = exp.column("n")
    items = [number, _count_rows()] if counts else [exp.Anonymous(this="AVG", expressions=[number])]
    outer = exp.Select(expressions=items, from_=exp.From(this=source))
    if counts:
        outer.set("group", exp.Group(expressions=[number.copy()]))
    return _sql_text(outer)
