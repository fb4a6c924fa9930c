"""Choose the largest keys one after another, then count them: the price does not grow with the keys of one unit.

Each choice is the exponential mechanism among the remaining keys. If the keys are not public, a choice may also fall on
an empty key, and a chosen key is released only if its noisy number of units reaches a threshold.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import BoundedRange, Composed, Event, Neighbours, Repeated
from sfumato.exact import integer, probability
from sfumato.mechanisms.choice import exponential_margin, rate_of
from sfumato.mechanisms.counted_keys import CountedKeys
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.keys import key_counts, touched_keys
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.parameters import read_parameters
from sfumato.mechanisms.threshold import Selected
from sfumato.randomness.selection import exponential_weighted
from sfumato.randomness.source import Source

_MAX_INT64_TERM = 2**62


@dataclass(frozen=True, slots=True)
class TopList:
    """Choose `chosen` times among the keys that are left, by exp(rate * people); release noisy numbers of the chosen.

    Theorem: let one unit be counted once in at most `groups_per_unit` = g keys, and let `core` describe the release of
    the numbers of any `chosen` fixed keys with this noise. If the keys are public (`threshold` None), `release` is
    as private as `chosen` choices of bounded range epsilon, and `core`. If they are not, every choice is also among
    g * (1 + 1/rate) empty keys, which are never shown, and the same holds except with probability
    delta = 1 - (1 - P[Z >= threshold - 1])^min(g, chosen).  [MT07, DR19]  Proof: proofs/top_list.md
    """

    chosen: int
    epsilon: Fraction
    """The price of one choice."""
    noise: Laplace | Gaussian
    core: Event
    """The event of releasing the counts of `chosen` fixed keys."""
    groups_per_unit: int
    threshold: int | None

    def __post_init__(self) -> None:
        read_parameters(self)
        if self.threshold is not None:
            integer(self.threshold, "threshold", 2)

    def with_delta(self, delta: object) -> "TopList":
        """Return the list of keys that are not public, with the lowest threshold whose delta is at most this."""
        shown = min(self.groups_per_unit, self.chosen)
        return replace(self, threshold=CountedKeys.by_delta(self.noise, self.core, shown, delta).threshold)

    @property
    def counted(self) -> CountedKeys | None:
        """The selection of chosen keys that are not public."""
        if self.threshold is None:
            return None
        return CountedKeys(self.noise, self.core, min(self.groups_per_unit, self.chosen), self.threshold)

    @property
    def rate(self) -> Fraction:
        """Factor of a number of units; an added unit moves all of them the same way."""
        return rate_of(self.epsilon, 1, self.noise.neighbours is Neighbours.ADD_REMOVE)

    @property
    def empty(self) -> int:
        """Number of empty keys added to the candidates: W with W + g·e^rate <= W·e^rate."""
        if self.threshold is None:
            return 0
        needed = self.groups_per_unit * (1 + 1 / self.rate)  # >= g / (1 - e^-rate), as e^-r <= 1 / (1 + r)
        return -(-needed.numerator // needed.denominator)

    @property
    def delta(self) -> Fraction:
        """Probability that a key of a single unit is released; 0 if the keys are public."""
        return Fraction(0) if self.counted is None else self.counted.delta

    @property
    def touched(self) -> int:
        """Number of keys that differ between neighbours."""
        return touched_keys(self.groups_per_unit, self.noise.neighbours)

    @property
    def choices_event(self) -> Repeated:
        """Event of the choices."""
        return Repeated(BoundedRange(self.epsilon, self.noise.neighbours), self.chosen)

    @property
    def event(self) -> Composed:
        """Event of a release."""
        return Composed((self.choices_event, self.core if self.counted is None else self.counted.event))

    def release(self, values: object, source: Source) -> Selected:
        """Release the chosen keys with noisy numbers, given one true number per key.

        Where keys are not public, 0 means that the key is absent.
        """
        counts = key_counts(values)
        places = self._choose_keys(counts, source)
        if self.counted is None:
            return Selected(places, self.noise.release(counts[places], source))
        shown = self.counted.release(counts[places], source)
        return Selected(places[shown.places], shown.counts)

    def _choose_keys(self, counts: npt.NDArray[np.int64], source: Source) -> npt.NDArray[np.int64]:
        """Choose keys, each at most once. Their order may be released, but nothing else about the choices."""
        remaining = np.arange(len(counts)) if self.threshold is None else np.flatnonzero(counts >= 1)
        if self.threshold is None and len(remaining) <= self.chosen:
            return remaining  # all of them, for any data
        chosen_keys: list[int] = []
        for _ in range(self.chosen):
            scores, weights = counts[remaining], np.ones(len(remaining), dtype=np.int64)
            if self.empty:
                kind = np.int64 if self.empty < _MAX_INT64_TERM else object
                scores, weights = np.append(scores, 0), np.append(weights.astype(kind), self.empty)
            position = exponential_weighted(scores, weights, self.rate, source)
            if position < len(remaining):
                chosen_keys.append(int(remaining[position]))
                remaining = np.delete(remaining, position)
        return np.array(chosen_keys, dtype=np.int64)

    def units_for(self, chance: object) -> int:
        """Return the number of units from which a key is released with at least this probability, unless displaced.

        Others cannot where no more than `chosen` keys are present. Half of the rest may fail in choosing, half in
        counting.
        """
        half_confidence = 1 - (1 - probability(chance, "probability")) / 2
        if self.counted is None:
            return 0
        return max(
            exponential_margin(self.rate, 1 + self.empty, half_confidence) + 1, self.counted.units_for(half_confidence)
        )
