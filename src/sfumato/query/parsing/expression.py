"""sqlglot's scalar expressions become ours. Whatever is not in the table below is refused by name."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sqlglot import exp

from sfumato.query.arithmetic import arithmetic, negate
from sfumato.query.expression import Call, Case, Cast, Expression, Literal, factor_out_common
from sfumato.query.functions import FUNCTION_NAMES, INTERVAL_FUNCTIONS, Form, Function, Takes
from sfumato.query.literal import parse_interval, parse_number
from sfumato.query.names import Name, Scope
from sfumato.query.number_types import CALL_TYPES, divides_exactly
from sfumato.query.parameters import MAX_LIST_ITEMS
from sfumato.query.parsing.aggregate import is_aggregate, refuse_function
from sfumato.query.parsing.desugar.dates import WRITTEN_OUT
from sfumato.query.parsing.desugar.quantifiers import quantifier
from sfumato.query.parsing.desugar.row_values import by_columns
from sfumato.query.parsing.desugar.texts import TEXTS_WRITTEN_OUT, like, written_pattern
from sfumato.query.parsing.frame import ExpressionContext
from sfumato.query.parsing.inner import read_subquery, read_value, refuse_other_people
from sfumato.query.parsing.membership import read_membership, read_quantified
from sfumato.query.parsing.other_functions import refuse_unit
from sfumato.query.parsing.reading import name_of
from sfumato.query.parsing.subquery import exists, note_conjuncts
from sfumato.query.parsing.types import at_zone, cast_to, interval_unit
from sfumato.query.parsing.window import WINDOW_NAMES, WindowReader
from sfumato.query.position import SourceSpan
from sfumato.query.relation import SortKey
from sfumato.query.resolve import call, case, compare, convert_implicitly, truth
from sfumato.query.types import Type

_EQUALITIES = frozenset({Function.EQUAL, Function.DIFFERENT, Function.DISTINCT_FROM})


def read_expression(node: exp.Expr, frame: ExpressionContext) -> Expression:
    """Return the expression a node spells, measured."""
    return frame.reading.settle(_read_expression(node, frame), node)


def read_condition(node: exp.Expr, frame: ExpressionContext) -> Expression:
    """Return the condition a node spells, measured."""
    note_conjuncts(node)
    condition = frame.reading.settle(_read_truth_test(node, frame), node)
    frame.reading.refuse_impossible(condition)
    return condition


def _read_expression(node: exp.Expr | None, frame: ExpressionContext) -> Expression:
    if node is None:
        return Literal(None, Type.NULL)
    reader = _READERS.get(type(node))
    if reader is None:
        frame.reading.refuse(node)
    return reader(node, frame)


def _read_truth_test(node: exp.Expr, frame: ExpressionContext) -> Expression:
    return truth(_read_expression(node, frame), frame.reading.place(node))


def _span_of(node: exp.Expr, frame: ExpressionContext) -> SourceSpan:
    return frame.reading.place(node)


def _paren(node: exp.Expr, frame: ExpressionContext) -> Expression:
    frame.reading.only(node, "this")
    return _read_expression(node.this, frame)


def _read_column(node: exp.Expr, frame: ExpressionContext) -> Expression:
    frame.reading.only(node, "this", "table", "db", "catalog")
    where = _span_of(node, frame)
    if isinstance(node.this, exp.Star):
        raise where.bad("* stands where a value is needed.", "It is a list of columns.", "Name one column.")
    schema, table = node.args.get("db"), node.args.get("table")
    if schema is not None and str(name_of(schema)) != "public":
        raise where.unknown("schema", str(name_of(schema)), ["public"], "Every table is in public.")
    named = name_of(table) if table is not None else None
    expression = _scope_of(named, name_of(node.this), frame).find(named, name_of(node.this), where)
    frame.reading.settle(expression, node)  # what a name stands for may be large, and may be named often
    return replace(expression, at=where.at)


def _scope_of(table: Name | None, name: Name, frame: ExpressionContext) -> Scope:
    """Return where a name is looked for: in FROM; else, in a subquery, around it."""
    for scope in (frame.scope, *reversed(frame.reading.around)):
        if scope.candidates(table, name) if table is None else table.chosen(scope.tables):
            return scope
    return frame.scope


def _literal(node: exp.Expr, frame: ExpressionContext) -> Expression:
    where = _span_of(node, frame)
    if node.args.get("is_string"):
        return Literal(str(node.this), Type.TEXT, where.at)
    return parse_number(str(node.this), where)


def _parameter(node: exp.Expr, frame: ExpressionContext) -> Expression:
    return frame.reading.parameter(node)


def _read_boolean(node: exp.Expr, frame: ExpressionContext) -> Expression:
    return Literal(bool(node.this), Type.BOOLEAN, frame.reading.at(node))


def _null(node: exp.Expr, frame: ExpressionContext) -> Expression:
    return Literal(None, Type.NULL, frame.reading.at(node))


def _operator(function: Function, node: exp.Expr, frame: ExpressionContext) -> Expression:
    frame.reading.only(node, "this", "expression", "typed", "safe")
    left, right = _read_expression(node.this, frame), _read_expression(node.expression, frame)
    if function is Function.DIVIDE and left.type is right.type is Type.INTEGER and divides_exactly(left, right):
        left = Cast(left, Type.DECIMAL, left.at)  # SUM of bigint is numeric, as in PostgreSQL
    return arithmetic(function, left, right, _span_of(node, frame))


def _read_power(node: exp.Expr, frame: ExpressionContext) -> Expression:
    frame.reading.only(node, "this", "expression")
    return call(
        FUNCTION_NAMES["power"],
        [_read_expression(node.this, frame), _read_expression(node.expression, frame)],
        "power",
        _span_of(node, frame),
    )


def _negative(node: exp.Expr, frame: ExpressionContext) -> Expression:
    frame.reading.only(node, "this")
    return negate(_read_expression(node.this, frame), _span_of(node, frame))


def _comparison(function: Function, node: exp.Expr, frame: ExpressionContext, swapped: bool = False) -> Expression:
    frame.reading.only(node, "this", "expression")
    if (quantified := quantifier(node)) is not None:
        read = partial(_make_comparison, function, node=node, frame=frame, swapped=swapped)
        return read_quantified(node, quantified, read, frame, _read_expression)
    return _make_comparison(
        function, _read_expression(node.this, frame), _read_expression(node.expression, frame), node, frame, swapped
    )


def _make_comparison(
    function: Function, left: Expression, right: Expression, node: exp.Expr, frame: ExpressionContext, swapped: bool
) -> Expression:
    pair = (right, left) if swapped else (left, right)
    refusal = frame.reading.never_equal(left, right, _span_of(node, frame)) if function in _EQUALITIES else None
    where = _span_of(node, frame)
    compared = frame.reading.decided(compare(function, *pair, where), refusal)
    return frame.reading.ordered(compared, *pair, where)


def _not_distinct(node: exp.Expr, frame: ExpressionContext) -> Expression:
    return _negation(_comparison(Function.DISTINCT_FROM, node, frame))


def _negation(argument: Expression) -> Expression:
    return Call(Function.NOT, (argument,), Type.BOOLEAN, argument.at)


def _chain(function: Function, kind: type[exp.Expr], node: exp.Expr, frame: ExpressionContext) -> Expression:
    """AND and OR are flat, however they were bracketed; so a long list of conditions is not a deep one."""
    operands: list[Expression] = []
    waiting: list[exp.Expr] = [node]
    while waiting:
        part = waiting.pop()
        while isinstance(part, exp.Paren):
            part = part.this
        if isinstance(part, kind):
            waiting += [part.expression, part.this]
            continue
        operand = _read_truth_test(part, frame)
        nested = isinstance(operand, Call) and operand.function is function
        operands += operand.arguments if nested and isinstance(operand, Call) else (operand,)
    flat = tuple(dict.fromkeys(operands)) if len(operands) < MAX_LIST_ITEMS else tuple(operands)
    if len(flat) == 1:
        return flat[0]
    result = Call(function, flat, Type.BOOLEAN, frame.reading.at(node))
    return factor_out_common(result) if function is Function.OR else result


def _read_concatenation(node: exp.Expr, frame: ExpressionContext) -> Expression:
    parts: list[Expression] = []
    waiting: list[exp.Expr] = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, exp.DPipe):
            frame.reading.only(part, "this", "expression", "safe")
            waiting += [part.expression, part.this]
        else:
            parts.append(_read_expression(part, frame))
    where = _span_of(node, frame)
    if not any(part.type is Type.TEXT for part in parts):
        raise where.bad("|| joins text, and there is none.", "Neither side is text.", "Cast one side to text.")
    return call(Form(Function.JOINED, (Takes.TEXT,), Type.TEXT, (), repeats=True), parts, "||", where)


def _not(node: exp.Expr, frame: ExpressionContext) -> Expression:
    frame.reading.only(node, "this")
    return _negation(_read_truth_test(node.this, frame))


def _is(node: exp.Expr, frame: ExpressionContext) -> Expression:
    frame.reading.only(node, "this", "expression", "negate")
    where, argument = _span_of(node, frame), _read_expression(node.this, frame)
    other = node.expression
    negated = bool(node.args.get("negate"))
    if isinstance(other, exp.Not):
        other, negated = other.this, not negated
    if isinstance(other, exp.Null):
        result: Expression = Call(Function.IS_NULL, (fit_null(argument, where),), Type.BOOLEAN, where.at)
    elif isinstance(other, exp.Boolean):
        flag = Literal(bool(other.this), Type.BOOLEAN, where.at)
        result = _negation(compare(Function.DISTINCT_FROM, truth(argument, where), flag, where))
    else:
        frame.reading.refuse(node)
    return _negation(result) if negated else result


def fit_null(argument: Expression, where: SourceSpan) -> Expression:
    """Return the argument; a bare NULL becomes text, as in PostgreSQL."""
    return convert_implicitly(argument, Type.TEXT, where) if argument.type is Type.NULL else argument


def _read_between(node: exp.Expr, frame: ExpressionContext) -> Expression:
    frame.reading.only(node, "this", "low", "high", "symmetric")
    where = _span_of(node, frame)
    argument, low, high = (_read_expression(node.args[key], frame) for key in ("this", "low", "high"))
    frame.reading.settle(argument, node)  # it will be there twice

    def inside(bottom: Expression, top: Expression) -> Expression:
        pairs = (bottom, argument), (argument, top)
        sides = tuple(compare(Function.AT_MOST, *pair, where) for pair in pairs)
        if not node.args.get("symmetric"):
            for side, pair in zip(sides, pairs, strict=True):
                frame.reading.ordered(side, *pair, where)
        return Call(Function.AND, sides, Type.BOOLEAN, where.at)

    if not node.args.get("symmetric"):
        return inside(low, high)
    return Call(Function.OR, (inside(low, high), inside(high, low)), Type.BOOLEAN, where.at)


def _read_in(node: exp.Expr, frame: ExpressionContext) -> Expression:
    listed = node.args.get("query") is None and node.args.get("unnest") is None
    if listed and isinstance(node.this.unnest(), exp.Tuple):
        frame.reading.only(node, "this", "expressions")
        return _read_truth_test(by_columns(node, _span_of(node, frame)), frame)
    return read_membership(node, frame, _read_expression)


def _read_like(function: Function, node: exp.Expr, frame: ExpressionContext, escape: str = "\\") -> Expression:
    frame.reading.only(node, "this", "expression", "negate")
    where, negated = _span_of(node, frame), bool(node.args.get("negate"))

    def match(value: Expression, pattern: Expression) -> Expression:
        result = like(function, value, pattern, escape, where)
        return _negation(result) if negated else result

    if (quantified := quantifier(node)) is not None:
        return read_quantified(node, quantified, match, frame, _read_expression)
    return match(_read_expression(node.this, frame), _read_expression(node.expression, frame))


def _regular(node: exp.Expr, frame: ExpressionContext) -> Expression:
    """Return x ~ 'pattern' or SIMILAR TO, where it is a LIKE in another spelling."""
    frame.reading.only(node, "this", "expression")
    where, value, pattern = (
        _span_of(node, frame),
        _read_expression(node.this, frame),
        _read_expression(node.expression, frame),
    )
    similar, ignore = isinstance(node, exp.SimilarTo), isinstance(node, exp.RegexpILike)
    return written_pattern(value, pattern, where, similar=similar, ignore_case=ignore)


def _escape(node: exp.Expr, frame: ExpressionContext) -> Expression:
    frame.reading.only(node, "this", "expression")
    escape, like = node.expression, node.this
    if not isinstance(like, exp.Like | exp.ILike):
        frame.reading.refuse(node)
    if not (isinstance(escape, exp.Literal) and escape.args.get("is_string") and len(escape.name) <= 1):
        raise _span_of(node, frame).bad(
            "the escape is not one character.", "ESCAPE takes one character in quotes.", "Write ESCAPE '!'."
        )
    function = Function.ILIKE if isinstance(like, exp.ILike) else Function.LIKE
    return _read_like(function, like, frame, escape.name)


def _read_case(node: exp.Expr, frame: ExpressionContext) -> Expression:
    frame.reading.only(node, "this", "ifs", "default")
    where = _span_of(node, frame)
    subject = _read_expression(node.this, frame) if node.this is not None else None
    branches = []
    for branch in node.args["ifs"]:
        when = _read_expression(branch.this, frame)
        if subject is not None:
            refusal = frame.reading.never_equal(subject, when, _span_of(branch.this, frame))
            when = compare(Function.EQUAL, frame.reading.settle(subject, node), when, where)
            frame.reading.decided(when, refusal)
        frame.reading.refuse_impossible(when, orders=False)
        branches.append((when, _read_expression(branch.args.get("true"), frame)))
    return case(branches, _read_expression(node.args.get("default"), frame), where)


def _if(node: exp.Expr, frame: ExpressionContext) -> Case:
    frame.reading.only(node, "this", "true", "false")
    branch = (_read_truth_test(node.this, frame), _read_expression(node.args.get("true"), frame))
    frame.reading.refuse_impossible(branch[0], orders=False)
    return case([branch], _read_expression(node.args.get("false"), frame), _span_of(node, frame))


def _read_cast(node: exp.Expr, frame: ExpressionContext) -> Expression:
    frame.reading.only(node, "this", "to", "safe", "_type")
    return cast_to(_read_expression(node.this, frame), node.args["to"], frame.reading, _span_of(node, frame))


def _at_time_zone(node: exp.Expr, frame: ExpressionContext) -> Expression:
    return at_zone(_read_expression(node.this, frame), node.args["zone"], _span_of(node, frame))


def _interval(node: exp.Expr, frame: ExpressionContext) -> Expression:
    frame.reading.only(node, "this", "unit")
    where, unit, amount = _span_of(node, frame), interval_unit(node), node.this
    if not isinstance(amount, exp.Literal) or unit is None:
        raise where.unsupported(
            "the interval is not spelled out.",
            "How far a date moves may not differ from row to row, except by whole days.",
            "Write INTERVAL '3 days', or add an integer number of days to a date.",
        )
    value = parse_interval(f"{amount.name} {unit}", where)
    return Literal(value, Type.INTERVAL, where.at)


def _extract(node: exp.Expr, frame: ExpressionContext) -> Expression:
    frame.reading.only(node, "this", "expression")
    where = _span_of(node, frame)
    part = Literal(node.this.name, Type.TEXT, where.at)
    return call(FUNCTION_NAMES["date_part"], [part, _read_expression(node.expression, frame)], "extract", where)


def _read_substring(node: exp.Expr, frame: ExpressionContext) -> Expression:
    frame.reading.only(node, "this", "start", "length")
    start, length = node.args.get("start"), node.args.get("length")
    arguments = [_read_expression(node.this, frame)]
    if start is not None or length is not None:
        arguments.append(_read_expression(start, frame) if start is not None else Literal(1, Type.INTEGER))
    if length is not None:
        arguments.append(_read_expression(length, frame))
    return call(FUNCTION_NAMES["substring"], arguments, "substring", _span_of(node, frame))


def _position(node: exp.Expr, frame: ExpressionContext) -> Expression:
    frame.reading.only(node, "this", "substr")
    arguments = [_read_expression(node.this, frame), _read_expression(node.args["substr"], frame)]
    return call(FUNCTION_NAMES["strpos"], arguments, "position", _span_of(node, frame))


def _trim(node: exp.Expr, frame: ExpressionContext) -> Expression:
    frame.reading.only(node, "this", "position", "expression")
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "BOTH").upper(), "trim")
    arguments = [_read_expression(node.this, frame)]
    if node.expression is not None and node.args.get("expression") is not None:
        arguments.append(_read_expression(node.expression, frame))
    return call(FUNCTION_NAMES[name], arguments, name, _span_of(node, frame))


def _function(node: exp.Expr, frame: ExpressionContext) -> Expression:
    """Return a call by name, of an aggregate or of a function of the table."""
    frame.reading.only(node, "this", "expressions")
    name = str(node.this.this if isinstance(node.this, exp.Expr) else node.this).lower()
    if is_aggregate(name):
        return _read_aggregate(node, frame)
    refuse_unit(name, node, frame.reading)
    if name in WINDOW_NAMES:
        raise _span_of(node, frame).bad(
            f"{name} reads other rows, but no window is given.", "It needs OVER.", f"Write {name}(…) OVER (ORDER BY …)."
        )
    form, written = FUNCTION_NAMES.get(name), WRITTEN_OUT.get(name) or TEXTS_WRITTEN_OUT.get(name)
    if form is None and written is None:
        refuse_function(name, node, frame.reading)
    where, arguments = _span_of(node, frame), [_read_expression(part, frame) for part in node.expressions]
    if written is not None:
        return frame.reading.settle(written(name, arguments, where), node)
    frame.reading.asks_for_bars |= FUNCTION_NAMES[name].function in INTERVAL_FUNCTIONS
    return replace(call(FUNCTION_NAMES[name], arguments, name, where), number=CALL_TYPES.get(name))


def _read_aggregate(node: exp.Expr, frame: ExpressionContext) -> Expression:
    if frame.measures is None:
        raise _span_of(node, frame).bad(
            f"an aggregate stands in {frame.clause}.",
            "It has no value yet there: rows are chosen and grouped before they are aggregated.",
            "Use HAVING to choose groups, or aggregate a subquery.",
        )
    inner = replace(frame, measures=None, windows=None, lookups=frame.measures.lookups, clause="another aggregate")
    return frame.measures.gather(node, frame.reading, partial(_argument, inner), partial(_read_filter, inner))


def _window(node: exp.Expr, frame: ExpressionContext) -> Expression:
    if frame.windows is None:
        raise _span_of(node, frame).bad(
            f"a window function stands in {frame.clause}.",
            "It has no value yet there: rows are chosen and grouped before windows look at them.",
            "Use QUALIFY to choose rows by it, or compute it in a subquery.",
        )
    inner = replace(frame, windows=None, clause="another window")
    reader = WindowReader(partial(_argument, inner), partial(_read_filter, inner), partial(_sort_key, inner))
    return frame.windows.gather(node, frame.reading, reader)


def _sort_key(frame: ExpressionContext, node: exp.Expr) -> SortKey:
    return sort_key(node, frame, read_expression)


def sort_key(
    node: exp.Expr, frame: ExpressionContext, read: Callable[[exp.Expr, ExpressionContext], Expression]
) -> SortKey:
    """Return one item of an ORDER BY, whose value `read` finds."""
    if not isinstance(node, exp.Ordered):
        frame.reading.refuse(node)
    frame.reading.only(node, "this", "desc", "nulls_first")
    value = fit_null(read(node.this, frame), _span_of(node, frame))
    return SortKey(value, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))


def _argument(frame: ExpressionContext, node: exp.Expr) -> Expression:
    return read_expression(node, frame)


def _read_filter(frame: ExpressionContext, node: exp.Expr) -> Expression:
    return read_condition(node, replace(frame, clause="FILTER"))


def _exists(node: exp.Expr, frame: ExpressionContext) -> Expression:
    frame.reading.only(node, "this")
    block, lookups = read_subquery(node, node.this, frame)
    return refuse_other_people(exists(node, block, lookups, frame.reading), node, block, frame)


_Reader = Callable[[exp.Expr, ExpressionContext], Expression]
_READERS: dict[type[exp.Expr], _Reader] = {
    exp.Paren: _paren,
    exp.Column: _read_column,
    exp.Literal: _literal,
    exp.Boolean: _read_boolean,
    exp.Null: _null,
    exp.Parameter: _parameter,
    exp.Placeholder: _parameter,
    exp.Add: partial(_operator, Function.ADD),
    exp.Sub: partial(_operator, Function.SUBTRACT),
    exp.Mul: partial(_operator, Function.MULTIPLY),
    exp.Div: partial(_operator, Function.DIVIDE),
    exp.IntDiv: partial(_operator, Function.QUOTIENT),
    exp.Mod: partial(_operator, Function.MODULO),
    exp.Pow: _read_power,
    exp.Neg: _negative,
    exp.EQ: partial(_comparison, Function.EQUAL),
    exp.NEQ: partial(_comparison, Function.DIFFERENT),
    exp.LT: partial(_comparison, Function.LESS),
    exp.LTE: partial(_comparison, Function.AT_MOST),
    exp.GT: partial(_comparison, Function.LESS, swapped=True),
    exp.GTE: partial(_comparison, Function.AT_MOST, swapped=True),
    exp.NullSafeNEQ: partial(_comparison, Function.DISTINCT_FROM),
    exp.NullSafeEQ: _not_distinct,
    exp.And: partial(_chain, Function.AND, exp.And),
    exp.Or: partial(_chain, Function.OR, exp.Or),
    exp.Not: _not,
    exp.DPipe: _read_concatenation,
    exp.Is: _is,
    exp.Between: _read_between,
    exp.In: _read_in,
    exp.Like: partial(_read_like, Function.LIKE),
    exp.ILike: partial(_read_like, Function.ILIKE),
    exp.RegexpLike: _regular,
    exp.RegexpILike: _regular,
    exp.SimilarTo: _regular,
    exp.Escape: _escape,
    exp.Case: _read_case,
    exp.If: _if,
    exp.Cast: _read_cast,
    exp.TryCast: _read_cast,
    exp.Interval: _interval,
    exp.AtTimeZone: _at_time_zone,
    exp.Extract: _extract,
    exp.Substring: _read_substring,
    exp.StrPosition: _position,
    exp.Trim: _trim,
    exp.Anonymous: _function,
    exp.Filter: _read_aggregate,
    exp.WithinGroup: _read_aggregate,
    exp.Window: _window,
    exp.Subquery: read_value,
    exp.Select: read_value,
    exp.Exists: _exists,
}
