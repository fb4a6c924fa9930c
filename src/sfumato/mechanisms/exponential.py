"""Choose one candidate by its score: the exponential mechanism."""

from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.event import BoundedRange
from sfumato.mechanisms.choice import ChoiceByScore, exponential_margin
from sfumato.randomness.selection import exponential
from sfumato.randomness.source import Source


@dataclass(frozen=True, slots=True)
class Exponential(ChoiceByScore):
    """Choose index i with probability proportional to exp(rate * scores[i]), rate = epsilon / (2 * sensitivity).

    Theorem: if one privacy unit moves each integer score by at most `sensitivity`, then `release` is epsilon-DP and
    the log-ratios between neighbours span at most epsilon [MT07, CR21]. If moreover one unit moves all scores the same
    way (`monotone`: counts under add-remove), the same holds with rate = epsilon / sensitivity.
    Proof: proofs/exponential.md
    """

    @property
    def event(self) -> BoundedRange:
        return BoundedRange(self.epsilon, self.neighbours)

    def release(self, scores: object, source: Source) -> int:
        """Return the chosen index. The scores themselves stay secret."""
        return exponential(scores, self.rate, source)

    def margin(self, confidence: Fraction, candidates: int) -> int:
        """Return the smallest t with P[best score - chosen score <= t] >= confidence for every such score vector."""
        return exponential_margin(self.rate, candidates, confidence)
