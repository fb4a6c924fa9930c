"""Quantiles as people write them: MEDIAN(x), QUANTILE_CONT(x, 0.9), PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)."""

from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from sfumato.query.aggregate import Aggregate
from sfumato.query.expression import Expression, Literal
from sfumato.query.functions import AggregateForm, Aggregation
from sfumato.query.parsing.reading import ParseContext
from sfumato.query.position import SourceSpan
from sfumato.query.relation import Measure
from sfumato.query.resolve import convert_implicitly, type_with_article
from sfumato.query.types import NUMBERS, Type

_TIMES = frozenset({Type.DATE, Type.TIMESTAMP})
_MAX_LEVEL_DENOMINATOR = 10**6
_DESCENDING = "descending"


def within_group(node: exp.Expr, reading: ParseContext) -> exp.Expr:
    """Return a call with the ordered column in front: what PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x) means."""
    reading.only(node, "this", "expression")
    called, order = node.this, node.expression
    place = reading.place(node)
    ordered = order.expressions if isinstance(order, exp.Order) else []
    if not isinstance(called, exp.Anonymous) or len(ordered) != 1:
        raise place.bad("WITHIN GROUP orders by one column.", "A quantile is one of its values.", "Write ORDER BY x.")
    moved = exp.Anonymous(this=called.this, expressions=[ordered[0].this, *called.expressions])
    moved.meta.update(node.meta)
    moved.meta[_DESCENDING] = bool(ordered[0].args.get("desc"))
    return moved


def quantile(
    form: AggregateForm,
    node: exp.Expr,
    name: str,
    condition: Expression | None,
    argument: Callable[[exp.Expr], Expression],
    place: SourceSpan,
) -> Measure:
    """Return the measure of a quantile: its parameter is the share of values below."""
    operands = list(node.expressions)
    if any(isinstance(operand, exp.Distinct) for operand in operands):
        raise place.unsupported(
            f"{name} of DISTINCT values is not supported.", "One person's value may be the only one of its kind.",
            "Leave DISTINCT out.",
        )  # fmt: skip
    if len(operands) != (1 if name == "median" else 2):
        wanted = "one column" if name == "median" else "a column and a fraction"
        raise place.bad(f"{name} was given {len(operands)} arguments.", f"It takes {wanted}.", _example_call(name))
    level = Fraction(1, 2) if name == "median" else _level(argument(operands[1]), name, place)
    if node.meta.get(_DESCENDING):
        level = 1 - level
    value = argument(operands[0])
    if value.type is Type.NULL:
        value = convert_implicitly(value, Type.DECIMAL, place)
    if value.type not in NUMBERS | _TIMES:
        raise place.bad(
            f"{name} takes a number, a date or a timestamp, and this is {type_with_article(value.type)}.",
            "Its values are put in order on a grid.",
            "Use another column, or count its values: GROUP BY and COUNT(*).",
        )
    between = form.aggregation is Aggregation.QUANTILE_CONT and value.type in NUMBERS
    aggregate = Aggregate(form.aggregation, (value,), where=condition, parameters=(level,))
    return Measure("", aggregate, Type.DECIMAL if between else value.type, place.at)


def _level(read: Expression, name: str, place: SourceSpan) -> Fraction:
    value = read.value if isinstance(read, Literal) else None
    if isinstance(value, bool) or not isinstance(value, int | Fraction) or not 0 <= value <= 1:
        raise place.bad(
            f"the fraction of {name} is not a literal number from 0 to 1.",
            "It is the share of values below the quantile, and it is public.",
            _example_call(name),
        )
    level = Fraction(value)
    if level.denominator > _MAX_LEVEL_DENOMINATOR:
        raise place.bad(
            f"the fraction of {name} has more than six places.", "Answers are not that fine.", "Write 0.999 or so."
        )
    return level


def _example_call(name: str) -> str:
    if name.startswith("percentile"):
        return f"Write {name.upper()}(0.9) WITHIN GROUP (ORDER BY x)."
    return "Write MEDIAN(x)." if name == "median" else f"Write {name.upper()}(x, 0.9), one column for each fraction."
