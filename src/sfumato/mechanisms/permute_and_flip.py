"""Choose one candidate by its score, never worse on average than the exponential mechanism: permute-and-flip."""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.event import LaplaceBounded
from sfumato.mechanisms.choice import ChoiceByScore, permute_and_flip_margin
from sfumato.randomness.selection import permute_and_flip
from sfumato.randomness.source import Source


@dataclass(frozen=True, slots=True)
class PermuteAndFlip(ChoiceByScore):
    """In uniform order, toss a coin exp(rate * (score - best)) for each candidate; the first head is chosen.

    Theorem: if one privacy unit moves each integer score by at most `sensitivity`, then `release` is epsilon-DP with
    rate = epsilon / (2 * sensitivity); with rate = epsilon / sensitivity if one unit moves all scores the same way
    (`monotone`). No test of neighbours beats one after real Laplace noise of this epsilon, so it composes as that does.
    It is not bounded-range: it must not be charged epsilon^2 / 8. [MS20]
    Proof: proofs/permute_and_flip.md
    """

    @property
    def event(self) -> LaplaceBounded:
        return LaplaceBounded(self.epsilon, self.neighbours)

    def release(self, scores: object, source: Source) -> int:
        """Return the chosen index. The scores themselves stay secret."""
        return permute_and_flip(scores, self.rate, source)

    def margin(self, confidence: Fraction, candidates: int) -> int:
        """Return the smallest t with P[best score - chosen score <= t] >= confidence for every such score vector."""
        return permute_and_flip_margin(self.rate, candidates, confidence)
