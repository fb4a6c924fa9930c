"""Desugar aggregates that return lists into rows: top lists, histograms, largest groups.

APPROX_TOP_K(x, k) and MODE of texts are the values that most people have; HISTOGRAM(x) counts each value, or ranges
between declared bounds; ARG_MAX(x, y) is an order of results that is cut after its first row.
"""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from fractions import Fraction

from sqlglot import exp

from sfumato.errors import Refusal
from sfumato.query.declared import Admitted, DeclaredBounds
from sfumato.query.expression import Expression
from sfumato.query.literal import timestamp
from sfumato.query.parsing.aggregate import is_aggregate
from sfumato.query.parsing.block import Block
from sfumato.query.parsing.quantile import within_group
from sfumato.query.parsing.reading import ParseContext, name_of
from sfumato.query.position import SourceSpan
from sfumato.query.private_rows import is_unit_column, unit_columns
from sfumato.query.types import NUMBERS, TIMES, Type

TOP = frozenset({"approx_top_k", "top_k"})
EXTREME_BY = {"arg_max": True, "argmax": True, "max_by": True, "arg_min": False, "argmin": False, "min_by": False}
"""Whether the first is the largest."""
_EXTREMES = {"max": True, "min": False}
_CLAUSES = ("group", "having", "qualify", "distinct", "order", "limit", "offset", "windows")
_MAX_TOP_ROWS = 1000
_DEFAULT_BINS, _MAX_BINS = 20, 1000
_DECIMAL_UNITS = 10**9
_MAX_NUMBER_CHARS = 30
_MAX_EDGES = 50
_MAX_MONTHS = 60
_EXAMPLE = "HISTOGRAM(x), HISTOGRAM(x, 20) for 20 ranges, or HISTOGRAM(x, 0, 100, 20) for those from 0 to 100"
_MOMENTS = (exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMP)
_MAX_SINGLE_VALUES = 50
"""Maximum number of integers that are counted one by one."""

Peek = Callable[[exp.Select], tuple[Block, ParseContext]]
"""Reads a SELECT alone; returns its block and the inferred types."""


def as_rows(node: exp.Select, reading: ParseContext, peek: Peek) -> exp.Expr | None:
    """Return the question that a list stands for; None where a SELECT asks for none."""
    if any(_call_name(_call(part)[0]) in EXTREME_BY for part in node.expressions):
        return _largest(node, reading, peek)
    if node.args.get("group") is not None:
        return _modes(node, reading, peek)
    if len(node.expressions) != 1 or any(node.args.get(clause) is not None for clause in _CLAUSES):
        return None
    call, condition = _call(node.expressions[0])
    if isinstance(call, exp.WithinGroup):
        call = within_group(call, reading)
    name, place = _call_name(call), reading.place(call)
    if name in TOP:
        value, count = _arguments(call, 2, place, "APPROX_TOP_K(x, 10)")
        rows = _spelled_integer(count, _MAX_TOP_ROWS, place, "APPROX_TOP_K(x, 10)")
        _inspect_column(node, value, condition, reading, peek)
        alias = _alias(node.expressions[0], "approx_top_k")
        return _top(node, _people_to_count(node, reading, peek), value, condition, alias, rows, counted=True)
    if name == "mode" and len(call.expressions) == 1 and not isinstance(call.expressions[0], exp.Distinct):
        expression, _ = _inspect_column(node, call.expressions[0], condition, reading, peek)
        if expression.type in {Type.TEXT, Type.BOOLEAN}:
            alias = _alias(node.expressions[0], "mode")
            people = _people_to_count(node, reading, peek)
            return _top(node, people, call.expressions[0], condition, alias, 1, counted=False)
        return None
    return _histogram(node, call, condition, reading, peek) if name == "histogram" else None


def _inspect_column(
    node: exp.Select, value: exp.Expr, condition: exp.Expr | None, reading: ParseContext, peek: Peek
) -> tuple[Expression, ParseContext]:
    """Return the column whose values are listed; refuse a unit column."""
    block, known = peek(_select_columns(node, [value], condition))
    expression = block.outputs[0].expression
    if is_unit_column(expression, unit_columns(block.relation, reading.catalog)):
        raise reading.place(value).unsupported(
            "this column names people.",
            "An answer about a single person cannot be private.",
            "List the values of another column; to count people, use COUNT(DISTINCT …).",
        )
    return expression, known


