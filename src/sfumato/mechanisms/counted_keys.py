"""Private key selection by the released count: one noise serves both.

Each present key's number of people gets integer noise, Laplace or Gaussian; the keys whose noisy number reaches a
threshold are released with it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.accounting.event import Approximate, Event
from sfumato.caches import remembered
from sfumato.certified.binary import scaled_ceiling, scaled_floor
from sfumato.errors import BadParameter
from sfumato.exact import integer, probability
from sfumato.mechanisms.answers import integer_answers
from sfumato.mechanisms.choice import negligible_reach
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.keys import PRECISION, chance_of_any, touched_keys
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.threshold import Selected
from sfumato.randomness.discrete_gaussian import DiscreteGaussian
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.margin import smallest_covering
from sfumato.randomness.source import Source

_MIN_CHANCE_BITS = 4096  # a chance below 2^-4096 is stated as that


@dataclass(frozen=True, slots=True)
class CountedKeys:
    """Release keys whose noisy count reaches a threshold, together with that count.

    Theorem: let one unit add between 1 and `most` to at most `groups_per_unit` = g keys, and let `core` describe the
    release of all these numbers with this noise if the keys were public. Then `release` is as private as `core`, except
    with probability delta = 1 - (1 - P[Z >= threshold - most])^g. Given that a key is released, the interval of `bar`
    holds its number at the level.  [Korolova et al. 2009]  Proof: proofs/counted_keys.md
    """

    noise: Laplace | Gaussian
    core: Event
    """What releasing the vector of all numbers would cost."""
    groups_per_unit: int
    threshold: int
    most: int = 1
    """Maximum contribution of one unit to one key: 1 for counts of units."""
    fewest: int = 1
    """Lower bound of a true number: 1 for present keys; 0 if another step may choose absent keys."""

    def __post_init__(self) -> None:
        integer(self.groups_per_unit, "groups_per_unit", 1)
        integer(self.most, "most", 1)
        integer(self.threshold, "threshold", 1 + self.most)

    @classmethod
    def by_delta(
        cls, noise: Laplace | Gaussian, core: Event, groups_per_unit: int, delta: object, most: int = 1
    ) -> "CountedKeys":
        """Return the mechanism with the lowest threshold whose delta is at most this.

        >>> from sfumato.accounting.event import Neighbours
        >>> noise = Laplace(1, Fraction(1), Neighbours.ADD_REMOVE)
        >>> CountedKeys.by_delta(noise, noise.event, 1, "1e-9").threshold
        22
        """
        allowed = probability(delta, "delta")
        groups = integer(groups_per_unit, "groups_per_unit", 1)
        if allowed < Fraction(2 * groups, 1 << _MIN_CHANCE_BITS):
            raise BadParameter(
                "delta is below what a threshold can promise.",
                f"A chance below 2^-{_MIN_CHANCE_BITS} per key is stated as that.",
                "Give a delta such as 1e-9.",
            )
        return cls(noise, core, groups, most + _min_reach(_noise_law(noise), groups, allowed), most)

    @property
    def delta(self) -> Fraction:
        """Probability that a key of a single unit is released, rounded up in its 64th bit."""
        return _keys_delta(_noise_law(self.noise), self.threshold - self.most, self.groups_per_unit)

    @property
    def touched(self) -> int:
        """Number of keys that differ between neighbours."""
        return touched_keys(self.groups_per_unit, self.noise.neighbours)

    @property
    def event(self) -> Approximate:
        """Event of a release."""
        return Approximate(self.core, self.delta)

    def release(self, values: object, source: Source) -> Selected:
        """Release the keys that pass, given one true number per key (0 means that the key is absent)."""
        counts = integer_answers(values)  # sums may be large
        noisy = self.noise.release(counts, source)  # also for keys that cannot pass
        present, passed = (np.asarray(flags, dtype=np.bool_) for flags in (counts >= 1, noisy >= self.threshold))
        places = np.flatnonzero(present & passed)
        return Selected(places, noisy[places])

    def bar(self, noisy: int, confidence: Fraction) -> tuple[int, int]:
        """Return the confidence interval of the true number, given that the key was released with this noisy number."""
        reach = self.noise.margin(confidence)
        if noisy > self.threshold + self.overshoot(1 - confidence):
            return max(noisy - reach, self.threshold), noisy + reach
        return self.fewest, noisy + reach

    def overshoot(self, tail: Fraction) -> int:
        """Return how far keys below the threshold exceed it after noise, except for this tail of the released ones."""
        return _overshoot(_noise_law(self.noise), tail)

    def margin(self, confidence: Fraction) -> int:
        """Return the margin of a number's noise at this confidence, before selection."""
        return self.noise.margin(confidence)

    def units_for(self, chance: object) -> int:
        """Return the smallest number of units or rows that is released with at least this probability, exactly.

        That many units have at least as many rows.
        """
        wanted, law = probability(chance, "probability"), _noise_law(self.noise)
        min_surplus = smallest_covering(lambda surplus: _tail_reaches(law, -surplus, wanted), guess=1, least=None)
        return max(1, self.threshold + min_surplus)


