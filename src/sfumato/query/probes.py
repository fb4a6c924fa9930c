"""Questions that tools ask to learn columns: their answer follows from the text alone, so no row is read.

A question whose answer has no rows, whatever the data, is answered with none. `SELECT 1 FROM t LIMIT 1` is answered
with its constants, and a preview with made-up rows where the policy says so.
"""

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from fractions import Fraction

from sfumato.query.catalog import Catalog
from sfumato.query.declared import Admitted, DeclaredBounds, DeclaredValues
from sfumato.query.expression import Call, Column, Expression, Literal, Value, conjuncts
from sfumato.query.functions import Function
from sfumato.query.names import number_duplicates
from sfumato.query.private_rows import reads_private_tables
from sfumato.query.relation import (
    Filter,
    GroupBy,
    Join,
    JoinKind,
    Limit,
    MarkJoin,
    Named,
    Project,
    Query,
    Relation,
    Scan,
    Sort,
    UnionAll,
    Values,
    Window,
)
from sfumato.query.types import Type

_LABEL = "probe"
MARK = "synthetic"
"""The column that marks made-up rows."""
MAX_PREVIEW_ROWS = 100
_EXAMPLE_STRIDE_STEPS = 7919
"""A prime, so that values of neighbouring rows differ."""


def mark_column(columns: Iterable[str]) -> tuple[Named, ...]:
    """Return the column that marks made-up rows, as a question about real ones reads it: a constant.

    So a table has the same columns in a preview, in a probe and in the catalogue. A table that declares a column of
    this name has no other.
    """
    is_declared = any(column.lower() == MARK for column in columns)
    return () if is_declared else (Named(MARK, Literal(False, Type.BOOLEAN)),)


def without_reading(query: Query, catalog: Catalog, previews: bool = False) -> Query:
    """Return a question that reads no row and has the same answer, where the text alone decides it; else the same.

    With `previews`, the first rows of a private table are made up.
    """
    if not reads_private_tables(query.relation, catalog):
        return query
    if is_empty(query.relation):
        one_row = Values(_LABEL, (Type.INTEGER,), ((Literal(1, Type.INTEGER),),))
        items = tuple(Named(item.name, Literal(None, item.expression.type)) for item in query.relation.items)
        return Query(Project(Limit(one_row, 0, 0), query.relation.label, items), query.names)
    constants = _constants(query.relation)
    if constants is not None:
        one_row = Values(_LABEL, (Type.INTEGER,), ((Literal(1, Type.INTEGER),),))
        items = tuple(Named(item.name, value) for item, value in zip(query.relation.items, constants, strict=True))
        return Query(Project(one_row, query.relation.label, items), query.names)
    wanted = preview_of(query.relation) if previews else None
    return query if wanted is None else _made_up(query, *wanted, catalog)


def preview_of(relation: Relation) -> tuple[Scan, int, list[Expression]] | None:
    """Return the table, the number of rows and the columns, where a question shows the first rows of one table."""
    items = [item.expression for item in relation.items] if isinstance(relation, Project) else []
    node, rows = (relation.source if isinstance(relation, Project) else relation), None
    while not isinstance(node, Scan):
        match node:
            case Limit(source, int() as count, _):
                rows, node = count if rows is None else min(rows, count), source
            case Sort(source):
                node = source
            case Project(source, label, inner):
                meanings = {item.name: item.expression for item in inner}
                items = [
                    meanings[item.name] if isinstance(item, Column) and item.of == label else item for item in items
                ]
                node = source
            case _:
                return None
    return None if rows is None else (node, rows, items)


def _made_up(query: Query, scan: Scan, rows: int, columns: list[Expression], catalog: Catalog) -> Query:
    """Return a question that shows made-up rows with a mark; other expressions than columns are left as they are."""
    table = catalog.tables[scan.table]
    marks = mark_column(table.columns) if table.previewed else ()
    marked = [at for at, name in enumerate(query.names) if marks and (name, columns[at]) == (MARK, marks[0].expression)]
    shown = [column for column in columns if isinstance(column, Column) and column.of == scan.label]
    if len(shown) + len(marked) < len(columns) or len(marked) > 1:
        return query
    literals = tuple(
        tuple(Literal(_example(column, table.declared(column.name), at), column.type) for column in shown)
        for at in range(min(rows, MAX_PREVIEW_ROWS))
    )
    values: list[Expression] = [Column(_LABEL, f"c{at}", column.type) for at, column in enumerate(shown, 1)]
    values.insert(marked[0] if marked else len(values), Literal(True, Type.BOOLEAN))
    names = query.names if marked else (*query.names, MARK)
    items = tuple(Named(name, value) for name, value in zip(number_duplicates(names), values, strict=True))
    made = Values(_LABEL, tuple(column.type for column in shown), literals)
    return Query(Project(made, query.relation.label, items), names)


