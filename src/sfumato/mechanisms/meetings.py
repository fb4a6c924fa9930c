"""Count joined rows of different units, with noise for the largest key frequency, which is estimated privately."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.event import Composed, Neighbours, Pure
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.parameters import read_parameters
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.source import Source
from sfumato.sensitivity.cross_unit_joins import (
    MIN_KEY_FREQUENCY,
    CrossUnitSide,
    key_frequency,
    pair_count_sensitivity,
    pairs_at_key,
)

LIMIT_FAILURE = Fraction(1, 200)
"""Maximum probability that the limit is below the true key frequency; error bars allow for it."""
_FREQUENCY_EPSILON_SHARE = Fraction(1, 4)
"""Share of epsilon that estimates the key frequency."""
_MAX_KEY_FREQUENCY = 1 << 40
"""Maximum key frequency: no key has more people, and larger noise is useless."""
_MAX_NOISY_COUNT = 1 << 61

SharedKeys = Sequence[tuple[Sequence[int], int]]
"""The powers of keys, and how many keys have them."""


@dataclass(frozen=True, slots=True)
class Meetings:
    """Count rows of different units that share a join key, as pairs or triples.

    It releases an upper bound of the key frequency first, then each cell's count with noise that suits this bound.

    Theorem: `release` is epsilon-DP, for any tables of which one person has at most `rows` rows a side, `repeats` of
    them with one key. But for a probability of `LIMIT_FAILURE` nothing is cut.  Proof: proofs/elastic_joins.md
    """

    epsilon: Fraction
    sides: tuple[CrossUnitSide, ...]
    several: bool
    """Whether the joined rows of a unit may spread over several cells."""
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_parameters(self)

    @property
    def event(self) -> Composed:
        """Event of one release: the noise of the key frequency, then noise of a fixed loss."""
        return Composed((self._frequency_search.event, Pure(self._for_meetings, self.neighbours)))

    def release(self, cells: Sequence[SharedKeys], source: Source) -> tuple[tuple[int, int], ...]:
        """Return the common limit and the noisy number of joined rows, for each cell."""
        (found,) = DiscreteLaplace(self._frequency_search.scale).draw(1, source).tolist()
        crowd = self._limit(cells, found)
        noise = DiscreteLaplace(self.noise(crowd).scale).draw(len(cells), source)
        noisy = (exact + added for exact, added in zip(self.meetings(cells, crowd), noise.tolist(), strict=True))
        return tuple((crowd, min(max(value, -_MAX_NOISY_COUNT), _MAX_NOISY_COUNT)) for value in noisy)

    def max_key_frequency(self, cells: Sequence[SharedKeys]) -> int:
        """Return the largest key frequency: secret, of sensitivity 1."""
        return max((key_frequency(powers, self.sides) for cell in cells for powers, _ in cell), default=0)

    def meetings(self, cells: Sequence[SharedKeys], crowd: int) -> list[int]:
        """Return the joined rows of each cell, bounded by a key frequency: secret."""
        return [sum(times * pairs_at_key(powers, self.sides, crowd) for powers, times in cell) for cell in cells]

    def expected(self, cells: Sequence[SharedKeys]) -> tuple[tuple[int, int], ...]:
        """Return what `release` would return without noise, for the data owner."""
        crowd = self._limit(cells, 0)
        return tuple((crowd, met) for met in self.meetings(cells, crowd))

    def noise(self, crowd: int) -> Laplace:
        """Return the noise that the meetings get under a limit that was released."""
        distance = pair_count_sensitivity(self.sides, crowd, self.several, self.neighbours)
        return Laplace(distance, distance / self._for_meetings, self.neighbours)

    def _limit(self, cells: Sequence[SharedKeys], noise: int) -> int:
        limit = self.max_key_frequency(cells) + noise + self._frequency_search.margin(1 - 2 * LIMIT_FAILURE)
        return min(max(limit, MIN_KEY_FREQUENCY), _MAX_KEY_FREQUENCY)

    @property
    def _for_meetings(self) -> Fraction:
        return (1 - _FREQUENCY_EPSILON_SHARE) * self.epsilon

    @property
    def _frequency_search(self) -> Laplace:
        return Laplace(1, 1 / (_FREQUENCY_EPSILON_SHARE * self.epsilon), self.neighbours)
