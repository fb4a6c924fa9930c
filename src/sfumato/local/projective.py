"""Projective geometry response: a person sends a vector that is orthogonal to the true one with a known chance."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import exp, expm1

import numpy as np
from scipy.fft import fftn

from sfumato.accounting.event import Neighbours, Pure
from sfumato.certified.binary import Between, exp_fraction
from sfumato.local.oracle import Coded, OracleFrame, Rates
from sfumato.local.reading import Integers, one_report, read_bits, read_categories, read_value, source_or_system
from sfumato.mechanisms.columns import integer_column
from sfumato.randomness.bernoulli import Bernoulli, ExpRatio
from sfumato.randomness.likelihood import as_fraction, divide_probability
from sfumato.randomness.source import Source
from sfumato.randomness.uniform import UniformInteger

_MAX_VECTORS = 1 << 22
_DIGIT_BITS = 21
"""Counts of this many binary digits, over 2^22 vectors, are transformed without a rounding error: proof §4."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """The space Z_q^t: `points` lines through the origin, `incident` of them orthogonal to one, `shared` to two."""

    q: int
    t: int

    @property
    def vectors(self) -> int:
        return int(self.q**self.t)

    @property
    def points(self) -> int:
        return (self.vectors - 1) // (self.q - 1)

    @property
    def incident(self) -> int:
        return int((self.q ** (self.t - 1) - 1) // (self.q - 1))

    @property
    def shared(self) -> int:
        return int((self.q ** (self.t - 2) - 1) // (self.q - 1))

    def rates(self, hit: Fraction) -> Rates:
        """Return the two chances of support, given that of the true value."""
        s, i, rest = self.incident, self.shared, self.points - self.incident
        return Rates(hit, hit * i / s + (1 - hit) * (s - i) / rest)

    def vector_of(self, values: Integers) -> tuple[Integers, Integers]:
        """Return the vectors of values as integers in base q, first non-zero digit 1, and the place of that digit."""
        starts = np.array([(self.q**index - 1) // (self.q - 1) for index in range(self.t)], dtype=np.int64)
        place = np.searchsorted(starts, values, side="right") - 1
        powers = np.array([self.q**index for index in range(self.t)], dtype=np.int64)
        return powers[place] + values - starts[place], place

    def digits(self, numbers: Integers) -> list[Integers]:
        """Return the digits in base q, the last one first."""
        digit_list = []
        for _ in range(self.t):
            numbers, digit = np.divmod(numbers, self.q)
            digit_list.append(digit)
        return digit_list


@dataclass(frozen=True, slots=True)
class ProjectiveResponse(OracleFrame, Coded):
    """Send a vector u ≠ 0 of Z_q^t: orthogonal to the true one with probability s·e^ε / (s·e^ε + K - s), else not.

    Theorem: a report is ε-DP under replace, and for no smaller ε; shares are unbiased, variances and intervals hold.
    Nearly least variance, short reports, one Fourier transform to decode.  [Feldman, Nelson, Nguyen, Talwar 2022]
    Proof: proofs/local_oracles.md

    A report is u as an integer in base q. The field (q prime) and the dimension t err least among q^t <= 2^22.
    """

    epsilon: Fraction
    categories: int

    def __post_init__(self) -> None:
        read_categories(self)

    @property
    def geometry(self) -> Geometry:
        """The space that errs least for this epsilon."""
        return _best_space(self.epsilon, self.categories)

    @property
    def keep(self) -> ExpRatio:
        """The chance that the vector sent is orthogonal to the true one."""
        space = self.geometry
        return ExpRatio(self.epsilon, space.incident, 0, space.incident, space.points - space.incident)

    @property
    def rates(self) -> Rates:
        """The two chances that a report supports a value."""
        return self.geometry.rates(as_fraction(self.keep))

    @property
    def event(self) -> Pure:
        """The privacy loss of one report, for the person who gives it."""
        return Pure(self.epsilon, Neighbours.REPLACE)

    @property
    def codes(self) -> tuple[int, int]:
        """A report is a vector other than 0."""
        return 1, self.geometry.vectors

    def release(self, values: object, source: Source | None = None) -> Integers:
        """Return one vector per person. All draws are made for every person, without rejection by value."""
        true, coins = integer_column(values, 0, self.categories - 1, "categories"), source_or_system(source)
        space, people = self.geometry, len(true)
        others = space.q ** (space.t - 1)
        kept = Bernoulli(self.keep).draw(people, coins)
        orthogonal = UniformInteger(others - 1).draw(people, coins) + 1
        oblique = UniformInteger(others).draw(people, coins)
        product = UniformInteger(space.q - 1).draw(people, coins) + 1
        free = np.where(kept, orthogonal, oblique)
        return self._complete_vector(true, free, np.where(kept, 0, product))

    def _complete_vector(self, true: Integers, free: Integers, product: Integers) -> Integers:
        """Return u with <u, v> = product whose digits beside the pivot of v are those of `free`."""
        space = self.geometry
        vector, pivot = space.vector_of(true)
        power = np.array([space.q**index for index in range(space.t)], dtype=np.int64)[pivot]
        below = free % power
        opened = below + (free - below) * space.q  # a 0 stands at the pivot
        mine, theirs = space.digits(opened), space.digits(vector)
        inner: Integers = sum((a * b for a, b in zip(mine, theirs, strict=True)), start=np.zeros_like(true))
        completed: Integers = opened + (product - inner) % space.q * power
        return completed

    def support(self, reports: Integers) -> Integers:
        """Count for each value the vectors orthogonal to it, by one Fourier transform."""
        return self._orthogonal(np.bincount(reports, minlength=self.geometry.vectors))

    def _orthogonal(self, counts: Integers) -> Integers:
        """Return Σ counts[u] over <u, v> = 0 for each v, exactly."""
        space = self.geometry
        if int(counts.sum()) * space.vectors.bit_length() < 1 << 48:
            return self._transform(counts)
        total = np.zeros(self.categories, dtype=np.int64)
        for shift in range(0, 63, _DIGIT_BITS):
            total += self._transform((counts >> shift) & ((1 << _DIGIT_BITS) - 1)) << shift
        return total

    def _transform(self, counts: Integers) -> Integers:
        space = self.geometry
        spectrum = fftn(counts.reshape((space.q,) * space.t).astype(np.float64)).real.reshape(-1)
        digits = space.digits(space.vector_of(np.arange(self.categories))[0])
        total = np.full(self.categories, spectrum[0])
        for factor in range(1, space.q // 2 + 1):
            # of a real table the transform at -v is the conjugate of that at v
            weight = 1.0 if 2 * factor == space.q else 2.0
            place = np.zeros(self.categories, dtype=np.int64)
            for digit in reversed(digits):
                place = place * space.q + digit * factor % space.q
            total += weight * spectrum[place]
        return np.rint(total / space.q).astype(np.int64)

    def likelihood(self, report: object, value: int, bits: int) -> Between:
        """Enclose P[report | value] * 2**bits."""
        sent, space = one_report(report, self.checked), self.geometry
        vector, _ = space.vector_of(np.array([read_value(value, self.categories)]))
        inner = sum(int(a[0]) * int(b[0]) for a, b in zip(space.digits(sent), space.digits(vector), strict=True))
        scalars, rest = space.q - 1, space.points - space.incident
        true, false_bounds = divide_probability(self.keep, scalars * space.incident, scalars * rest, read_bits(bits))
        return true if inner % space.q == 0 else false_bounds


@lru_cache(maxsize=1024)
def _best_space(epsilon: Fraction, categories: int) -> Geometry:
    """Return the space with enough points whose shares err least at share 0; of equals the smaller.

    Floats leave a short list; the exact variances of these decide.
    """
    spaces = [space for space in _SPACES if space.points >= categories]
    rough = [_rough_spread(space, float(epsilon)) for space in spaces]
    near = [space for space, spread in zip(spaces, rough, strict=True) if spread <= min(rough) * (1 + 1e-6)]
    factor = exp_fraction(epsilon)

    def exact(space: Geometry) -> tuple[Fraction, int]:
        s = space.incident
        return space.rates(s * factor / (s * factor + space.points - s)).spread(), space.vectors

    return min(near, key=exact)


def _rough_spread(space: Geometry, epsilon: float) -> float:
    s, i, rest, x = space.incident, space.shared, space.points - space.incident, exp(-epsilon)
    below = s + rest * x
    false = (i + (s - i) * x) / below
    return false * (1 - false) * (below / (-expm1(-epsilon) * (s - i))) ** 2


_PRIMES = [q for q in range(2, 2049) if all(q % smaller for smaller in range(2, int(q**0.5) + 1))]
_SPACES = [Geometry(q, t) for t in range(2, 23) for q in _PRIMES if q**t <= _MAX_VECTORS]
