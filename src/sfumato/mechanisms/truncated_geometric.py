"""The geometric mechanism with its answer clamped to the public range of the question."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.accounting.event import LaplaceNoise, Neighbours
from sfumato.errors import BadParameter
from sfumato.exact import integer
from sfumato.mechanisms.answers import Answers
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.parameters import read_parameters
from sfumato.randomness.source import Source


@dataclass(frozen=True, slots=True)
class TruncatedGeometric:
    """Add integer Laplace (two-sided geometric) noise, then clamp the noisy answer to [low, high].

    Theorem: clamping the noisy answer is post-processing, so `release` costs what the Laplace mechanism costs; and
    for every true value in the range the clamped answer is at least as close.  [GRS12]
    Proof: proofs/truncated_geometric.md
    """

    sensitivity: int
    scale: Fraction
    low: int
    high: int
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_parameters(self)
        object.__setattr__(self, "low", integer(self.low, "low", None))
        object.__setattr__(self, "high", integer(self.high, "high", None))
        if self.low > self.high:
            raise BadParameter(
                f"low = {self.low} is above high = {self.high}.",
                "The public range of the answer is empty.",
                "Give low <= high, from the policy and never from the data.",
            )

    @property
    def unclamped(self) -> Laplace:
        """The mechanism before clamping."""
        return Laplace(self.sensitivity, self.scale, self.neighbours)

    @property
    def event(self) -> LaplaceNoise:
        """Event of one release: clamping is free."""
        return self.unclamped.event

    def release(self, values: object, source: Source) -> Answers:
        """Return the noisy values, each clamped to the range."""
        noisy = self.unclamped.release(values, source)
        clamped: Answers = np.array(
            [min(max(number, self.low), self.high) for number in noisy.ravel().tolist()], dtype=object
        )
        clamped = clamped.reshape(noisy.shape)
        fits = self.low >= -(1 << 63) and self.high < 1 << 63
        return clamped.astype(np.int64) if fits else clamped

    def margin(self, confidence: Fraction) -> int:
        """Return a t such that every true value in the range is within ±t with this probability.

        It is the plain margin, or the width of the range where that is smaller; for a value in the middle of a wide
        range no smaller t would do.
        """
        return min(self.unclamped.margin(confidence), self.high - self.low)
