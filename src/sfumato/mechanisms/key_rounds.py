"""Private key selection in rounds: keys that a round has found are left out of what the next round counts.

A unit is counted in a few of its keys. In the next round it is counted in others, because those that were found are
released already. [SDH23] Swanberg, Desfontaines, Haney, DP-SIPS: A simpler, more scalable mechanism for differentially
private partition selection, PoPETs 2023.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Composed, Neighbours
from sfumato.errors import BadParameter
from sfumato.mechanisms.renyi_selection import RenyiSelection
from sfumato.randomness.source import Source

_MIN_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class KeyRounds:
    """Release the keys that any of several selections keeps, each counting the keys that none before it has kept.

    Theorem: let one unit be counted once in at most `groups_per_unit` keys in each round, chosen by a function of the
    unit's own rows and of the keys that earlier rounds have released. Then all rounds together are `event`.
    Proof: proofs/key_rounds.md
    """

    rounds: tuple[RenyiSelection, ...]
    """In their order; the last one has most of the price."""

    def __post_init__(self) -> None:
        if len(self.rounds) < _MIN_ROUNDS or len({(one.groups_per_unit, one.neighbours) for one in self.rounds}) > 1:
            raise BadParameter(
                "Rounds of a selection are fewer than two, or differ in groups_per_unit or neighbours.",
                "All rounds count the same units by the same limit.",
                "Give two or more selections with the same groups_per_unit and neighbours.",
            )

    @property
    def delta(self) -> Fraction:
        """The sum of what the rounds fail with."""
        return sum((one.delta for one in self.rounds), Fraction(0))

    @property
    def groups_per_unit(self) -> int:
        """Maximum number of keys in which a round counts one unit."""
        return self.rounds[0].groups_per_unit

    @property
    def neighbours(self) -> Neighbours:
        """The neighbour relation."""
        return self.rounds[0].neighbours

    @property
    def touched(self) -> int:
        """Number of keys that differ between neighbours, in each round."""
        return self.rounds[0].touched

    @property
    def event(self) -> Composed:
        """Event of a release: one selection after the other."""
        return Composed(tuple(one.event for one in self.rounds))

    def release(self, values: object, source: Source) -> npt.NDArray[np.int64]:
        """Return the indices of the keys that the first round keeps, given each key's number of distinct units.

        Later rounds are selections of their own: their numbers are counted when this one is released.
        """
        return self.rounds[0].release(values, source)

    def units_for(self, chance: object) -> int:
        """Return a number of units with which a key is released with at least this probability, by the last round."""
        return self.rounds[-1].units_for(chance)

    def margin(self, confidence: object) -> int:
        """Return the size from which a key is released with this probability; smaller keys may be missing."""
        return self.units_for(confidence)
