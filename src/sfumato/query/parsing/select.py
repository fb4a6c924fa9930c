"""A SELECT becomes a block: FROM, WHERE, GROUP BY, HAVING, DISTINCT, ORDER BY, LIMIT, in the order SQL gives them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from sfumato.query.dimensions import dimension_first
from sfumato.query.expression import Column, Expression, Literal, children, rebuild, sources
from sfumato.query.filter_placement import filter_relation
from sfumato.query.names import Name, NamedColumn, Scope
from sfumato.query.parsing.aggregate import Measures, is_aggregate
from sfumato.query.parsing.block import Block
from sfumato.query.parsing.desugar.first_rows import first_of_each
from sfumato.query.parsing.desugar.interval_aliases import name_alias_arguments
from sfumato.query.parsing.desugar.lists import Peek, as_rows
from sfumato.query.parsing.expression import fit_null, read_condition, read_expression, sort_key
from sfumato.query.parsing.frame import ExpressionContext
from sfumato.query.parsing.grouping import expand_grouping_sets
from sfumato.query.parsing.naming import output_name
from sfumato.query.parsing.reading import MAX_COLUMNS, ParseContext, name_of
from sfumato.query.parsing.sets import combine_blocks
from sfumato.query.parsing.source import Definition, FromReader, no_table, read_from, without_order
from sfumato.query.parsing.subquery import Lookups
from sfumato.query.parsing.window import GatheredWindows
from sfumato.query.position import SourceSpan
from sfumato.query.private_rows import is_unit_column, unit_columns
from sfumato.query.relation import GroupBy, Limit, Named, Over, Relation, Sort, SortKey, Window, column_of
from sfumato.query.resolve import convert_implicitly
from sfumato.query.types import Type

_ROWS = ("from_", "joins", "where", "group", "having", "qualify", "order", "limit", "offset")
_PARTS = ("expressions", "distinct", "with_", "windows", *_ROWS)
_MAX_LISTS = 3
_Definitions = Mapping[str, Definition]


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One column of a SELECT: its name, its value, and the node it was read from."""

    name: str
    value: Expression
    node: exp.Expr
    alias: bool = False


def read_query(node: exp.Expr, reading: ParseContext, known: _Definitions) -> Block:
    """Return the block of any query: a SELECT, or one in brackets."""
    if isinstance(node, exp.Subquery):
        if node.args.get("alias") is None and isinstance(node.this, exp.Query):
            reading.only(node, "this")
            return read_query(node.this, reading, known)
    elif isinstance(node, exp.Select):
        several = (
            expand_grouping_sets(node, reading) or first_of_each(node) or as_rows(node, reading, _peek(reading, known))
        )
        return _read_select(node, reading, known) if several is None else read_query(several, reading, known)
    elif isinstance(node, exp.SetOperation):
        return _read_set_operation(node, reading, known)
    return reading.refuse(node)


def _peek(reading: ParseContext, known: _Definitions) -> Peek:
    """Return a reader of a single SELECT that leaves no state behind."""

    def peek(node: exp.Select) -> tuple[Block, ParseContext]:
        own = reading.apart()
        own.looks_ahead = reading.looks_ahead + 1
        if own.looks_ahead > _MAX_LISTS:  # each reads twice what is below it
            raise reading.place(node).too_large(
                f"more than {_MAX_LISTS} lists stand inside each other.", "Each is a question.", "Ask for one of them."
            )
        return _read_select(node, own, known), own

    return peek


def _read_set_operation(node: exp.SetOperation, reading: ParseContext, known: _Definitions) -> Block:
    """Return a UNION, INTERSECT or EXCEPT, in its order; it is ordered by its own columns."""
    reading.only(node, "this", "expression", "distinct", "order", "limit", "offset", "with_")
    reading.count_join(node)
    known = _definitions(node, reading, known)
    left, right = (without_order(read_query(side, reading, known)) for side in (node.this, node.expression))
    block = combine_blocks(node, left, right, reading)
    entries = tuple(NamedColumn(None, output.name, output.expression) for output in block.outputs)
    frame = ExpressionContext(reading, Scope(entries), None, "ORDER BY of a UNION", lambda _: True)
    items = [SelectItem(output.name, output.expression, node) for output in block.outputs]
    order = [key for key, _ in _read_order(node, items, frame)]
    _check_unused(node, reading, known)
    return _order_and_limit(node, block, order, reading)


