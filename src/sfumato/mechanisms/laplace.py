"""Integer Laplace noise: pure privacy for counts and sums."""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.event import LaplaceNoise, Neighbours
from sfumato.mechanisms.answers import Answers, add_noise, integer_answers
from sfumato.mechanisms.parameters import read_parameters
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.source import Source


@dataclass(frozen=True, slots=True)
class Laplace:
    """Add integer noise Z with P[Z = z] proportional to exp(-|z| / scale) to each value.

    Theorem: if one privacy unit moves the vector of values by at most `sensitivity` in L1, then `release` is
    (sensitivity / scale)-DP.  [GRS12]  Proof: proofs/laplace.md

    >>> Laplace(1, Fraction(10), Neighbours.ADD_REMOVE).margin(Fraction(95, 100))
    30
    """

    sensitivity: int
    scale: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_parameters(self)

    @property
    def event(self) -> LaplaceNoise:
        """Event of one release."""
        return LaplaceNoise(self.sensitivity, self.scale, self.neighbours)

    def release(self, values: object, source: Source) -> Answers:
        """Return the values with fresh noise on each, in the same shape."""
        exact = integer_answers(values)
        noise = DiscreteLaplace(self.scale).draw(exact.size, source)
        return add_noise(exact, noise.reshape(exact.shape))

    def margin(self, confidence: Fraction) -> int:
        """Return the smallest t such that one value's noise stays within ±t with this probability, exactly."""
        return DiscreteLaplace(self.scale).margin(confidence)
