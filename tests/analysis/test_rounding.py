"""What is too fine to be summed is rounded, and one person's part then fits; everything else stays as it is."""

from fractions import Fraction

import pytest

from sfumato.analysis.private_query import RequestedAggregate
from sfumato.analysis.rounding import round_until_summable
from sfumato.language.facts import Facts, Kind
from sfumato.language.intervals import max_magnitude
from sfumato.language.lower_curves import logarithm_of
from sfumato.language.numbers import multiplied, square_root
from sfumato.language.scalar import Operator, Scalar, column
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation
from sfumato.query.types import Type

COST = column("t", "c", Facts(Type.DECIMAL, Kind.INTEGER, step=Fraction(1, 100), low=0, high=10**6))
ROOT = square_root(COST, Type.DECIMAL)
LOGARITHM = logarithm_of(COST, None, Type.DECIMAL)


def _asked(function: Aggregation, *arguments: Scalar, distinct: bool = False) -> RequestedAggregate:
    return RequestedAggregate("x", Aggregate(function, arguments, distinct))


@pytest.mark.parametrize("rows", [1, 100, 10_000])
@pytest.mark.parametrize("argument", [ROOT, LOGARITHM, multiplied(LOGARITHM, ROOT, Type.DECIMAL)])
def test_one_persons_squares_fit_and_a_millionth_of_the_range_is_told_apart(argument: Scalar, rows: int) -> None:
    asked = (_asked(Aggregation.VAR_SAMP, argument), _asked(Aggregation.AVG, argument))
    spread, average = round_until_summable(asked, rows)
    assert spread.aggregate.arguments == average.aggregate.arguments  # they share what is measured
    (rounded,) = spread.aggregate.arguments
    assert rounded.operator is Operator.ROUNDED
    assert max_magnitude(rounded.facts) ** 2 * rows < 1 << 62
    assert rounded.facts.step * 10**5 < max_magnitude(argument.facts) * argument.facts.step


def test_what_fits_or_was_given_a_step_or_must_stay_different_is_left_alone() -> None:
    asked = (
        _asked(Aggregation.SUM, ROOT),
        _asked(Aggregation.COUNT, LOGARITHM),
        _asked(Aggregation.SUM, multiplied(ROOT, ROOT, Type.DECIMAL), distinct=True),
        _asked(Aggregation.VAR_POP, column("t", "d", Facts(Type.INTEGER, Kind.INTEGER, low=0, high=10**15))),
    )
    assert round_until_summable(asked, 100) == asked