def _read_select(node: exp.Select, reading: ParseContext, known: _Definitions) -> Block:
    reading.only(node, *_PARTS)
    name_alias_arguments(node)
    known = _definitions(node, reading, known)
    reader = FromReader(reading, known, read_query)
    origin = node.args.get("from_")
    source = read_from(origin.this, node.args.get("joins") or [], reader) if origin else no_table(reading)
    windows = GatheredWindows({str(name_of(window.this)): window for window in node.args.get("windows") or []})
    people = unit_columns(source.relation, reading.catalog)
    below, above = Lookups(people), Lookups(None if _is_grouped(node) else people)

    def read_inner(inner: exp.Expr) -> Block:
        with reading.inside(source.scope):
            return read_query(inner, reading, known)

    frame = ExpressionContext(
        reading, source.scope, Measures(below), "SELECT", reader.private_tables, windows, above, read_inner
    )
    pending = source.pending
    if node.args.get("where") is not None:
        inner = replace(frame, measures=None, windows=None, lookups=below, clause="WHERE")
        condition = read_condition(node.args["where"].this, inner)
        pending = (*pending, condition)
    items = _items(node, frame)
    block = _group_rows(node, Block(source.relation, pending, ()), items, frame, below)
    _check_unused(node, reading, known)
    return block


def _definitions(node: exp.Expr, reading: ParseContext, known: _Definitions) -> _Definitions:
    clause = node.args.get("with_")
    if clause is None:
        return known
    if clause.args.get("recursive"):
        raise reading.place(clause).unsupported(
            "WITH RECURSIVE is not supported.", "How long it runs depends on the data.", "Write the steps out."
        )
    reading.only(clause, "expressions")
    own: set[str] = set()
    for definition in clause.expressions:
        reading.only(definition, "this", "alias", "materialized")
        name = str(name_of(definition.args["alias"].this))
        if name in own:
            raise reading.place(definition).bad(
                f"WITH defines {name} twice.", "One of them would be ignored.", "Rename one."
            )
        own.add(name)
        known = {**known, name: Definition(definition, known)}
    return known


def _check_unused(node: exp.Expr, reading: ParseContext, known: _Definitions) -> None:
    """A definition that is never used is read too, apart from the rest: nothing is accepted unread."""
    clause = node.args.get("with_")
    for definition in reversed(clause.expressions if clause is not None else []):
        if id(definition) not in reading.used:
            read_query(definition.this, reading.apart(), known[str(name_of(definition.args["alias"].this))].known)


def _items(node: exp.Select, frame: ExpressionContext) -> list[SelectItem]:
    items: list[SelectItem] = []
    for part in node.expressions:
        items += _expand_item(part, frame)
        if len(items) > MAX_COLUMNS:
            raise frame.reading.place(part).too_large(
                f"the answer has more than {MAX_COLUMNS} columns.", "Each is a question.", "Ask for fewer."
            )
    if not items:
        raise frame.reading.place(node).bad("nothing is selected.", "SELECT needs a column.", "Name one.")
    return items


def _expand_item(part: exp.Expr, frame: ExpressionContext) -> list[SelectItem]:
    where = frame.reading.place(part)
    if isinstance(part, exp.Star) or (isinstance(part, exp.Column) and isinstance(part.this, exp.Star)):
        frame.reading.only(part if isinstance(part, exp.Star) else part.this)
        table = name_of(part.args["table"]) if isinstance(part, exp.Column) else None
        entries = frame.scope.star(table)
        if not entries:
            why = "* stands for the columns of the tables in FROM."
            raise where.unknown("table", str(table or "*"), sorted(frame.scope.tables), why)
        return [SelectItem(entry.name, replace(entry.expression, at=where.at), part) for entry in entries]
    if isinstance(part, exp.Alias):
        frame.reading.only(part, "this", "alias")
        value = fit_null(read_expression(part.this, frame), where)
        return [SelectItem(str(name_of(part.args["alias"])), value, part.this, alias=True)]
    return [SelectItem(output_name(part), fit_null(read_expression(part, frame), where), part)]


def _is_grouped(node: exp.Select) -> bool:
    """Whether a SELECT groups its rows: by its clauses, or by an aggregate that stands outside of a window."""
    if node.args.get("group") is not None or node.args.get("having") is not None:
        return True
    order = node.args.get("order")
    waiting: list[exp.Expr] = [*node.expressions, *([] if order is None else order.expressions)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, exp.Query):
            continue
        if isinstance(part, exp.Anonymous) and is_aggregate(str(part.this).lower()):
            return True
        inner = part.this.this if isinstance(part, exp.Window) and isinstance(part.this, exp.Filter) else part.this
        waiting += list(inner.iter_expressions()) if isinstance(part, exp.Window) else list(part.iter_expressions())
    return False


