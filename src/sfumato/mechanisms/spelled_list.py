"""The commonest texts of an unknown set without any delta: a choice among all texts that could be spelled.

Every text of letters of a public alphabet is a candidate, whether anybody has it or not. A text is spelled letter by
letter, so short ones weigh more than long ones. Only texts that some person has need to be listed. All others together
are one weight, and a choice that falls on them spells a text that no person has.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.accounting.event import BoundedRange, Composed, Event, Neighbours, Repeated
from sfumato.exact import integer, probability
from sfumato.mechanisms.choice import exponential_margin, rate_of
from sfumato.mechanisms.counted_keys import CountedKeys
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.keys import key_counts, touched_keys
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.parameters import read_parameters
from sfumato.randomness.selection import exponential_weighted, uniform_below
from sfumato.randomness.source import Source

ALPHABET = "".join(map(chr, range(32, 127)))
"""The printable letters of ASCII. A text with any other letter is no candidate."""
_BRANCHES = len(ALPHABET) + 1
_UNIFORM_BITS = 64


@dataclass(frozen=True, slots=True)
class SpelledList:
    """Select the k most frequent texts without δ, by an exponential mechanism over all ASCII strings.

    Each of the `chosen` texts is drawn by weight(text) * exp(rate * people). Its count is released with noise.

    Theorem: let one unit be counted once in any number of texts, and let `core` describe the release of the numbers of
    any `chosen` fixed texts with this noise. Then `release` is as private as `chosen` choices of bounded range epsilon,
    and `core`: without a delta.  [MT07]  Proof: proofs/spelled_list.md
    """

    chosen: int
    epsilon: Fraction
    """The price of one choice."""
    noise: Laplace | Gaussian
    core: Event
    """The event of releasing the counts of `chosen` fixed texts."""
    groups_per_unit: int
    longest: int
    """Maximum number of letters of a candidate."""

    def __post_init__(self) -> None:
        read_parameters(self)
        integer(self.longest, "longest", 1)

    @property
    def rate(self) -> Fraction:
        """The factor of a number of people. A person who comes moves all of them the same way."""
        return rate_of(self.epsilon, 1, self.noise.neighbours is Neighbours.ADD_REMOVE)

    @property
    def delta(self) -> Fraction:
        """There is none."""
        return Fraction(0)

    @property
    def touched(self) -> int:
        """How many keys differ between neighbours."""
        return touched_keys(self.groups_per_unit, self.noise.neighbours)

    @property
    def event(self) -> Composed:
        """The event of a release."""
        return Composed((Repeated(BoundedRange(self.epsilon, self.noise.neighbours), self.chosen), self.core))

    @property
    def counted(self) -> CountedKeys:
        """The threshold for chosen texts: absent texts pass it in at most one list of twenty."""
        tail = Fraction(1, 10 * self.chosen)  # of both sides
        return CountedKeys(self.noise, self.core, 1, 2 + self.noise.margin(1 - tail), fewest=0)

    def release(self, texts: Sequence[str], values: object, source: Source) -> list[tuple[str, int]]:
        """Return the chosen texts that pass the threshold, each with its noisy number, given the present texts."""
        people = {text: int(n) for text, n in zip(texts, key_counts(values), strict=True) if n and self.spells(text)}
        found = self._choose_texts(people, source)
        noisy = self.noise.release(np.array([people.get(text, 0) for text in found], dtype=np.int64), source)
        least = self.counted.threshold  # smaller numbers are left out: that is post-processing
        return sorted((text, int(number)) for text, number in zip(found, noisy, strict=True) if number >= least)

    def spells(self, text: str) -> bool:
        """Whether a text is a candidate."""
        return len(text) <= self.longest and all(" " <= letter <= "~" for letter in text)

    def weight(self, text: str) -> int:
        """Return the chance that this text is spelled at random, times (letters + 1)^longest."""
        return int(_BRANCHES ** max(self.longest - len(text) - 1, 0))

    def _choose_texts(self, people: dict[str, int], source: Source) -> list[str]:
        left, found = list(people), list[str]()
        rest = _BRANCHES**self.longest - sum(map(self.weight, left))
        while len(found) < self.chosen and (left or rest):
            scores, weights = [people[text] for text in left], [self.weight(text) for text in left]
            if rest:
                scores, weights = [*scores, 0], [*weights, rest]
            place = exponential_weighted(scores, weights, self.rate, source)
            if place < len(left):
                found.append(left.pop(place))
                continue
            found.append(self._unseen_text(people, found, source))
            rest -= self.weight(found[-1])
        return found

    def _unseen_text(self, people: dict[str, int], found: Sequence[str], source: Source) -> str:
        """Draw random texts until one is absent from the data and not yet chosen."""
        while True:
            text = self._draw_text(source)
            if text not in people and text not in found:
                return text

    def _draw_text(self, source: Source) -> str:
        text = ""
        while len(text) < self.longest and (turn := uniform_below(_BRANCHES, _UNIFORM_BITS, source)):
            text += ALPHABET[turn - 1]
        return text

    def units_for(self, chance: object, letters: int = 8) -> int:
        """Return how many units make a text of `letters` letters appear with this probability, unless displaced."""
        each = 1 - (1 - probability(chance, "probability")) / 2
        candidates = 1 + _BRANCHES ** min(letters + 1, self.longest)
        return max(exponential_margin(self.rate, candidates, each) + 1, self.counted.units_for(each))
