"""UNION, INTERSECT and EXCEPT, with and without ALL: rows are equal where no column differs, NULL being a value.

UNION ALL is a Stack. A row of INTERSECT has an equal one on the right, a row of EXCEPT has none: it is marked. With ALL
equal rows are numbered on both sides, so that each meets one.
"""

from sqlglot import exp

from sfumato.query.expression import Call, Column, Expression, conjunction
from sfumato.query.functions import Function
from sfumato.query.parsing.block import Block, project_block
from sfumato.query.parsing.reading import ParseContext
from sfumato.query.position import SourceSpan
from sfumato.query.private_rows import has_private_rows, is_unit_column, unit_columns
from sfumato.query.relation import GroupBy, MarkJoin, Named, Over, Relation, UnionAll, Window
from sfumato.query.resolve import compare, to_common_type
from sfumato.query.types import Type
from sfumato.query.windows import WHOLE_PARTITION, WindowCall, WindowFunction


def combine_blocks(node: exp.SetOperation, left: Block, right: Block, reading: ParseContext) -> Block:
    """Return the rows that a set operation makes of two queries; the columns have the names of the first."""
    where = reading.place(node)
    people = [has_private_rows(side.rows, reading.catalog) for side in (left, right)]
    named = _naming_people(left, right, reading)
    if any(people) and not (all(people) and (isinstance(node, exp.Union) or named)):
        reading.refuse(node)
    if len(left.outputs) != len(right.outputs):
        raise where.bad(
            f"one side has {len(left.outputs)} columns, the other {len(right.outputs)}.",
            "Their rows stand in one table.",
            "Select as many on both sides.",
        )
    pairs = [
        to_common_type([first.expression, second.expression], where)
        for first, second in zip(left.outputs, right.outputs, strict=True)
    ]
    first, second = (
        project_block(side, tuple(pair[index] for pair in pairs), reading) for index, side in enumerate((left, right))
    )
    names = tuple(output.name for output in left.outputs)
    if isinstance(node, exp.Union):
        stack = UnionAll(first[0], second[0], reading.label("union"), where.at)
        if not node.args.get("distinct"):
            return Block(stack, (), _name_columns(names, stack.columns))
        unique, columns = _distinct(stack, stack.columns, where, reading)
        return Block(unique, (), _name_columns(names, columns))
    relation, columns, other, others = first[0], first[1], second[0], second[1]
    wanted: Relation = relation
    if node.args.get("distinct"):
        wanted, columns = _distinct(relation, columns, where, reading)
        sides: tuple[Relation, Relation] = (wanted, other)
        compared = list(zip(columns, others, strict=True))
    else:
        (numbered, number), (again, same) = (
            _number_equal_rows(relation, columns, where, reading),
            _number_equal_rows(other, others, where, reading),
        )
        sides = (numbered, again)
        compared = [*zip(columns, others, strict=True), (number, same)]
    equal = conjunction(
        tuple(
            compare(Function.EQUAL, first, two, where) if ordinal in named else _same(first, two, where)
            for ordinal, (first, two) in enumerate(compared)  # no person's name is NULL
        )
    )
    mark = MarkJoin(*sides, reading.label("mark"), equal, where.at)
    expression: Expression = mark.mark_column
    condition = (
        expression if isinstance(node, exp.Intersect) else Call(Function.NOT, (expression,), Type.BOOLEAN, where.at)
    )
    return Block(mark, (condition,), _name_columns(names, columns))


def _name_columns(names: tuple[str, ...], columns: tuple[Column, ...]) -> tuple[Named, ...]:
    return tuple(Named(name, column) for name, column in zip(names, columns, strict=True))


def _naming_people(left: Block, right: Block, reading: ParseContext) -> frozenset[int]:
    """Return where both sides select the column that names people: rows that are equal there are of one person."""
    names = [unit_columns(side.rows, reading.catalog) for side in (left, right)]
    pairs = enumerate(zip(left.outputs, right.outputs, strict=False))
    return frozenset(
        ordinal
        for ordinal, (first, second) in pairs
        if is_unit_column(first.expression, names[0]) and is_unit_column(second.expression, names[1])
    )


def _distinct(
    relation: Relation, columns: tuple[Column, ...], where: SourceSpan, reading: ParseContext
) -> tuple[GroupBy, tuple[Column, ...]]:
    """Return each different row once."""
    keys = tuple(Named(f"k{i}", column) for i, column in enumerate(columns, 1))
    group = GroupBy(relation, reading.label("group"), keys, (), where.at)
    return group, group.columns


def _number_equal_rows(
    relation: Relation, columns: tuple[Column, ...], where: SourceSpan, reading: ParseContext
) -> tuple[Window, Column]:
    """Return the rows with their number among those that are equal to them."""
    call: WindowCall[Expression] = WindowCall(WindowFunction.ROW_NUMBER)
    over = Over("w1", call, columns, (), WHOLE_PARTITION, Type.INTEGER, where.at)
    window = Window(relation, reading.label("window"), (over,), where.at)
    return window, window.columns[-1]


def _same(first: Expression, second: Expression, where: SourceSpan) -> Expression:
    return Call(Function.NOT, (compare(Function.DISTINCT_FROM, first, second, where),), Type.BOOLEAN, where.at)