def _top(
    node: exp.Select,
    whom: exp.Expr,
    value: exp.Expr,
    condition: exp.Expr | None,
    alias: str,
    rows: int,
    counted: bool,
) -> exp.Select:
    """SELECT x, COUNT(DISTINCT person) GROUP BY x ORDER BY 2 DESC LIMIT k: each person counts once."""
    people = _at_place_of(node, exp.Anonymous(this="count", expressions=[whom]))
    select = _select_columns(node, [exp.alias_(value.copy(), alias, quoted=True)], condition)
    if counted:
        select.append("expressions", exp.alias_(people.copy(), "count", quoted=True))
    select.set("group", exp.Group(expressions=[exp.Literal.number(1)]))
    select.set("order", exp.Order(expressions=[_order_by(people), _order_by(exp.Literal.number(1), largest=False)]))
    select.set("limit", exp.Limit(expression=exp.Literal.number(rows)))
    return select


def _modes(node: exp.Select, reading: ParseContext, peek: Peek) -> exp.Select | None:
    """GROUP BY keys, x, of which the first of each key by people is kept: the mode of texts in each group."""
    group, calls = node.args["group"], [(part, *_call(part)) for part in node.expressions]
    modes = [(part, call, condition) for part, call, condition in calls if _call_name(call) == "mode"]
    others = [call for _, call, _ in calls if _call_name(call) != "mode"]
    plain = not any(value for name, value in group.args.items() if name != "expressions")
    clauses = ("having", "qualify", "distinct", "windows")
    if len(modes) != 1 or not plain or any(node.args.get(clause) is not None for clause in clauses):
        return None
    part, call, condition = modes[0]
    if len(call.expressions) != 1 or isinstance(call.expressions[0], exp.Distinct):
        return None
    value = call.expressions[0]
    if any(is_aggregate(_call_name(inner)) for other in others for inner in other.find_all(exp.Anonymous)):
        return None
    expression, _ = _inspect_column(node, value, condition, reading, peek)
    if expression.type not in {Type.TEXT, Type.BOOLEAN}:
        return None
    alias = _alias(part, "mode")
    items = [
        exp.alias_(value.copy(), alias, quoted=True) if column is part else column.copy() for column in node.expressions
    ]
    select = _select_columns(node, items, condition)
    select.set("group", exp.Group(expressions=[*(key.copy() for key in group.expressions), value.copy()]))
    people = _at_place_of(node, exp.Anonymous(this="count", expressions=[_people_to_count(node, reading, peek)]))
    number = exp.Window(
        this=_at_place_of(node, exp.Anonymous(this="row_number", expressions=[])),
        partition_by=[_key_expression(key, node).copy() for key in group.expressions],
        order=exp.Order(expressions=[_order_by(people), _order_by(value, largest=False)]),
    )
    select.set("qualify", exp.Qualify(this=exp.EQ(this=_at_place_of(node, number), expression=exp.Literal.number(1))))
    for clause in ("order", "limit", "offset"):
        if node.args.get(clause) is not None:
            select.set(clause, node.args[clause].copy())
    return select


def _people_to_count(node: exp.Select, reading: ParseContext, peek: Peek) -> exp.Expr:
    """Return the argument of COUNT that counts people: the unit of the first table that has one, else every row."""
    origin = node.args.get("from_")
    joined = [join.this for join in node.args.get("joins") or []]
    for table in [origin.this, *joined] if origin is not None else []:
        name = str(table.args["alias"].this.name) if table.args.get("alias") is not None else table.name
        alone = exp.Select(expressions=[exp.Star()], from_=exp.From(this=table.copy()))
        if node.args.get("with_") is not None:
            alone.set("with_", node.args["with_"].copy())
        alone.meta.update(node.meta)
        try:
            block, _ = peek(alone)
        except Refusal:  # more columns than an answer may have: their rows are counted
            continue
        people = unit_columns(block.relation, reading.catalog)
        for output in block.outputs:
            if name and is_unit_column(output.expression, people):
                column = exp.Column(
                    this=exp.to_identifier(output.name, quoted=True), table=exp.to_identifier(name, quoted=False)
                )
                return _at_place_of(node, exp.Distinct(expressions=[_at_place_of(node, column)]))
    return exp.Star()


