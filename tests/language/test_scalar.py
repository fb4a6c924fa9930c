"""Total scalars hold what their operator needs, and nothing else can be said."""

import pytest

from sfumato.language.facts import Facts, Kind
from sfumato.language.scalar import ColumnRef, Constant, Factor, Operator, Scalar, Sides, address, column, literal
from sfumato.query.types import Type

WHOLE = Facts(Type.INTEGER, Kind.INTEGER)


def test_a_column_is_its_address_and_nothing_else_has_one() -> None:
    assert address(column("visits", "age", WHOLE)) == ("visits", "age")
    assert address(literal(3, WHOLE)) is None
    assert address(Scalar(Operator.REAL, (literal(3, WHOLE),), WHOLE, Factor(1, 2))) is None


@pytest.mark.parametrize(
    ("operator", "constant"),
    [
        (Operator.COLUMN, "age"),
        (Operator.COLUMN, None),
        (Operator.CONSTANT, ColumnRef("visits", "age")),
        (Operator.REAL, None),
        (Operator.POWER, True),
        (Operator.CLIPPED, Factor(0, 1)),
        (Operator.WITHIN, None),
        (Operator.LIKE, 3),
        (Operator.ADD, 1),
        (Operator.SQRT, Sides(0, 1)),
    ],
)
def test_an_operator_refuses_what_it_does_not_take(operator: Operator, constant: Constant) -> None:
    with pytest.raises(AssertionError):
        Scalar(operator, (), WHOLE, constant)
