"""What every engine computes alike, to the last digit: only that is computed from people's values.

Powers of e and logarithms are the engine's own, and may differ between engines, and between two versions of one.
"""

from collections.abc import Iterable

from sfumato.errors import UnsupportedSql, at
from sfumato.language.scalar import Operator, Scalar, walk
from sfumato.query.expression import NOWHERE, Position

_OWN = frozenset({Operator.EXP, Operator.LOG})


def check_alike(scalars: Iterable[Scalar], position: Position = NOWHERE) -> None:
    """Refuse to compute from people's values what engines compute each in its own way."""
    if any(part.operator in _OWN for scalar in scalars for part in walk(scalar)):
        raise UnsupportedSql(
            f"{at(position)}EXP, LN or LOG of people's values is not supported.",
            "Engines round them differently in the last digit, and what is measured has to be exact.",
            "Use them on aggregates, as in LN(AVG(x)), and CASE or WIDTH_BUCKET to form ranges of a value.",
        )
