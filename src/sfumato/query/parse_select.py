"""A SELECT becomes a block: FROM, WHERE, GROUP BY, HAVING, DISTINCT, ORDER BY, LIMIT, in the order SQL gives them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from sfumato.query.expression import Column, Expression, Literal, children, rebuild, sources
from sfumato.query.parse_aggregate import Measures
from sfumato.query.parse_expression import ExpressionFrame, fit_null, read_condition, read_expression
from sfumato.query.parse_naming import output_name
from sfumato.query.parse_reading import MOST_COLUMNS, Reading, name_of
from sfumato.query.parse_source import Block, Definition, FromReader, no_table, read_from
from sfumato.query.placement import filtered
from sfumato.query.position import Place
from sfumato.query.relation import GroupBy, Limit, Named, Relation, Sort, SortKey
from sfumato.query.resolve import fit
from sfumato.query.types import Type

_PARTS = ("expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "distinct", "with_")
_Known = Mapping[str, Definition]


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One column of a SELECT: its name, its value, and the node it was read from."""

    name: str
    value: Expression
    node: exp.Expr
    alias: bool = False


def read_query(node: exp.Expr, reading: Reading, known: _Known) -> Block:
    """Return the block of any query: a SELECT, or one in brackets."""
    if isinstance(node, exp.Subquery):
        if node.args.get("alias") is None and isinstance(node.this, exp.Query):
            reading.only(node, "this")
            return read_query(node.this, reading, known)
    elif isinstance(node, exp.Select):
        return _select(node, reading, known)
    return reading.refuse(node)


def _select(node: exp.Select, reading: Reading, known: _Known) -> Block:
    reading.only(node, *_PARTS)
    known = _definitions(node, reading, known)
    reader = FromReader(reading, known, read_query)
    origin = node.args.get("from_")
    source = read_from(origin.this, node.args.get("joins") or [], reader) if origin else no_table(reading)
    frame = ExpressionFrame(reading, source.scope, Measures(), "SELECT", reader.private_tables)
    pending = source.pending
    if node.args.get("where") is not None:
        condition = read_condition(node.args["where"].this, replace(frame, measures=None, clause="WHERE"))
        pending = (*pending, condition)
    items = _items(node, frame)
    block = _grouped(node, Block(source.relation, pending, ()), items, frame)
    _check_unused(node, reading, known)
    return block


def _definitions(node: exp.Expr, reading: Reading, known: _Known) -> _Known:
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


def _check_unused(node: exp.Expr, reading: Reading, known: _Known) -> None:
    """A definition that is never used is read too, apart from the rest: nothing is accepted unread."""
    clause = node.args.get("with_")
    for definition in reversed(clause.expressions if clause is not None else []):
        if id(definition) not in reading.used:
            read_query(definition.this, reading.apart(), known[str(name_of(definition.args["alias"].this))].known)


def _items(node: exp.Select, frame: ExpressionFrame) -> list[SelectItem]:
    items: list[SelectItem] = []
    for part in node.expressions:
        items += _expanded(part, frame)
        if len(items) > MOST_COLUMNS:
            raise frame.reading.place(part).too_large(
                f"the answer has more than {MOST_COLUMNS} columns.", "Each is a question.", "Ask for fewer."
            )
    if not items:
        raise frame.reading.place(node).bad("nothing is selected.", "SELECT needs a column.", "Name one.")
    return items


def _expanded(part: exp.Expr, frame: ExpressionFrame) -> list[SelectItem]:
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


def _grouped(node: exp.Select, block: Block, items: list[SelectItem], frame: ExpressionFrame) -> Block:
    """Group if the text does so, then HAVING, DISTINCT, ORDER BY and LIMIT over what came out."""
    reading, measures = frame.reading, frame.measures or Measures()
    keys = _keys(node, items, frame)
    having = node.args["having"].this if node.args.get("having") is not None else node
    condition = read_condition(having, replace(frame, clause="HAVING")) if having is not node else None
    order = _order(node, items, frame)
    if node.args.get("group") is not None or measures.found or condition is not None:
        group = _Group(measures.name_group(reading), keys, frame)
        items = [replace(item, value=group.over(item.value, item.node)) for item in items]
        order = [(replace(key, expression=group.over(key.expression, by)), by) for key, by in order]
        pending = () if condition is None else (group.over(condition, having),)
        named = tuple(Named(f"k{i}", key) for i, key in enumerate(keys, 1))
        for key in named:
            reading.declare(group.label, key.name, reading.declared(key.expression))
        source = filtered(block.relation, block.pending)
        relation = GroupBy(source, group.label, named, tuple(measures.found), reading.at(node))
        block = Block(relation, pending, ())
    if node.args.get("distinct") is not None:
        block, items, order = _distinct(node, block, items, order, reading)
    outputs = tuple(Named(item.name, item.value) for item in items)
    return _cut(node, replace(block, outputs=outputs), [key for key, _ in order], reading)


