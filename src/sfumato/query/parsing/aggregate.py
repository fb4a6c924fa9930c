"""Aggregates are gathered into the measures of their group; the same one written twice is measured once."""

from dataclasses import replace
from typing import NoReturn

from sqlglot import exp

from sfumato.query.aggregate import Aggregate
from sfumato.query.expression import Column, Expression, Literal
from sfumato.query.functions import AGGREGATE_NAMES, FUNCTION_NAMES, LEVELLED, Aggregation, Takes
from sfumato.query.parsing.desugar.aggregates import ARGUMENT_COUNTS
from sfumato.query.parsing.other_functions import refuse_bounds, refuse_other_function
from sfumato.query.parsing.pairs import PAIR_AGGREGATES, ReadExpression, read_pair_measure
from sfumato.query.parsing.quantile import quantile, within_group
from sfumato.query.parsing.reading import ParseContext
from sfumato.query.parsing.rewriting import count_truths, in_one_person, key_query, names_people
from sfumato.query.parsing.subquery import Lookups
from sfumato.query.position import SourceSpan
from sfumato.query.relation import Measure
from sfumato.query.resolve import as_number, convert_implicitly, truth
from sfumato.query.types import Type

_CONDITIONAL = frozenset({"count_if", "countif"})
_COUNT_THEM = "Count each value, and keep the largest: GROUP BY x ORDER BY COUNT(*) DESC LIMIT k."
_COUNT_ALL = "Count each value, or each range of values: GROUP BY width_bucket(x, LOW, HIGH, BUCKETS)."
_ORDER_THEM = "Group by the one, order by the aggregate of the other: GROUP BY x ORDER BY SUM(y) DESC LIMIT 1."
_COUNT_PEOPLE = "This column names people, who can only be counted: COUNT(DISTINCT …)."
_ROWS_REMEDY = "It is rows, not one value: it can be the only column of a SELECT without GROUP BY, ORDER BY or LIMIT."
_SINGLE_ROW = "It shows the value of a single row."
_LIST_REMEDIES = {
    **dict.fromkeys(("top_k", "approx_top_k"), (_ROWS_REMEDY, _COUNT_THEM)),
    "histogram": (_ROWS_REMEDY, _COUNT_ALL),
    **dict.fromkeys(("arg_max", "arg_min", "argmax", "argmin", "max_by", "min_by"), (_SINGLE_ROW, _ORDER_THEM)),
}
"""Aggregates that return a list or another column of one row, with the query to ask instead."""
_TRUTHS = {"bool_and": True, "every": True, "logical_and": True, "bool_or": False, "logical_or": False}
"""Whether it is the false rows that are counted instead."""
_OF_TRUTHS = {name: "min" if negated else "max" for name, negated in _TRUTHS.items()}
"""Equivalents inside one person: the largest truth value tells whether one is true."""
_SINGLE = frozenset({"any_value", "arbitrary", "first", "last"})
_LIST_AGGREGATES = frozenset(
    {"string_agg", "group_concat", "listagg", "array_agg", "list", "json_agg", "json_group_array"}
    | {"jsonb_agg", "json_object_agg", "xmlagg"}
)
_UNSUPPORTED_AGGREGATES = {
    "product": ("One person can multiply it by any amount.", "Sum logarithms: SUM(LN(x))."),
    "mad": (
        "It measures distances from a value that is itself private.",
        "Ask for MEDIAN(x), then MEDIAN(ABS(x - 12)).",
    ),
    "entropy": (
        "It is a sum over groups.",
        "Count them, and go on from there: SELECT -SUM(p * LN(p)) FROM (SELECT x, 1.0 * COUNT(*) / SUM(COUNT(*))"
        " OVER () AS p FROM … GROUP BY x) AS shares WHERE p > 0.",
    ),
    "kurtosis_pop": ("Only the kurtosis of a sample is measured.", "Ask for KURTOSIS(x), or for averages of powers."),
    "time_bucket": (
        "Its ranges begin anywhere.",
        "Use date_trunc('week', …), or ranges of the number of days: date_diff('day', DATE '2024-01-01', …) // 10.",
    ),
}
"""Unsupported aggregates, with the reason and an equivalent."""
_CLOCKS = frozenset({"now", "today", "current_date", "current_timestamp", "clock_timestamp", "localtimestamp", "age"})
_FILES = ("read_", "parquet_", "sniff_", "pg_", "lo_", "glob", "query", "getenv", "current_setting", "dblink")
_RANDOM = frozenset({"random", "setseed", "uuid", "gen_random_uuid", "nextval"})


