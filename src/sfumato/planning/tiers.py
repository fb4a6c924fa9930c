"""Levels at which a measurement can be taken, one of which an answer chooses; and totals that the policy cuts off."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sfumato.language.scalar import Scalar
from sfumato.query.aggregate import Aggregate
from sfumato.sensitivity.norms import Sensitivity

FEWEST = 5
"""Nothing is chosen where a person can add less than this: the plain cap is nearly the best one."""
MOST_LEVELS = 24
_APART = Fraction(7, 5)
"""The last level is at least so many times the one before."""


@lru_cache(maxsize=256)
def amounts_to(most: int) -> tuple[int, ...]:
    """Return the levels up to what a person can add: powers of two, and that itself.

    >>> amounts_to(1000), amounts_to(6), amounts_to(5)
    ((1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000), (1, 2, 4, 6), (1, 2, 5))
    """
    powers = [1 << place for place in range(most.bit_length()) if (1 << place) * _APART <= most]
    return tuple([*powers, most][-MOST_LEVELS:])


@dataclass(frozen=True, slots=True)
class ClippedTotal:
    """How much one person adds at most, over all rows and cells, as the policy says.

    The rows of a person come in an order that only this person's rows decide; each counts as far as it fits below.
    """

    most: int
    weight: Aggregate[Scalar]
    """The sum that is cut off."""
    reach: int
    """How much one person could have without being cut off."""


@dataclass(frozen=True, slots=True)
class Levels:
    """How much one person may add, in steps that rise to all of it.

    The rows of a person come in an order that only this person's rows decide. With `by_rows`, a row counts as long as
    fewer rows than the level came before it; otherwise its value counts as far as it fits below the level.
    """

    choice: str
    """The label of the group that finds the level."""
    amounts: tuple[int, ...]
    by_rows: bool
    weight: Aggregate[Scalar]
    """What fills a level: the count of the rows that count, or the sum of their values."""
    rank: Scalar | None
    """The number of a row within its person, where every row has its own."""
    sensitivities: tuple[Sensitivity, ...]
    """How far one person moves the measurement at each level."""
    means: bool = False
    """Whether only averages are made of it whose sum and count lose the same rows: what is cut hardly changes them."""
