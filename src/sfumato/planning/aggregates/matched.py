"""COUNT(DISTINCT …) of what is not a person, by matching: each value needs one person who has it, and no more.

One person may have many values that nobody else has; but where others have them too, one value of each person is
enough to count them all. Proof: proofs/matching.md
"""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.analysis.private_query import Asked, Group
from sfumato.language.facts import Kind
from sfumato.language.scalar import Scalar
from sfumato.planning.aggregates.found import FoundNumber
from sfumato.planning.aggregates.recipe import Quantity, Recipe
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation

_WORTH = 3
"""Within a limit of 1 the noise is 3/2 of one value in each cell; it is used where all values would have twice that."""


@dataclass(frozen=True, slots=True)
class Matched(FoundNumber):
    """The number of values that people serve within a limit, which is chosen among `limits` in every cell."""

    limits: tuple[int, ...]


def matched(asked: Asked, group: Group) -> Recipe[Matched] | None:
    """Return how different values are matched; None for anything else, and where it would not pay off.

    That follows from how many values and cells one person can have, not from the data.
    """
    aggregate = asked.aggregate
    if aggregate.function is not Aggregation.COUNT or not aggregate.distinct:
        return None
    (argument,) = aggregate.arguments
    if argument.facts.kind is Kind.UNIT:
        return None
    rows, groups = group.contribution.rows, min(group.contribution.groups, group.contribution.rows)
    cells = min(groups, max(1, group.cells)) if group.public_keys else groups
    values = different(argument)
    most = rows if values is None else min(rows, values)
    if min(rows, cells * most) < _WORTH * cells:
        return None
    limits = _limits(most)
    quantity: Quantity = Aggregate(
        Aggregation.MATCHED, (argument,), where=aggregate.where, parameters=tuple(map(Fraction, limits))
    )

    def make(chosen: str) -> Matched:
        return Matched(asked.name, chosen, limits)

    return Recipe(((quantity, Fraction(1)),), make)


def different(argument: Scalar) -> int | None:
    """Return how many different values there are at most, where facts tell."""
    match argument.facts.kind:
        case Kind.BOOLEAN:
            return 2
        case Kind.INTEGER:
            return argument.facts.span
        case _:
            return None


def _limits(most: int) -> tuple[int, ...]:
    """Return the powers of two below what one person can have, and that.

    >>> _limits(20)
    (1, 2, 4, 8, 16, 20)
    """
    return (*(1 << power for power in range((most - 1).bit_length())), most)
