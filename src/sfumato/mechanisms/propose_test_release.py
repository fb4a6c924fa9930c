"""Propose-test-release: propose a bound on local sensitivity, test it privately, and use it if the test passes."""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.event import Approximate, Composed, LaplaceNoise, Neighbours
from sfumato.exact import integer
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.parameters import read_parameters
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.margin import smallest_covering
from sfumato.randomness.source import Source

_TAIL_BITS = 256


@dataclass(frozen=True, slots=True)
class ProposeTestRelease:
    """Answer with noise scaled to `sensitivity` if the data is far from any whose local sensitivity is larger.

    `distance` is the number of changes that lead to such data (0 if this is such data; None if there is none).
    Theorem: `release` is (threshold_epsilon + epsilon, delta)-DP, if `sensitivity` is public and `distance` moves by at
    most 1 between neighbours [DL09].  Proof: proofs/propose_test_release.md
    """

    sensitivity: int
    threshold_epsilon: Fraction
    epsilon: Fraction
    delta: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        read_parameters(self)

    @property
    def event(self) -> Approximate:
        """Event of one release, with or without an answer."""
        test = LaplaceNoise(1, 1 / self.threshold_epsilon, self.neighbours)
        return Approximate(Composed((test, self._answer.event)), self.delta)

    @property
    def threshold(self) -> int:
        """The noisy distance from which on it answers: noise alone reaches it with probability delta at most."""
        law = DiscreteLaplace(1 / self.threshold_epsilon)
        return smallest_covering(
            lambda least: law.upper_tail(least, _TAIL_BITS)[1] <= int(self.delta * (1 << _TAIL_BITS)), guess=0
        )

    def release(self, value: int, distance: int | None, source: Source) -> int | None:
        """Return the value with noise, or None: the proposed sensitivity did not pass the test."""
        noisy = self._answer.release([integer(value, "value", None)], source)  # drawn either way, for constant time
        noise = int(DiscreteLaplace(1 / self.threshold_epsilon).draw(1, source)[0])
        if distance is not None and integer(distance, "distance", 0) + noise < self.threshold:
            return None
        return int(noisy[0])

    def margin(self, confidence: Fraction) -> int:
        """Return the half-width of an answer that was given."""
        return self._answer.margin(confidence)

    @property
    def _answer(self) -> Laplace:
        return Laplace(self.sensitivity, self.sensitivity / self.epsilon, self.neighbours)
