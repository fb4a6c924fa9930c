"""Private key selection without counts: no mechanism of the same privacy loss keeps a key more often.

Whether a key is kept depends on its number of distinct units only, by a coin whose probability rises from delta per
key as fast as privacy allows. [DVGM22] Desfontaines, Voss, Gipson, Mandayam, Differentially private partition
selection, PoPETs 2022.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Approximate, Neighbours, Pure, Repeated
from sfumato.caches import remembered
from sfumato.certified.binary import exp_minus_bounds, exp_minus_enclosure, scaled_ceiling, scaled_floor
from sfumato.errors import BadParameter
from sfumato.exact import integer, probability
from sfumato.mechanisms.keys import key_counts, share_of_delta, touched_keys
from sfumato.mechanisms.parameters import read_parameters
from sfumato.randomness.bernoulli import refine
from sfumato.randomness.margin import smallest_covering
from sfumato.randomness.source import Source, read_exactly

_WORD_BITS = 64
_MAX_UNITS_FOR_CERTAINTY = 10**6
_MAX_EPSILON_PER_KEY = 1000

ProbabilityEnds = tuple[Fraction, Fraction]


@dataclass(frozen=True, slots=True)
class OptimalSelection:
    """Release each key with the largest probability that its number of distinct units allows.

    Theorem: let one unit be counted once in at most `groups_per_unit` = g keys, and let t = g (add-remove) or t = 2g
    (replace). Keeping a key of n units with probability π(n), π(0) = 0, π(n+1) = min(e^ε' π(n) + δ', 1 - e^-ε' (1 -
    π(n) - δ'), 1), independently per key, with ε' = epsilon / t and 1 - (1 - δ')^t <= delta, is (epsilon, delta)-DP.
    For t = 1 no (epsilon, delta)-DP rule keeps any key with a larger probability.  [DVGM22]
    Proof: proofs/optimal_selection.md
    """

    epsilon: Fraction
    delta: Fraction
    groups_per_unit: int
    neighbours: Neighbours
    min_units: int = 1
    """Keys of fewer units are never released: a key of n units is treated as one of n - min_units + 1."""

    def __post_init__(self) -> None:
        read_parameters(self)
        if self.epsilon_per_key > _MAX_EPSILON_PER_KEY:
            raise BadParameter(
                f"epsilon = {self.epsilon} is too large.",
                f"Above {_MAX_EPSILON_PER_KEY} per key the keep probabilities are 0 or 1 to any precision.",
                "Lower epsilon.",
            )
        if _bends(self.epsilon_per_key, self.delta_per_key).sure > _MAX_UNITS_FOR_CERTAINTY:
            raise BadParameter(
                f"epsilon = {self.epsilon} over {self.touched} keys is too little to select keys.",
                f"A key would need more than {_MAX_UNITS_FOR_CERTAINTY:,} units to be sure to appear.",
                "Raise epsilon, or lower groups_per_unit.",
            )

    @property
    def touched(self) -> int:
        """Number of keys that differ between neighbours."""
        return touched_keys(self.groups_per_unit, self.neighbours)

    @property
    def epsilon_per_key(self) -> Fraction:
        return self.epsilon / self.touched

    @property
    def delta_per_key(self) -> Fraction:
        return share_of_delta(self.delta, self.touched)

    @property
    def event(self) -> Approximate:
        """Event of a release: one bounded decision for each key that a unit touches, except with `delta`."""
        decision = Pure(self.epsilon_per_key, self.neighbours)
        return Approximate(decision if self.touched == 1 else Repeated(decision, self.touched), self.delta)

    def keep(self, units: int) -> "KeepProbability":
        """Return the probability that a key of this many units is released."""
        effective = max(0, integer(units, "units", 0) - self.min_units + 1)
        return KeepProbability(self.epsilon_per_key, self.delta_per_key, effective)

    def release(self, values: object, source: Source) -> npt.NDArray[np.int64]:
        """Return the indices of the kept keys, given each key's number of distinct units.

        Sort the keys before showing them: the gaps between their indices are secret.
        """
        units = np.maximum(key_counts(values) - (self.min_units - 1), 0)
        words = np.frombuffer(read_exactly(source, 8 * len(units)), dtype="<u8")  # one word per key, for every count
        table = _thresholds(self.epsilon_per_key, self.delta_per_key)
        sure = units >= len(table)
        thresholds = table[np.where(sure, 0, units)]
        kept = sure | (words < thresholds)
        # the true threshold is the table's or one more: a word there does not decide
        for place in np.flatnonzero(~sure & (units > 0) & ((words - thresholds) <= 1)):
            real = KeepProbability(self.epsilon_per_key, self.delta_per_key, int(units[place]))
            kept[place] = refine(real, int(words[place]), _WORD_BITS, source)
        return np.flatnonzero(kept)

    def units_for(self, chance: object) -> int:
        """Return the smallest number of units with which a key is released with at least this probability."""
        wanted = probability(chance, "probability")
        epsilon, delta = self.epsilon_per_key, self.delta_per_key
        return _fewest_units(epsilon, delta, wanted) + self.min_units - 1

    def margin(self, confidence: object) -> int:
        """Return the size from which a key is released with this probability; smaller keys may be missing."""
        return self.units_for(confidence)


@dataclass(frozen=True, slots=True)
class KeepProbability:
    """π(units) for one key at (epsilon, delta), as a computable real. Proof: proofs/optimal_selection.md."""

    epsilon: Fraction
    delta: Fraction
    units: int

    def bounds(self, bits: int) -> tuple[int, int]:
        """Return low <= π * 2**bits <= high with high - low <= 1."""
        exact = self.rational()
        if exact is not None:
            return (scaled_floor(exact, bits), scaled_ceiling(exact, bits))
        return _enclose_to_bits(lambda precision: _enclose_probability(self, precision), bits)

    def rational(self) -> Fraction | None:
        """Return π where it is rational (0, delta or 1); everywhere else it is transcendental."""
        if self.units <= 1:
            return self.delta * self.units
        return Fraction(1) if self.units >= _bends(self.epsilon, self.delta).sure else None


@dataclass(frozen=True, slots=True)
class Bends:
    """Where π changes its form: up to `bend` it grows by e^ε, then 1 - π shrinks by e^-ε, from `sure` on it is 1."""

    bend: int
    sure: int


@remembered(512)
def _bends(epsilon: Fraction, delta: Fraction) -> Bends:
    # the first form is the smaller one for step n -> n + 1 exactly when π(n) <= (1 - δ) / (1 + e^ε)
    bend = smallest_covering(
        lambda units: _is_positive(lambda bits: _excess_over_bend(epsilon, delta, units, bits)),
        _guess_units(epsilon, delta, (1 - delta) / 2),
        least=1,
    )
    if delta >= Fraction(1, 2):
        return Bends(bend, 2)  # π(1) = δ >= 1 - δ
    # π(n + 1) = 1 exactly when π(n) >= 1 - δ; equality is possible for n = 1 only, which the line above answers
    last = smallest_covering(
        lambda units: _is_positive(lambda bits: _excess_over_certain(epsilon, delta, bend, units, bits)),
        2 * bend,
        least=1,
    )
    return Bends(bend, last + 1)


def _excess_over_bend(epsilon: Fraction, delta: Fraction, units: int, bits: int) -> ProbabilityEnds:
    low, high = _power_ends(epsilon, 1, bits)
    first_low, first_high = _first_form(epsilon, delta, units, bits)
    return first_low - (1 - delta) * high / (1 + high), first_high - (1 - delta) * low / (1 + low)


def _excess_over_certain(epsilon: Fraction, delta: Fraction, bend: int, units: int, bits: int) -> ProbabilityEnds:
    low, high = _closed_form(epsilon, delta, bend, units, bits)
    return low - (1 - delta), high - (1 - delta)


def _enclose_probability(keep: KeepProbability, bits: int) -> ProbabilityEnds:
    return _closed_form(keep.epsilon, keep.delta, _bends(keep.epsilon, keep.delta).bend, keep.units, bits)


def _closed_form(epsilon: Fraction, delta: Fraction, bend: int, units: int, bits: int) -> ProbabilityEnds:
    if units <= bend:
        return _first_form(epsilon, delta, units, bits)
    return _second_form(epsilon, delta, bend, units - bend, bits)


def _first_form(epsilon: Fraction, delta: Fraction, units: int, bits: int) -> ProbabilityEnds:
    """Enclose δ (e^(nε) - 1) / (e^ε - 1) = δ (1 - X_n) / ((1 - X_1) X_(n-1)), X_k = e^(-kε), for n >= 1."""
    one_low, one_high = _power_ends(epsilon, 1, bits)
    all_low, all_high = _power_ends(epsilon, units, bits)
    but_low, but_high = _power_ends(epsilon, units - 1, bits)
    if but_low == 0 or one_high == 1:
        return Fraction(0), Fraction(2**bits)  # too coarse to bound anything
    return delta * (1 - all_high) / ((1 - one_low) * but_high), delta * (1 - all_low) / ((1 - one_high) * but_low)


def _second_form(epsilon: Fraction, delta: Fraction, bend: int, units_beyond: int, bits: int) -> ProbabilityEnds:
    """Enclose 1 + D - X_m (1 - π(bend) + D) with D = δ / (e^ε - 1)."""
    one_low, one_high = _power_ends(epsilon, 1, bits)
    low, high = _power_ends(epsilon, units_beyond, bits)
    bend_low, bend_high = _first_form(epsilon, delta, bend, bits)
    if one_high == 1:
        return Fraction(0), Fraction(2**bits)
    # written as (1 - X_m)(1 + D) + X_m π(bend): every part is nonnegative and its ends are known
    less, more = delta * one_low / (1 - one_low), delta * one_high / (1 - one_high)
    return (1 - high) * (1 + less) + low * bend_low, (1 - low) * (1 + more) + high * bend_high


def _power_ends(epsilon: Fraction, times: int, bits: int) -> ProbabilityEnds:
    low, high = exp_minus_enclosure(times * epsilon, bits)  # not cached: `times` may be a secret number of units
    return Fraction(low, 1 << bits), Fraction(min(high, 1 << bits), 1 << bits)


def _is_positive(excess: Callable[[int], ProbabilityEnds]) -> bool:
    """Decide whether a real is above 0. It is never 0 here: a nonzero polynomial at e^ε (Lindemann)."""
    bits = 2 * _WORD_BITS
    while True:
        low, high = excess(bits)
        if low > 0 or high < 0:
            return low > 0
        bits *= 2


def _enclose_to_bits(real: Callable[[int], ProbabilityEnds], bits: int) -> tuple[int, int]:
    precision = bits + _WORD_BITS
    while True:
        ends = real(precision)
        low, high = scaled_floor(ends[0], bits), scaled_ceiling(ends[1], bits)
        if high - low <= 1:
            return (low, high)
        precision *= 2


def _keep_reaches(epsilon: Fraction, delta: Fraction, units: int, wanted: Fraction) -> bool:
    keep = KeepProbability(epsilon, delta, units)
    exact = keep.rational()
    if exact is not None:
        return exact >= wanted
    return _is_positive(
        lambda bits: (_enclose_probability(keep, bits)[0] - wanted, _enclose_probability(keep, bits)[1] - wanted)
    )


@remembered(512)
def _fewest_units(epsilon: Fraction, delta: Fraction, wanted: Fraction) -> int:
    """Return the smallest number of units with which a key is kept with this probability; all three are public."""
    return smallest_covering(
        lambda units: _keep_reaches(epsilon, delta, units, wanted), _guess_units(epsilon, delta, wanted), least=1
    )


def _guess_units(epsilon: Fraction, delta: Fraction, chance: Fraction) -> int:
    """Return about how many units are kept with this probability: a place to begin a search, which decides exactly."""
    rate, rare, rest = float(min(epsilon, Fraction(600))), float(delta), float(1 - chance)
    if not (rate > 0 and rare > 0 and rest > 0):
        return 1
    up = math.log1p(min(float(chance), 0.5) * math.expm1(rate) / rare) / rate
    down = math.log(0.5 / rest) / rate if rest < 0.5 else 0
    return max(1, round(up + down))


@lru_cache(maxsize=64)
def _thresholds(epsilon: Fraction, delta: Fraction) -> npt.NDArray[np.uint64]:
    """Return, for n = 0, 1, … below `sure`, an integer T with T <= π(n) · 2^64 < T + 2, by the recurrence.

    The recurrence is run on enclosures, whose minimum needs no decision. The first form multiplies their width by
    e^ε a step, by about 1/δ in all, and the second form shrinks it: so log2(1/δ) + 64 guard bits, and a check.
    """
    bits = 2 * _WORD_BITS + (delta.denominator // delta.numerator).bit_length() + 32 + 3 * math.ceil(epsilon)
    one = 1 << bits
    x_low, x_high = exp_minus_bounds(epsilon, bits)
    e_low, e_high = (1 << 2 * bits) // x_high, -(-(1 << 2 * bits) // x_low)
    d_low, d_high = scaled_floor(delta, bits), scaled_ceiling(delta, bits)
    low = high = widest = 0
    table = [0]
    for _ in range(1, _bends(epsilon, delta).sure):
        grown = (low * e_low >> bits) + d_low, -(-high * e_high >> bits) + d_high
        shrunk = (
            one + (-x_high * max(0, one - low - d_low) >> bits),
            one - (x_low * max(0, one - high - d_high) >> bits),
        )
        low, high = min(grown[0], shrunk[0], one), min(grown[1], shrunk[1], one)
        table.append(min(low >> (bits - _WORD_BITS), 2**_WORD_BITS - 1))
        widest = max(widest, high - low)
    if widest >= 1 << (bits - _WORD_BITS):
        raise BadParameter(
            f"epsilon = {epsilon} per key is too small for the table of {len(table):,} probabilities.",
            "Its rounding errors would exceed what a draw can resolve.",
            "Raise epsilon, or lower groups_per_unit.",
        )
    return np.array(table, dtype=np.uint64)
