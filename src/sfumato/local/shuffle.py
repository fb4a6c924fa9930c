"""Shuffling: the privacy loss of reports that a trusted party has put into a random order.

The loss is that of the clone pair [Feldman, McMillan, Talwar 2021], summed in integers with every rounding upwards.
Proof: proofs/shuffled_reports.md
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, isqrt, log, log1p, log2, sqrt

from sfumato.accounting.event import Approximate, Neighbours, Pure
from sfumato.certified.binary import exp_minus_bounds
from sfumato.errors import BadParameter
from sfumato.exact import decimal_rational, integer, probability
from sfumato.local.reading import read_epsilon

_PRECISION_BITS = 256
_ONE_UNITS = 1 << _PRECISION_BITS
_NEGLIGIBLE_UNITS = 1 << (_PRECISION_BITS - 128)
_MAX_REPORTS = 10**9
_EPSILON_UNITS = 10**12
_BISECTION_STOP_PARTS = 10**10
_MAX_EPSILON = 64


@dataclass(frozen=True, slots=True)
class Shuffled:
    """One report of each of n people, all by the same ε₀-DP randomiser, in a uniformly random order.

    Theorem: the output is (ε, δ)-DP under replace for δ = delta_after(ε), at most that of the clone pair, if a
    trusted party draws the order and no report carries an identity, a time or a version.  [Feldman, McMillan,
    Talwar 2021]  Proof: proofs/shuffled_reports.md

    >>> round(Shuffled(1, 10_000).epsilon_at("1e-6"), 7)
    0.0530053
    """

    epsilon: Fraction
    reports: int

    def __post_init__(self) -> None:
        read_epsilon(self)
        object.__setattr__(self, "reports", integer(self.reports, "reports", 2))

    def delta_after(self, epsilon: object) -> float:
        """Return a delta, rounded up, for which the shuffled reports are (epsilon, delta)-DP."""
        epsilon_read = decimal_rational(epsilon, "epsilon")
        if epsilon_read < 0:
            raise BadParameter("epsilon is negative.", "A loss is at least 0.", "Give epsilon of at least 0.")
        scaled = self._scaled_delta(epsilon_read)
        return 0.0 if scaled == 0 else min(1.0, float(Fraction(scaled, _ONE_UNITS)) * (1 + 2**-50))

    def epsilon_at(self, delta: object) -> float:
        """Return the least epsilon, up to one part in ten thousand million, for which the loss is at most delta."""
        return float(self._epsilon(probability(delta, "delta"))) * (1 + 2**-50)

    def event(self, delta: object) -> Approximate:
        """The privacy loss of the shuffled reports, for each person: epsilon-DP but for delta."""
        chance = probability(delta, "delta")
        return Approximate(Pure(self._epsilon(chance), Neighbours.REPLACE), chance)

    def _epsilon(self, delta: Fraction) -> Fraction:
        """Bracket the loss in units of 1e-12: floats guide the search, exact integers decide."""
        allowed = delta.numerator * _ONE_UNITS // delta.denominator
        target, most = log2(allowed) if allowed else 0.0, ceil(self.epsilon * _EPSILON_UNITS)
        below, above, logs = 0, most, [log2(self._scaled_delta(Fraction(0)) or 1), 0.0]
        guess = round(self._rough_epsilon(float(delta)) * _EPSILON_UNITS)
        while above - below > max(1, above // _BISECTION_STOP_PARTS):
            middle = min(max(guess, below + 1), above - 1)
            scaled = self._scaled_delta(Fraction(middle, _EPSILON_UNITS))
            fits = scaled <= allowed
            below, above = (below, middle) if fits else (middle, above)
            logs[fits] = log2(scaled) if scaled else 0.0
            if above == most or below == 0 or above > 2 * below:
                guess = 2 * below if above == most else above // 2 if below == 0 else isqrt(above * below)
            else:
                line = (logs[0] - target) / (logs[0] - logs[1]) * (above - below)
                # from the other side, so that the bracket closes at both ends
                nudge = max(1, above // (2 * _BISECTION_STOP_PARTS))
                guess = below + round(line) + (-nudge if fits else nudge)
        return min(self.epsilon, Fraction(above, _EPSILON_UNITS))

    def _rough_epsilon(self, delta: float) -> float:
        """Return a first guess: a third of the closed form of the paper."""
        grown, size = exp(min(float(self.epsilon), 60.0)), min(self.reports, _MAX_REPORTS)
        spread = 8 * sqrt(grown * log(4 / delta) / size) + 8 * grown / size
        return min(float(self.epsilon), log1p((grown - 1) / (grown + 1) * spread)) / 3

    def _scaled_delta(self, epsilon: Fraction) -> int:
        """Return delta · 2^256, rounded up."""
        if epsilon >= self.epsilon:
            return 0
        # beyond _LARGEST no number of reports hides anything: as if there were one
        reports = min(self.reports, _MAX_REPORTS) if self.epsilon <= _MAX_EPSILON else 1
        return _delta_units(self.epsilon, reports, epsilon)


@lru_cache(maxsize=256)
def _delta_units(local: Fraction, reports: int, epsilon: Fraction) -> int:
    """Sum P[C = c]·δ_c over the number c of clones, in units of 2^-256, rounded up."""
    first, weights, outside = _clones(local, reports)
    x, y = exp_minus_bounds(local, _PRECISION_BITS)[0], exp_minus_bounds(epsilon, _PRECISION_BITS)[1]
    # times e^-ε: δ_c·y = (y - x)/(1 + x)·b(a₀ - 1) - (1 - y)·T(a₀), with x = e^-ε₀ and y = e^-ε
    gain = -((-(y - x) << _PRECISION_BITS) // (_ONE_UNITS + x)) + 2
    cost = _ONE_UNITS - y
    # the ratio exceeds e^ε iff a/(c + 1) > θ = (1 - xy)/((1 - x)(1 + y))
    top, bottom = (_ONE_UNITS - (x * y >> _PRECISION_BITS)) << _PRECISION_BITS, (_ONE_UNITS - x) * (_ONE_UNITS + y)
    theta = (top << _PRECISION_BITS) // bottom
    tail = _Tail(first, (theta * (first + 1) >> _PRECISION_BITS) + 1)
    total = 0
    for weight in weights:
        tail.move((theta * (tail.coins + 1) >> _PRECISION_BITS) + 1)
        share = gain * tail.before_high - cost * tail.low
        total += weight * max(0, (share >> _PRECISION_BITS) + 4)
        tail.toss()
    found = -((-total << _PRECISION_BITS) // (y - 1) >> _PRECISION_BITS) if y > 1 else _ONE_UNITS
    # clones that the window leaves out: too few hide nothing, too many hide no less than the last
    return min(_ONE_UNITS, found + outside + _NEGLIGIBLE_UNITS)


class _Tail:
    """b(a - 1) = P[Bin(c, ½) = a - 1] and T(a) = P[Bin(c, ½) >= a] as enclosures, while c grows and a follows."""

    __slots__ = ("at", "before_high", "before_low", "coins", "low")

    def __init__(self, coins: int, at: int) -> None:
        """Start from sums of ratios over a window that holds nearly all of the mass."""
        self.coins, self.at = coins, min(at, coins + 1)
        middle, reach = coins // 2, 20 * isqrt(coins + 1) + 20
        ratios = {middle: _ONE_UNITS}
        for index in range(middle, min(coins, middle + reach)):
            ratios[index + 1] = ratios[index] * (coins - index) // (index + 1)
        for index in range(middle, max(0, middle - reach), -1):
            ratios[index - 1] = ratios[index] * index // (coins - index + 1)
        total, slack = sum(ratios.values()), len(ratios) * (len(ratios) + 1)
        inside = sum(ratio for threshold, ratio in ratios.items() if threshold >= self.at)
        before = ratios.get(self.at - 1, 0)
        everything = total + slack + _NEGLIGIBLE_UNITS
        self.before_high = ((before + len(ratios) + 1) << _PRECISION_BITS) // total + 1
        self.before_low = (before << _PRECISION_BITS) // everything
        self.low = (inside << _PRECISION_BITS) // everything

    def move(self, at: int) -> None:
        """Raise the threshold to `at`."""
        while self.at < at and self.at <= self.coins:
            # T(a + 1) = T(a) - b(a), b(a) = b(a - 1)·(c - a + 1)/a
            rest = self.coins - self.at + 1
            self.before_high = -(-self.before_high * rest // self.at)
            self.before_low = self.before_low * rest // self.at
            self.low = max(0, self.low - self.before_high)
            self.at += 1

    def toss(self) -> None:
        """Add one coin: T(c + 1, a) = T(c, a) + b(c, a - 1)/2, b(c + 1, a - 1) = b(c, a - 1)·(c + 1)/(2(c - a + 2))."""
        self.low += self.before_low >> 1
        rest = 2 * (self.coins - self.at + 2)
        self.before_high = -(-self.before_high * (self.coins + 1) // rest)
        self.before_low = self.before_low * (self.coins + 1) // rest
        self.coins += 1


@lru_cache(maxsize=8)
def _clones(local: Fraction, reports: int) -> tuple[int, list[int], int]:
    """Return a window of the law of C ~ Bin(n - 1, e^-ε₀): its first value, weights rounded up, and what lies outside.

    A ratio over the sum of the window is at least the probability.
    """
    others = reports - 1
    x_low, x_high = exp_minus_bounds(local, _PRECISION_BITS)
    middle = others * x_low >> _PRECISION_BITS
    ratios_up = _ratios(others, middle, others, x_high, _ONE_UNITS - x_high)
    ratios_down = _ratios(others, middle, 0, x_low, _ONE_UNITS - x_low)
    ratios = [*reversed(ratios_down), _ONE_UNITS, *ratios_up]
    total = sum(ratios) - 2 * len(ratios) * (len(ratios) + 1)
    inexact = total - (total >> 120)  # e^-ε₀ itself is known to 2^-256 only: proof §3
    weights = [(ratio << _PRECISION_BITS) // inexact + 1 for ratio in ratios]
    return middle - len(ratios_down), weights, 2 * _NEGLIGIBLE_UNITS


def _ratios(others: int, middle: int, end: int, chance: int, rest: int) -> list[int]:
    """Return P[C = c]/P[C = middle] for c from the middle towards `end`, rounded up, until negligible."""
    ratios, ratio = [], _ONE_UNITS
    step = 1 if end > middle else -1
    for index in range(middle, end, step):
        top, bottom = ((others - index) * chance, (index + 1) * rest)
        if step < 0:
            top, bottom = index * rest, (others - index + 1) * chance
        ratio = -(-ratio * top // bottom)
        ratios.append(ratio)
        if ratio < _NEGLIGIBLE_UNITS // (1 << 32):
            break
    return ratios
