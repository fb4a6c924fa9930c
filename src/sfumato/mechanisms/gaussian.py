"""Add integer Gaussian noise: for many answers, each of small sensitivity."""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.calibrate import integer_gaussian_sigma_squared
from sfumato.accounting.event import GaussianNoise, Neighbours
from sfumato.mechanisms.answers import Answers, add_noise, integer_answers
from sfumato.mechanisms.parameters import read_parameters
from sfumato.randomness.discrete_gaussian import DiscreteGaussian
from sfumato.randomness.source import Source


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Add integer noise Z with P[Z = z] proportional to exp(-z² / (2 sigma_squared)) to each value.

    Theorem: if one privacy unit moves the vector of values by at most `sensitivity_squared` in squared L2, then
    `release` is (sensitivity_squared / (2 sigma_squared))-zCDP.  [CKS20]  Proof: proofs/gaussian.md

    >>> Gaussian(1, Fraction(100), Neighbours.ADD_REMOVE).margin(Fraction(95, 100))
    20
    """

    sensitivity_squared: int
    sigma_squared: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_parameters(self)

    @classmethod
    def by_loss(cls, epsilon: object, delta: object, sensitivity_squared: int, neighbours: Neighbours) -> "Gaussian":
        """Return the mechanism with the least noise known to be (epsilon, delta)-DP for the integer law itself."""
        return cls(sensitivity_squared, integer_gaussian_sigma_squared(epsilon, delta, sensitivity_squared), neighbours)

    @property
    def event(self) -> GaussianNoise:
        """Event of one release."""
        return GaussianNoise(self.sensitivity_squared, self.sigma_squared, self.neighbours)

    def release(self, values: object, source: Source) -> Answers:
        """Return the values with fresh noise on each, in the same shape."""
        exact = integer_answers(values)
        noise = DiscreteGaussian(self.sigma_squared).draw(exact.size, source)
        return add_noise(exact, noise.reshape(exact.shape))

    def margin(self, confidence: Fraction) -> int:
        """Return the smallest t such that one value's noise stays within ±t with this probability, exactly."""
        return DiscreteGaussian(self.sigma_squared).margin(confidence)
