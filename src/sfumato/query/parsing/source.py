"""The FROM clause: tables, WITH names, subqueries and joins become one relation and the names it offers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from sfumato.errors import excerpt
from sfumato.query.expression import Column, Expression, Literal, conjunction
from sfumato.query.filter_placement import filter_relation
from sfumato.query.functions import FUNCTION_NAMES, Function
from sfumato.query.names import Name, NamedColumn, Scope, lookup
from sfumato.query.parameters import MAX_LIST_ITEMS
from sfumato.query.parsing.block import Block
from sfumato.query.parsing.expression import fit_null, read_condition, read_expression
from sfumato.query.parsing.frame import ExpressionContext
from sfumato.query.parsing.pivot import read_pivot
from sfumato.query.parsing.reading import MAX_COLUMNS, ParseContext, name_of
from sfumato.query.parsing.series import SERIES, series
from sfumato.query.position import SourceSpan, source_span
from sfumato.query.private_rows import has_private_rows
from sfumato.query.probes import mark_column
from sfumato.query.relation import Join, JoinKind, Named, Project, Relation, Scan, Sort, Values
from sfumato.query.resolve import call, compare, to_common_type
from sfumato.query.types import Type


@dataclass(frozen=True, slots=True)
class Definition:
    """A name of a WITH clause: its query, and the names that were known before it."""

    node: exp.CTE
    known: Mapping[str, "Definition"]


@dataclass(frozen=True, slots=True)
class FromReader:
    """How a FROM clause reads what is below it."""

    reading: ParseContext
    known: Mapping[str, Definition]
    read_query: Callable[[exp.Expr, ParseContext, Mapping[str, Definition]], Block]

    def defined(self, name: Name) -> Definition | None:
        """Return the WITH clause that a name means; a table that is spelled exactly so comes before another case."""
        exact = self.known.get(str(name))
        return exact if exact is not None or str(name) in self.reading.catalog.tables else lookup(name, self.known)

    def private_tables(self, node: exp.Expr) -> bool:
        """Whether a subquery reads a private table; a name that is unknown counts as one."""
        tables = self.reading.catalog.tables
        for table in node.find_all(exp.Table):
            declared = lookup(name_of(table.this), tables) if isinstance(table.this, exp.Identifier) else None
            if declared is None or not declared.public:
                return True
        return False


@dataclass(frozen=True, slots=True)
class FromItem:
    """Rows, the conditions they still have to meet, and the names of their columns."""

    relation: Relation
    pending: tuple[Expression, ...]
    scope: Scope


def read_from(node: exp.Expr, joins: list[exp.Join], reader: FromReader) -> FromItem:
    """Return the rows of a FROM clause. A comma binds less than JOIN."""
    items = [_item(node, reader)]
    for join in joins:
        if join.meta.get("comma"):
            reader.reading.only(join, "this")
            items.append(_item(join.this, reader))
        else:
            items[-1] = _read_join(items[-1], join, reader)
    result = items[0]
    for item in items[1:]:
        reader.reading.count_join(node)
        scope = _merge_scopes(result.scope, item.scope, reader.reading.place(node))
        result = FromItem(_inner(result, item, node, reader), result.pending + item.pending, scope)
    return result


def no_table(reading: ParseContext) -> FromItem:
    """Return the single row that a SELECT without FROM reads."""
    return FromItem(Values(reading.label("values"), (), ((),)), (), Scope())


def _item(node: exp.Expr, reader: FromReader) -> FromItem:
    match node:
        case exp.Table():
            return _read_table(node, reader)
        case exp.Subquery():
            return _subquery(node, reader)
        case exp.Values():
            return _read_values(node, reader)
        case exp.Paren():
            return _item(node.this, reader)
    return reader.reading.refuse(node)


def _subquery(node: exp.Expr, reader: FromReader) -> FromItem:
    reader.reading.only(node, "this", "alias", "joins", "pivots")
    joins = node.args.get("joins") or []
    if isinstance(node.this, exp.Table | exp.Values | exp.Subquery) and node.args.get("alias") is None:
        return read_from(node.this, joins, reader)
    if not isinstance(node.this, exp.Query):
        reader.reading.refuse(node)
    block = without_order(reader.read_query(node.this, reader.reading, reader.known))
    source = _name_columns(block, *_alias(node, reader.reading), reader.reading.place(node))
    return _with_joins(_read_pivot_item(source, node, reader), joins, reader)


def _read_pivot_item(source: FromItem, node: exp.Expr, reader: FromReader) -> FromItem:
    for pivot in node.args.get("pivots") or []:
        frame = ExpressionContext(reader.reading, source.scope, None, "PIVOT", reader.private_tables)
        group, scope = read_pivot(pivot, Block(source.relation, source.pending, ()), frame)
        source = FromItem(group, (), scope)
    return source


def without_order(block: Block) -> Block:
    """Return a block without an order that no LIMIT depends on: a table has none."""
    return replace(block, relation=block.relation.source) if isinstance(block.relation, Sort) else block


def _with_joins(source: FromItem, joins: list[exp.Join], reader: FromReader) -> FromItem:
    for join in joins:
        source = _read_join(source, join, reader)
    return source


def _alias(node: exp.Expr, reading: ParseContext) -> tuple[str | None, list[str]]:
    alias = node.args.get("alias")
    if alias is None:
        return None, []
    reading.only(alias, "this", "columns")
    columns = [str(name_of(column)) for column in alias.args.get("columns") or []]
    return (str(name_of(alias.this)) if alias.this is not None else None), columns


def _name_columns(block: Block, alias: str | None, columns: list[str], place: SourceSpan) -> FromItem:
    names = [output.name for output in block.outputs]
    if len(columns) > len(names):
        raise place.bad(
            f"{len(columns)} names are given to {len(names)} columns.", "Each name needs a column.", "Remove some."
        )
    names = columns + names[len(columns) :]
    entries = tuple(NamedColumn(alias, name, out.expression) for name, out in zip(names, block.outputs, strict=True))
    return FromItem(block.relation, block.pending, Scope(entries, frozenset({alias} if alias else ())))


def _read_table(node: exp.Expr, reader: FromReader) -> FromItem:
    reading, where = reader.reading, reader.reading.place(node)
    reading.only(node, "this", "alias", "db", "catalog", "joins", "pivots")
    if isinstance(node.this, exp.Anonymous) and str(node.this.this).lower() in SERIES:
        return _with_joins(_series(node, reader), node.args.get("joins") or [], reader)
    if not isinstance(node.this, exp.Identifier) or where.fragment.startswith("'"):
        raise where.unsupported(
            "a function or file stands where a table is needed.",
            "A query reads the tables of the policy, and no files, functions or systems.",
            "Name a table of the policy.",
        )
    name, (alias, columns) = name_of(node.this), _alias(node, reading)
    schema = node.args.get("db")
    definition = reader.defined(name) if schema is None else None
    if definition is not None:
        reading.used.add(id(definition.node))
        block = without_order(reader.read_query(definition.node.this, reading, definition.known))
        given = _alias(definition.node, reading)[1]
        names = [entry.name for entry in _name_columns(block, None, given, where).scope.entries]
        renamed = tuple(Named(new, out.expression) for new, out in zip(names, block.outputs, strict=True))
        source = _name_columns(replace(block, outputs=renamed), alias or str(name), columns, where)
    else:
        source = _name_columns(_scan(name, schema, where, reading), alias or str(name), columns, where)
    return _with_joins(_read_pivot_item(source, node, reader), node.args.get("joins") or [], reader)


def _scan(name: Name, schema: exp.Expr | None, where: SourceSpan, reading: ParseContext) -> Block:
    tables = reading.catalog.tables
    if schema is not None and str(name_of(schema)) != "public":
        raise where.unknown("schema", str(name_of(schema)), ["public"], "Every table is in public.")
    table = lookup(name, tables)
    if table is None:
        raise where.undeclared("table", str(name), sorted(tables), "The policy does not declare it.")
    (key,) = name.chosen(tables)
    columns = tuple((column, Type(type)) for column, type in table.columns.items())
    scan = Scan(key, reading.label(key), columns, where.at)
    for column in table.columns:
        reading.declare(scan.label, column, table.declared(column))
    outputs = tuple(Named(column.name, column) for column in scan.columns)
    return Block(scan, (), outputs + (mark_column(table.columns) if table.previewed else ()))


def _series(node: exp.Expr, reader: FromReader) -> FromItem:
    """generate_series(1, 31) AS s: the rows that it stands for; the column has the name of the alias."""
    reading, where, name = reader.reading, reader.reading.place(node.this), str(node.this.this).lower()
    reading.only(node, "this", "alias", "joins")
    frame = ExpressionContext(reading, Scope(), None, name, reader.private_tables)
    rows = series(name, [read_expression(expression, frame) for expression in node.this.expressions], where)
    values = Values(reading.label("values"), (rows[0].type,), tuple((row,) for row in rows), where.at)
    alias, names = _alias(node, reading)
    return _name_columns(Block(values, (), (Named(alias or name, values.columns[0]),)), alias or name, names, where)


def _read_values(node: exp.Expr, reader: FromReader) -> FromItem:
    reading, where = reader.reading, reader.reading.place(node)
    reading.only(node, "expressions", "alias")
    frame = ExpressionContext(reading, Scope(), None, "VALUES", reader.private_tables)
    rows = [
        [read_expression(cell, frame) for cell in (row.expressions if isinstance(row, exp.Tuple) else [row])]
        for row in node.expressions
    ]
    width = len(rows[0]) if rows else 0
    if len(rows) > MAX_LIST_ITEMS or width > MAX_COLUMNS:
        raise where.too_large(
            f"VALUES has {len(rows)} rows of {width} columns.",
            f"It may have {MAX_LIST_ITEMS} rows of {MAX_COLUMNS} columns.",
            "Declare a public table instead.",
        )
    if not width or any(len(row) != width for row in rows):
        raise where.bad("the rows have different lengths.", "A table is a rectangle.", "Give each row every column.")
    columns = [_literals(to_common_type(list(column), where), where) for column in zip(*rows, strict=True)]
    cells = tuple(zip(*columns, strict=True))
    values = Values(reading.label("values"), tuple(cell.type for cell in cells[0]), cells, where.at)
    alias, names = _alias(node, reading)
    outputs = tuple(Named(f"column{i}", column) for i, column in enumerate(values.columns, 1))
    return _name_columns(Block(values, (), outputs), alias, names, where)


def _literals(cells: list[Expression], where: SourceSpan) -> list[Literal]:
    literals = [cell for cell in cells if isinstance(cell, Literal)]
    if len(literals) < len(cells):
        raise where.unsupported("a value is computed here.", "VALUES lists plain values.", "Write the value itself.")
    return literals


def _read_join(left: FromItem, node: exp.Expr, reader: FromReader) -> FromItem:
    reading, where = reader.reading, reader.reading.place(node)
    reading.only(node, "this", "on", "using", "side", "kind", "method")
    side, kind, method = (str(node.args.get(key) or "").upper() for key in ("side", "kind", "method"))
    if kind not in {"", "INNER", "OUTER", "CROSS"} or method not in {"", "NATURAL"}:
        raise where.unsupported(
            f"a {' '.join(filter(None, (method, side, kind))).lower()} join is not supported.",
            "Rows are joined by INNER, LEFT, RIGHT, FULL and CROSS joins; the others need an order.",
            "Use INNER JOIN or LEFT JOIN.",
        )
    reading.count_join(node)
    right = _item(node.this, reader)
    left = _materialize_conditions(left, reading) if side in {"RIGHT", "FULL"} else left
    right = _materialize_conditions(right, reading) if side in {"LEFT", "FULL"} else right
    if side == "FULL" and any(has_private_rows(item.relation, reading.catalog) for item in (left, right)):
        raise where.unsupported(
            "a full join of people's rows is not supported.",
            "It keeps rows without a match: whether they appear depends on all people at once.",
            "Use INNER JOIN or LEFT JOIN; groups may be joined by FULL JOIN.",
        )
    on, using = node.args.get("on"), [name_of(part) for part in node.args.get("using") or []]
    if method == "NATURAL":
        using = _shared_names(left.scope, right.scope)
    elif kind != "CROSS" and on is None and not using:
        raise where.bad("the join has no condition.", "JOIN needs ON or USING.", "Add ON, or write CROSS JOIN.")
    conditions, scope = _read_using(using, left, right, side, where)
    if on is not None:
        conditions += (read_condition(on, ExpressionContext(reading, scope, None, "ON", reader.private_tables)),)
    if not side:
        return FromItem(_inner(left, right, node, reader), left.pending + right.pending + conditions, scope)
    kept, padded = (right, left) if side == "RIGHT" else (left, right)
    condition = conjunction(conditions) if conditions else None
    outer = JoinKind.FULL if side == "FULL" else JoinKind.LEFT
    join = Join(outer, kept.relation, padded.relation, condition, where.at)
    return FromItem(join, kept.pending, scope)


def _inner(left: FromItem, right: FromItem, node: exp.Expr, reader: FromReader) -> Relation:
    return Join(JoinKind.INNER, left.relation, right.relation, None, reader.reading.at(node))


def _materialize_conditions(source: FromItem, reading: ParseContext) -> FromItem:
    """Return the source with nothing but columns, all conditions met: NULLs will take the place of whole columns."""
    relation = filter_relation(source.relation, source.pending)
    entries = source.scope.entries
    if all(isinstance(entry.expression, Column) for entry in entries):
        return FromItem(relation, (), source.scope)
    values = list(dict.fromkeys(entry.expression for entry in entries))
    items = tuple(Named(f"c{i}", fit_null(value, source_span(reading.text, 0, 0))) for i, value in enumerate(values, 1))
    project = Project(relation, reading.label("select"), items)
    for item in items:
        reading.declare(project.label, item.name, reading.declared(item.expression))
    columns = dict(zip(values, project.columns, strict=True))
    entries = tuple(replace(entry, expression=columns[entry.expression]) for entry in entries)
    return FromItem(project, (), replace(source.scope, entries=entries))


def _merge_scopes(left: Scope, right: Scope, where: SourceSpan) -> Scope:
    twice = left.tables & right.tables
    if twice:
        raise where.bad(
            f"the name {excerpt(min(twice))} is used for two tables.",
            "Their columns could not be distinguished.",
            "Give one of them an alias.",
        )
    return Scope(left.entries + right.entries, left.tables | right.tables)


def _shared_names(left: Scope, right: Scope) -> list[Name]:
    offered = {entry.name for entry in right.star(None)}
    return [Name(name, quoted=True) for name in dict.fromkeys(e.name for e in left.star(None)) if name in offered]


def _read_using(
    names: list[Name], left: FromItem, right: FromItem, side: str, where: SourceSpan
) -> tuple[tuple[Expression, ...], Scope]:
    """Return the equalities of USING, and the names after it: each shared column once, and first."""
    scope = _merge_scopes(left.scope, right.scope, where)
    conditions: list[Expression] = []
    merged: list[NamedColumn] = []
    halves: list[NamedColumn] = []
    for name in names:
        pair = [item.scope.find(None, name, where) for item in (left, right)]
        halves += [entry for item in (left, right) for entry in item.scope.candidates(None, name)]
        conditions.append(compare(Function.EQUAL, pair[0], pair[1], where))
        value = pair[1] if side == "RIGHT" else pair[0]
        value = call(FUNCTION_NAMES["coalesce"], pair, "coalesce", where) if side == "FULL" else value
        merged.append(NamedColumn(None, str(name), value))
    hidden = tuple(replace(entry, bare=entry.bare and entry not in halves) for entry in scope.entries)
    return tuple(conditions), replace(scope, entries=(*merged, *hidden))