def _keys(node: exp.Select, items: list[SelectItem], frame: ExpressionFrame) -> list[Expression]:
    group = node.args.get("group")
    if group is None:
        return []
    frame.reading.only(group, "expressions", "all")
    label = frame.measures.label if frame.measures else ""
    if group.args.get("all"):
        return list(dict.fromkeys(item.value for item in items if not label or label not in sources(item.value)))
    inner = replace(frame, measures=None, clause="GROUP BY")
    keys = []
    for part in _flat(group.expressions):
        where = frame.reading.place(part)
        item = _chosen(part, items, frame, where, aliases_first=False)
        value = item.value if item is not None else read_expression(part, inner)
        if item is None and isinstance(value, Literal):
            raise where.bad("a constant is no group.", "Every row has it.", "Group by a column or its number.")
        if label and label in sources(value):
            raise where.bad("a group cannot be an aggregate.", "Groups come first.", "Group by something else.")
        keys.append(value)
    return list(dict.fromkeys(keys))


def _flat(parts: list[exp.Expr]) -> list[exp.Expr]:
    """GROUP BY (a, b) is GROUP BY a, b."""
    flat: list[exp.Expr] = []
    for part in parts:
        flat += _flat(part.expressions) if isinstance(part, exp.Tuple) else [part.unnest()]
    return flat


def _chosen(
    part: exp.Expr, items: list[SelectItem], frame: ExpressionFrame, where: Place, aliases_first: bool
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
    """What is left of a row after grouping: its keys and measures."""

    label: str
    keys: list[Expression]
    frame: ExpressionFrame

    def over(self, value: Expression, node: exp.Expr) -> Expression:
        """Return an expression over the rows as one over the groups."""
        for i, key in enumerate(self.keys, 1):
            if value == key and not isinstance(key, Literal):
                return Column(self.label, f"k{i}", key.type, value.at)
        if isinstance(value, Column) and value.of != self.label:
            entries = self.frame.scope.entries
            name = next((entry.name for entry in entries if entry.expression == value), value.name)
            raise self.frame.reading.place(node).bad(
                f"the column {name} is neither a group nor inside an aggregate.",
                "A group of rows has many values of it.",
                f"Add it to GROUP BY, or aggregate it, for example with COUNT({name}).",
            )
        parts = children(value)
        return rebuild(value, tuple(self.over(part, node) for part in parts)) if parts else value


_Order = list[tuple[SortKey, exp.Expr]]


def _order(node: exp.Select, items: list[SelectItem], frame: ExpressionFrame) -> _Order:
    order = node.args.get("order")
    if order is None:
        return []
    frame.reading.only(order, "expressions")
    keys: _Order = []
    for part in order.expressions:
        if not isinstance(part, exp.Ordered):
            frame.reading.refuse(part)
        frame.reading.only(part, "this", "desc", "nulls_first")
        where = frame.reading.place(part)
        item = _chosen(part.this, items, frame, where, aliases_first=True)
        value = item.value if item is not None else read_expression(part.this, replace(frame, clause="ORDER BY"))
        key = SortKey(fit_null(value, where), bool(part.args.get("desc")), bool(part.args.get("nulls_first")))
        keys.append((key, part.this))
    return keys


def _distinct(
    node: exp.Select, block: Block, items: list[SelectItem], order: _Order, reading: Reading
) -> tuple[Block, list[SelectItem], _Order]:
    """SELECT DISTINCT is a group without measures."""
    reading.only(node.args["distinct"])
    values = list(dict.fromkeys(item.value for item in items))
    label = reading.label("group")
    columns = {value: Column(label, f"k{i}", value.type) for i, value in enumerate(values, 1)}
    for key, by in order:
        if key.expression not in columns:
            raise reading.place(by).bad(
                "ORDER BY uses what SELECT DISTINCT does not show.", "It has many values.", "Select it, or drop it."
            )
    named = tuple(Named(columns[value].name, value) for value in values)
    for group_key in named:
        reading.declare(label, group_key.name, reading.declared(group_key.expression))
    relation = GroupBy(filtered(block.relation, block.pending), label, named, (), reading.at(node))
    return (
        Block(relation, (), ()),
        [replace(item, value=columns[item.value]) for item in items],
        [(replace(key, expression=columns[key.expression]), by) for key, by in order],
    )


def _cut(node: exp.Select, block: Block, order: list[SortKey], reading: Reading) -> Block:
    """ORDER BY and LIMIT."""
    count, offset = _limit(node.args.get("limit"), reading), _limit(node.args.get("offset"), reading)
    if not order and count is None and not offset:
        return block
    relation: Relation = filtered(block.relation, block.pending)
    if order:
        relation = Sort(relation, tuple(dict.fromkeys(order)))
    if count is not None or offset:
        relation = Limit(relation, count, offset or 0)
    return Block(relation, (), block.outputs)


def _limit(node: exp.Expr | None, reading: Reading) -> int | None:
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
    if isinstance(number, exp.Parameter | exp.Placeholder):
        literal = fit(reading.parameter(number), Type.INTEGER, reading.place(number))
        number = exp.Literal.number(str(literal))
    digits = number.name if isinstance(number, exp.Literal) and not number.args.get("is_string") else ""
    if digits.isascii() and digits.isdigit() and len(digits) <= 18:
        return int(digits)
    raise reading.place(node).unsupported(
        "LIMIT and OFFSET take a whole number.", "It has to be spelled out.", "Write for example LIMIT 10."
    )
