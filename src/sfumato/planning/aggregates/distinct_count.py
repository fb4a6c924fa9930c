"""COUNT(DISTINCT …) of what is not a person, by matching: each value needs one person who has it, and no more.

One person may have many values that no other person has. But where others have them too, one value of each person is
enough to count them all. Proof: proofs/matching.md
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from sfumato.accounting.event import Neighbours
from sfumato.analysis.private_query import Group, RequestedAggregate
from sfumato.caches import remembered
from sfumato.language.facts import Kind
from sfumato.language.scalar import Scalar
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.matched_count import MatchedCount
from sfumato.planning.aggregates.recipe import Quantity, Recipe
from sfumato.planning.aggregates.selected_limit import NumberWithSelectedLimit
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation

_MIN_LIMIT_GAIN_VALUES = 3
"""Within a limit of 1 the noise is 3/2 of one value in each cell; it is used where all values would have twice that."""
_CONFIDENCE = Fraction(95, 100)


@dataclass(frozen=True, slots=True)
class DistinctCountColumn(NumberWithSelectedLimit):
    """The number of values that people serve within a limit, which is chosen among `limits` in every cell."""

    limits: tuple[int, ...]
    values: int | None = None
    """How many different values there are at most, where that is public."""


def matched(asked: RequestedAggregate, group: Group, neighbours: Neighbours) -> Recipe[DistinctCountColumn] | None:
    """Return how different values are matched; None for anything else, and where the plain count errs less.

    That follows from how many values and cells one person can have and how many values there are, not from the data.
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
    if min(rows, cells * most) < _MIN_LIMIT_GAIN_VALUES * cells:
        return None
    limits, known = _limits(most), possible_values(argument, asked.values)
    if not errs_less(limits, Fraction(min(rows, cells * most), cells), known, neighbours):
        return None
    quantity: Quantity = Aggregate(
        Aggregation.MATCHED, (argument,), where=aggregate.where, parameters=tuple(map(Fraction, limits))
    )

    def make(chosen: str) -> DistinctCountColumn:
        return DistinctCountColumn(asked.name, chosen, limits, known)

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


def possible_values(argument: Scalar, keys: int | None) -> int | None:
    """Return how many different values there are at most, from facts and from the number of public keys."""
    known = [number for number in (different(argument), keys) if number is not None]
    return min(known, default=None)


def different_values(quantity: Quantity) -> int | None:
    """Return how many different values a plain count can count, where that is public; None for any other quantity."""
    argument = quantity.argument
    if quantity.function is not Aggregation.COUNT or not quantity.distinct or argument is None:
        return None
    if argument.facts.kind is Kind.UNIT:
        return None
    return possible_values(argument, int(quantity.parameters[0]) if quantity.parameters else None)


@remembered(256)
def errs_less(limits: tuple[int, ...], moved: Fraction, values: int | None, neighbours: Neighbours) -> bool:
    """Whether matching is the better choice, given how far one person moves the plain count, per cell they can be in.

    Compared are errors at 95 %, at epsilon = 1 for each cell: `plain`, whatever the data; `best`, of matching where one
    value of each person is enough; `worst`, of matching where a limit of 1 is as likely as the next. No error is above
    `values`. Matching costs at most worst / plain times the error of the plain count, which costs at most plain / best
    times that of matching: the smaller of the two factors decides.  Proof: proofs/matching.md, 7

    >>> errs_less(_limits(10), Fraction(10), None, Neighbours.ADD_REMOVE)
    False
    >>> errs_less(_limits(10), Fraction(10), 30, Neighbours.ADD_REMOVE)
    True
    >>> errs_less(_limits(20), Fraction(20), None, Neighbours.ADD_REMOVE)
    True
    """
    mechanism = MatchedCount(limits, 1, Fraction(1), neighbours)
    best = mechanism.noise(0).margin(_CONFIDENCE)
    worst = best + mechanism.earlier_wanted_gain * (limits[-1] - 1)  # another rule would not find answers paid for
    plain = Laplace(ceil(moved), moved, neighbours).margin(_CONFIDENCE)
    most = max(best, worst, plain) if values is None else values
    best, worst, plain = (min(error, most) + 1 for error in (best, worst, plain))  # 0 compares, too
    return best * worst <= plain**2


def _limits(most: int) -> tuple[int, ...]:
    """Return the powers of two below what one person can have, and that.

    >>> _limits(20)
    (1, 2, 4, 8, 16, 20)
    """
    return (*(1 << power for power in range((most - 1).bit_length())), most)