def is_aggregate(name: str) -> bool:
    """Whether a function of this name is an aggregate of the table."""
    return name in AGGREGATE_NAMES or name in _CONDITIONAL or name in PAIR_AGGREGATES or name in _TRUTHS


class Measures:
    """The measures of one group, in the order in which the text needs them."""

    def __init__(self, lookups: Lookups | None = None) -> None:
        self.label = ""
        self.lookups = lookups  # where the subqueries of arguments are gathered: below the group
        self.found: list[Measure] = []
        self._names: dict[Measure, Measure] = {}
        """Measures keyed without their names, so that a SELECT of many is read in linear time."""

    def name_group(self, reading: ParseContext) -> str:
        """Return the label of the group; it is taken when the first measure or key needs it."""
        self.label = self.label or reading.label("group")
        return self.label

    def gather(
        self, node: exp.Expr, reading: ParseContext, argument: ReadExpression, where: ReadExpression
    ) -> Expression:
        """Return the column that will hold the aggregate that `node` spells, with its FILTER if it has one."""
        measure = read_measure(node, reading, argument, where)
        same = self._names.get(measure)
        if same is None:
            same = self._names[measure] = replace(measure, name=f"m{len(self.found) + 1}")
            self.found.append(same)
        return Column(self.name_group(reading), same.name, same.type, measure.at, same.number)


def read_measure(node: exp.Expr, reading: ParseContext, argument: ReadExpression, where: ReadExpression) -> Measure:
    """Return the aggregate that `node` spells, as yet without a name."""
    condition = None
    if isinstance(node, exp.Filter):
        reading.only(node, "this", "expression")
        condition = where(node.expression.this)
        node = node.this
    if isinstance(node, exp.WithinGroup):
        node = within_group(node, reading)
    place = reading.place(node)
    name = str(node.this).lower() if isinstance(node, exp.Anonymous) else ""
    if name in _SINGLE or (name in _TRUTHS and not in_one_person(node, reading.catalog)):
        refuse_function(name, node, reading)
    if not is_aggregate(name):
        raise place.bad("FILTER follows something else than an aggregate.", "It chooses rows.", "Remove it.")
    reading.only(node, "this", "expressions")
    if any(isinstance(part, exp.Kwarg) for part in node.expressions):
        refuse_bounds(node, reading)
    if name in _CONDITIONAL:
        return _conditional(node, condition, where, place)
    if name in PAIR_AGGREGATES:
        return read_pair_measure(node, name, condition, argument, place)
    form = AGGREGATE_NAMES[_OF_TRUTHS.get(name, name)]
    if form.aggregation in LEVELLED:
        return quantile(form, node, name, condition, argument, place)
    distinct, operand = _operand(node, name, place)
    if isinstance(operand, exp.Star):
        reading.only(operand)
        return _count_rows(name, distinct, condition, place)
    value = argument(operand)
    constant = isinstance(value, Literal) and value.value is not None
    if form.aggregation is Aggregation.COUNT and constant and not distinct:
        return _count_rows(name, distinct, condition, place)  # COUNT(1) counts rows
    if name in _TRUTHS:
        value = truth(value, place)
    if form.takes is Takes.NUMBER:
        value = as_number(value, name, place)
    if value.type is Type.NULL:
        value = convert_implicitly(value, Type.TEXT, place)
    aggregate = Aggregate(form.aggregation, (value,), distinct and form.distinct, condition)
    return Measure("", aggregate, form.gives or value.type, place.at)


