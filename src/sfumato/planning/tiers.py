"""Levels at which a measurement can be taken, one of which an answer chooses; and totals that the policy cuts off."""

from dataclasses import dataclass

from sfumato.language.scalar import Scalar
from sfumato.query.aggregate import Aggregate
from sfumato.sensitivity.norms import Sensitivity


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
    """Whether only averages are made of it: what is cut from them changes them by a part of its share."""
