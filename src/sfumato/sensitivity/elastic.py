"""Elastic sensitivity: how far one person moves the count of a join, from how often its keys occur [JNS18].

It bounds the local sensitivity at every distance by the largest frequencies of the joined keys, which a join of many to
many has no declaration for. With the decay of `smooth` it becomes safe. Questions in SQL cut at a crowd that was
released instead, which errs less and has bars: `meetings`. Proof: proofs/smooth_sensitivity.md, (7)
"""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.errors import BadParameter
from sfumato.exact import integer
from sfumato.sensitivity.smooth import smooth


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """A private table of which a person has at most `rows` rows, and how often its most frequent key occurs."""

    rows: int
    frequency: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", integer(self.rows, "rows", 1))
        object.__setattr__(self, "frequency", integer(self.frequency, "frequency", 0))

    def frequency_at(self, distance: int) -> int:
        """Return the largest key frequency after the given number of people changed."""
        return self.frequency + self.rows * distance


def elastic_at_distance(tables: tuple[JoinedTable, ...], distance: int) -> int:
    """Bound the local sensitivity of the number of joined rows, all tables by one key, at a distance.

    One unit changes rows of every table: the gain is the product with them minus the product without.

    >>> elastic_at_distance((JoinedTable(1, 3), JoinedTable(1, 5)), 0)
    9
    """
    if not tables:
        raise BadParameter("Nothing is joined.", "A join has tables.", "Give one frequency for each table.")
    frequency, gained = tables[0].frequency_at(distance), tables[0].rows
    for table in tables[1:]:
        own = table.frequency_at(distance)
        gained = frequency * table.rows + own * gained + gained * table.rows
        frequency *= own
    return gained


def elastic(tables: tuple[JoinedTable, ...], decay: Fraction, most: int) -> Fraction:
    """Return the smooth bound of the number of joined rows; `most` is a number that no answer can exceed.

    >>> elastic((JoinedTable(1, 3), JoinedTable(1, 5)), Fraction(9, 10), 10**6)
    Fraction(1121931, 100000)
    """
    return smooth(lambda distance: min(elastic_at_distance(tables, distance), most), decay, most)
