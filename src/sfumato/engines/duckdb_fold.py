"""Plain aggregates as SQL: what is aggregated per group, and the arithmetic that follows from it.

None of it can raise: integers are added in 128 bits, in two halves where they may be long, and what leaves the range
that the facts promise is cut there. Averages and distinct sums of integers beyond 64 bits are good to 15 digits, all
others are exact. Doubles that are not finite are NULL.
"""

from collections.abc import Sequence

from sfumato.analysis.facts import FARTHEST, STORED, Facts, Kind
from sfumato.analysis.flow import Folded
from sfumato.analysis.scalar import Scalar
from sfumato.engines.duckdb_scalar import scalar_sql
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
    """Return a named INTEGER value inside the range of its facts, in their storage; NULL stays NULL."""
    inside = f"least(greatest({name}, {huge(facts.low)}), {huge(facts.high)})::{storage(facts)}"
    return f"CASE WHEN {name} IS NOT NULL THEN {inside} END"  # least and greatest pass over NULL


def parts(folded: Folded) -> list[str]:
    """Return what is aggregated: SQL over the rows of a group."""
    where = "" if folded.where is None else f" FILTER (WHERE {scalar_sql(folded.where)})"
    if folded.argument is None:
        return [f"count(*){where}"]
    sql, facts = scalar_sql(folded.argument), folded.argument.facts

    def aggregate(name: str, value: str) -> str:
        return f"{name}({'DISTINCT ' * folded.distinct}{value}){where}"

    match folded.aggregation:
        case Aggregation.COUNT | Aggregation.MIN | Aggregation.MAX:
            return [aggregate(str(folded.aggregation), sql)]
        case _ if folded.facts.kind is Kind.REAL:
            return [aggregate(str(folded.aggregation), _real(sql, facts))]
        case Aggregation.SUM if _short(facts):
            return [aggregate("sum", sql)]
        case Aggregation.SUM if not folded.distinct:
            return [aggregate("sum", f"{sql} // {huge(_HALF)}"), aggregate("sum", f"{sql} % {huge(_HALF)}")]
        case Aggregation.AVG if _short(facts):
            return [aggregate("sum", sql), aggregate("count", sql)]
        case _:
            return [aggregate(str(folded.aggregation), _real(sql, facts))]


def finished(folded: Folded, named: Sequence[str]) -> str:
    """Return the aggregate from the names of its parts."""
    exact = folded.argument is not None and folded.facts.kind is Kind.INTEGER
    match folded.aggregation:
        case Aggregation.COUNT | Aggregation.MIN | Aggregation.MAX:
            return named[0]
        case Aggregation.SUM if exact:
            return clipped(_total(folded, named), folded.facts)
        case Aggregation.AVG if folded.argument is not None and exact:
            value = _rounded(named[0], folded.facts) if len(named) == 1 else _average(folded.argument, folded, *named)
            return clipped(f"({value})", folded.facts)
        case _:
            return f"CASE WHEN isfinite({named[0]}) THEN {named[0]} END"


def _short(facts: Facts) -> bool:
    return facts.low >= -STORED and facts.high < STORED


def _total(folded: Folded, named: Sequence[str]) -> str:
    if len(named) == 2:
        return _joined(*named)
    return (
        named[0] if folded.argument is not None and _short(folded.argument.facts) else _rounded(named[0], folded.facts)
    )


def _joined(upper: str, lower: str) -> str:
    near = f"least(greatest({upper}, {huge(-_FAR)}), {huge(_FAR)})"
    return f"(CASE WHEN {upper} IS NOT NULL THEN {near} * {huge(_HALF)} + {lower} END)"


def _real(sql: str, facts: Facts) -> str:
    """Return a number as a double, in its own unit."""
    if facts.kind is not Kind.INTEGER or facts.step == 1:
        return f"({sql})::DOUBLE"
    return f"(({sql})::DOUBLE * {float(facts.step.numerator)!r}::DOUBLE / {float(facts.step.denominator)!r}::DOUBLE)"


def _rounded(real: str, facts: Facts) -> str:
    """Return a double on the grid of the facts: good to 15 digits, which is how an average of long integers is kept."""
    low, high = float(facts.low), float(facts.high)
    scaled = f"{real} * {float(facts.step.denominator)!r}::DOUBLE / {float(facts.step.numerator)!r}::DOUBLE"
    near = f"least(greatest({scaled}, ({low!r})::DOUBLE), ({high!r})::DOUBLE)"
    return f"(CASE WHEN isfinite({real}) THEN round({near})::HUGEINT END)"


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