def _histogram(
    node: exp.Select, call: exp.Expr, condition: exp.Expr | None, reading: ParseContext, peek: Peek
) -> exp.Select:
    """SELECT x, COUNT(*) GROUP BY x; of many numbers or days between bounds, ranges of them."""
    place = reading.place(call)
    if len(call.expressions) not in {1, 2, 4}:
        raise place.bad(
            f"histogram was given {len(call.expressions)} arguments.",
            "It counts values or ranges.",
            f"Write {_EXAMPLE}.",
        )
    value, *how = call.expressions
    expression, known = _inspect_column(node, value, condition, reading, peek)
    if len(how) == 1 and isinstance(how[0], exp.Tuple):
        return _between_edges(node, value, how[0].expressions, condition, place)
    wanted = _spelled_integer(how[-1], _MAX_BINS, place, _EXAMPLE) if how else None
    if len(how) > 1:
        ends = _spelled_ends(how[:2], place)
        inside = exp.And(
            this=exp.GTE(this=value.copy(), expression=_number_literal(ends[0])),
            expression=exp.LTE(this=value.copy(), expression=_number_literal(ends[1])),
        )
        within = inside if condition is None else exp.And(this=condition.copy(), expression=inside)
        return _of_equal_width(node, value, ends, wanted or _DEFAULT_BINS, within)
    declared = known.declared(expression)
    if expression.type in TIMES and isinstance(declared, DeclaredBounds):
        days = _first_and_last_day(declared)
        if days is not None and (wanted is not None or days[1] - days[0] >= timedelta(_MAX_SINGLE_VALUES)):
            return _of_days(node, value, days, wanted, condition)
    found = _declared_ends(declared) if expression.type in NUMBERS else None
    if wanted is not None and found is None:
        raise place.unsupported(
            "this histogram has no ranges.",
            "Ranges lie between the bounds that the policy declares, and here there are none.",
            "Write HISTOGRAM(x), which counts each value, HISTOGRAM(x, 0, 100, 20) for 20 ranges of numbers from 0 to "
            "100, or HISTOGRAM(x, (0, 10, 50)) for those between these.",
        )
    few = found is not None and expression.type is Type.INTEGER and found[1] - found[0] < _MAX_SINGLE_VALUES
    if found is None or (few and wanted is None):
        return _count_by(node, [exp.alias_(value.copy(), _alias(node.expressions[0], "value"), quoted=True)], condition)
    return _of_equal_width(node, value, found, wanted or _DEFAULT_BINS, condition)


def _of_equal_width(
    node: exp.Select, value: exp.Expr, ends: tuple[Fraction, Fraction], bins: int, condition: exp.Expr | None
) -> exp.Select:
    low, high = ends
    width = (high - low) / bins
    bucket = _bucket(node, value, low, high, bins)
    columns = []
    for name, shift in (("low", 1), ("high", 0)):
        steps = exp.Sub(this=bucket.copy(), expression=exp.Literal.number(1)) if shift else bucket.copy()
        scaled = exp.Mul(this=exp.Paren(this=steps), expression=_number_literal(width))
        columns.append(exp.alias_(exp.Add(this=_number_literal(low), expression=scaled), name, quoted=True))
    return _count_by(node, columns, condition, bucket)


