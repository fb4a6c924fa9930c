"""Groups and windows of catalogue queries: aggregates that SQLite has, and calls of ours for the others."""

from collections.abc import Iterator

from sqlglot import exp

from sfumato.server.wire import oids
from sfumato.server.wire.pg_catalog.calls import array_of
from sfumato.server.wire.pg_catalog.casting import INTEGERS
from sfumato.server.wire.pg_catalog.compiled import ColumnScope, Compiled
from sfumato.server.wire.pg_catalog.expressions import Expressions, is_ordered
from sfumato.server.wire.pg_catalog.folds import Fold
from sfumato.server.wire.pg_catalog.trees import refused
from sfumato.server.wire.sqlstates import WireError

_NAMES = {
    "count": oids.INT8,
    "array_agg": 0,
    "string_agg": oids.TEXT,
    "max": 0,
    "min": 0,
    "sum": oids.INT8,
    "bool_or": oids.BOOL,
    "bool_and": oids.BOOL,
    "every": oids.BOOL,
}
_OF_BOOLEANS = {"bool_or": "max", "bool_and": "min", "every": "min"}


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node calls an aggregate."""
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in _NAMES


def _aggregate(node: exp.Expr, read: Expressions, scope: ColumnScope) -> Compiled:
    where = ""
    if isinstance(node, exp.Filter):
        where = f" FILTER (WHERE {read.read(node.expression.this, scope).sql})"
        node = node.this
    name = str(node.this).lower()
    parts, order, distinct = list(node.expressions), [], False
    if len(parts) == 1 and isinstance(parts[0], exp.Distinct):
        distinct, parts = True, list(parts[0].expressions)
    last = parts[-1] if parts else None
    if isinstance(last, exp.Order):
        order = list(last.expressions)
        parts = [*parts[:-1], *([last.this] if last.this is not None else [])]
    if parts and isinstance(parts[0], exp.Distinct):
        distinct, parts = True, [*parts[0].expressions, *parts[1:]]
    if any(isinstance(part, exp.Star) for part in parts):
        parts = []
    elif not parts and name != "count":
        raise WireError("42883", f"{name} needs an argument")
    arguments = [read.settled(read.read(part, scope)) for part in parts]
    oid = _NAMES[name] or (arguments[0].oid if arguments else oids.INT8)
    name = _OF_BOOLEANS.get(name, name)
    if name == "count" or (name != "array_agg" and name != "string_agg" and _is_native(name, arguments[0])):
        inner = f"{'DISTINCT ' * distinct}{arguments[0].sql}" if arguments else "*"
        return Compiled(oid, f"{name}({inner}){where}")
    keys = [(read.read(part.this, scope), bool(part.args.get("desc"))) for part in order]
    given = [*arguments, *(key for key, _ in keys)]
    fold = Fold(name, len(arguments), tuple(descending for _, descending in keys), distinct)
    number = read.calls.number(fold, tuple(part.oid for part in given))
    sql = f"fold({', '.join([str(number), *(part.sql for part in given)])}){where}"
    read.learned.spend_text(sql)
    return Compiled(array_of(oid) if name == "array_agg" else oid, sql)


def _is_native(name: str, part: Compiled) -> bool:
    return part.oid in INTEGERS if name == "sum" else is_ordered(part)


def _row_number(node: exp.Expr, read: Expressions, scope: ColumnScope) -> Compiled:
    """ROW_NUMBER() OVER (…), the only window function that clients use."""
    call = node.this.expression if isinstance(node.this, exp.Dot) else node.this
    name = str(call.this).lower() if isinstance(call, exp.Anonymous) else type(call).__name__.lower()
    if name not in ("row_number", "rownumber"):
        raise refused(node)
    clause = node.args.get("order")
    keys = [(read.read(part.this, scope), part) for part in (clause.expressions if clause is not None else [])]
    partition = [read.read(part, scope) for part in node.args.get("partition_by") or []]
    return Compiled(oids.INT8, row_number(partition, [in_order(key, part) for key, part in keys]))


def row_number(partition: list[Compiled], order: list[str]) -> str:
    """Return the number of a row within its partition, in an order."""
    parts = ", ".join(part.sql for part in partition if not part.is_constant)
    by = f"PARTITION BY {parts} " if parts else ""
    return f"row_number() OVER ({by}{order_by(order)})"


def order_by(keys: list[str]) -> str:
    """Return the clause that puts rows in an order."""
    return f" ORDER BY {', '.join(keys)}" if keys else ""


def in_order(key: Compiled, node: exp.Expr) -> str:
    """Return a key of an order, with its direction and where NULL stands."""
    if key.is_constant:
        return "NULL"
    direction = "DESC" if node.args.get("desc") else "ASC"
    return f"{key.sql} {direction} NULLS {'FIRST' if node.args.get('nulls_first') else 'LAST'}"


class Gathered:
    """The groups of a SELECT, and what its aggregates and windows are."""

    def __init__(self, node: exp.Select, read: Expressions, scope: ColumnScope) -> None:
        calls = [call for part in _parts(node) for call in _calls(part)]
        self.slots = {
            id(call): (_row_number if isinstance(call, exp.Window) else _aggregate)(call, read, scope) for call in calls
        }
        group = node.args.get("group")
        self._keys = [self._key(part, node, read, scope) for part in (group.expressions if group is not None else [])]
        self.is_one_group = group is None and any(not isinstance(call, exp.Window) for call in calls)

    @property
    def sql(self) -> str:
        """The GROUP BY clause."""
        keys = [key.sql if not key.is_constant else "NULL" for key in self._keys]
        return f" GROUP BY {', '.join(keys)}" if keys else ""

    def _key(self, part: exp.Expr, node: exp.Select, read: Expressions, scope: ColumnScope) -> Compiled:
        if isinstance(part, exp.Literal) and str(part.this).isdigit():
            at = int(str(part.this)[:6]) - 1
            if not 0 <= at < len(node.expressions):
                raise WireError("42P10", f"GROUP BY position {at + 1} is not in select list")
            part = node.expressions[at]
        elif (
            isinstance(part, exp.Column)
            and part.args.get("table") is None
            and scope.find("", part.name.lower()) is None
        ):
            named = [item for item in node.expressions if isinstance(item, exp.Alias) and item.alias == part.name]
            part = named[0] if named else part
        return read.read(part, scope)


def _parts(node: exp.Select) -> Iterator[exp.Expr]:
    yield from node.expressions
    for key in ("having", "order"):
        if node.args.get(key) is not None:
            yield node.args[key]


def _calls(node: exp.Expr) -> Iterator[exp.Expr]:
    """Give the aggregates and windows of an expression, those of queries inside it left out."""
    if isinstance(node, exp.Query) and not isinstance(node, exp.Table):
        return
    if isinstance(node, exp.Window) or is_aggregate(node) or (isinstance(node, exp.Filter) and is_aggregate(node.this)):
        yield node
        return
    for child in node.iter_expressions():
        yield from _calls(child)