CountNoise = DiscreteLaplace | DiscreteGaussian


def _noise_law(noise: Laplace | Gaussian) -> CountNoise:
    return DiscreteLaplace(noise.scale) if isinstance(noise, Laplace) else DiscreteGaussian(noise.sigma_squared)


@remembered(1024)
def _min_reach(law: CountNoise, groups: int, allowed: Fraction) -> int:
    return smallest_covering(lambda reach: _keys_delta(law, reach, groups) <= allowed, guess=1, least=1)


@remembered(4096)
def _keys_delta(law: CountNoise, reach: int, groups: int) -> Fraction:
    """Return 1 - (1 - P[Z >= reach])^groups, rounded up."""
    bits = 2 * PRECISION
    low, high = law.upper_tail(reach, bits)
    while low.bit_length() <= PRECISION and bits < _MIN_CHANCE_BITS:
        bits *= 2
        low, high = law.upper_tail(reach, bits)
    return chance_of_any(high, bits, groups)


@remembered(1024)
def _overshoot(law: CountNoise, tail: Fraction) -> int:
    """Return the least k with P[Z > 1 + k] <= tail · P[Z >= 1]: all start at least 1 below the threshold."""
    if isinstance(law, DiscreteLaplace):  # P[Z >= k + 2] / P[Z >= 1] = e^(-(k + 1) / scale), however small both are
        return negligible_reach(1 / law.scale, tail)
    return smallest_covering(lambda further: _tail_is_rare(law, further, tail), guess=1, least=0)


def _tail_is_rare(law: CountNoise, excess_count: int, tail: Fraction) -> bool:
    def _excess(bits: int) -> tuple[Fraction, Fraction]:
        beyond, base = law.upper_tail(excess_count + 2, bits), law.upper_tail(1, bits)
        return beyond[0] - tail * base[1], beyond[1] - tail * base[0]

    return not _is_positive(_excess)


def _tail_reaches(law: CountNoise, reach: int, wanted: Fraction) -> bool:
    def _excess(bits: int) -> tuple[Fraction, Fraction]:
        low, high = law.upper_tail(reach, bits)
        return Fraction(low - scaled_ceiling(wanted, bits)), Fraction(high - scaled_floor(wanted, bits))

    return _is_positive(_excess)


def _is_positive(excess: Callable[[int], tuple[Fraction, Fraction]]) -> bool:
    """Decide whether a real is above 0; one that 4096 bits cannot separate from 0 counts as above."""
    bits = 2 * PRECISION
    while bits <= _MIN_CHANCE_BITS:
        low, high = excess(bits)
        if low > 0 or high <= 0:
            return low > 0
        bits *= 2
    return True