def _between_edges(
    node: exp.Select, value: exp.Expr, edges: list[exp.Expr], condition: exp.Expr | None, place: SourceSpan
) -> exp.Select:
    """Ranges between numbers or dates that the text spells out: each without its upper end, but the last."""
    numbers = [_spelled_number(edge) for edge in edges]
    known = [number for number in numbers if number is not None]
    days = [moment for edge in edges if (moment := _moment(edge)) is not None]
    ordered = known == sorted(set(known)) and days == sorted(set(days))
    spelled = ordered and len(edges) in {len(known), len(days)}
    if not 2 <= len(edges) <= _MAX_EDGES + 1 or not spelled:
        raise place.bad(
            "the ranges of histogram are not spelled out.",
            f"They lie between 2 to {_MAX_EDGES + 1} numbers or dates, in order.",
            "Write HISTOGRAM(x, (0, 10, 50, 200)).",
        )
    inside = exp.And(
        this=exp.GTE(this=value.copy(), expression=edges[0].copy()),
        expression=exp.LTE(this=value.copy(), expression=edges[-1].copy()),
    )
    within = inside if condition is None else exp.And(this=condition.copy(), expression=inside)
    bucket: exp.Expr = exp.Literal.number(len(edges) - 1)
    for n in range(len(edges) - 2, 0, -1):
        below = exp.LT(this=value.copy(), expression=edges[n].copy())
        bucket = _case_when(below, exp.Literal.number(n), bucket)
    columns = []
    for name, last, ends in (("low", edges[-2], edges[:-2]), ("high", edges[-1], edges[1:-1])):
        shown = last.copy()
        for n, edge in reversed(list(enumerate(ends, 1))):
            shown = _case_when(exp.EQ(this=bucket.copy(), expression=exp.Literal.number(n)), edge.copy(), shown)
        columns.append(exp.alias_(shown, name, quoted=True))
    return _count_by(node, columns, within, bucket if len(edges) > 2 else exp.Paren(this=bucket))


def _moment(edge: exp.Expr) -> datetime | None:
    """Return the date or time that is spelled out: DATE '2024-01-31'."""
    spelled = isinstance(edge, exp.Cast) and isinstance(edge.this, exp.Literal) and edge.is_type(*_MOMENTS)
    return timestamp(edge.this.name.strip().lower()) if spelled else None


def _case_when(condition: exp.Expr, then: exp.Expr, otherwise: exp.Expr) -> exp.Expr:
    """One more branch in front: CASE WHEN condition THEN then … END."""
    branch = exp.If(this=condition, true=then)
    if isinstance(otherwise, exp.Case):
        return exp.Case(
            ifs=[branch, *(clause.copy() for clause in otherwise.args["ifs"])], default=otherwise.args["default"]
        )
    return exp.Case(ifs=[branch], default=otherwise)