def _group_rows(
    node: exp.Select, block: Block, items: list[SelectItem], frame: ExpressionContext, inner: Lookups
) -> Block:
    """Group if the text does so, then HAVING, DISTINCT, ORDER BY and LIMIT over what came out."""
    reading, measures = frame.reading, frame.measures or Measures()
    windows = frame.windows or GatheredWindows({})
    above = frame.lookups or Lookups(people=None)
    keys = _read_group_keys(node, items, replace(frame, lookups=inner))
    having = node.args["having"].this if node.args.get("having") is not None else node
    scope = _with_aliases(frame.scope, items, frozenset({windows.label}))
    chosen = replace(frame, scope=scope, windows=None, clause="HAVING")
    condition = read_condition(having, chosen) if having is not node else None
    qualify = _qualify(node, items, frame)
    order = _read_order(node, items, frame)
    overs = tuple(windows.found)
    windows.check_used(reading)
    if node.args.get("group") is not None or measures.found or condition is not None:
        inner, above = _below_keys(keys, inner, above)
        label = measures.name_group(reading)
        group = _Group(label, keys, frame, frozenset({windows.label}) | above.labels)
        items = [replace(item, value=group.over(item.value, item.node)) for item in items]
        order = [(replace(key, expression=group.over(key.expression, by)), by) for key, by in order]
        pending = () if condition is None else (group.over(condition, having),)
        named = tuple(Named(f"k{i}", key) for i, key in enumerate(keys, 1))
        for key in named:
            reading.declare(group.label, key.name, reading.declared(key.expression))
        source = filter_relation(inner.over(block.relation, reading), block.pending)
        source = dimension_first(source, measures.found, reading.catalog)
        relation = GroupBy(source, group.label, named, tuple(measures.found), reading.at(node))
        block = Block(above.mapped(group.over).over(relation, reading), pending, ())
        overs = tuple(group.window(over, by) for over, by in zip(overs, windows.nodes, strict=True))
        qualify = None if qualify is None else group.over(qualify, node.args["qualify"].this)
    else:
        block = replace(block, relation=above.over(inner.over(block.relation, reading), reading))
    if overs:
        below = filter_relation(block.relation, block.pending)
        people = unit_columns(below, reading.catalog)
        for over, by in zip(overs, windows.nodes, strict=True):
            if people is not None and not any(is_unit_column(part, people) for part in over.partition):
                reading.refuse(by)
        looked = Window(below, windows.label, overs, reading.at(windows.nodes[0]))
        block = Block(looked, () if qualify is None else (qualify,), ())
    if node.args.get("distinct") is not None:
        block, items, order = _distinct(node, block, items, order, reading)
    outputs = tuple(Named(item.name, item.value) for item in items)
    return _order_and_limit(node, replace(block, outputs=outputs), [key for key, _ in order], reading)


def _below_keys(keys: list[Expression], inner: Lookups, above: Lookups) -> tuple[Lookups, Lookups]:
    """Return the subqueries that rows need, and those that groups need: a key of SELECT is one of the rows."""
    used = {label for key in keys for label in sources(key)}
    rows, groups = Lookups(inner.people), Lookups(above.people)
    for lookup in reversed(above.found):  # the condition of one may read what an earlier one adds
        if lookup.labels & used:
            rows.found.insert(0, lookup)
            used |= sources(lookup.condition) if lookup.condition is not None else set()
        else:
            groups.found.insert(0, lookup)
    rows.found[:0] = inner.found
    return rows, groups


def _read_group_keys(node: exp.Select, items: list[SelectItem], frame: ExpressionContext) -> list[Expression]:
    group = node.args.get("group")
    if group is None:
        return []
    frame.reading.only(group, "expressions", "all")
    label = frame.measures.label if frame.measures else ""
    computed = {label, frame.windows.label if frame.windows else ""} - {""}
    if group.args.get("all"):
        return list(dict.fromkeys(item.value for item in items if not computed & sources(item.value)))
    inner = replace(frame, measures=None, windows=None, clause="GROUP BY")
    keys = []
    for part in _flat(group.expressions):
        where = frame.reading.place(part)
        item = _named_item(part, items, frame, where, aliases_first=False)
        value = item.value if item is not None else read_expression(part, inner)
        if item is None and isinstance(value, Literal):
            raise where.bad("a constant is not a group.", "Every row has it.", "Group by a column or its number.")
        if computed & sources(value):
            raise where.bad("a group cannot be an aggregate.", "Groups come first.", "Group by something else.")
        keys.append(value)
    return list(dict.fromkeys(keys))