def _operand(node: exp.Expr, name: str, place: SourceSpan) -> tuple[bool, exp.Expr]:
    operands = node.expressions
    distinct = len(operands) == 1 and isinstance(operands[0], exp.Distinct)
    if distinct:
        if operands[0].args.get("on"):
            raise place.unsupported("DISTINCT ON is not supported.", "It shows single rows.", "Use GROUP BY.")
        operands = operands[0].expressions
    if not operands and name == "count" and not distinct:
        return False, exp.Star()  # DuckDB's COUNT()
    if len(operands) != 1:
        raise place.bad(
            f"{name} was given {len(operands)} arguments.",
            "It takes one, or * where rows are counted.",
            "Join several columns into one with ||, or leave one.",
        )
    return distinct, operands[0]


def _count_rows(name: str, distinct: bool, condition: Expression | None, place: SourceSpan) -> Measure:
    if name != "count" or distinct:
        raise place.bad(f"{name} cannot be asked of *.", "Only COUNT(*) counts rows.", "Name a column.")
    return Measure("", Aggregate(Aggregation.COUNT, where=condition), Type.INTEGER, place.at)


def _conditional(node: exp.Expr, condition: Expression | None, where: ReadExpression, place: SourceSpan) -> Measure:
    """DuckDB's count_if(p) is COUNT(*) FILTER (WHERE p)."""
    if condition is not None or len(node.expressions) != 1:
        raise place.bad("count_if takes one condition and no FILTER.", "It is one.", "Use COUNT(*) FILTER (WHERE …).")
    return Measure("", Aggregate(Aggregation.COUNT, where=where(node.expressions[0])), Type.INTEGER, place.at)


def refuse_function(name: str, node: exp.Expr, reading: ParseContext) -> NoReturn:
    """Refuse a function that is not in the table, by what it is if that is known."""
    place = reading.place(node.parent if isinstance(node.parent, exp.Filter) else node)
    if name in _TRUTHS:
        raise place.unsupported(
            f"{name} is not answered.",
            "One row decides it, and noise cannot be added to a truth value.",
            reading.with_example("Count the rows that decide it instead.", count_truths(node, _TRUTHS[name])),
        )
    if name in _SINGLE | _LIST_AGGREGATES:
        people = names_people(node, reading.catalog)
        raise place.unsupported(
            f"{name} is not answered.",
            f"It shows the {'value of a single row' if name in _SINGLE else 'values of single rows'}.",
            _COUNT_PEOPLE
            if people
            else reading.with_example("Group by it, and count the rows of each value.", key_query(node)),
        )
    refuse_other_function(name, node, reading)
    if name in ARGUMENT_COUNTS:
        raise place.bad(
            f"{name} cannot be used like this.",
            "It is rewritten as other calls, which needs plain columns as arguments and no call around it.",
            f"Give it the {ARGUMENT_COUNTS[name]} that it takes, without *, DISTINCT and OVER, "
            "or write it out yourself.",
        )
    if name in _UNSUPPORTED_AGGREGATES:
        raise place.unsupported(f"{name} is not answered.", *_UNSUPPORTED_AGGREGATES[name])
    if name in _LIST_REMEDIES:
        raise place.unsupported(f"{name} is not answered here.", *_LIST_REMEDIES[name])
    if name in _CLOCKS:
        raise place.unsupported(
            f"{name} reads the clock.", "A question must mean the same whenever it is asked.", "Write the date itself."
        )
    if name in _RANDOM:
        raise place.unsupported(f"{name} is random.", "Noise is added by the system alone.", "Remove it.")
    if name.startswith(_FILES):
        raise place.unsupported(
            f"{name} reads files, settings or the system.", "A query reads the policy's tables only.", "Name a table."
        )
    known = sorted({*FUNCTION_NAMES, *AGGREGATE_NAMES, *PAIR_AGGREGATES, *ARGUMENT_COUNTS})
    where = "The functions that are answered here are listed in docs/sql/functions.md."
    raise place.unknown("function", name, known, where)
