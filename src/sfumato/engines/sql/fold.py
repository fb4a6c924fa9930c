"""Plain aggregates as SQL: what is aggregated per group, and the arithmetic that follows from it.

None of it can raise. Whatever aggregates integers is exact, whatever order the rows come in: they are added in 128
bits, and what leaves the range that the facts promise is cut there. Sums, averages and variances of doubles are the
engine's own; they are never used on people's rows (`written.is_exact`). Doubles that are not finite are NULL, and
there is one zero.
"""

from collections.abc import Sequence

from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.scalar import Columns, clipped, scalar_sql
from sfumato.errors import QueryTooLarge
from sfumato.language.facts import MAX_INTERMEDIATE_STEPS, STORED_LIMIT, Facts, Kind
from sfumato.language.rel_nodes import AggregateItem
from sfumato.language.scalar import Scalar
from sfumato.query.functions import LEVELLED, Aggregation

_HALF_SIZE = 1 << 62
_MAX_UPPER_SUM = 1 << 64
"""A sum whose upper half goes further is beyond 2^126, where every fact ends."""
_MAX_GRID_RATIO = 1 << 80
"""Grids whose ratio is longer than this are not averaged exactly: n times the ratio must stay below 2^126."""


def one_zero(sql: str, dialect: Dialect) -> str:
    """Return a double without a sign on zero: 0.0 and -0.0 are equal, and which of them is met first is no fact."""
    zero = f"CAST(0 AS {dialect.double})"
    return f"CASE WHEN {sql} = {zero} THEN {zero} ELSE {sql} END"


def parts(folded: AggregateItem, columns: Columns, dialect: Dialect) -> list[str]:
    """Return what is aggregated: SQL over the rows of a group."""
    asked = folded.aggregate
    where = None if asked.where is None else scalar_sql(asked.where, columns, dialect)
    if asked.argument is None:
        return [dialect.aggregate_if("count(*)", where)]
    sql, facts = scalar_sql(asked.argument, columns, dialect), asked.argument.facts

    def aggregate(function: Aggregation, value: str) -> str:
        return dialect.aggregate_if(dialect.aggregate(function, value, facts, asked.distinct), where)

    match asked.function:
        case Aggregation.MIN | Aggregation.MAX if facts.kind is Kind.REAL:
            return [aggregate(asked.function, one_zero(sql, dialect))]
        case function if function in LEVELLED:
            return [dialect.aggregate_if(_quantile(folded, sql, dialect), where)]
        case Aggregation.COUNT | Aggregation.MIN | Aggregation.MAX:
            return [aggregate(asked.function, sql)]
        case Aggregation.SUM | Aggregation.AVG if facts.kind is Kind.INTEGER:
            counted = [aggregate(Aggregation.COUNT, sql)] if asked.function is Aggregation.AVG else []
            if _short(facts) or asked.distinct:  # of distinct values, as many as there can be stay below 2^126
                return [aggregate(Aggregation.SUM, sql), *counted]
            half = _wide(_HALF_SIZE, dialect)
            halves = [dialect.quotient(sql, half), dialect.remainder(sql, half)]
            return [*(aggregate(Aggregation.SUM, value) for value in halves), *counted]
        case _:
            values = (scalar_sql(argument, columns, dialect) for argument in asked.arguments)
            return [aggregate(asked.function, ", ".join(f"CAST({value} AS {dialect.double})" for value in values))]


def finished(folded: AggregateItem, named: Sequence[str], dialect: Dialect) -> str:
    """Return the aggregate from the names of its parts."""
    function, argument = folded.aggregate.function, folded.aggregate.argument
    if argument is None or function in {Aggregation.COUNT, Aggregation.MIN, Aggregation.MAX}:
        return named[0]
    if function in LEVELLED and folded.facts.kind is Kind.INTEGER:
        return named[0]
    if argument.facts.kind is not Kind.INTEGER or function not in {Aggregation.SUM, Aggregation.AVG}:
        return f"CASE WHEN {dialect.is_finite(named[0])} THEN {named[0]} END"
    if function is Aggregation.SUM:
        return clipped(_total(named, dialect), folded.facts, dialect)
    *totals, count = named
    if folded.facts.kind is Kind.REAL:
        return _quotient(argument.facts, _total(totals, dialect), count, dialect)
    return clipped(f"({_average(argument, folded, _total(totals, dialect), count, dialect)})", folded.facts, dialect)


def _quantile(folded: AggregateItem, sql: str, dialect: Dialect) -> str:
    """Return a quantile in the words of the standard: one of the integers, or a double between two."""
    (level,) = folded.aggregate.parameters
    fraction = f"CAST({float(level)!r} AS {dialect.double})"
    if folded.facts.kind is Kind.INTEGER:
        return f"percentile_disc({fraction}) WITHIN GROUP (ORDER BY {sql})"
    disc = "cont" if folded.aggregate.function is Aggregation.QUANTILE_CONT else "disc"
    return f"percentile_{disc}({fraction}) WITHIN GROUP (ORDER BY CAST({sql} AS {dialect.double}))"


def _wide(number: int, dialect: Dialect) -> str:
    return dialect.integer(number, dialect.wide)


def _total(named: Sequence[str], dialect: Dialect) -> str:
    """Return a sum from its halves, where it has two."""
    if len(named) == 1:
        return named[0]
    upper, lower = named
    near = f"least(greatest({upper}, {_wide(-_MAX_UPPER_SUM, dialect)}), {_wide(_MAX_UPPER_SUM, dialect)})"
    return f"(CASE WHEN {upper} IS NOT NULL THEN {near} * {_wide(_HALF_SIZE, dialect)} + {lower} END)"


def _short(facts: Facts) -> bool:
    return facts.low >= -STORED_LIMIT and facts.high < STORED_LIMIT


def _quotient(facts: Facts, total: str, count: str, dialect: Dialect) -> str:
    """Return an exact total over a count as a double: three roundings, each of the same two numbers every time."""
    double = dialect.double
    n, d = (f"CAST({float(part)!r} AS {double})" for part in (facts.step.numerator, facts.step.denominator))
    return f"(CAST({total} AS {double}) * {n} / {d} / CAST(nullif({count}, 0) AS {double}))"


def _average(argument: Scalar, folded: AggregateItem, total: str, count: str, dialect: Dialect) -> str:
    """Return total / count on the grid of the facts, rounded half away from zero by integers.

    With p/q the ratio of the two grids: total = Q·n + R and Q·p = A·q + B, so that the average is
    A + (B·n + R·p) / (n·q), where everything but A is small and all parts have the sign of the total.
    """
    ratio = argument.facts.step / folded.facts.step
    p, q = ratio.numerator, ratio.denominator
    if max(p, q) >= _MAX_GRID_RATIO or max(-argument.facts.low, argument.facts.high) * p >= MAX_INTERMEDIATE_STEPS:
        raise QueryTooLarge(
            "An average on such a fine grid cannot be computed.",
            "Averages are exact, in 128-bit integers.",
            "Average a column with a coarser step, or round it first.",
        )
    over, left = dialect.quotient, dialect.remainder
    n, times, parts_of = f"CAST(nullif({count}, 0) AS {dialect.wide})", _wide(p, dialect), _wide(q, dialect)
    scaled = f"({over(total, n)} * {times})"
    rest = f"({left(scaled, parts_of)} * {n} + {left(total, n)} * {times})"
    nearest = over(f"(2 * abs({rest}) + {n} * {parts_of})", f"(2 * {n} * {parts_of})")
    return f"{over(scaled, parts_of)} + CASE WHEN {rest} < 0 THEN -{nearest} ELSE {nearest} END"