def _example(column: Column, declared: Admitted | None, at: int) -> Value:
    """Return a value that the policy allows in a column: a function of policy and row number."""
    match declared:
        case DeclaredValues(values) if values:
            return values[at % len(values)]
        case DeclaredBounds(int() as low, int() as high):
            return low + at * _EXAMPLE_STRIDE_STEPS % (high - low + 1)
        case DeclaredBounds(datetime() as low, datetime()):
            return low
        case DeclaredBounds(date() as low, date() as high):
            return low + timedelta(days=at * _EXAMPLE_STRIDE_STEPS % ((high - low).days + 1))
        case DeclaredBounds(Fraction() as low, Fraction() as high):
            return low + (high - low) * Fraction(at * _EXAMPLE_STRIDE_STEPS % MAX_PREVIEW_ROWS, MAX_PREVIEW_ROWS) // 1
    match column.type:
        case Type.INTEGER:
            return at + 1
        case Type.DECIMAL:
            return Fraction(at + 1)
        case Type.BOOLEAN:
            return at % 2 == 0
        case Type.DATE:
            return date(2000, 1, 1) + timedelta(days=at)
        case Type.TIMESTAMP:
            return datetime(2000, 1, 1) + timedelta(days=at)
        case Type.TEXT:
            return f"text {at + 1}"
        case _:
            return None


def is_empty(relation: Relation) -> bool:
    """Whether a relation has no rows, whatever the data: by LIMIT 0 and by conditions on constants alone."""
    match relation:
        case Limit(source, count, _):
            return count == 0 or is_empty(source)
        case Filter(source, condition):
            return _is_never_true(condition) or is_empty(source)
        case GroupBy(source, _, keys, _):
            return bool(keys) and is_empty(source)  # without keys there is always one row
        case Project(source) | Sort(source) | Window(source) | MarkJoin(source):
            return is_empty(source)
        case UnionAll(left, right):
            return is_empty(left) and is_empty(right)
        case Join(JoinKind.INNER, left, right, condition):
            return is_empty(left) or is_empty(right) or (condition is not None and _is_never_true(condition))
        case Join(JoinKind.LEFT, left):
            return is_empty(left)
        case Join(_, left, right):
            return is_empty(left) and is_empty(right)
        case Values(_, _, rows):
            return not rows
        case Scan():
            return False


def _is_never_true(condition: Expression) -> bool:
    return any(_truth(part) in (False, None) for part in conjuncts(condition))


def _truth(condition: Expression) -> object:
    """Return the value of a condition on constants: None for NULL, Ellipsis where it depends on a row."""
    match condition:
        case Literal(bool() | None as value):
            return value
        case Call(Function.NOT, (part,)):
            inner = _truth(part)
            return not inner if isinstance(inner, bool) else inner
        case Call(Function.EQUAL, (Literal(first), Literal(second))) if _are_comparable(first, second):
            return first == second
        case Call(Function.DIFFERENT, (Literal(first), Literal(second))) if _are_comparable(first, second):
            return first != second
    return ...


def _are_comparable(first: object, second: object) -> bool:
    return type(first) is type(second) and isinstance(first, int | str)


def _constants(relation: Project) -> list[Literal] | None:
    """Return the one row of a question that shows constants for one row of a table, or None."""
    items = [item.expression for item in relation.items]
    node: Relation = relation.source
    limited = False
    while not isinstance(node, Scan):
        match node:
            case Limit(source, 1, 0):
                limited, node = True, source
            case Sort(source):
                node = source
            case Project(source, label, inner):
                meanings = {item.name: item.expression for item in inner}
                items = [
                    meanings[item.name] if isinstance(item, Column) and item.of == label else item for item in items
                ]
                node = source
            case _:
                return None
    found = [item for item in items if isinstance(item, Literal)]
    return found if limited and len(found) == len(items) else None
