"""Add joint integer noise to several counts and sums of the same rows: pure DP at one price for all."""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.event import Neighbours, Pure
from sfumato.errors import BadParameter
from sfumato.mechanisms.answers import Answers, add_noise, integer_answers
from sfumato.mechanisms.parameters import read_parameters
from sfumato.randomness.max_norm import MaxNormLaw
from sfumato.randomness.source import Source


@dataclass(frozen=True, slots=True)
class MaxNorm:
    """Add integer noise Z with P[Z = z] proportional to exp(-ε/sensitivity · max |zᵢ| / sidesᵢ) to each cell's numbers.

    Theorem: if what one privacy unit moves is a sum of at most `sensitivity` moves, each of one cell, and of no number
    of it by more than its side, then `release` is epsilon-DP: all numbers of all cells together.  [HT10]
    Proof: proofs/max_norm.md

    >>> MaxNorm((1, 100), 1, Fraction(1, 10), Neighbours.ADD_REMOVE).part(0).margin(Fraction(95, 100))
    41
    """

    sides: tuple[int, ...]
    sensitivity: int
    epsilon: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_parameters(self)
        object.__setattr__(self, "sides", self.law.sides)

    @property
    def law(self) -> MaxNormLaw:
        """The law of the noise of one cell."""
        return MaxNormLaw(self.sides, self.epsilon / self.sensitivity)

    @property
    def event(self) -> Pure:
        """Event of one release of all cells."""
        return Pure(self.epsilon, self.neighbours)

    def part(self, place: int) -> "MaxNormPart":
        """Return the noise of one of the numbers."""
        return MaxNormPart(self, place)

    def release(self, values: object, source: Source) -> Answers:
        """Return the values with fresh noise, a row for each cell and a column for each side."""
        exact = integer_answers(values)
        if exact.ndim != 2 or exact.shape[1] != len(self.sides):
            raise BadParameter(
                "The values are not a table with a column for each side.",
                "The numbers of a cell share their noise.",
                "Give a row for each cell.",
            )
        return add_noise(exact, self.law.draw(len(exact), source).reshape(exact.shape))


@dataclass(frozen=True, slots=True)
class MaxNormPart:
    """One of the numbers with joint noise, which is never drawn alone."""

    joint: MaxNorm
    place: int

    @property
    def neighbours(self) -> Neighbours:
        """The relation that the noise is for."""
        return self.joint.neighbours

    @property
    def scale(self) -> Fraction:
        """The unit of its noise: its side, times how often one unit moves it, over epsilon."""
        return self.joint.sides[self.place] * self.joint.sensitivity / self.joint.epsilon

    @property
    def variance(self) -> Fraction:
        """The variance of the real law, which the integer law's is near to: (d + 1)(d + 2)/3 of the squared scale."""
        parts = len(self.joint.sides)
        return Fraction((parts + 1) * (parts + 2), 3) * self.scale**2

    def margin(self, confidence: Fraction) -> int:
        """Return the smallest t such that this number's noise stays within ±t with this probability, exactly."""
        return self.joint.law.margin(self.place, confidence)
