"""Private key selection: keys are released with their noisy counts when these reach a threshold.

A key of a single unit would reveal that unit. So each present key's count gets integer Laplace noise, and only keys
whose noisy count reaches the threshold are released.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Approximate, LaplaceNoise, Neighbours, Repeated, as_neighbours
from sfumato.caches import remembered
from sfumato.certified.binary import scaled_ceiling, scaled_floor
from sfumato.errors import BadParameter
from sfumato.exact import integer, positive_rational, probability
from sfumato.mechanisms.keys import PRECISION, chance_of_any, key_counts, touched_keys
from sfumato.mechanisms.parameters import read_parameters
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.margin import smallest_covering
from sfumato.randomness.source import Source, broken_source

_MIN_CHANCE_BITS = 4096  # a chance below 2^-4096 is stated as that


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """The released keys, by their indices in the input, and their noisy counts.

    Sort them (by key, by count) before showing them: the gaps between their indices are secret.
    """

    places: npt.NDArray[np.int64] = field(repr=False)
    counts: npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Threshold:
    """Add integer Laplace noise to the count of each present key; release key and noisy count if >= threshold.

    Theorem: let one unit add between 1 and `sensitivity` to the counts of at most `groups_per_unit` = g keys and
    nothing to others, and let keys with a true count below `min_count` never be released. Then `release` is, except
    with probability delta = 1 - (1 - P[Z >= threshold - min_count + 1 - sensitivity])^g, as private as that Laplace
    noise on g cells (add-remove) or on 2g cells (replace, with the same delta).  [Korolova et al. 2009]
    Proof: proofs/threshold.md
    """

    sensitivity: int
    """Maximum contribution of one unit to one key's count: 1 when distinct units are counted."""
    groups_per_unit: int
    scale: Fraction
    threshold: int
    neighbours: Neighbours
    min_count: int = 1
    """Keys with a smaller true count are never released."""

    def __post_init__(self) -> None:
        read_parameters(self)
        object.__setattr__(self, "threshold", integer(self.threshold, "threshold", -(2**62)))
        if self.delta >= 1:
            raise BadParameter(
                f"threshold = {self.threshold} lets nearly every key pass.",
                "A key that only one person has would almost surely be shown.",
                "Raise the threshold, or build the mechanism with Threshold.by_loss(…, delta=…).",
            )

    @classmethod
    def by_loss(
        cls,
        epsilon: object,
        delta: object,
        sensitivity: int,
        groups_per_unit: int,
        neighbours: Neighbours,
        min_count: int = 1,
    ) -> "Threshold":
        """Return the mechanism with the least noise and then the lowest threshold that costs at most (epsilon, delta).

        >>> Threshold.by_loss(1, "1e-6", 1, 1, Neighbours.ADD_REMOVE).threshold
        15
        """
        relation = as_neighbours(neighbours)
        groups = integer(groups_per_unit, "groups_per_unit", 1)
        most = integer(sensitivity, "sensitivity", 1)
        least = integer(min_count, "min_count", 1)
        scale = touched_keys(groups, relation) * most / positive_rational(epsilon, "epsilon")
        allowed = probability(delta, "delta")
        if allowed < Fraction(2 * groups, 1 << _MIN_CHANCE_BITS):  # no threshold's stated delta would ever be so small
            raise BadParameter(
                "delta is below what a threshold can promise.",
                f"A chance below 2^-{_MIN_CHANCE_BITS} per key is stated as that.",
                "Give a delta such as 1e-9.",
            )
        reach = smallest_covering(lambda reach: _keys_delta(scale, reach, groups) <= allowed, guess=1, least=None)
        return cls(most, groups, scale, reach + most + least - 1, relation, least)

    @property
    def delta(self) -> Fraction:
        """Probability that a key of a single unit is released, rounded up in its 64th bit."""
        reach = self.threshold - self.min_count + 1 - self.sensitivity
        return _keys_delta(self.scale, reach, self.groups_per_unit)

    @property
    def event(self) -> Approximate:
        """Event of a release: `groups_per_unit` noisy cells (twice that under replace), except with `delta`."""
        noise = LaplaceNoise(self.sensitivity, self.scale, self.neighbours)
        return Approximate(Repeated(noise, touched_keys(self.groups_per_unit, self.neighbours)), self.delta)

    def release(self, values: object, source: Source) -> Selected:
        """Release the keys that pass, given one true count per key (0 means that the key is absent)."""
        counts = key_counts(values)
        noise = DiscreteLaplace(self.scale).draw(len(counts), source)  # also for keys that cannot pass
        if noise.dtype != object and len(noise) and int(np.abs(noise).max()) >= 2**62:
            raise broken_source()  # the sum could leave the int64: P < e^-16384
        noisy = counts + noise
        places = np.flatnonzero((counts >= self.min_count) & (noisy >= self.threshold).astype(np.bool_))
        return Selected(places, noisy[places])

    def margin(self, confidence: Fraction) -> int:
        """Return the smallest t such that the noise of a count stays within ±t with this probability, exactly.

        This is the noise before selection: among keys near the threshold those with positive noise are shown.
        """
        return DiscreteLaplace(self.scale).margin(confidence)

    def units_for(self, chance: object) -> int:
        """Return the smallest true count that is released with at least this probability, exactly."""
        wanted = probability(chance, "probability")
        min_surplus = smallest_covering(
            lambda surplus: _tail_is_at_least(self.scale, -surplus, wanted), guess=1, least=None
        )
        return max(self.min_count, self.threshold + min_surplus)


@remembered(4096)
def _keys_delta(scale: Fraction, reach: int, groups: int) -> Fraction:
    """Return 1 - (1 - P[Z >= reach])^groups, rounded up."""
    bits = 2 * PRECISION
    low, high = DiscreteLaplace(scale).upper_tail(reach, bits)
    while low.bit_length() <= PRECISION and bits < _MIN_CHANCE_BITS:
        bits *= 2
        low, high = DiscreteLaplace(scale).upper_tail(reach, bits)
    return chance_of_any(high, bits, groups)


def _tail_is_at_least(scale: Fraction, reach: int, wanted: Fraction) -> bool:
    bits = PRECISION
    while True:
        low, high = DiscreteLaplace(scale).upper_tail(reach, bits)
        if low >= scaled_ceiling(wanted, bits):
            return True
        if high <= scaled_floor(wanted, bits):
            return False
        bits *= 2  # ends: x^t / (1 + x) is irrational (Lindemann)
