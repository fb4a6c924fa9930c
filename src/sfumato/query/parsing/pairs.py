"""Functions of pairs (y, x): covariances, correlations, lines. Rows where one of the two is NULL do not count."""

from collections.abc import Callable, Mapping

from sqlglot import exp

from sfumato.query.aggregate import Aggregate
from sfumato.query.expression import Call, Expression, conjunction
from sfumato.query.functions import AGGREGATES, PAIRS, Aggregation, Function
from sfumato.query.position import SourceSpan
from sfumato.query.relation import Measure
from sfumato.query.resolve import as_number
from sfumato.query.types import Type

ReadExpression = Callable[[exp.Expr], Expression]
PairSides = tuple[Expression, Expression]


def _of_both(function: Aggregation) -> Callable[[PairSides, Expression | None], Aggregate[Expression]]:
    return lambda sides, where: Aggregate(function, sides, where=where)


def _of_one(function: Aggregation, place: int) -> Callable[[PairSides, Expression | None], Aggregate[Expression]]:
    """REGR_AVGX(y, x) is AVG(x) FILTER (WHERE y IS NOT NULL)."""

    def made(sides: PairSides, where: Expression | None) -> Aggregate[Expression]:
        missing = Call(Function.IS_NULL, (sides[1 - place],), Type.BOOLEAN)
        presence = Call(Function.NOT, (missing,), Type.BOOLEAN)
        return Aggregate(function, (sides[place],), where=presence if where is None else conjunction((where, presence)))

    return made


PAIR_AGGREGATES: Mapping[str, Callable[[PairSides, Expression | None], Aggregate[Expression]]] = {
    **{name: _of_both(form.aggregation) for form in AGGREGATES if form.aggregation in PAIRS for name in form.postgres},
    "regr_syy": lambda sides, where: Aggregate(Aggregation.REGR_SXX, (sides[1], sides[0]), where=where),
    "regr_count": _of_one(Aggregation.COUNT, 1),
    "regr_avgx": _of_one(Aggregation.AVG, 1),
    "regr_avgy": _of_one(Aggregation.AVG, 0),
}
"""Builder for each name, from y and x and a FILTER."""


def read_pair_measure(
    node: exp.Expr, name: str, condition: Expression | None, argument: ReadExpression, place: SourceSpan
) -> Measure:
    """Return the measure that a function of pairs is."""
    if any(isinstance(operand, exp.Distinct) for operand in node.expressions):
        raise place.unsupported(
            f"{name} of DISTINCT pairs is not supported.",
            "Which pairs are equal is not measured.",
            f"Write {name}(y, x) without DISTINCT.",
        )
    operands = [as_number(argument(operand), name, place) for operand in node.expressions]
    if len(operands) != 2:
        raise place.bad(
            f"{name} was given {len(operands)} arguments.",
            "It is a function of pairs.",
            f"Write {name}(y, x), y being what depends on x.",
        )
    aggregate = PAIR_AGGREGATES[name]((operands[0], operands[1]), condition)
    return Measure("", aggregate, Type.INTEGER if name == "regr_count" else Type.DECIMAL, place.at)
