"""What every engine computes alike, to the last digit: only that is computed from people's values.

Powers and logarithms of doubles are the engine's own, and may differ between engines, and between two versions of one;
those of integers on a grid are ours (`curves`).
"""

from collections.abc import Iterable

from sfumato.errors import UnsupportedSql, at
from sfumato.language.facts import Kind
from sfumato.language.scalar import Operator, Scalar, walk
from sfumato.query.expression import NOWHERE, Position

_OWN = frozenset({Operator.EXP, Operator.LOG})


def check_alike(scalars: Iterable[Scalar], position: Position = NOWHERE) -> None:
    """Refuse to compute from people's values what engines compute each in its own way."""
    if any(part.operator in _OWN and part.facts.kind is Kind.REAL for scalar in scalars for part in walk(scalar)):
        raise UnsupportedSql(
            f"{at(position)}EXP, LN, LOG or POWER of people's values needs values on a grid, and a result that is not too far.",
            "Engines round what they compute on doubles differently in the last digit, and what is measured has to be exact.",
            "Declare a `step` for the column; for EXP and POWER narrow the value, as in EXP(LEAST(x, 50)).",
        )
