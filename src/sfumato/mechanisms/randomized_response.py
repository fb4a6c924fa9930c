"""Warner's randomized response: each person reports a bit that may be a fair coin."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Neighbours, RandomizedResponse
from sfumato.certified.binary import exp_minus_bounds, scaled_ceiling, scaled_floor
from sfumato.errors import BadParameter
from sfumato.exact import integer, positive_rational, rational
from sfumato.mechanisms.columns import integer_column
from sfumato.mechanisms.response_count import Channel, share_of
from sfumato.randomness.bernoulli import Bernoulli, ExpRatio
from sfumato.randomness.source import Source

_EPSILON_UNITS = 10**12
"""A stated loss is a multiple of 1e-12: it reads back as the decimal that was asked for."""
_MAX_EPSILON = 1000


@dataclass(frozen=True, slots=True)
class Warner:
    """With probability `truth` report the true bit, else a fair coin.

    Theorem: a report is ε-DP under replace for e^ε = (1 + truth) / (1 - truth), and for no smaller ε.  [Warner 1965]
    Proof: proofs/randomized_response.md

    >>> Warner(Fraction(1, 2)).epsilon  # ln 3, rounded up
    Fraction(1098612288669, 1000000000000)
    """

    truth: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "truth", rational(self.truth, "truth"))
        if not 0 < self.truth < 1:
            raise BadParameter(
                f"truth = {self.truth} is not between 0 and 1.",
                "With 0 a report holds no information; with 1 it is not private.",
                "Give the probability of a true answer, for example Fraction(1, 2).",
            )

    @classmethod
    def by_epsilon(cls, epsilon: object) -> "Warner":
        """Return the most truthful response that costs at most epsilon, to within 1e-12.

        >>> Warner.by_epsilon("0.1").epsilon
        Fraction(1, 10)
        """
        requested = positive_rational(epsilon, "epsilon")
        if not Fraction(1, _EPSILON_UNITS) <= requested <= _MAX_EPSILON:
            raise BadParameter(
                f"epsilon = {requested} is out of reach.",
                f"A response by epsilon is built for 1e-12 … {_MAX_EPSILON}.",
                "Choose an epsilon in that range, or give `truth` itself.",
            )
        loss = Fraction(requested * _EPSILON_UNITS // 1, _EPSILON_UNITS)
        bits = 64 + ceil(3 * loss / 2)  # fine enough that the loss falls by less than 1e-12: proof §2
        low, _ = ExpRatio(loss, a=1, b=-1, c=1, d=1).bounds(bits)  # tanh(loss / 2), rounded down
        return cls(Fraction(low, 1 << bits))

    @property
    def epsilon(self) -> Fraction:
        """ln((1 + truth) / (1 - truth)), rounded up to a multiple of 1e-12."""
        return log_rounded_up((1 + self.truth) / (1 - self.truth))

    @property
    def event(self) -> RandomizedResponse:
        """Event of one report."""
        return RandomizedResponse(self.epsilon, 2, Neighbours.REPLACE)

    def release(self, values: object, source: Source) -> npt.NDArray[np.bool_]:
        """Return one report per true bit. Both coins are tossed for every person."""
        bits = integer_column(values, 0, 1, "bits").astype(np.bool_)
        truthful = Bernoulli(self.truth).draw(len(bits), source)
        coins = Bernoulli(Fraction(1, 2)).draw(len(bits), source)
        return np.where(truthful, bits, coins)

    def estimate(self, yes: int, reports: int) -> Fraction:
        """Return the unbiased estimate of the true share of yes; it may lie outside [0, 1]."""
        share = share_of(yes, reports)
        return (share - (1 - self.truth) / 2) / self.truth

    def variance(self, reports: int) -> Fraction:
        """Return the estimate's variance for every true share: (1 - truth²) / (4 n truth²)."""
        return (1 - self.truth**2) / (4 * integer(reports, "reports", 1) * self.truth**2)

    def interval(self, yes: int, reports: int, confidence: object) -> tuple[Fraction, Fraction]:
        """Return bounds that cover the true share of yes at this level."""
        return self._channel.interval(yes, reports, confidence)

    def margin(self, confidence: object, reports: int) -> float:
        """Return the margin of the estimate from n reports at this level, for every share."""
        return self._channel.margin(reports, confidence)

    @property
    def _channel(self) -> Channel:
        return Channel(float((1 + self.truth) / 2), float((1 - self.truth) / 2))


@lru_cache(maxsize=512)
def log_rounded_up(ratio: Fraction) -> Fraction:
    """Return the smallest multiple k/10^12 with e^(k/10^12) >= ratio, for a ratio above 1."""
    odds = 1 / ratio
    low, high = 0, 1
    while not _exp_is_at_most(high, odds):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _exp_is_at_most(middle, odds) else (middle, high)
    return Fraction(high, _EPSILON_UNITS)


def _exp_is_at_most(units: int, odds: Fraction) -> bool:
    bits = 128
    while True:
        low, high = exp_minus_bounds(Fraction(units, _EPSILON_UNITS), bits)
        if high <= scaled_floor(odds, bits):
            return True
        if low >= scaled_ceiling(odds, bits):
            return False
        bits *= 2  # ends: e^-y is irrational for rational y > 0 (Lindemann)