def _of_days(
    node: exp.Select, value: exp.Expr, days: tuple[date, date], wanted: int | None, condition: exp.Expr | None
) -> exp.Select:
    """Ranges of whole days: months or years, or as many of equal length as are wanted."""
    low, high = days
    if wanted is None:
        unit = "month" if (high.year - low.year) * 12 + high.month - low.month < _MAX_MONTHS else "year"
        start = _at_place_of(
            node, exp.Anonymous(this="date_trunc", expressions=[exp.Literal.string(unit), value.copy()])
        )
        after = exp.Add(this=start.copy(), expression=exp.Interval(this=exp.Literal.string(f"1 {unit}")))
        columns = [exp.alias_(_as_day(part), name, quoted=True) for name, part in (("low", start), ("high", after))]
        return _count_by(node, columns, condition, start)
    length = -(-((high - low).days + 1) // wanted)
    since = exp.Sub(this=_as_day(value), expression=_as_day(exp.Literal.string(low.isoformat())))
    bins = -(-((high - low).days + 1) // length)
    bucket = _bucket(node, exp.Paren(this=since), Fraction(0), Fraction(bins * length), bins)
    columns = []
    for name, shift in (("low", 1), ("high", 0)):
        steps = exp.Sub(this=bucket.copy(), expression=exp.Literal.number(1)) if shift else bucket.copy()
        moved = exp.Mul(this=exp.Paren(this=steps), expression=exp.Literal.number(length))
        start = exp.Add(this=_as_day(exp.Literal.string(low.isoformat())), expression=exp.Paren(this=moved))
        columns.append(exp.alias_(start, name, quoted=True))
    return _count_by(node, columns, condition, bucket)


def _as_day(value: exp.Expr) -> exp.Expr:
    return exp.Cast(this=value.copy(), to=exp.DataType.build("date"))


def _first_and_last_day(declared: DeclaredBounds) -> tuple[date, date] | None:
    """Return the first and the last day between bounds."""
    days = [end.date() if isinstance(end, datetime) else end for end in (declared.low, declared.high)]
    low, high = days
    return (low, high) if isinstance(low, date) and isinstance(high, date) and low < high else None


def _spelled_ends(ends: list[exp.Expr], place: SourceSpan) -> tuple[Fraction, Fraction]:
    numbers = [_spelled_number(end) for end in ends]
    low, high = numbers
    if low is None or high is None or low >= high:
        raise place.bad("the ends of histogram are not two numbers.", "The smaller is first.", f"Write {_EXAMPLE}.")
    return low, high


def _spelled_number(node: exp.Expr) -> Fraction | None:
    if isinstance(node, exp.Neg):
        inner = _spelled_number(node.this)
        return None if inner is None else -inner
    if not isinstance(node, exp.Literal) or node.args.get("is_string") or len(node.name) > _MAX_NUMBER_CHARS:
        return None
    try:
        return Fraction(node.name) if "e" not in node.name.lower() else None
    except ValueError:
        return None


def _count_by(
    node: exp.Select, columns: list[exp.Expr], condition: exp.Expr | None, key: exp.Expr | None = None
) -> exp.Select:
    rows = _at_place_of(node, exp.Anonymous(this="count", expressions=[exp.Star()]))
    select = _select_columns(node, [*columns, exp.alias_(rows, "count", quoted=True)], condition)
    by = exp.Literal.number(1) if key is None else key
    select.set("group", exp.Group(expressions=[by.copy()]))
    select.set("order", exp.Order(expressions=[_order_by(by, largest=False)]))
    return select


def _bucket(node: exp.Select, value: exp.Expr, low: Fraction, high: Fraction, bins: int) -> exp.Expr:
    """Return the number of the range that a value is in; the greatest value is in the last."""
    numbers = [_number_literal(low), _number_literal(high), exp.Literal.number(bins)]
    inner = exp.Anonymous(this="width_bucket", expressions=[value.copy(), *numbers])
    below = exp.Anonymous(this="least", expressions=[_at_place_of(node, inner), exp.Literal.number(bins)])
    return _at_place_of(
        node, exp.Anonymous(this="greatest", expressions=[_at_place_of(node, below), exp.Literal.number(1)])
    )


def _largest(node: exp.Select, reading: ParseContext, peek: Peek) -> exp.Select:
    """SELECT x ORDER BY y DESC LIMIT 1 over results; with keys, the first row of each by QUALIFY."""
    calls = [(part, *_call(part)) for part in node.expressions]
    whole = next(call for _, call, _ in calls if _call_name(call) in EXTREME_BY)
    name, place = _call_name(whole), reading.place(whole)
    by, largest = _arguments(whole, 2, place, "ARG_MAX(x, y)")[1], EXTREME_BY[name]
    block, _ = peek(_select_columns(node, [exp.Star()], None))
    if unit_columns(block.relation, reading.catalog) is not None:
        raise place.unsupported(
            f"{name} of people's rows is not answered.",
            "It shows the value of a single row. Which group has the largest aggregate can be answered.",
            "Group first: SELECT ARG_MAX(x, n) FROM (SELECT x, COUNT(*) AS n FROM … GROUP BY x) t.",
        )
    group = node.args.get("group")
    items: list[exp.Expr] = []
    for part, call, condition in calls:
        same = condition is None and len(call.expressions) in {1, 2} and call.expressions[-1] == by
        if same and EXTREME_BY.get(_call_name(call)) is largest and len(call.expressions) == 2:
            items.append(exp.alias_(call.expressions[0].copy(), _alias(part, _call_name(call)), quoted=True))
        elif same and _EXTREMES.get(_call_name(call)) is largest and len(call.expressions) == 1:
            items.append(exp.alias_(by.copy(), _alias(part, _call_name(call)), quoted=True))
        elif group is not None and not _call_name(call):
            items.append(part.copy())
        else:
            raise _not_alone(name, place)
    ordered = exp.Order(expressions=[_order_by(by, largest=largest)])
    clauses = ("having", "qualify", "distinct", "windows", *(("order", "limit", "offset") if group is None else ()))
    if any(node.args.get(clause) is not None for clause in clauses):
        raise _not_alone(name, place)
    select = _select_columns(node, items, None)
    if group is None:
        select.set("order", ordered)
        select.set("limit", exp.Limit(expression=exp.Literal.number(1)))
        return select
    number = exp.Window(
        this=_at_place_of(node, exp.Anonymous(this="row_number", expressions=[])),
        partition_by=[_key_expression(key, node).copy() for key in group.expressions],
        order=ordered,
    )
    select.set("qualify", exp.Qualify(this=exp.EQ(this=_at_place_of(node, number), expression=exp.Literal.number(1))))
    for clause in ("order", "limit", "offset"):
        if node.args.get(clause) is not None:
            select.set(clause, node.args[clause].copy())
    return select


def _not_alone(name: str, place: SourceSpan) -> Exception:
    return place.unsupported(
        f"{name} cannot be combined with the other columns.",
        "The row with the largest value is shown; other aggregates are of all rows.",
        "Ask for the other columns in another query.",
    )


def _key_expression(key: exp.Expr, node: exp.Select) -> exp.Expr:
    """Return the expression that a key of GROUP BY stands for, where it is the number of a column."""
    if isinstance(key, exp.Literal) and key.name.isdigit() and 1 <= int(key.name[:9]) <= len(node.expressions):
        return _without_alias(node.expressions[int(key.name) - 1])
    return key


def _select_columns(node: exp.Select, items: list[exp.Expr], condition: exp.Expr | None) -> exp.Select:
    """Return a SELECT of these columns from the same rows, those alone for which a condition holds."""
    select = exp.Select(expressions=[item.copy() for item in items])
    select.meta.update(node.meta)
    for part in ("from_", "where", "with_"):
        if node.args.get(part) is not None:
            select.set(part, node.args[part].copy())
    if node.args.get("joins"):
        select.set("joins", [join.copy() for join in node.args["joins"]])
    if condition is not None:
        where = select.args.get("where")
        both = condition.copy() if where is None else exp.And(this=where.this, expression=condition.copy())
        select.set("where", _at_place_of(node, exp.Where(this=both)))
    return select


def _call(part: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """Return the call in a column of SELECT, and the condition of its FILTER."""
    inner = _without_alias(part)
    if isinstance(inner, exp.Filter):
        return inner.this, inner.expression.this
    return inner, None


def _without_alias(part: exp.Expr) -> exp.Expr:
    inner: exp.Expr = part.this if isinstance(part, exp.Alias) else part
    return inner


def _call_name(call: exp.Expr) -> str:
    return str(call.this).lower() if isinstance(call, exp.Anonymous) else ""


def _alias(part: exp.Expr, default: str) -> str:
    return str(name_of(part.args["alias"])) if isinstance(part, exp.Alias) else default


def _arguments(call: exp.Expr, count: int, place: SourceSpan, example: str) -> list[exp.Expr]:
    if len(call.expressions) == count:
        return list(call.expressions)
    raise place.bad(
        f"{_call_name(call)} was given {len(call.expressions)} arguments.", f"It takes {count}.", f"Write {example}."
    )


def _spelled_integer(node: exp.Expr, most: int, place: SourceSpan, example: str) -> int:
    digits = node.name if isinstance(node, exp.Literal) and not node.args.get("is_string") else ""
    if digits.isascii() and digits.isdigit() and 1 <= int(digits[:9]) <= most:
        return int(digits)
    raise place.bad(
        "the number of items is not a literal whole number.", f"It is from 1 to {most:,}.", f"Write {example}."
    )


def _declared_ends(declared: Admitted | None) -> tuple[Fraction, Fraction] | None:
    if not isinstance(declared, DeclaredBounds) or isinstance(declared.low, date) or isinstance(declared.high, date):
        return None
    low, high = Fraction(declared.low), Fraction(declared.high)
    return (low, high) if low < high else None


def _number_literal(value: Fraction) -> exp.Expr:
    """Return a rational as SQL writes it, with nine places at most."""
    whole, rest = divmod(round(abs(value) * _DECIMAL_UNITS), _DECIMAL_UNITS)
    literal = exp.Literal.number(f"{whole}.{rest:09}".rstrip("0").rstrip("."))
    return exp.Neg(this=literal) if value < 0 else literal


def _order_by(node: exp.Expr, *, largest: bool = True) -> exp.Expr:
    return exp.Ordered(this=node.copy(), desc=largest, nulls_first=False)


def _at_place_of(node: exp.Expr, rewritten: exp.Expr) -> exp.Expr:
    """Give what was written out the place of what it stands for."""
    rewritten.meta.update(node.meta)
    return rewritten