def _flat(parts: list[exp.Expr]) -> list[exp.Expr]:
    """GROUP BY (a, b) is GROUP BY a, b."""
    flat: list[exp.Expr] = []
    for part in parts:
        flat += _flat(part.expressions) if isinstance(part, exp.Tuple) else [part.unnest()]
    return flat


def _named_item(
    part: exp.Expr, items: list[SelectItem], frame: ExpressionContext, where: SourceSpan, aliases_first: bool
) -> SelectItem | None:
    """Return the item that an ordinal or an output name means; None if it is an expression of its own."""
    if isinstance(part, exp.Literal) and not part.args.get("is_string"):
        if part.name.isascii() and part.name.isdigit() and 1 <= int(part.name[:9]) <= len(items):
            return items[int(part.name) - 1]
        raise where.bad(
            f"there is no column number {part.name[:20]}.", f"SELECT has {len(items)}.", "Use one of its columns."
        )
    if not isinstance(part, exp.Column) or part.args.get("table") is not None or isinstance(part.this, exp.Star):
        return None
    name = name_of(part.this)
    if not aliases_first and frame.scope.candidates(None, name):
        return None
    meant = name.chosen(item.name for item in items)
    named = [item for item in items if item.name in meant]
    if aliases_first and not any(item.alias for item in named) and frame.scope.candidates(None, name):
        return None
    if len({item.value for item in named}) > 1:
        raise where.bad(f"the name {name} is ambiguous.", "Several columns of SELECT have it.", "Use its number.")
    return named[0] if named else None


@dataclass(frozen=True, slots=True)
class _Group:
    """Columns of a row after grouping: its keys and measures."""

    label: str
    keys: list[Expression]
    frame: ExpressionContext
    above: frozenset[str] = frozenset()
    """Labels of what is computed from groups."""

    def window(self, over: Over, node: exp.Expr) -> Over:
        """Return a window function over groups."""
        order = tuple(replace(key, expression=self.over(key.expression, node)) for key in over.order)
        partition = tuple(self.over(part, node) for part in over.partition)
        return replace(
            over, call=over.call.mapped(lambda part: self.over(part, node)), partition=partition, order=order
        )

    def over(self, value: Expression, node: exp.Expr) -> Expression:
        """Return an expression over the rows as one over the groups."""
        for i, key in enumerate(self.keys, 1):
            if value == key and not isinstance(key, Literal):
                return column_of(self.label, f"k{i}", key, value.at)
        if isinstance(value, Column) and value.of != self.label and value.of not in self.above:
            entries = self.frame.scope.entries
            name = next((entry.name for entry in entries if entry.expression == value), value.name)
            raise self.frame.reading.place(node).bad(
                f"the column {name} is neither a group nor inside an aggregate.",
                "A group of rows has many values of it.",
                f"Add it to GROUP BY, or aggregate it, for example with COUNT({name}).",
            )
        parts = children(value)
        return rebuild(value, tuple(self.over(part, node) for part in parts)) if parts else value


def _with_aliases(scope: Scope, items: list[SelectItem], without: frozenset[str]) -> Scope:
    """Return a scope with the names of SELECT beside those of FROM, which come first; not what these labels compute."""
    named = tuple(
        NamedColumn(None, item.name, item.value)
        for item in items
        if item.alias and not scope.candidates(None, Name(item.name, quoted=True)) and not without & sources(item.value)
    )
    return replace(scope, entries=scope.entries + named)


def _qualify(node: exp.Select, items: list[SelectItem], frame: ExpressionContext) -> Expression | None:
    """Return the condition of QUALIFY, which may also use the names of SELECT."""
    clause = node.args.get("qualify")
    if clause is None:
        return None
    inner = replace(frame, scope=_with_aliases(frame.scope, items, frozenset()), clause="QUALIFY")
    condition = read_condition(clause.this, inner)
    if frame.windows is None or not frame.windows.found:
        raise frame.reading.place(clause).bad(
            "QUALIFY has no window function.", "It chooses rows by one.", "Use WHERE to choose rows, HAVING for groups."
        )
    return condition


