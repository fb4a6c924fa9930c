"""Plain aggregates as SQL: what is aggregated per group, and the arithmetic that follows from it.

None of it can raise. Whatever aggregates integers is exact, whatever order the rows come in: they are added in 128
bits, and what leaves the range that the facts promise is cut there. Sums, averages and variances of doubles are the
engine's own; they meet nobody's rows (`written.is_exact`). Doubles that are not finite are NULL, and there is one zero.
"""

from collections.abc import Sequence

from sfumato.analysis.facts import FARTHEST, STORED, Facts, Kind
from sfumato.analysis.flow import Folded
from sfumato.analysis.scalar import Scalar
from sfumato.engines.sql.scalar import scalar_sql
from sfumato.errors import QueryTooLarge
from sfumato.query.functions import Aggregation

_HALF = 1 << 62
_FAR = 1 << 64
"""A sum whose upper half goes further is beyond 2^126, where every fact ends."""
_FINEST = 1 << 80
"""Grids whose ratio is longer than this are not averaged exactly: n times the ratio must stay below 2^126."""


def storage(facts: Facts) -> str:
    """Return the engine's type of an INTEGER kind."""
    return "BIGINT" if _short(facts) else "HUGEINT"


def huge(number: int) -> str:
    """Return an integer as a 128-bit literal."""
    return f"({number})::HUGEINT"


def clipped(name: str, facts: Facts) -> str:
    """Return a named integer inside the range of its facts, in their storage; NULL stays NULL."""
    low, high = f"({facts.low})::{storage(facts)}", f"({facts.high})::{storage(facts)}"
    # not least and greatest, which pass over NULL
    inside = f"CASE WHEN {name} < {low} THEN {low} WHEN {name} > {high} THEN {high} ELSE {name} END"
    return f"({inside})::{storage(facts)}"


def one_zero(sql: str) -> str:
    """Return a double without a sign on zero: 0.0 and -0.0 are equal, and which of them is met first is no fact."""
    return f"CASE WHEN {sql} = 0::DOUBLE THEN 0::DOUBLE ELSE {sql} END"


def parts(folded: Folded) -> list[str]:
    """Return what is aggregated: SQL over the rows of a group."""
    where = "" if folded.where is None else f" FILTER (WHERE {scalar_sql(folded.where)})"
    if folded.argument is None:
        return [f"count(*){where}"]
    sql, facts = scalar_sql(folded.argument), folded.argument.facts

    def aggregate(name: str, value: str) -> str:
        return f"{name}({'DISTINCT ' * folded.distinct}{value}){where}"

    match folded.aggregation:
        case Aggregation.MIN | Aggregation.MAX if facts.kind is Kind.REAL:
            return [aggregate(str(folded.aggregation), one_zero(sql))]
        case Aggregation.COUNT | Aggregation.MIN | Aggregation.MAX:
            return [aggregate(str(folded.aggregation), sql)]
        case Aggregation.SUM | Aggregation.AVG if facts.kind is Kind.INTEGER:
            counted = [aggregate("count", sql)] if folded.aggregation is Aggregation.AVG else []
            if _short(facts) or folded.distinct:  # of distinct values, as many as there can be stay below 2^126
                return [aggregate("sum", sql), *counted]
            halves = [aggregate("sum", f"{sql} // {huge(_HALF)}"), aggregate("sum", f"{sql} % {huge(_HALF)}")]
            return [*halves, *counted]
        case _:
            return [aggregate(str(folded.aggregation), f"({sql})::DOUBLE")]


def finished(folded: Folded, named: Sequence[str]) -> str:
    """Return the aggregate from the names of its parts."""
    argument = folded.argument
    if argument is None or folded.aggregation in {Aggregation.COUNT, Aggregation.MIN, Aggregation.MAX}:
        return named[0]
    if argument.facts.kind is not Kind.INTEGER or folded.aggregation not in {Aggregation.SUM, Aggregation.AVG}:
        return f"CASE WHEN isfinite({named[0]}) THEN {named[0]} END"
    if folded.aggregation is Aggregation.SUM:
        return clipped(_total(named), folded.facts)
    *totals, count = named
    if folded.facts.kind is Kind.REAL:
        return _quotient(argument.facts, _total(totals), count)
    return clipped(f"({_average(argument, folded, _total(totals), count)})", folded.facts)


def _total(named: Sequence[str]) -> str:
    """Return a sum from its halves, where it has two."""
    if len(named) == 1:
        return named[0]
    upper, lower = named
    near = f"least(greatest({upper}, {huge(-_FAR)}), {huge(_FAR)})"
    return f"(CASE WHEN {upper} IS NOT NULL THEN {near} * {huge(_HALF)} + {lower} END)"


def _short(facts: Facts) -> bool:
    return facts.low >= -STORED and facts.high < STORED


def _quotient(facts: Facts, total: str, count: str) -> str:
    """Return an exact total over a count as a double: three roundings, each of the same two numbers every time."""
    n, d = (f"{float(part)!r}::DOUBLE" for part in (facts.step.numerator, facts.step.denominator))
    return f"({total}::DOUBLE * {n} / {d} / nullif({count}, 0)::DOUBLE)"


def _average(argument: Scalar, folded: Folded, total: str, count: str) -> str:
    """Return total / count on the grid of the facts, rounded half away from zero by integers.

    With p/q the ratio of the two grids: total = Q·n + R and Q·p = A·q + B, so that the average is
    A + (B·n + R·p) / (n·q), where everything but A is small and all parts have the sign of the total.
    """
    ratio = argument.facts.step / folded.facts.step
    p, q = ratio.numerator, ratio.denominator
    if max(p, q) >= _FINEST or max(-argument.facts.low, argument.facts.high) * p >= FARTHEST:
        raise QueryTooLarge(
            "An average on so fine a grid cannot be computed.",
            "Averages are exact, in 128-bit integers.",
            "Average a column with a coarser step, or round it first.",
        )
    n = f"nullif({count}, 0)::HUGEINT"
    scaled = f"(({total} // {n}) * {huge(p)})"
    rest = f"(({scaled} % {huge(q)}) * {n} + ({total} % {n}) * {huge(p)})"
    nearest = f"((2 * abs({rest}) + {n} * {huge(q)}) // (2 * {n} * {huge(q)}))"
    return f"{scaled} // {huge(q)} + CASE WHEN {rest} < 0 THEN -{nearest} ELSE {nearest} END"
