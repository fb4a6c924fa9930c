"""Refuse expressions over private values that engines compute differently.

Powers and logarithms of doubles are the engine's own, and may differ between engines, and between two versions of one;
those of integers on a grid are ours (`curves`).
"""

from collections.abc import Iterable

from sfumato.errors import UnsupportedSql, position_prefix
from sfumato.language.facts import Kind
from sfumato.language.scalar import Operator, Scalar, walk
from sfumato.query.expression import NOWHERE, Position

_OWN = frozenset({Operator.EXP, Operator.LOG})


def refuse_engine_dependent(scalars: Iterable[Scalar], position: Position = NOWHERE) -> None:
    """Refuse to compute from people's values what engines compute each in its own way."""
    if any(part.operator in _OWN and part.facts.kind is Kind.REAL for scalar in scalars for part in walk(scalar)):
        raise UnsupportedSql(
            f"{position_prefix(position)}EXP, LN, LOG or POWER of these values is not supported.",
            "Measurements must be exact, so these functions need values with a `step`, of at most about 10^23.",
            "Declare a step for the column; for EXP and POWER narrow the value, as in EXP(LEAST(x, 50)).",
        )