_Order = list[tuple[SortKey, exp.Expr]]


def _read_order(node: exp.Query, items: list[SelectItem], frame: ExpressionContext) -> _Order:
    order = node.args.get("order")
    if order is None:
        return []
    frame.reading.only(order, "expressions")

    def read(part: exp.Expr, inner: ExpressionContext) -> Expression:
        item = _named_item(part, items, inner, inner.reading.place(part), aliases_first=True)
        return item.value if item is not None else read_expression(part, inner)

    inner = replace(frame, clause="ORDER BY")
    if len(order.expressions) == 1 and _is_all(order.expressions[0], items, frame):
        (every,) = order.expressions
        return [(sort_key(every, inner, lambda _, __, item=item: item.value), item.node) for item in items]  # type: ignore[misc]
    return [(sort_key(part, inner, read), part.this) for part in order.expressions]


def _is_all(part: exp.Expr, items: list[SelectItem], frame: ExpressionContext) -> bool:
    """Whether DuckDB's ORDER BY ALL stands here: by every column, in their order."""
    column = part.this
    if not isinstance(column, exp.Column) or column.args.get("table") is not None or column.name.lower() != "all":
        return False
    name = name_of(column.this)
    return not name.quoted and not frame.scope.candidates(None, name) and not name.chosen(item.name for item in items)


def _distinct(
    node: exp.Select, block: Block, items: list[SelectItem], order: _Order, reading: ParseContext
) -> tuple[Block, list[SelectItem], _Order]:
    """SELECT DISTINCT is a group without measures."""
    reading.only(node.args["distinct"])
    values = list(dict.fromkeys(item.value for item in items))
    label = reading.label("group")
    columns = {value: column_of(label, f"k{i}", value) for i, value in enumerate(values, 1)}
    for key, by in order:
        if key.expression not in columns:
            raise reading.place(by).bad(
                "ORDER BY uses what SELECT DISTINCT does not show.", "It has many values.", "Select it, or drop it."
            )
    named = tuple(Named(columns[value].name, value) for value in values)
    for group_key in named:
        reading.declare(label, group_key.name, reading.declared(group_key.expression))
    relation = GroupBy(filter_relation(block.relation, block.pending), label, named, (), reading.at(node))
    return (
        Block(relation, (), ()),
        [replace(item, value=columns[item.value]) for item in items],
        [(replace(key, expression=columns[key.expression]), by) for key, by in order],
    )


def _order_and_limit(node: exp.Query, block: Block, order: list[SortKey], reading: ParseContext) -> Block:
    """ORDER BY and LIMIT."""
    count, offset = _limit(node.args.get("limit"), reading), _limit(node.args.get("offset"), reading)
    if not order and count is None and not offset:
        return block
    relation: Relation = filter_relation(block.relation, block.pending)
    if order:
        relation = Sort(relation, tuple(dict.fromkeys(order)))
    if count is not None or offset:
        relation = Limit(relation, count, offset or 0)
    return Block(relation, (), block.outputs)


_INTEGER_TYPES = frozenset({exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT})


def _limit(node: exp.Expr | None, reading: ParseContext) -> int | None:
    if node is None:
        return None
    if isinstance(node, exp.Fetch):
        reading.only(node, "direction", "count", "limit_options")
        options = node.args.get("limit_options")
        if options is not None:
            reading.only(options, "rows")
        number = node.args.get("count") or exp.Literal.number(1)
    else:
        reading.only(node, "expression")
        number = node.expression
    if isinstance(number, exp.Column) and number.name.lower() == "all":
        return None
    while isinstance(number, exp.Cast) and number.to.this in _INTEGER_TYPES and not number.to.expressions:
        number = number.this
    if isinstance(number, exp.Parameter | exp.Placeholder):
        literal = convert_implicitly(reading.parameter(number), Type.INTEGER, reading.place(number))
        number = exp.Literal.number(str(literal))
    digits = number.name if isinstance(number, exp.Literal) and not number.args.get("is_string") else ""
    if digits.isascii() and digits.isdigit() and len(digits) <= 18:
        return int(digits)
    raise reading.place(node).unsupported(
        "LIMIT and OFFSET take a whole number.", "It has to be spelled out.", "Write for example LIMIT 10."
    )
