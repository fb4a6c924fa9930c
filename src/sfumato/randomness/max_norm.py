"""Integer noise whose probability falls with its largest part: P[Z = z] is proportional to e^(-rate · ‖z‖).

‖z‖ is max |zᵢ| / sidesᵢ, rounded up to a whole number of steps. The integers of a norm of u at most are a box, so that
a radius is drawn first, with its number of integers as a weight, and then every part by itself, uniformly.
Proof: proofs/max_norm.md
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, comb, exp, expm1, factorial, log

import numpy as np
import numpy.typing as npt

from sfumato.caches import remembered
from sfumato.certified.binary import Between, exp_minus_bounds, power, product, scaled_ceiling, scaled_floor
from sfumato.errors import BadParameter, quote_value
from sfumato.exact import integer, positive_rational, probability
from sfumato.randomness.finite import Finite
from sfumato.randomness.geometric import Geometric
from sfumato.randomness.margin import smallest_covering
from sfumato.randomness.selection import uniform_below, uniform_below_each
from sfumato.randomness.source import Source, broken_source, sample_size
from sfumato.randomness.uniform import Integers

MAX_PARTS = 8
"""Maximum number of measurements that share their noise; for more of them other noise is better."""
_STEPS_PER_RATE, _MAX_STEPS_PER_SIDE = 16, 64
"""Steps of the norm per 1 / rate, and the maximum number of steps per side."""
_MAX_NARROW_BITS = 48
_NEWTON_STEPS, _ROOT_ERROR = 12, 1e-14
_NEGLIGIBLE_STEP = Fraction(1, 4)
_COVERED_BITS = 64
"""Bits of a tail where it is first compared with a level."""
_MAX_RADIUS_MEANS = 64
"""A radius exceeds this multiple of its mean with probability below e^-60."""


@dataclass(frozen=True, slots=True)
class MaxNormLaw:
    """P[Z = z] proportional to e^(-rate · ⌈steps · maxᵢ |zᵢ| / sidesᵢ⌉ / steps) on all vectors of integers.

    `steps` follows from the rate. Proof: proofs/max_norm.md

    >>> MaxNormLaw((1, 100), Fraction(1, 10)).margin(1, Fraction(95, 100))
    4103
    """

    sides: tuple[int, ...]
    rate: Fraction

    def __post_init__(self) -> None:
        given = self.sides if isinstance(self.sides, Iterable) else ()
        sides = tuple(integer(side, "side", 1) for side in given)
        if not 0 < len(sides) <= MAX_PARTS:
            raise BadParameter(
                f"sides = {quote_value(self.sides)} has no length that is possible.",
                f"1 to {MAX_PARTS} numbers share their noise.",
                "Give one side for each number.",
            )
        object.__setattr__(self, "sides", sides)
        object.__setattr__(self, "rate", positive_rational(self.rate, "rate"))

    @property
    def steps(self) -> int:
        """How many steps a norm of 1 has."""
        return max(1, min(_MAX_STEPS_PER_SIDE, ceil(_STEPS_PER_RATE * self.rate)))

    def draw(self, count: int, source: Source) -> Integers:
        """Draw `count` independent vectors, a row each: int64 where all integers surely fit, else Python integers."""
        size, parts = sample_size(count), len(self.sides)
        chosen = Finite(_radius_weights(self.sides, self.rate, self.steps)).draw(size, source)
        rest, order = chosen // (parts + 1), chosen % (parts + 1)
        # all of them are drawn, whatever was chosen, so that the work done tells nothing about the noise
        drawn = Geometric(1 / self.rate).draw(size * (parts + 1), source).reshape(size, parts + 1)
        whole = order + np.where(np.arange(parts + 1) <= order[:, None], drawn, 0).sum(axis=1)
        farthest = self._farthest
        if size and int(whole.max()) > farthest:
            raise broken_source()
        columns = [
            _uniform(self._reach(side, whole, rest, farthest), 4 * side * farthest, source) for side in self.sides
        ]
        return np.stack(columns, axis=1)

    def margin(self, part: int, confidence: Fraction) -> int:
        """Return the smallest t with P[|Zᵢ| <= t] >= confidence for one part, exactly."""
        return _part_margin(self, part, probability(confidence, "confidence"))

    def covers(self, part: int, reach: int, confidence: Fraction) -> bool:
        """Whether P[|Zᵢ| <= reach] >= confidence for one part."""
        bits = _COVERED_BITS
        while True:
            low, high = self.tail(part, reach, bits)
            if high <= scaled_floor(1 - confidence, bits):
                return True
            if low >= scaled_ceiling(1 - confidence, bits):
                return False
            bits *= 2  # ends: the tail is a quotient of polynomials in e^(-rate / steps), and transcendental

    def moments(self, part: int) -> tuple[float, float]:
        """Return variance and fourth moment of one part: floats, for error bars alone."""
        return _moments(self, part)

    @property
    def square_correlation(self) -> float:
        """Return how much two parts' squares vary together: E[X²Y²] / (E[X²] E[Y²]) - 1, of the real law beside it."""
        parts = len(self.sides)
        return (parts + 3) * (parts + 4) / ((parts + 1) * (parts + 2)) - 1

    def tail(self, part: int, beyond: int, bits: int) -> Between:
        """Enclose P[|Zᵢ| > beyond] * 2**bits between integers, for beyond >= 0."""
        side, others = self.sides[part], self.sides[:part] + self.sides[part + 1 :]
        precision, steps = bits + 64, self.steps
        beyond_it: list[tuple[int, int, int]] = []
        for rest in range(steps):
            # the least number of whole sides at which the part reaches beyond
            least = max(0, -(-(beyond + 1 - side * rest // steps) // side))
            polynomial = _multiply_polynomials(
                [2 * (side * rest // steps - beyond), 2 * side], self._integers(others, rest, steps)
            )
            beyond_it += [
                (coefficient, rest + steps * (least + order), order)
                for order, coefficient in enumerate(_in_binomials(_shift_polynomial(polynomial, least)))
            ]
        low, high = self._sum(beyond_it, precision)
        whole_low, whole_high = _full_sum(self, precision)
        return (low << bits) // whole_high, -((-high << bits) // max(whole_low, 1))

    def _sum(self, terms: Sequence[tuple[int, int, int]], bits: int) -> Between:
        """Enclose the sum of c · e^(-rate·n/steps) · (1 - y)^(parts - j) over terms (c, n, j), times 2**bits."""
        low = high = 0
        one_step, parts = self.rate / self.steps, len(self.sides)
        powers = [_rest_power(self.rate, parts - order, bits) for order in range(parts + 1)]
        for coefficient, exponent, order in terms:
            one = product(exp_minus_bounds(one_step * exponent, bits), powers[order], bits)
            low, high = low + coefficient * one[0], high + coefficient * one[1]
        return low, high

    def _integers(self, sides: Sequence[int], rest: int, steps: int) -> list[int]:
        """Return how many integers the box has at k whole sides and `rest` steps, as a polynomial in k."""
        found = [1]
        for side in sides:
            found = _multiply_polynomials(found, [2 * (side * rest // steps) + 1, 2 * side])
        return found

    def _reach(self, side: int, whole: Integers, rest: npt.NDArray[np.int64], farthest: int) -> Integers:
        """Return how far one part may go at these radii."""
        if 4 * side * farthest >= 1 << 62:
            whole, rest = whole.astype(object), rest.astype(object)
        return np.asarray(side * whole + side * rest // self.steps)

    @property
    def _farthest(self) -> int:
        return ceil(_MAX_RADIUS_MEANS * (len(self.sides) + 1) * (1 + 1 / self.rate))


@dataclass(frozen=True, slots=True)
class _Weight:
    """coefficient · e^(-rate·exponent) · (1 - e^-rate)^power, a computable real."""

    coefficient: Fraction
    rate: Fraction
    exponent: Fraction
    power: int

    def bounds(self, bits: int) -> Between:
        precision = bits + 16
        decay = exp_minus_bounds(self.rate * self.exponent, precision)
        low, high = product(decay, _rest_power(self.rate, self.power, precision), precision)
        numerator, denominator = self.coefficient.numerator, self.coefficient.denominator
        return low * numerator // (denominator << 16), -(-high * numerator // (denominator << 16))


@remembered(256)
def _radius_weights(sides: tuple[int, ...], rate: Fraction, steps: int) -> tuple[_Weight, ...]:
    """Return the weight of each (rest, order): the radius is then order + (order + 1 geometrics) sides and the rest."""
    law = MaxNormLaw(sides, rate)
    listed = [_in_binomials(law._integers(sides, rest, steps)) for rest in range(steps)]
    total = sum(map(sum, listed))
    return tuple(
        _Weight(Fraction(coefficient, total), rate, Fraction(rest, steps) + order, len(sides) - order)
        for rest, coefficients in enumerate(listed)
        for order, coefficient in enumerate(coefficients)
    )


@remembered(256)
def _full_sum(law: MaxNormLaw, bits: int) -> Between:
    """Enclose the sum over all integers of what `tail` adds up over some."""
    steps = law.steps
    listed = (_in_binomials(law._integers(law.sides, rest, steps)) for rest in range(steps))
    return law._sum(
        [
            (coefficient, rest + steps * order, order)
            for rest, coefficients in enumerate(listed)
            for order, coefficient in enumerate(coefficients)
        ],
        bits,
    )


@remembered(1024)
def _rest_power(rate: Fraction, exponent: int, bits: int) -> Between:
    """Enclose (1 - e^-rate)^exponent * 2**bits."""
    low, high = exp_minus_bounds(rate, bits)
    return power(((1 << bits) - high, (1 << bits) - low), exponent, bits)


def _multiply_polynomials(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """Multiply two polynomials."""
    product_terms = [0] * (len(first) + len(second) - 1)
    for index, left in enumerate(first):
        for behind, right in enumerate(second):
            product_terms[index + behind] += left * right
    return product_terms


def _shift_polynomial(polynomial: Sequence[int], by: int) -> list[int]:
    """Return the polynomial at k + by."""
    return [
        sum(polynomial[high] * comb(high, low) * by ** (high - low) for high in range(low, len(polynomial)))
        for low in range(len(polynomial))
    ]


def _in_binomials(polynomial: Sequence[int]) -> list[int]:
    """Return the c with polynomial(k) = Σ c[j] · C(k, j): Newton's forward differences at 0."""
    values = [sum(part * k**degree for degree, part in enumerate(polynomial)) for k in range(len(polynomial))]
    coefficients = []
    while values:
        coefficients.append(values[0])
        values = [after - before for before, after in pairwise(values)]
    return coefficients


def _uniform(reach: Integers, widest: int, source: Source) -> Integers:
    """Draw each part uniformly from -reach … reach; how it is done depends on the public `widest` alone."""
    if widest < 1 << _MAX_NARROW_BITS:
        return uniform_below_each(2 * reach + 1, source) - reach
    bits = widest.bit_length() + 64
    drawn = [uniform_below(2 * int(radius) + 1, bits, source) - int(radius) for radius in reach]
    return np.array(drawn, dtype=np.int64 if widest < 1 << 62 else object)


@remembered(4096)
def _part_margin(law: MaxNormLaw, part: int, confidence: Fraction) -> int:
    return smallest_covering(lambda reach: law.covers(part, reach, confidence), _near_margin(law, part, confidence))


def _near_margin(law: MaxNormLaw, part: int, confidence: Fraction) -> int:
    """Return about where the margin is: first that of the real law, then by secants of the nearly straight log-tail."""
    missed = log(max(float(1 - confidence), 5e-324))
    unit = law.sides[part] / law.rate
    bits = _COVERED_BITS if -missed < _COVERED_BITS / 4 else 96 + 2 * int(-missed)
    means, model = _real_margin(len(law.sides), missed)
    here, slope = ceil(unit * Fraction(means)), Fraction(model) / unit
    before, behind = here, 0.0
    for tried in range(_NEWTON_STEPS):
        gap = log(law.tail(part, here, bits)[1]) - bits * log(2) - missed
        if tried and gap != behind:
            slope = Fraction(gap - behind) / (here - before)
        before, behind, here = here, gap, max(0, here - round(Fraction(gap) / slope))
        # the error after a step of a nearly straight line is about its square, in units of the noise
        if (here - before) ** 2 < _NEGLIGIBLE_STEP * unit or abs(gap) < _ROOT_ERROR:
            break
    return here


def _real_margin(parts: int, missed: float) -> tuple[float, float]:
    """Return u where the logarithm of P[|X| > u] is `missed`, and its slope there, for a part of the real law.

    X is uniform within a radius of the law Gamma(parts + 1): P[|X| > u] is e^-u Σ (1 - j/parts) u^j/j!, j < parts.
    """
    u = parts / 2 - missed
    slope = -1.0
    for _ in range(_NEWTON_STEPS):
        terms = [u**j / factorial(j) for j in range(parts)]
        mass = sum((1 - j / parts) * term for j, term in enumerate(terms))
        slope = -sum(terms) / parts / mass  # the density of |X| over the tail
        step = (log(mass) - u - missed) / slope
        u = max(0.0, u - step)
        if abs(step) < _ROOT_ERROR * (1 + u):
            break
    return u, slope


@remembered(1024)
def _moments(law: MaxNormLaw, part: int) -> tuple[float, float]:
    """Add up over radii what a uniform part has: m(m + 1)/3, and (3m² + 3m - 1) of a fifth of it."""
    side, rate = law.sides[part], float(law.rate)
    rest_of_one = -expm1(-rate)
    parts, steps = len(law.sides), law.steps
    scale = law._integers(law.sides, 0, steps)[-1]
    sums = [0.0, 0.0, 0.0]
    for rest in range(steps):
        reach = [side * rest // steps, side]
        squares = _multiply_polynomials(reach, [reach[0] + 1, side])  # m(m + 1)
        box = law._integers(law.sides, rest, steps)
        fourth = _multiply_polynomials(squares, [3 * square for square in squares])
        fourth = [
            coefficient - (squares[index] if index < len(squares) else 0) for index, coefficient in enumerate(fourth)
        ]
        for index, polynomial in enumerate(
            (box, _multiply_polynomials(box, squares), _multiply_polynomials(box, fourth))
        ):
            terms = _in_binomials(polynomial)
            shares = (float(Fraction(term, scale)) for term in terms)
            total = sum(share * exp(-rate * j) * rest_of_one ** (parts - j) for j, share in enumerate(shares))
            sums[index] += exp(-rate * rest / steps) * total
    return sums[1] / sums[0] / 3, sums[2] / sums[0] / 15
