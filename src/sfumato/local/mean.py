"""Means of integers 0 … top: one bit, a noisy integer, or whichever of the two a coin chooses."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from sfumato.certified.binary import Between, exp_fraction, exp_rounded
from sfumato.exact import probability
from sfumato.local.binomial import mean_chance
from sfumato.local.mean_frame import MeanFrame, Variances
from sfumato.local.reading import (
    Integers,
    Reals,
    no_reports,
    one_report,
    read_bits,
    read_value,
    source_or_system,
)
from sfumato.mechanisms.columns import integer_column
from sfumato.randomness.bernoulli import Bernoulli, ExpRatio, Probability, Rational
from sfumato.randomness.likelihood import divide_probability
from sfumato.randomness.source import Source
from sfumato.randomness.uniform import UniformInteger

_MIN_HYBRID_EPSILON = Fraction(61, 100)
"""Up to this epsilon one bit errs least, whatever the values [Wang et al. 2019]."""


@dataclass(frozen=True, slots=True)
class OneBitMean(MeanFrame):
    """Round the value v to 0 or 1 by chance v/top, and report that bit truly with probability e^ε / (e^ε + 1).

    Theorem: a report is ε-DP under replace, and for no smaller ε; decoded it is unbiased for v, with the stated
    variance.  [Duchi, Jordan, Wainwright 2018; Ding, Kulkarni, Yekhanin 2017]  Proof: proofs/local_means.md
    """

    @property
    def keep(self) -> ExpRatio:
        """The chance of a true bit."""
        return ExpRatio(self.epsilon, a=1, b=0, c=1, d=1)

    @property
    def reports(self) -> int:
        """A report is a bit."""
        return 2

    def release(self, values: object, source: Source | None = None) -> Integers:
        """Return one bit per person. Both draws are made for everybody."""
        true, coins = integer_column(values, 0, self.top, "values"), source_or_system(source)
        kept = Bernoulli(self.keep).draw(len(true), coins)
        bit = UniformInteger(self.top).draw(len(true), coins) < true
        return (bit ^ ~kept).astype(np.int64)

    def decoded(self, reports: object) -> Reals:
        """Return one unbiased number per report."""
        low, high = (float(end) for end in self._ends)
        return np.where(self.checked(reports) == 1, high, low)

    def interval(self, reports: object, confidence: object) -> tuple[float, float]:
        """Return bounds on these people's mean at this level, within 0 … top; they hold for every number of reports."""
        sent = self.checked(reports)
        if sent.size == 0:
            raise no_reports()
        error = 1 - float(probability(confidence, "confidence"))
        chances = mean_chance(np.array([sent.sum()]), len(sent), error)[0]
        low, high = (float(end) for end in self._ends)
        # the mean chance of a 1 is affine in the mean of the values
        ends = np.clip(low + chances * (high - low), 0.0, float(self.top))
        return float(ends[0]), float(ends[1])

    @property
    def _ends(self) -> tuple[Fraction, Fraction]:
        """What 0 and 1 are decoded to: top·((e^ε + 1)·bit - 1) / (e^ε - 1)."""
        factor = exp_fraction(self.epsilon)
        return -self.top / (factor - 1), self.top * factor / (factor - 1)

    def exact_variance(self, value: int) -> Fraction:
        """Return the variance of one decoded report, to within a relative error of 2^-100."""
        low, high = self._ends
        return (high - value) * (value - low)  # of a number that is low or high, with mean value

    @property
    def spread(self) -> Variances:
        """The range and the extreme variances of decoded reports."""
        low, high = self._ends
        least, greatest = (float(self.exact_variance(value)) for value in (0, self.top // 2))
        rarest = float(1 / (exp_fraction(self.epsilon) + 1))
        return Variances(least, max(greatest, float(self.exact_variance(-(-self.top // 2)))), low, high, rarest)

    def likelihood(self, report: object, value: int, bits: int) -> Between:
        """Enclose P[report | value] * 2**bits."""
        (sent,) = one_report(report, self.checked)
        true, top = read_value(value, self.top + 1), self.top
        # (v + (top - v)·x) / (top·(1 + x)) for a 1, with x = e^-ε
        ones = true if sent == 1 else top - true
        return ExpRatio(self.epsilon, ones, top - ones, top, top).bounds(read_bits(bits))


@dataclass(frozen=True, slots=True)
class PiecewiseMean(MeanFrame):
    """Report an integer of a window of w that begins at the value with a high chance, else one outside it.

    Theorem: a report is ε-DP under replace, and for no smaller ε; decoded it is exactly unbiased for the value, with
    the stated variance.  [Wang et al. 2019], on integers.  Proof: proofs/local_means.md

    Reports are 0 … top + w - 1; w is top·e^(-ε/2), rounded, at least 1.
    """

    @property
    def window(self) -> int:
        """How many reports are likely ones."""
        return _window(self.epsilon, self.top)

    @property
    def keep(self) -> ExpRatio:
        """The chance of a report inside the window."""
        return ExpRatio(self.epsilon, self.window, 0, self.window, self.top)

    @property
    def reports(self) -> int:
        """How many different reports there are."""
        return self.top + self.window

    def release(self, values: object, source: Source | None = None) -> Integers:
        """Return one integer per person. All draws are made for everybody."""
        true, coins = integer_column(values, 0, self.top, "values"), source_or_system(source)
        kept = Bernoulli(self.keep).draw(len(true), coins)
        inside = UniformInteger(self.window).draw(len(true), coins)
        outside = UniformInteger(self.top).draw(len(true), coins)
        return np.where(kept, true + inside, outside + self.window * (outside >= true))

    def decoded(self, reports: object) -> Reals:
        """Return one unbiased number per report."""
        slope, start = self._line
        return np.asarray(float(slope) * self.checked(reports) + float(start), dtype=np.float64)

    @property
    def _line(self) -> tuple[Fraction, Fraction]:
        """Reports y are decoded to slope·y + start: (y(Ew + m) - N(N-1)/2) / ((E-1)w) - (w-1)/2."""
        factor, w, m, n = exp_fraction(self.epsilon), self.window, self.top, self.reports
        below = (factor - 1) * w
        return (factor * w + m) / below, -Fraction(n * (n - 1), 2) / below - Fraction(w - 1, 2)

    def exact_variance(self, value: int) -> Fraction:
        """Return the variance of one decoded report, to within a relative error of 2^-100."""
        factor, w, n = exp_fraction(self.epsilon), self.window, self.reports
        weight = factor * w + self.top
        first = (
            _triangular_number(n) + (factor - 1) * (_triangular_number(value + w) - _triangular_number(value))
        ) / weight
        second = (_squares(n) + (factor - 1) * (_squares(value + w) - _squares(value))) / weight
        return self._line[0] ** 2 * (second - first**2)

    @property
    def spread(self) -> Variances:
        """The range and the extreme variances of decoded reports: a parabola in the value, least in the middle."""
        slope, start = self._line
        least = min(self.exact_variance(value) for value in (self.top // 2, -(-self.top // 2)))
        greatest = max(self.exact_variance(value) for value in (0, self.top // 2, self.top))
        rarest = float(self.top / (exp_fraction(self.epsilon) * self.window + self.top))
        return Variances(float(least), float(greatest), start, slope * (self.reports - 1) + start, min(rarest, 0.5))

    def likelihood(self, report: object, value: int, bits: int) -> Between:
        """Enclose P[report | value] * 2**bits."""
        (sent,) = one_report(report, self.checked)
        true = read_value(value, self.top + 1)
        inside, outside = divide_probability(self.keep, self.window, self.top, read_bits(bits))
        return inside if true <= sent < true + self.window else outside


@dataclass(frozen=True, slots=True)
class HybridMean(MeanFrame):
    """With probability 1 - e^(-ε/2) report as PiecewiseMean does, else as OneBitMean; the report says which.

    Theorem: a report is ε-DP under replace; decoded it is exactly unbiased for the value, with the stated variance.
    For epsilon up to 0.61 it is always one bit.  [Wang et al. 2019]  Proof: proofs/local_means.md

    Reports 0 and 1 are a bit, 2 + y is the integer y.
    """

    @property
    def coin(self) -> Probability:
        """The chance of an integer."""
        if self.epsilon <= _MIN_HYBRID_EPSILON:
            return Rational(Fraction(0))
        return ExpRatio(self.epsilon / 2, a=1, b=-1, c=1, d=0)

    @property
    def parts(self) -> tuple[OneBitMean, PiecewiseMean]:
        """The two ways to report."""
        return OneBitMean(self.epsilon, self.top), PiecewiseMean(self.epsilon, self.top)

    @property
    def reports(self) -> int:
        """How many different reports there are."""
        return 2 + self.parts[1].reports

    def release(self, values: object, source: Source | None = None) -> Integers:
        """Return one report per person. Both ways are drawn for everybody."""
        true, coins = integer_column(values, 0, self.top, "values"), source_or_system(source)
        chosen = Bernoulli(self.coin).draw(len(true), coins)
        bit, number = (part.release(true, coins) for part in self.parts)
        return np.where(chosen, number + 2, bit)

    def decoded(self, reports: object) -> Reals:
        """Return one unbiased number per report."""
        sent = self.checked(reports)
        bit, number = self.parts
        return np.where(sent < 2, bit.decoded(np.minimum(sent, 1)), number.decoded(np.maximum(sent - 2, 0)))

    def exact_variance(self, value: int) -> Fraction:
        """Return the variance of one decoded report: both ways have the same mean, so their variances mix."""
        chance = self._chance
        bit, number = (part.exact_variance(value) for part in self.parts)
        return chance * number + (1 - chance) * bit

    @property
    def _chance(self) -> Fraction:
        return 1 - 1 / exp_fraction(self.epsilon / 2) if self.epsilon > _MIN_HYBRID_EPSILON else Fraction(0)

    @property
    def spread(self) -> Variances:
        """The range and the extreme variances of decoded reports: a parabola in the value."""
        bit, number = (part.spread for part in self.parts)
        variances = [float(self.exact_variance(value)) for value in (0, self.top // 2, -(-self.top // 2), self.top)]
        if self._chance == 0:
            return bit
        rarest = min(float(self._chance) * number.rarest, float(1 - self._chance) * bit.rarest)
        low, high = min(bit.low, number.low), max(bit.high, number.high)
        return Variances(min(variances), max(variances), low, high, rarest)

    def likelihood(self, report: object, value: int, bits: int) -> Between:
        """Enclose P[report | value] * 2**bits."""
        (sent,) = one_report(report, self.checked)
        digits = read_bits(bits)
        bit, number = self.parts
        part = bit.likelihood(sent, value, digits + 8) if sent < 2 else number.likelihood(sent - 2, value, digits + 8)
        low, high = self.coin.bounds(digits + 8)
        one = 1 << (digits + 8)
        share = (one - high, one - low) if sent < 2 else (low, high)
        places = digits + 16
        return (max(share[0], 0) * part[0]) >> places, -((-share[1] * part[1]) >> places)


def _triangular_number(below: int) -> int:
    """Return 0 + 1 + … + (below - 1)."""
    return below * (below - 1) // 2


def _squares(below: int) -> int:
    """Return 0² + 1² + … + (below - 1)²."""
    return (below - 1) * below * (2 * below - 1) // 6


@lru_cache(maxsize=1024)
def _window(epsilon: Fraction, top: int) -> int:
    # beyond, it is below one half
    return max(1, exp_rounded(top, -epsilon / 2)) if epsilon < 2 * top.bit_length() + 4 else 1
