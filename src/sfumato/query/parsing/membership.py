"""IN, ANY and ALL: a value compared with the members of a list, of an array or of a subquery."""

from collections.abc import Callable, Sequence

from sqlglot import exp

from sfumato.query.array_text import array_items
from sfumato.query.expression import Call, Expression, Literal
from sfumato.query.functions import Function
from sfumato.query.parameters import MAX_LIST_ITEMS
from sfumato.query.parsing.desugar.quantifiers import Quantifier
from sfumato.query.parsing.frame import ExpressionContext
from sfumato.query.parsing.inner import read_subquery, refuse_other_people
from sfumato.query.parsing.subquery import among
from sfumato.query.parsing.types import cast_to
from sfumato.query.position import SourceSpan
from sfumato.query.resolve import to_common_type
from sfumato.query.types import Type

_Read = Callable[[exp.Expr | None, ExpressionContext], Expression]


def read_membership(node: exp.Expr, frame: ExpressionContext, read: _Read) -> Expression:
    """Return `x IN (…)`: of a list, of a subquery, or of BigQuery's UNNEST(array)."""
    where = frame.reading.place(node)
    if node.args.get("query") is not None:
        frame.reading.only(node, "this", "query")
        return _among(node, node.args["query"], frame, read)
    if node.args.get("unnest") is not None:
        frame.reading.only(node, "this", "unnest")
        unnest = node.args["unnest"]
        frame.reading.only(unnest, "expressions")
        if len(unnest.expressions) != 1:
            frame.reading.refuse(unnest)
        return _is_member(node, unnest.expressions[0], frame, read)
    frame.reading.only(node, "this", "expressions")
    items = node.expressions
    _check_size(len(items), where)
    if not items:
        raise where.bad("the list is empty.", "IN needs at least one value.", "Write IN (value, …).")
    value, members = read(node.this, frame), [read(item, frame) for item in items]
    return _membership(value, members, [frame.reading.place(item) for item in items], where, frame)


def read_quantified(
    node: exp.Expr,
    quantified: Quantifier,
    compared: Callable[[Expression, Expression], Expression],
    frame: ExpressionContext,
    read: _Read,
) -> Expression:
    """Return a comparison with ANY or ALL members of an array, which `compared` makes of each."""
    where = frame.reading.place(node)
    if isinstance(quantified.operand, exp.Query):
        raise where.unsupported(
            f"{'ALL' if quantified.every else 'ANY'} of a subquery is not supported with this comparison.",
            "A subquery answers whether a value is among its rows.",
            "Compare with its largest or smallest value: x < (SELECT MAX(y) FROM …).",
        )
    members = read_array(quantified.operand, frame, read)
    if members is None:
        return Literal(None, Type.BOOLEAN, where.at)
    value = frame.reading.settle(read(node.this, frame), node)  # it will be there once for each member
    parts = tuple(dict.fromkeys(frame.reading.settle(compared(value, member), node) for member in members))
    if not parts:
        return Literal(quantified.every, Type.BOOLEAN, where.at)
    joined = Function.AND if quantified.every else Function.OR
    return parts[0] if len(parts) == 1 else Call(joined, parts, Type.BOOLEAN, where.at)


def read_array(node: exp.Expr, frame: ExpressionContext, read: _Read) -> list[Expression] | None:
    """Return the members of an array: ARRAY[…], '{…}', a parameter, or a cast of one; None where it is NULL."""
    node, where = node.unnest(), frame.reading.place(node)
    members: list[Expression]
    match node:
        case exp.Array():
            frame.reading.only(node, "expressions", "bracket_notation", "value_constructor")
            members = [read(item, frame) for item in node.expressions]
        case exp.Cast() | exp.TryCast():
            return _cast_array(node, frame, read)
        case exp.Literal() if node.args.get("is_string"):
            members = _text_items(str(node.this), where)
        case exp.Parameter() | exp.Placeholder():
            bound = frame.reading.array(node)
            if isinstance(bound, tuple):
                members = list(bound)
            elif bound.value is None:
                return None
            elif isinstance(bound.value, str):
                members = _text_items(bound.value, where)
            else:
                raise _no_array(where)
        case exp.Null():
            return None
        case _:
            raise _no_array(where)
    _check_size(len(members), where)
    return members


def _cast_array(node: exp.Expr, frame: ExpressionContext, read: _Read) -> list[Expression] | None:
    frame.reading.only(node, "this", "to", "safe", "_type")
    to, where = node.args["to"], frame.reading.place(node)
    element = to.expressions[0] if to.this is exp.DType.ARRAY and len(to.expressions) == 1 else None
    if element is None and to.this is exp.DType.USERDEFINED and str(to.args.get("kind")).startswith("_"):
        element = exp.DataType.build(str(to.args["kind"])[1:], dialect="postgres", udt=True)  # _int8 is int8[]
    if element is None:
        raise _no_array(where)
    members = read_array(node.this, frame, read)
    return None if members is None else [cast_to(member, element, frame.reading, where) for member in members]


def _text_items(text: str, where: SourceSpan) -> list[Expression]:
    try:
        items = array_items(text.strip())
    except ValueError:
        raise where.bad(
            "this is not the text of an array.",
            "It is a list in braces, of one dimension.",
            "Write for example '{a,b}', or ARRAY['a', 'b'].",
        ) from None
    return [
        Literal(None, Type.NULL, where.at) if item is None else Literal(item, Type.TEXT, where.at) for item in items
    ]


def _no_array(where: SourceSpan) -> Exception:
    return where.bad(
        "an array is needed here.",
        "ANY and ALL compare with the members of one array.",
        "Write ARRAY['a', 'b'], '{a,b}'::text[], or give a list as a parameter: x = ANY($1).",
    )


def _check_size(count: int, where: SourceSpan) -> None:
    if count > MAX_LIST_ITEMS:
        raise where.too_large(
            f"the list has {count} items.", f"A list may have {MAX_LIST_ITEMS}.", "Join a public table instead."
        )


def _is_member(node: exp.Expr, array: exp.Expr, frame: ExpressionContext, read: _Read) -> Expression:
    where, value, members = frame.reading.place(node), read(node.this, frame), read_array(array, frame, read)
    if members is None:
        return Literal(None, Type.BOOLEAN, where.at)
    if not members:
        return Literal(False, Type.BOOLEAN, where.at)  # as in PostgreSQL, also for NULL
    return _membership(value, members, [where] * len(members), where, frame)


def _membership(
    value: Expression,
    members: Sequence[Expression],
    spans: Sequence[SourceSpan],
    where: SourceSpan,
    frame: ExpressionContext,
) -> Expression:
    never = [frame.reading.never_equal(value, *pair) for pair in zip(members, spans, strict=True)]
    arguments = to_common_type([value, *members], where)
    contained = Call(Function.IN, tuple(arguments), Type.BOOLEAN, where.at)
    for refusal in never:
        frame.reading.decided(contained, refusal, holds=None in never)
    return contained


def _among(node: exp.Expr, query: exp.Expr, frame: ExpressionContext, read: _Read) -> Expression:
    left = node.this.unnest()
    tested = [read(part, frame) for part in (left.expressions if isinstance(left, exp.Tuple) else [left])]
    block, lookups = read_subquery(node, query, frame)
    return refuse_other_people(among(node, tested, block, lookups, frame.reading), node, block, frame)
