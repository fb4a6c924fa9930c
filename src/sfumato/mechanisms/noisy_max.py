"""Report noisy max: the index of the largest noisy score, or of the k largest, without the scores."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Neighbours, Pure, Repeated
from sfumato.errors import BadParameter
from sfumato.exact import integer, probability
from sfumato.mechanisms.choice import ChoiceByScore, add_score_noise, permute_and_flip_margin
from sfumato.mechanisms.parameters import read_parameters
from sfumato.randomness.geometric import Geometric
from sfumato.randomness.selection import Integers, integer_array
from sfumato.randomness.source import Source


@dataclass(frozen=True, slots=True)
class NoisyMax(ChoiceByScore):
    """Add a geometric G, P[G = g] proportional to exp(-rate * g) for g >= 0, to each score; return the arg max.

    Theorem: if one privacy unit moves each integer score by at most `sensitivity`, then the index, ties to the lowest,
    is epsilon-DP with rate = epsilon / (2 * sensitivity); with rate = epsilon / sensitivity if one unit moves all
    scores the same way (`monotone`). The winning noisy score is not covered: it needs a release of its own.
    Proof: proofs/noisy_max.md
    """

    @property
    def event(self) -> Pure:
        return Pure(self.epsilon, self.neighbours)

    def release(self, scores: object, source: Source) -> int:
        """Return the index of the largest noisy score, the lowest such index."""
        array = _read_scores(scores, 1)
        return int(np.argmax(add_score_noise(array, Geometric(1 / self.rate).draw(len(array), source))))

    def margin(self, confidence: Fraction, candidates: int) -> int:
        """Return t with P[best score - chosen score <= t] >= confidence for every such score vector.

        It is the smallest such t or one more (proofs/noisy_max.md, part 3).
        """
        size = integer(candidates, "candidates", 1)
        return permute_and_flip_margin(self.rate, size, confidence) + (size > 1)


@dataclass(frozen=True, slots=True)
class NoisyTop:
    """Report noisy max `chosen` times, each time among the candidates that are left, with fresh noise.

    Theorem: if one privacy unit moves each integer score by at most `sensitivity`, then each choice is epsilon-DP
    given the earlier ones, so that the list is (chosen * epsilon)-DP. `epsilon` is the price of one choice.
    Proof: proofs/noisy_max.md
    """

    chosen: int
    sensitivity: int
    epsilon: Fraction
    neighbours: Neighbours
    monotone: bool = False

    def __post_init__(self) -> None:
        read_parameters(self)

    @property
    def single_choice(self) -> NoisyMax:
        return NoisyMax(self.sensitivity, self.epsilon, self.neighbours, self.monotone)

    @property
    def event(self) -> Repeated:
        return Repeated(self.single_choice.event, self.chosen)

    def release(self, scores: object, source: Source) -> npt.NDArray[np.int64]:
        """Return the chosen indices in the order of choice: the first is the noisy best."""
        array = _read_scores(scores, self.chosen)
        remaining = np.arange(len(array), dtype=np.int64)
        choices = np.empty(self.chosen, dtype=np.int64)
        for number in range(self.chosen):
            position = self.single_choice.release(array[remaining], source)
            choices[number] = remaining[position]
            remaining = np.delete(remaining, position)
        return choices

    def margin(self, confidence: Fraction, candidates: int) -> int:
        """Return t such that, all at once with that confidence, choice number j is within t of the j-th best score."""
        single_confidence = 1 - (1 - probability(confidence, "confidence")) / self.chosen
        return self.single_choice.margin(single_confidence, integer(candidates, "candidates", self.chosen))


def _read_scores(scores: object, least: int) -> Integers:
    array = integer_array(scores, "scores")
    if len(array) >= least:
        return array
    raise BadParameter(
        f"{len(array)} scores are fewer than {least}.",
        "This many candidates are to be chosen, each at most once.",
        "Give more candidates, or choose fewer.",
    )
